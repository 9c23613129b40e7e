#pragma once

#include "common/attention/arranged_tile.cuh"
#include "common/attention/mma_tile.cuh"
#include "common/simt/simt.h"
#include "mma_shapes.cuh"
#include "mma_sum.cuh"

namespace ladder::SIMT_MACHINE {

/// The part of a tile dQ_i [B_r, D] that one warp of each pair computes, and where that lies in the workspace dQ_sum
/// [B, Hq, query tiles, B_r D].
///
/// A tile of the workspace has the order of registers, not of rows: what the 32 lanes of a warp add with one
/// instruction are neighbours, one request of 128 bytes. The kernel that rounds the sums knows the order, and nobody
/// else reads them.
template <class Shape>
struct DqShare {
    int warp;          ///< of those that have a share
    int first_row;     ///< of the share, in the tile
    int first_column;  ///< of the share

    __device__ explicit DqShare(int warp)
        : warp(warp),
          first_row(warp % Shape::dq_groups * 16 * Shape::dq_m),
          first_column(warp / Shape::dq_groups * Shape::dq_columns) {}
    /// Row h of the lane's fragments m, in the tile.
    __device__ int row(int m, int h) const { return first_row + 16 * m + 8 * h + int(threadIdx.x) % 32 / 4; }
    /// The first column of the lane's fragments c of 8 columns, in the tile.
    __device__ int column(int c) const { return first_column + 8 * c + int(threadIdx.x) % 4 * 2; }
    /// Where element e of fragment (m, c) lies in the tile of the workspace.
    __device__ int place(int m, int c, int e) const {
        return (((warp * Shape::dq_m + m) * (Shape::dq_columns / 8) + c) * 4 + e) * 32 + int(threadIdx.x) % 32;
    }
};

/// A tile, seen from a column on.
template <class Tile>
struct FromColumn {
    using Element = typename Tile::Element;  ///< of the tile
    const Tile& tile;                        ///< all of it
    int first;                               ///< a multiple of 16

    /// As ArrangedTile has it.
    __device__ __forceinline__ decltype(auto) block(int row, int column) const {
        return tile.block(row, first + column);
    }
};

/// dQ_sum += dS_ij K_j, the share of a warp, by atomic additions. dS_ij^T [B_c, B_r] lies transposed; ldmatrix
/// transposes it back. `careful`: K_j holds infinities or NaN, and not every row sees every key; row i sees the first
/// visible(i).
template <class T, class Shape, class STile, class KTile, class Visible>
__device__ __forceinline__ void add_dq(const simt::GlobalTensor<float, 2>& dQ_sum, int query_tile, int warp,
                                       const STile& dS, const KTile& K_j, bool careful, const Visible& visible) {
    constexpr int M = Shape::dq_m, columns = Shape::dq_width / 8;
    const DqShare<Shape> share(warp);
    const auto operand = [&](int m, int k) {
        simt::FragmentA<T> a;
        simt::ldmatrix_trans(a, dS.block_of_columns(16 * k, share.first_row + 16 * m));
        return a;
    };
#pragma unroll 1
    for (int c = 0; c < Shape::dq_columns / 8; c += columns) {
        const FromColumn<KTile> K_columns{K_j, share.first_column + 8 * c};
        simt::FragmentC dQ[M][columns] = {};
        if (careful)
            multiply_seen<T, Shape::B_c>(dQ, operand, K_columns,
                                         [&](int m, int h, int key) { return key < visible(share.row(m, h)); });
        else
            multiply_values<T, Shape::B_c>(dQ, operand, K_columns);
#pragma unroll
        for (int m = 0; m < M; ++m)
#pragma unroll
            for (int n = 0; n < columns; ++n)
#pragma unroll
                for (int e = 0; e < 4; ++e)
                    simt::reduce_add(dQ_sum(query_tile, share.place(m, c + n, e)), dQ[m][n].element[e]);
    }
}

}  // namespace ladder::SIMT_MACHINE
