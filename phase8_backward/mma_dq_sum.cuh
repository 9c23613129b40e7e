#pragma once

#include "common/attention/arranged_tile.cuh"
#include "common/attention/mma_tile.cuh"
#include "common/simt/simt.h"
#include "phase8_backward/mma_shapes.cuh"
#include "phase8_backward/mma_sum.cuh"

namespace ladder::SIMT_MACHINE {

/// dS_ij^T [B_c, B_r] in shared memory, between the warps that make it and those that multiply it. It lies in 8 x 8
/// matrices, one after another: a lane's register is a pair of neighbours in one of them, and what the warp writes at
/// once is the whole matrix, 128 bytes in the order of lanes. ldmatrix reads such a matrix at once. So neither meets a
/// bank twice, and an address is a constant beside what the lane adds.
template <class Tile, int B_r>
struct ScoreGradients {
    using T = typename Tile::Element;  ///< of dS_ij
    const Tile& tile;                  ///< row r of matrix x is row 8 x + r
    int first;                         ///< where key 0 is, in keys: each stage has its own

    /// The calling lane's pair of the matrix of keys and queries from (key, query) on, multiples of 8.
    __device__ __forceinline__ decltype(auto) pair(int key, int query) const {
        const int lane = threadIdx.x % 32;
        return tile.template vec<simt::Vector<T, 2>>((first + key) * (B_r / 8) + query + lane / 4, lane % 4 * 2);
    }
    /// What the lane passes to ldmatrix_trans for the operand A = dS_ij from (query, key) on, multiples of 16.
    __device__ __forceinline__ decltype(auto) operand(int query, int key) const {
        const int lane = threadIdx.x % 32;
        return tile.template vec<simt::WideVector<T>>(
            (first + key + lane / 16 * 8) * (B_r / 8) + query + lane / 8 % 2 * 8 + lane % 8, 0);
    }
};

/// The part of a tile dQ_i [B_r, D] that a pair of warps computes, and where that lies in the workspace dQ_sum
/// [B, Hq, query tiles, B_r D].
///
/// A tile of the workspace has the order of registers, not of rows: what the 32 lanes of a warp add with one
/// instruction are neighbours, one request of 128 bytes. The kernel that rounds the sums knows the order, and nobody
/// else reads them.
template <class Shape>
struct DqShare {
    int pair;          ///< whose share it is
    int first_row;     ///< of the share, in the tile
    int first_column;  ///< of the share

    /// Of that pair.
    __device__ explicit DqShare(int pair)
        : pair(pair),
          first_row(pair % Shape::dq_groups * 16 * Shape::dq_m),
          first_column(pair / Shape::dq_groups * Shape::dq_columns) {}
    /// Row h of the lane's fragments m, in the tile.
    __device__ int row(int m, int h) const { return first_row + 16 * m + 8 * h + int(threadIdx.x) % 32 / 4; }
    /// Where element e of fragment (m, c) lies in the tile of the workspace.
    __device__ int place(int m, int c, int e) const { return place(pair, m, c, e) + int(threadIdx.x) % 32; }
    /// Where those of eight neighbours lie that begin at (row, column) of the tile, column a multiple of 8: four lanes
    /// have two each, so columns 0, 2, 4 and 6 lie side by side here, and the others 32 places further.
    __device__ static int place_of_eight(int row, int column) {
        const int pair = row / (16 * Shape::dq_m) + column / Shape::dq_columns * Shape::dq_groups;
        return place(pair, row / 16 % Shape::dq_m, column % Shape::dq_columns / 8, row / 8 % 2 * 2) + row % 8 * 4;
    }

  private:
    __device__ static int place(int pair, int m, int c, int e) {
        return (((pair * Shape::dq_m + m) * (Shape::dq_columns / 8) + c) * 4 + e) * 32;
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

/// dQ_sum += dS_ij K_j, these columns of a pair's share, by atomic additions, `width` columns at a time. `multiply(dQ,
/// operand, columns of K_j)` adds up the product.
template <class T, class Shape, class Columns, int width, class STile, class KTile, class Multiply>
__device__ __forceinline__ void add_dq(const simt::GlobalTensor<float, 2>& dQ_sum, int query_tile,
                                       const DqShare<Shape>& share, const STile& dS, const KTile& K_j,
                                       const Multiply& multiply) {
    constexpr int M = Shape::dq_m;
    static_assert((Columns::until - Columns::from) % width == 0);
#pragma unroll 1
    for (int column = Columns::from; column < Columns::until; column += width) {
        simt::FragmentC dQ[M][width / 8] = {};
        multiply(
            dQ,
            [&](int m, int k) {
                simt::FragmentA<T> a;
                simt::ldmatrix_trans(a, dS.operand(share.first_row + 16 * m, 16 * k));
                return a;
            },
            FromColumn<KTile>{K_j, share.first_column + column});
#pragma unroll
        for (int m = 0; m < M; ++m)
#pragma unroll
            for (int n = 0; n < width / 8; ++n)
#pragma unroll
                for (int e = 0; e < 4; ++e)
                    simt::reduce_add(dQ_sum(query_tile, share.place(m, column / 8 + n, e)), dQ[m][n].element[e]);
    }
}

}  // namespace ladder::SIMT_MACHINE
