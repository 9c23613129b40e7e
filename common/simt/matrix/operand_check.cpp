#include "common/simt/matrix/operand_check.h"

#include <string>
#include <utility>

#include "common/simt/report/leniency.h"

namespace simt {
inline namespace cpu {
namespace {

using Region = SharedMemory::Region;

std::string at(int row, int column) { return "(" + std::to_string(row) + ", " + std::to_string(column) + ")"; }

std::string element_of(const Region& tile, int row, int column) { return tile.name + at(row, column); }

std::string shape_text(int rows, int columns) {
    return std::to_string(rows) + " rows of " + std::to_string(columns) + " columns";
}

Swizzle swizzle_of(const Region& tile) {
    for (const Swizzle s : {Swizzle::b32, Swizzle::b64, Swizzle::b128})
        if (tile.panel_columns && swizzle_bits(s) == tile.swizzle_bits) return s;
    return Swizzle::none;
}

class Check {
  public:
    Check(Block& block, const OperandUse& use)
        : block_(block), use_(use), descriptor_(MatrixDescriptor::from_bits(use.bits)) {}

    void run() {
        if (use_.place.tile) check_place();
        const Region* const tile = block_.shared.region_at(descriptor_.address, use_.thread);
        if (!tile) {
            report(operand() + " begins at byte " + std::to_string(descriptor_.address) +
                       " of shared memory, where no tile lies",
                   "let k_major() or mn_major() make the descriptor of a tile");
            return;
        }
        tile_ = tile;
        if (swizzle_of(*tile) != descriptor_.swizzle)
            report_swizzle();
        else if (descriptor_.swizzle != Swizzle::none)
            check_panels();
        else
            check_pieces();
    }

  private:
    std::string operand() const { return std::string("the descriptor of ") + use_.name; }
    bool is_k_major() const { return use_.shape.major == Major::k; }

    void report(std::string what, std::string advice) {
        if (ScopedLeniency::active()) return;
        block_.fail({.fault = Fault::bad_descriptor,
                     .first = {use_.thread, use_.site},
                     .second = tile_ ? Witness{tile_->thread, tile_->site} : Witness{},
                     .what = std::move(what),
                     .advice = std::move(advice)});
    }

    /// The rows that the kernel has chosen may be fewer than the tile's: a stage of a ring.
    void check_place() {
        const OperandPlace& p = use_.place;
        const int rows = is_k_major() ? use_.shape.extent : use_.shape.depth(),
                  columns = is_k_major() ? use_.shape.depth() : use_.shape.extent;
        if (p.row + rows <= p.rows && p.column + columns <= p.columns) return;
        report(std::string(use_.name) + " takes " + shape_text(rows, columns) + " of " + p.tile + " from " +
                   at(p.row, p.column) + " on" +
                   (p.first_row ? ", counted from row " + std::to_string(p.first_row) + " of the tile" : "") +
                   ", but there are only " + shape_text(p.rows, p.columns),
               "a product reads 64 rows of A, as many of B as its accumulator has columns, and 32 bytes along k");
    }

    void report_swizzle() {
        report(operand() + " says " + name_of(descriptor_.swizzle) + ", but " + tile_->name + " has " +
                   (tile_->panel_columns ? name_of(swizzle_of(*tile_)) : "no panels: it lies row by row"),
               "bits 62 and 63 of a descriptor are 1 for 128 bytes, 2 for 64 and 3 for 32; let k_major() or mn_major() "
               "make it of a tile that SharedArena::panels() gave");
    }

    void check_panels() {
        const Region& tile = *tile_;
        const int element = use_.shape.element_bytes, span = int(swizzle_span(descriptor_.swizzle));
        const int panel_bytes = tile.rows * span, place = int(descriptor_.address - tile.offset),
                  row = place % panel_bytes / span, in_row = place % span,
                  column = place / panel_bytes * tile.panel_columns + in_row / element;
        if (tile.element_bytes != element)
            return report(operand() + " is of elements of " + std::to_string(element) + " bytes, those of " +
                              tile.name + " have " + std::to_string(tile.element_bytes),
                          "operands of one product are of one type, the tile's");
        if (tile.offset % std::size_t(8 * span) != 0 || descriptor_.base_offset != 0 || row % 8 != 0)
            return report_base(row, column);
        if (int(descriptor_.stride) != 8 * span)
            return report_stride("stride", int(descriptor_.stride), 8 * span,
                                 "from one group of eight rows to the next");
        const int pieces_wide = is_k_major() ? kProductBytes : use_.shape.extent * element;
        if (!is_k_major() && in_row + pieces_wide > span && int(descriptor_.leading) != panel_bytes)
            return report_stride("leading", int(descriptor_.leading), panel_bytes, "from one panel to the next");
        const int rows = is_k_major() ? use_.shape.extent : use_.shape.depth(), columns = pieces_wide / element;
        if (in_row != 0 && in_row + pieces_wide > span)
            return report(operand() + " begins inside a row of a panel, at " + element_of(tile, row, column) +
                              ", and runs over its end into the next row",
                          is_k_major() ? "begin at a column that is a multiple of the k of a product"
                                       : "begin where a panel does");
        if (row + rows > tile.rows || column + columns > tile.columns)
            return report(operand() + " leaves the tile: " + shape_text(rows, columns) + " from " +
                              element_of(tile, row, column) + " on, but " + tile.name + " has " +
                              shape_text(tile.rows, tile.columns),
                          "rows beyond the last of a panel are the first of the next one, or of another tile");
    }

    void report_base(int row, int column) {
        const Region& tile = *tile_;
        if (row % 8 != 0)
            return report(operand() + " begins at " + element_of(tile, row, column) +
                              ", between two patterns of the swizzle, which repeat every 8 rows",
                          "begin at a multiple of 8 rows: the hardware takes a row's place in the pattern from its "
                          "address");
        if (descriptor_.base_offset != 0)
            return report(operand() + " has base offset " + std::to_string(descriptor_.base_offset) + ", but " +
                              tile.name + " begins where the pattern of its swizzle does",
                          "bits 49 to 51 of the descriptor of a panel tile are 0");
        report(std::string(tile.name) + ", which " + operand() + " points into, begins at byte " +
                   std::to_string(tile.offset) + " of shared memory, not at a multiple of " +
                   std::to_string(8 * swizzle_span(descriptor_.swizzle)),
               "let SharedArena::panels() carve it");
    }

    void report_stride(const char* name, int given, int right, const char* meaning) {
        report(operand() + " has a " + name + " byte offset of " + std::to_string(given) + ", but " + meaning + " of " +
                   tile_->name + " it is " + std::to_string(right) + " bytes",
               "let k_major() or mn_major() make the descriptor: they know the tile");
    }

    /// Without a swizzle there are no panels that would say what the strides should be.
    void check_pieces() {
        bool inside = true;
        OperandPiece outside{};
        for_each_piece(descriptor_, use_.shape, [&](const OperandPiece& piece) {
            if (inside && (piece.address < tile_->offset || piece.address + 16 > tile_->end())) {
                outside = piece;
                inside = false;
            }
        });
        if (!inside)
            report(operand() + " leaves the tile: its element " + at(outside.row, outside.column) +
                       " would be at byte " + std::to_string(outside.address) + ", but " + tile_->name + " has bytes " +
                       std::to_string(tile_->offset) + " to " + std::to_string(tile_->end() - 1),
                   "without a swizzle, eight rows of 16 bytes lie one behind the other; the stride and leading byte "
                   "offsets lead from one such matrix to the next");
    }

    Block& block_;
    const OperandUse& use_;
    const MatrixDescriptor descriptor_;
    const Region* tile_ = nullptr;
};

}  // namespace

void check_operand(Block& block, const OperandUse& use) { Check(block, use).run(); }

void check_operand_start(const OperandStart& start, SourceSite site) {
    const auto& [major, place, panel_columns, element_bytes] = start;
    const int step = major == Major::k ? kProductBytes / element_bytes : panel_columns;
    const bool inside = 0 <= place.row && place.row < place.rows && 0 <= place.column && place.column < place.columns;
    if (inside && place.row % 8 == 0 && place.column % step == 0) return;
    Block& block = Block::current();
    const std::string what = (major == Major::k ? "k_major(" : "mn_major(") + std::string(place.tile) + ", " +
                             std::to_string(place.row) + ", " + std::to_string(place.column) + ")";
    if (!inside)
        block.fail({.fault = Fault::out_of_bounds,
                    .first = {block.thread(), site},
                    .what = what + " begins outside the tile of " + shape_text(place.rows, place.columns),
                    .advice = "an operand is named by its first row and column in the tile"});
    if (place.row % 8 != 0)
        block.fail({.fault = Fault::bad_descriptor,
                    .first = {block.thread(), site},
                    .what = what + " begins between two patterns of the tile's swizzle, which repeat every 8 rows",
                    .advice = "begin at a multiple of 8 rows: the hardware takes a row's place in the pattern from its "
                              "address"});
    block.fail({.fault = Fault::bad_descriptor,
                .first = {block.thread(), site},
                .what = what + " does not begin at a multiple of " + std::to_string(step) + " columns",
                .advice = major == Major::k ? "a product takes 32 bytes of each row, which must lie in one panel"
                                            : "columns are counted off from the first of a panel, " +
                                                  std::to_string(panel_columns) + " to a row of it"});
}

}  // namespace cpu
}  // namespace simt
