#include "common/simt/views/views_cpu.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "common/simt/report/leniency.h"

namespace simt {
inline namespace cpu {
namespace {

std::string place(int row, int column) { return "(" + std::to_string(row) + ", " + std::to_string(column) + ")"; }

std::string shape_of(const char* tile, int rows, int pitch) {
    return std::string(tile) + " [" + std::to_string(rows) + ", " + std::to_string(pitch) + "]";
}

std::string span_of(int vector_width) {
    return vector_width == 1 ? "" : ", a vector of " + std::to_string(vector_width) + " elements,";
}

/// What helps against an index before the first; otherwise `beyond`, against one after the last.
std::string index_advice(std::int64_t index, std::string beyond) {
    constexpr std::int64_t wrap = std::int64_t{1} << 32, near = 1 << 20;
    const std::string guard = "guard what looks back with a condition such as `if (row > 0)`";
    if (index < 0) return "nothing lies before index 0: " + guard + ", or begin the loop later";
    if (index < wrap && index >= wrap - near)
        return std::to_string(index) + " is " + std::to_string(index - wrap) +
               " in unsigned arithmetic, which threadIdx and blockIdx count in: subtract from int(threadIdx.x), and " +
               guard;
    return beyond;
}

/// Where accesses to global memory out of bounds go while the machine is lenient: poison, whatever was written there.
void* nowhere() {
    alignas(16) static thread_local std::byte memory[SharedMemory::kNowhereBytes];
    return std::memset(memory, 0xFF, sizeof(memory));
}

/// "(0, 3, 64, :)": indices, and ":" for each of `rank` dimensions that is still open.
std::string place(std::span<const std::int64_t> indices, std::size_t rank) {
    std::string text;
    for (std::size_t i = 0; i < rank; ++i)
        text += (i == 0 ? "(" : ", ") + (i < indices.size() ? std::to_string(indices[i]) : ":");
    return text + ")";
}

/// "K(0, 3, 64, :)": the indices that slicing has fixed, and those of this access. Of a view that leaves out rows:
/// "K(0, 3, :, :).rows_from(64)(-1, 0)", for its indices are its own.
[[noreturn]] void fail_tensor_index(SliceOfTensor slice, std::span<const std::int64_t> indices, int dimension,
                                    std::int64_t extent, int vector_width, SourceSite site) {
    std::vector<std::int64_t> all = global_indices(slice.tensor, reinterpret_cast<std::uintptr_t>(slice.data));
    const std::size_t rank = std::size_t(slice.rank), sliced = all.size() < rank ? 0 : all.size() - rank;
    all.resize(sliced);
    std::string name = tensor_name(slice.tensor), whole = "the tensor";
    std::size_t shown_dimension = std::size_t(dimension);
    if (slice.rows_before > 0) {
        name +=
            place(all, sliced + rank) + ".rows_from(" + std::to_string(slice.rows_before) + ")" + place(indices, rank);
        whole = "the view";
    } else {
        all.insert(all.end(), indices.begin(), indices.end());
        name += place(all, sliced + rank);
        shown_dimension += sliced;
    }
    const std::int64_t index = indices[std::size_t(dimension)];
    Block& block = Block::current();
    block.fail(
        {.fault = Fault::out_of_bounds,
         .first = {block.thread(), site},
         .what = name + span_of(vector_width) + " lies outside " + whole + ": index " + std::to_string(index) +
                 " in dimension " + std::to_string(shown_dimension) + ", whose extent is " + std::to_string(extent),
         .advice = index_advice(index, "the last tile of a ragged length needs a guard such as `if (row < length)`")});
}

[[noreturn]] void fail_askew(const std::string& element, std::size_t alignment, SourceSite site) {
    Block& block = Block::current();
    block.fail({.fault = Fault::misaligned,
                .first = {block.thread(), site},
                .what = element + " is not aligned to " + std::to_string(alignment) +
                        " bytes, or its neighbours do not follow it in memory",
                .advice = "a vector access needs contiguous elements and an address that is a multiple of its size; "
                          "fall back to single elements where strides or offsets do not give that"});
}

}  // namespace

void* fail_index(const char* view, int row, int column, int rows, int columns, int vector_width, SourceSite site) {
    Block& block = Block::current();
    if (ScopedLeniency::active()) return block.shared.nowhere();
    block.fail({.fault = Fault::out_of_bounds,
                .first = {block.thread(), site},
                .what = std::string(view) + place(row, column) + span_of(vector_width) + " lies outside the tile of " +
                        std::to_string(rows) + " rows and " + std::to_string(columns) + " columns",
                .advice = index_advice(std::min(row, column),
                                       "a loop over the tile must end at its rows and columns, and a vector must end "
                                       "before the row does")});
}

void fail_alignment(const char* view, int row, int column, std::size_t alignment, SourceSite site) {
    fail_askew(view + place(row, column), alignment, site);
}

void* fail_index(SliceOfTensor slice, std::span<const std::int64_t> indices, int dimension, std::int64_t extent,
                 int vector_width, SourceSite site) {
    if (ScopedLeniency::active()) return nowhere();
    fail_tensor_index(slice, indices, dimension, extent, vector_width, site);
}

void fail_slice(SliceOfTensor slice, std::span<const std::int64_t> indices, int dimension, std::int64_t extent,
                SourceSite site) {
    fail_tensor_index(slice, indices, dimension, extent, 1, site);
}

void fail_alignment(int tensor, const void* element, std::size_t alignment, SourceSite site) {
    fail_askew(global_element_name(tensor, reinterpret_cast<std::uintptr_t>(element)), alignment, site);
}

void fail_rows(const char* tile, int row, int rows, int of_rows, SourceSite site) {
    Block& block = Block::current();
    const std::string what =
        std::string(tile) + ".rows_from<" + std::to_string(rows) + ">(" + std::to_string(row) + ")";
    if (row < 0 || row + rows > of_rows)
        block.fail({.fault = Fault::out_of_bounds,
                    .first = {block.thread(), site},
                    .what = what + " lies outside the tile of " + std::to_string(of_rows) + " rows",
                    .advice = index_advice(row,
                                           "stages of a ring are numbered from 0: a tile of N stages has its last "
                                           "one at row (N - 1) * rows of a stage")});
    block.fail({.fault = Fault::misaligned,
                .first = {block.thread(), site},
                .what = what + " begins between two patterns of the tile's swizzle, which repeat every 8 rows",
                .advice = "begin at a multiple of 8 rows: TMA and wgmma tell a row's place in the pattern by its "
                          "address"});
}

void* SharedArena::carve(const Shape& shape, std::size_t element_bytes, std::size_t alignment, SourceSite site) {
    const auto& [name, rows, columns, pitch, panel_columns, swizzle_bits] = shape;
    Block& block = Block::current();
    const auto rounded = [](std::size_t bytes, std::size_t to) { return (bytes + to - 1) / to * to; };
    const std::size_t offset = rounded(used_, alignment),
                      bytes = std::size_t(rows) * std::size_t(pitch) * element_bytes, end = offset + bytes;
    const std::size_t padding = offset - used_;
    used_ = rounded(end, 16);
    if (rows < 0 || pitch < columns || columns < 0 || (bytes > 0 && end > block.shared.bytes()))
        block.fail(
            {.fault = Fault::arena_overflow,
             .first = {block.thread(), site},
             .what = "carving " + shape_of(name, rows, pitch) + " brings the total to " + std::to_string(end) +
                     " bytes" +
                     (padding ? ", of which " + std::to_string(padding) +
                                    " are lost before it, since it begins at a "
                                    "multiple of " +
                                    std::to_string(alignment)
                              : "") +
                     ", but the launch asked for " + std::to_string(block.shared.bytes()),
             .advice = padding ? "carve panel tiles first, and count them in dynamicSmemBytes by simt::panel_bytes"
                               : "dynamicSmemBytes of the launch must cover every tile, each but the last rounded up "
                                 "to 16 bytes"});
    const SharedMemory::Region* const other = block.shared.name_region({.name = name,
                                                                        .offset = offset,
                                                                        .rows = rows,
                                                                        .columns = columns,
                                                                        .pitch = pitch,
                                                                        .element_bytes = int(element_bytes),
                                                                        .round = round_,
                                                                        .thread = block.thread(),
                                                                        .site = site,
                                                                        .panel_columns = panel_columns,
                                                                        .swizzle_bits = swizzle_bits});
    if (other && !ScopedLeniency::active()) [[unlikely]]
        block.fail(
            {.fault = Fault::arena_overlap,
             .first = {block.thread(), site},
             .second = {other->thread, other->site},
             .what = shape_of(name, rows, pitch) + " would take bytes " + std::to_string(offset) + " to " +
                     std::to_string(end - 1) + " of shared memory, of which " +
                     shape_of(other->name, other->rows, other->pitch) + ", carved from another arena, has bytes " +
                     std::to_string(other->offset) + " to " + std::to_string(other->end() - 1),
             .advice = "every SharedArena begins at the first byte: carve all tiles from one, in every thread in "
                       "the same order; where new tiles are to replace old ones, say so with its start_over()"});
    return block.shared.data() + offset;
}

}  // namespace cpu
}  // namespace simt
