#pragma once

// Panel tiles of the checked CPU machine. Included by views_cpu.h, whose references they give.

#include <cstddef>
#include <cstdint>

#include "common/simt/views/panel_layout.h"
#include "common/simt/views/ref_cpu.h"

namespace simt {
inline namespace cpu {

/// A row of a panel tile by its pieces of 16 bytes: `piece(p)` is the V of the columns from p sizeof(V) / sizeof(T) on.
/// On a GPU one exclusive or leads from the first piece to any other, where an index into the tile takes five
/// instructions.
template <class V, class Tile>
class PanelRow {
  public:
    /// Of a tile.
    PanelRow(const Tile& tile, int row) : tile_(tile), row_(row) {}
    /// Piece p. A stray one is reported with the caller's source line.
    Ref<V, SharedAccess> piece(int p, SourceSite site = SourceSite::here()) const {
        return tile_.template vec<V>(row_, p * int(sizeof(V) / sizeof(typename Tile::Element)), site);
    }

  private:
    Tile tile_;
    int row_;
};

/// A matrix in shared memory as TMA copies it and wgmma reads it: see PanelLayout. Indices are those of the matrix; the
/// swizzle is the tile's affair. `PanelRows`: of how many rows its panels are, where it has only some of them.
template <class T, int Rows, int Columns, Swizzle S, int PanelRows = Rows>
class PanelTile {
    static_assert(SharedMemory::takes<T>, "an element takes 1, 2, 4, 8 or 16 bytes, and is aligned to as many");

  public:
    using Element = T;                                                        ///< what it is made of
    using Layout = PanelLayout<int(sizeof(T)), Rows, Columns, S, PanelRows>;  ///< where its elements lie

    /// Its shape.
    static constexpr int rows() { return Rows; }
    static constexpr int columns() { return Columns; }
    static constexpr Swizzle swizzle = S;
    static constexpr int panels = Layout::panels;                ///< how many
    static constexpr int panel_columns = Layout::panel_columns;  ///< columns of each
    static constexpr int row_bytes = Layout::row_bytes;          ///< from one row of a panel to the next
    static constexpr int panel_stride = Layout::panel_stride;    ///< bytes from one panel to the next
    static constexpr std::size_t bytes = Layout::bytes;          ///< what these rows take of shared memory

    /// With row 0 at `base`, in the memory of the running block; SharedArena::panels() makes them. `first_row`: row 0's
    /// number in the tile that was carved, for messages.
    PanelTile(T* base, const char* name, int first_row = 0) : base_(base), name_(name), first_row_(first_row) {}

    /// One element. A stray index is reported with the caller's source line.
    Ref<T, SharedAccess> operator()(int row, int column, SourceSite site = SourceSite::here()) const {
        return vec<T>(row, column, site);
    }

    /// `sizeof(V) / sizeof(T)` neighbours of one row at once, from `column` on: 16 bytes at most, which lie together.
    template <class V>
    Ref<V, SharedAccess> vec(int row, int column, SourceSite site = SourceSite::here()) const {
        static_assert(sizeof(V) <= 16, "only pieces of 16 bytes stay together");
        constexpr int width = sizeof(V) / sizeof(T);
        if (unsigned(row) >= unsigned(Rows) || column < 0 || column + width > Columns) [[unlikely]]
            return {static_cast<V*>(fail_index(name_, row, column, Rows, Columns, width, site)), {sizeof(T), site}};
        if (column % width != 0) [[unlikely]]
            fail_alignment(name_, row, column, sizeof(V), site);
        auto* const base = reinterpret_cast<std::byte*>(base_);
        return {reinterpret_cast<V*>(base + Layout::offset(unsigned(row), unsigned(column))), {sizeof(T), site}};
    }

    /// Row `row` by its pieces, each a V.
    template <class V>
    PanelRow<V, PanelTile> row(int row) const {
        static_assert(sizeof(V) == 16, "pieces have 16 bytes");
        return {*this, row};
    }

    /// The rows [row, row + R): a stage of a ring, or a warpgroup's part. `row` is a multiple of 8, as the pattern is.
    template <int R>
    PanelTile<T, R, Columns, S, PanelRows> rows_from(int row, SourceSite site = SourceSite::here()) const {
        static_assert(R <= Rows);
        if (row < 0 || row + R > Rows || (S != Swizzle::none && row % 8 != 0)) [[unlikely]]
            fail_rows(name_, row, R, Rows, site);
        return {base_ + row * panel_columns, name_, first_row_ + row};
    }

    /// Where row 0 begins, for instructions that take an address.
    T* data() const { return base_; }

    /// For messages.
    const char* name() const { return name_; }
    int first_row() const { return first_row_; }

  private:
    T* base_;
    const char* name_;
    int first_row_;
};

}  // namespace cpu
}  // namespace simt
