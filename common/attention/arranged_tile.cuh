#pragma once

#include "common/attention/swizzle.cuh"
#include "common/simt/simt.h"

namespace ladder::SIMT_MACHINE {

/// Rows without exchange: piece p of a row is its p-th.
struct PlainRows {
    /// Where column `column` of a row of D elements lies: there.
    template <int D>
    __device__ static int column(int, int column) {
        return column;
    }
};

/// Rows whose pieces have changed places.
struct SwizzledRows {
    /// Where column `column` of row `row` lies, in a row of D elements.
    template <int D>
    __device__ static int column(int row, int column) {
        return swizzled<D>(row, column);
    }
};

/// Rows [first, …) of a tile of D columns, seen through Rows: PlainRows or SwizzledRows. `first` is a multiple of 8.
template <class Rows, class T, int R, int D>
class ArrangedTile {
  public:
    using Element = T;  ///< of the tile
    /// The rows of `tile` from `first` on.
    __device__ ArrangedTile(const simt::SharedTile<T, R, D>& tile, int first) : tile_(tile), first_(first) {}

    /// Elements from (row, column) on, as SharedTile::vec() has them; they lie within one piece.
    template <class V>
    __device__ __forceinline__ decltype(auto) vec(int row, int column) const {
        return tile_.template vec<V>(first_ + row, Rows::template column<D>(row, column));
    }
    /// What the calling lane passes to ldmatrix so that the warp reads the 16 x 16 block from (row, column) on, as an
    /// operand A or, transposed, as two operands B side by side. `row` and `column` are multiples of 16 and the same
    /// for all lanes.
    __device__ __forceinline__ decltype(auto) block(int row, int column) const {
        const int lane = threadIdx.x % 32;
        // BEGIN SOLUTION addresses: the lane's row and column in the block, rows first
        return piece(row, lane % 16, column, lane / 16 * 8);
        //= return piece(row, lane % 8, column, 0);
        // END SOLUTION addresses
    }
    /// The same for a block of B^T, whose rows are columns of B: two operands B side by side, without transposing.
    __device__ __forceinline__ decltype(auto) block_of_columns(int row, int column) const {
        const int lane = threadIdx.x % 32;
        // BEGIN SOLUTION addresses: the same, columns first
        return piece(row, lane % 8 + lane / 16 * 8, column, lane / 8 % 2 * 8);
        //= return piece(row, lane % 8, column, 0);
        // END SOLUTION addresses
    }
    /// One element.
    __device__ __forceinline__ decltype(auto) operator()(int row, int column) const {
        return tile_(first_ + row, Rows::template column<D>(row, column / 8 * 8) + column % 8);
    }

  private:
    /// The last bits of the row alone decide how pieces are exchanged, within 32 or 64 columns. So what a lane adds to
    /// an address is the same for all blocks of these columns, and the block is a constant in the instruction.
    __device__ __forceinline__ decltype(auto) piece(int row, int lane_row, int column, int lane_column) const {
        constexpr int exchanged = D % 64 == 0 ? 64 : 32;
        return tile_.template vec<simt::WideVector<T>>(
            first_ + lane_row + row,
            (Rows::template column<D>(lane_row, lane_column) ^ column % exchanged) + column / exchanged * exchanged);
    }

    const simt::SharedTile<T, R, D>& tile_;
    int first_;
};

/// The same, with its types read off the tile.
template <class Rows, class T, int R, int D>
__device__ __forceinline__ ArrangedTile<Rows, T, R, D> arranged(const simt::SharedTile<T, R, D>& tile, int first = 0) {
    return {tile, first};
}

}  // namespace ladder::SIMT_MACHINE
