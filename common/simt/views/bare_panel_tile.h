#pragma once

// Panel tiles of a machine that checks nothing: the GPU and the unchecked CPU machine. Included by bare_views.h.

#include <cstddef>

#include "common/simt/views/panel_layout.h"

namespace simt {
inline namespace SIMT_NAMESPACE {

/// A row of a panel tile by its pieces of 16 bytes. From piece 0 to any other of the same panel leads one exclusive or:
/// a single instruction, where an index into the tile takes five.
template <class V, class Layout>
class PanelRow {
  public:
    __device__ __forceinline__ explicit PanelRow(const void* first) : first_(position_of(first)) {}
    __device__ __forceinline__ V& piece(int p) const {
        constexpr unsigned in_a_panel = Layout::row_bytes / 16;
        Position position = first_ ^ unsigned(p) % in_a_panel * 16;
        if constexpr (Layout::panels > 1) position += unsigned(p) / in_a_panel * unsigned(Layout::panel_stride);
        return *static_cast<V*>(at_position(position));
    }

  private:
    Position first_;
};

/// A matrix in shared memory as TMA copies it and wgmma reads it: see PanelLayout. Indices are those of the matrix; the
/// swizzle is the tile's affair.
///
///     const auto K_j = arena.panels<T, stages * B_c, D, Swizzle::b128>("K_j");
///     const auto stage = K_j.rows_from<B_c>(s * B_c);
template <class T, int Rows, int Columns, Swizzle S, int PanelRows = Rows>
class PanelTile {
  public:
    using Element = T;
    using Layout = PanelLayout<int(sizeof(T)), Rows, Columns, S, PanelRows>;
    __device__ static constexpr int rows() { return Rows; }
    __device__ static constexpr int columns() { return Columns; }
    static constexpr Swizzle swizzle = S;
    static constexpr int panels = Layout::panels;
    static constexpr int panel_columns = Layout::panel_columns;
    static constexpr int row_bytes = Layout::row_bytes;
    static constexpr int panel_stride = Layout::panel_stride;
    static constexpr std::size_t bytes = Layout::bytes;

    __device__ explicit PanelTile(T* base) : base_(base) {}

    __device__ __forceinline__ T& operator()(int row, int column) const { return vec<T>(row, column); }
    template <class V>
    __device__ __forceinline__ V& vec(int row, int column) const {
        static_assert(sizeof(V) <= 16, "only pieces of 16 bytes stay together");
        return *reinterpret_cast<V*>(reinterpret_cast<char*>(base_) + Layout::offset(unsigned(row), unsigned(column)));
    }

    /// Row `row` by its pieces, each a V.
    template <class V>
    __device__ __forceinline__ PanelRow<V, Layout> row(int row) const {
        static_assert(sizeof(V) == 16, "pieces have 16 bytes");
        return PanelRow<V, Layout>(&vec<V>(row, 0));
    }

    /// The rows [row, row + R): a stage of a ring, or a warpgroup's part. `row` is a multiple of 8.
    template <int R>
    __device__ __forceinline__ PanelTile<T, R, Columns, S, PanelRows> rows_from(int row) const {
        static_assert(R <= Rows);
        return PanelTile<T, R, Columns, S, PanelRows>(base_ + row * panel_columns);
    }

    /// Where row 0 begins, for instructions that take an address.
    __device__ __forceinline__ T* data() const { return base_; }

  private:
    T* base_;
};

}  // namespace SIMT_NAMESPACE
}  // namespace simt
