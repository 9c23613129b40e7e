#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>

#include "common/simt/language/float16.h"
#include "common/simt/language/float8.h"
#include "common/simt/language/vector.h"
#include "common/simt/machine/block.h"
#include "common/simt/views/panel_tile_cpu.h"
#include "common/simt/views/ref_cpu.h"
#include "common/simt/views/tensor_argument.h"

namespace simt {
inline namespace cpu {

/// A matrix in shared memory whose shape is known when the kernel is compiled. Rows lie `Pitch` elements apart; a pitch
/// above `Columns` is padding against bank conflicts.
template <class T, int Rows, int Columns, int Pitch = Columns>
class SharedTile {
    static_assert(SharedMemory::takes<T>, "an element takes 1, 2, 4, 8 or 16 bytes, and is aligned to as many");
    static_assert(Rows >= 1 && Columns >= 1 && Pitch >= Columns, "a row must fit into its pitch");

  public:
    using Element = T;  ///< what it is made of

    /// Its shape, and what it takes of shared memory.
    static constexpr int rows() { return Rows; }
    static constexpr int columns() { return Columns; }
    static constexpr std::size_t bytes = std::size_t{Rows} * Pitch * sizeof(T);

    /// At `base`, in the memory of the running block; SharedArena::tile() makes them.
    SharedTile(T* base, const char* name) : base_(base), name_(name) {}

    /// One element. A stray index is reported with the caller's source line.
    Ref<T, SharedAccess> operator()(int row, int column, SourceSite site = SourceSite::here()) const {
        if (unsigned(row) >= unsigned(Rows) || unsigned(column) >= unsigned(Columns)) [[unlikely]]
            return {static_cast<T*>(fail_index(name_, row, column, Rows, Columns, 1, site)), {sizeof(T), site}};
        return {base_ + row * Pitch + column, {sizeof(T), site}};
    }

    /// `sizeof(V) / sizeof(T)` neighbours of one row at once, from `column` on.
    template <class V>
    Ref<V, SharedAccess> vec(int row, int column, SourceSite site = SourceSite::here()) const {
        constexpr int width = sizeof(V) / sizeof(T);
        if (unsigned(row) >= unsigned(Rows) || column < 0 || column + width > Columns) [[unlikely]]
            return {static_cast<V*>(fail_index(name_, row, column, Rows, Columns, width, site)), {sizeof(T), site}};
        T* const element = base_ + row * Pitch + column;
        if (reinterpret_cast<std::uintptr_t>(element) % sizeof(V)) [[unlikely]]
            fail_alignment(name_, row, column, sizeof(V), site);
        return {reinterpret_cast<V*>(element), {sizeof(T), site}};
    }

  private:
    T* base_;
    const char* name_;
};

/// A matrix in shared memory whose shape is known only at launch.
template <class T>
class SharedMatrix {
    static_assert(SharedMemory::takes<T>, "an element takes 1, 2, 4, 8 or 16 bytes, and is aligned to as many");

  public:
    using Element = T;  ///< what it is made of

    /// Its shape.
    int rows() const { return rows_; }
    int columns() const { return columns_; }

    /// At `base`, in the memory of the running block; SharedArena::matrix() makes them.
    SharedMatrix(T* base, int rows, int columns, const char* name)
        : base_(base), rows_(rows), columns_(columns), name_(name) {}

    /// One element. A stray index is reported with the caller's source line.
    Ref<T, SharedAccess> operator()(int row, int column, SourceSite site = SourceSite::here()) const {
        if (unsigned(row) >= unsigned(rows_) || unsigned(column) >= unsigned(columns_)) [[unlikely]]
            return {static_cast<T*>(fail_index(name_, row, column, rows_, columns_, 1, site)), {sizeof(T), site}};
        return {base_ + std::ptrdiff_t(row) * columns_ + column, {sizeof(T), site}};
    }

    /// As SharedTile::vec().
    template <class V>
    Ref<V, SharedAccess> vec(int row, int column, SourceSite site = SourceSite::here()) const {
        constexpr int width = sizeof(V) / sizeof(T);
        if (unsigned(row) >= unsigned(rows_) || column < 0 || column + width > columns_) [[unlikely]]
            return {static_cast<V*>(fail_index(name_, row, column, rows_, columns_, width, site)), {sizeof(T), site}};
        T* const element = base_ + std::ptrdiff_t(row) * columns_ + column;
        if (reinterpret_cast<std::uintptr_t>(element) % sizeof(V)) [[unlikely]]
            fail_alignment(name_, row, column, sizeof(V), site);
        return {reinterpret_cast<V*>(element), {sizeof(T), site}};
    }

  private:
    T* base_;
    int rows_, columns_;
    const char* name_;
};

template <int Count>
class SharedBarriers;

/// Carves tiles from the shared memory that the launch asked for, one after the other, each aligned to 16 bytes, and
/// panel tiles to 1024. Every thread carves the same tiles in the same order. Every arena begins at the first byte: a
/// kernel needs but one, and two that carve different tiles from the same bytes are diagnosed.
class SharedArena {
  public:
    /// The next tile: `Pitch * Rows` elements. Complains where the launch asked for less.
    template <class T, int Rows, int Columns, int Pitch = Columns>
    SharedTile<T, Rows, Columns, Pitch> tile(const char* name, SourceSite site = SourceSite::here()) {
        return {static_cast<T*>(
                    carve({.name = name, .rows = Rows, .columns = Columns, .pitch = Pitch}, sizeof(T), 16, site)),
                name};
    }

    /// The same as panels, see PanelTile. Carve them before all other tiles, so that none needs padding before it.
    template <class T, int Rows, int Columns, Swizzle S>
    PanelTile<T, Rows, Columns, S> panels(const char* name, SourceSite site = SourceSite::here()) {
        using Tile = PanelTile<T, Rows, Columns, S>;
        const Shape shape{.name = name,
                          .rows = Rows,
                          .columns = Columns,
                          .pitch = Columns,
                          .panel_columns = Tile::panel_columns,
                          .swizzle_bits = swizzle_bits(S)};
        return {static_cast<T*>(carve(shape, sizeof(T), kPanelAlignment, site)), name};
    }

    /// The same with a shape that is known at launch only.
    template <class T>
    SharedMatrix<T> matrix(const char* name, int rows, int columns, SourceSite site = SourceSite::here()) {
        return {static_cast<T*>(
                    carve({.name = name, .rows = rows, .columns = columns, .pitch = columns}, sizeof(T), 16, site)),
                rows, columns, name};
    }

    /// Count barriers side by side, 8 bytes each.
    template <int Count>
    SharedBarriers<Count> barriers(const char* name, SourceSite site = SourceSite::here()) {
        return SharedBarriers<Count>(carve({.name = name, .rows = 1, .columns = Count, .pitch = Count}, 8, 16, site),
                                     name);
    }

    /// The next tile begins at the first byte again, in place of the tiles carved so far. For bytes that one step of a
    /// kernel after the other uses; a __syncthreads() belongs between the last use of the old tiles and the first of
    /// the new ones.
    void start_over() {
        used_ = 0;
        ++round_;
    }

  private:
    struct Shape {
        const char* name;
        int rows, columns, pitch;
        int panel_columns = 0;
        unsigned swizzle_bits = 0;
    };
    void* carve(const Shape& shape, std::size_t element_bytes, std::size_t alignment, SourceSite site);
    std::size_t used_ = 0;
    unsigned round_ = 0;
};

/// The launch's dynamic shared memory as a bare pointer, which nothing checks.
template <class T>
T* dynamic_shared_memory() {
    // The garbage at a block's start is a NaN that no arithmetic gives, but also the integer -1.
    constexpr bool numbers = std::is_floating_point_v<T> || std::is_same_v<T, f16> || std::is_same_v<T, bf16> ||
                             Float8<T> || std::is_same_v<T, float2> || std::is_same_v<T, float4>;
    Block::current().shared.lend_to_bare_pointer(!numbers);
    return reinterpret_cast<T*>(Block::current().shared.data());
}

/// A tensor in global memory: a base, extents, strides in elements, and the name under which its traffic is counted.
template <class T, int Rank>
class GlobalTensor {
  public:
    GlobalTensor() = default;

    /// Of `Rank` extents and strides; global_tensor() makes them.
    GlobalTensor(T* data, const std::int64_t* extents, const std::int64_t* strides, int tensor)
        : GlobalTensor(Slice(), data, extents, strides, tensor) {
        GlobalView view{
            .tensor = tensor, .base = reinterpret_cast<std::uintptr_t>(data), .element_bytes = sizeof(T), .rank = Rank};
        std::copy_n(extents, Rank, view.extents.begin());
        std::copy_n(strides, Rank, view.strides.begin());
        note_view(view, !std::is_const_v<T>, alignof(T));
    }

    /// Elements along a dimension.
    std::int64_t extent(int dimension) const { return extents_[dimension]; }

    /// One element, by an index for each dimension. A stray one is reported with the caller's source line.
    Ref<T, GlobalAccess> operator()(std::int64_t i, SourceSite site = SourceSite::here()) const requires(Rank == 1) {
        return {element(1, site, i), {tensor_, site}};
    }
    Ref<T, GlobalAccess> operator()(std::int64_t i, std::int64_t j, SourceSite site = SourceSite::here()) const
        requires(Rank == 2) {
        return {element(1, site, i, j), {tensor_, site}};
    }
    Ref<T, GlobalAccess> operator()(std::int64_t i, std::int64_t j, std::int64_t k,
                                    SourceSite site = SourceSite::here()) const requires(Rank == 3) {
        return {element(1, site, i, j, k), {tensor_, site}};
    }
    Ref<T, GlobalAccess> operator()(std::int64_t i, std::int64_t j, std::int64_t k, std::int64_t l,
                                    SourceSite site = SourceSite::here()) const requires(Rank == 4) {
        return {element(1, site, i, j, k, l), {tensor_, site}};
    }

    /// `sizeof(V) / sizeof(T)` neighbours along the last dimension, from `column` on; that dimension must be
    /// contiguous.
    template <class V>
    auto vec(std::int64_t row, std::int64_t column, SourceSite site = SourceSite::here()) const requires(Rank == 2) {
        constexpr int width = sizeof(V) / sizeof(T);
        using Vector = std::conditional_t<std::is_const_v<T>, const V, V>;
        T* const first = element(width, site, row, column);
        if (reinterpret_cast<std::uintptr_t>(first) % sizeof(V) || strides_[1] != 1) [[unlikely]]
            fail_alignment(tensor_, first, sizeof(V), site);
        return Ref<Vector, GlobalAccess>{reinterpret_cast<Vector*>(first), {tensor_, site}};
    }

    /// The tensor that is left when the first indices are fixed: `K.slice(batch, head)` is a matrix.
    GlobalTensor<T, Rank - 1> slice(std::int64_t i, SourceSite site = SourceSite::here()) const requires(Rank > 1) {
        return {{}, start_of_slice(site, i), extents_ + 1, strides_ + 1, tensor_};
    }
    GlobalTensor<T, Rank - 2> slice(std::int64_t i, std::int64_t j, SourceSite site = SourceSite::here()) const
        requires(Rank > 2) {
        return {{}, start_of_slice(site, i, j), extents_ + 2, strides_ + 2, tensor_};
    }

    /// The matrix without the rows before `first`, which must exist: that one is its row 0. Where the row numbers from
    /// there on are the same for all threads, so are the distances, and an address is one addition.
    GlobalTensor rows_from(std::int64_t first, SourceSite site = SourceSite::here()) const requires(Rank == 2) {
        GlobalTensor rest = *this;
        rest.data_ = start_of_slice(site, first);
        rest.extents_[0] -= first;
        rest.rows_before_ += first;
        return rest;
    }

  private:
    template <class, int>
    friend class GlobalTensor;
    struct Slice {};  // of a tensor that the machine knows
    GlobalTensor(Slice, T* data, const std::int64_t* extents, const std::int64_t* strides, int tensor)
        : data_(data), tensor_(tensor) {
        for (int i = 0; i < Rank; ++i) {
            extents_[i] = extents[i];
            strides_[i] = strides[i];
        }
    }

    SliceOfTensor as_sliced() const { return {tensor_, data_ - rows_before_ * strides_[0], Rank, rows_before_}; }

    /// The element at these indices, the first ones of the tensor's; along the last dimension `width` are asked for.
    template <class... Index>
    T* element(int width, SourceSite site, Index... index) const {
        T* place = data_;
        int dimension = 0;
        const auto step = [&](std::int64_t i) {
            const int d = dimension++, neighbours = d + 1 == Rank ? width : 1;
            const bool inside = i >= 0 && i + neighbours <= extents_[d];
            if (!inside) [[unlikely]]
                place = static_cast<T*>(fail_index(as_sliced(), std::array<std::int64_t, sizeof...(Index)>{index...}, d,
                                                   extents_[d], neighbours, site));
            else
                place += i * strides_[d];
            return inside;
        };
        static_cast<void>((step(index) && ...));
        return place;
    }

    template <class... Index>
    T* start_of_slice(SourceSite site, Index... index) const {
        const std::array<std::int64_t, sizeof...(Index)> at{index...};
        T* start = data_;
        for (std::size_t d = 0; d < at.size(); ++d) {
            if (at[d] < 0 || at[d] >= extents_[d]) [[unlikely]]
                fail_slice(as_sliced(), at, int(d), extents_[d], site);
            start += at[d] * strides_[d];
        }
        return start;
    }

    T* data_ = nullptr;
    std::int64_t extents_[Rank] = {}, strides_[Rank] = {};
    std::int64_t rows_before_ = 0;  // that rows_from() has left out
    int tensor_ = 0;
};

/// The view that a kernel takes of what the host passed.
template <class T, int Rank>
GlobalTensor<T, Rank> global_tensor(const TensorArgument& argument) {
    return {static_cast<T*>(argument.data), argument.extents.data(), argument.strides.data(), tensor_id(argument.name)};
}

}  // namespace cpu
}  // namespace simt
