#pragma once

#include "common/attention/copy_tile.cuh"
#include "common/attention/warp_reduce.cuh"
#include "common/simt/simt.h"

namespace ladder::SIMT_MACHINE {

/// How many columns of a dot product are added up in turn, before their sum is added to those of the columns before.
///
/// Every addition rounds to a digit of the sum so far, so one sum over 256 columns is a little less exact than
/// PyTorch's, which takes many short ones. An error in a score enters an exponent.
inline constexpr int kColumnsInTurn = 16;

/// How the threads of a block share a tile of B_r query rows.
///
/// Each warp owns B_r / warps rows for good (FlashAttention-2, section 3.3: split Q, not K). Inside a warp, eight lanes
/// share a row: lane l works on rows l / 8 + 4 i of its warp, and on every eighth group of columns from l % 8 on. So
/// all of a row's scores lie in eight neighbouring lanes, and its maximum and sum take three shuffles and no barrier.
///
///              lane % 8:   0 1 2 3 4 5 6 7
///   rows 0, 4, 8, …        lanes  0 …  7
///   rows 1, 5, 9, …        lanes  8 … 15
///   rows 2, 6, 10, …       lanes 16 … 23
///   rows 3, 7, 11, …       lanes 24 … 31
template <int B_r, int Threads>
struct RowOwner {
    /// The division of lanes and rows that is drawn above.
    static constexpr int lanes_per_row = 8;
    static constexpr int row_step = 32 / lanes_per_row;         ///< from a row of a thread to its next
    static constexpr int rows_per_warp = B_r / (Threads / 32);  ///< rows, dealt out to four groups of lanes
    static constexpr int rows = rows_per_warp / row_step;       ///< rows per thread
    static_assert(rows >= 1 && rows * row_step * (Threads / 32) == B_r, "B_r must fill every warp's lanes");

    /// The first of this thread's rows in the tile.
    int first_row = int(threadIdx.x) / 32 * rows_per_warp + int(threadIdx.x) % 32 / lanes_per_row;
    int lane = int(threadIdx.x) % lanes_per_row;  ///< this thread's place among the eight of its rows

    /// The i-th of this thread's rows in the tile, i < rows.
    __device__ int row(int i) const { return first_row + row_step * i; }
};

/// Over the eight lanes that share a row. All eight get the result.
__device__ __forceinline__ float row_max(float x) { return max_over<8>(x); }
__device__ __forceinline__ float row_sum(float x) { return sum_over<8>(x); }

/// Elements that a thread moves at once between shared memory and registers: 16 bytes, or less where the lanes of a row
/// would reach beyond it.
template <class T, int D, int Lanes = 8>
inline constexpr int kRowVector = simt::kVectorWidth<T> < D / Lanes ? simt::kVectorWidth<T> : D / Lanes;

/// sum[i][j] += Q(row i, :) . K(first_key + lane + lanes_per_row j, :), over the InTurn columns of Q and K from `first`
/// on, for keys before `end`, a multiple of lanes_per_row. `Unroll`: as many steps, of 16 bytes of a row each, are
/// written out one after another. `D`: see kRowLength.
template <int InTurn, int Unroll, int D = 0, class Owner, int Columns, class QTile, class KTile>
__device__ __forceinline__ void add_products(float (&sum)[Owner::rows][Columns], const Owner& owner, const QTile& Q,
                                             const KTile& K, int first, int first_key = 0,
                                             int end = Owner::lanes_per_row * Columns) {
    constexpr int lanes = Owner::lanes_per_row;
    constexpr int width = kRowVector<typename KTile::Element, kRowLength<KTile, D>, lanes>;
    using Vector = simt::Vector<typename KTile::Element, width>;
#pragma unroll Unroll
    for (int d = first; d < first + InTurn; d += width) {
        Vector q[Owner::rows];
#pragma unroll
        for (int i = 0; i < Owner::rows; ++i) q[i] = Q.template vec<Vector>(owner.row(i), d);
#pragma unroll
        for (int j = 0; j < Columns; ++j) {
            if (first_key + lanes * j >= end) continue;
            const Vector k = K.template vec<Vector>(first_key + owner.lane + lanes * j, d);
#pragma unroll
            for (int i = 0; i < Owner::rows; ++i)
#pragma unroll
                for (int e = 0; e < width; ++e) sum[i][j] += float(q[i].element[e]) * float(k.element[e]);
        }
    }
}

/// S[i][j] = Q(row i, :) . K(first_key + lane + lanes_per_row j, :): this thread's part of S_ij = Q_i K_j^T, unscaled.
///
/// Every element of Q that is read from shared memory serves `Columns` columns, every element of K serves owner.rows
/// rows; that reuse, in registers, is what keeps the multipliers busy rather than the shared memory.
///
/// `InTurn`: see kColumnsInTurn. `Unroll`, `D` and `end`: see add_products.
template <int InTurn = kColumnsInTurn, int Unroll = 4, int D = 0, class Owner, int Columns, class QTile, class KTile>
__device__ __forceinline__ void multiply_transposed(float (&S)[Owner::rows][Columns], const Owner& owner,
                                                    const QTile& Q, const KTile& K, int first_key = 0,
                                                    int end = Owner::lanes_per_row * Columns) {
    constexpr int length = kRowLength<KTile, D>;
#pragma unroll
    for (int i = 0; i < Owner::rows; ++i)
#pragma unroll
        for (int j = 0; j < Columns; ++j) S[i][j] = 0.0f;

    if constexpr (InTurn == length) {
        add_products<InTurn, Unroll, D>(S, owner, Q, K, 0, first_key, end);
    } else {
#pragma unroll(length / InTurn == 2 ? 2 : 1)
        for (int first = 0; first < length; first += InTurn) {
            float part[Owner::rows][Columns] = {};
            add_products<InTurn, Unroll, D>(part, owner, Q, K, first, first_key, end);
#pragma unroll
            for (int i = 0; i < Owner::rows; ++i)
#pragma unroll
                for (int j = 0; j < Columns; ++j) S[i][j] += part[i][j];
        }
    }
}

/// The columns of O that a thread owns: vectors of kRowVector elements, the lanes of a row side by side.
template <class T, int D, int Lanes = 8>
__device__ __forceinline__ int output_column(int lane, int vector) {
    return (vector * Lanes + lane) * kRowVector<T, D, Lanes>;
}

/// O[i][c] += sum_j P(row i, j) V(first_key + j, column c), with column c = output_column(lane, c / width) + c % width,
/// over the first `keys` columns of P, a multiple of four. `Unroll`: as many times four keys are written out.
template <int Unroll = 2, class Owner, int Columns, class PTile, class VTile>
__device__ __forceinline__ void accumulate(float (&O)[Owner::rows][Columns], const Owner& owner, const PTile& P,
                                           const VTile& V, int keys = PTile::columns(), int first_key = 0) {
    using T = typename VTile::Element;
    constexpr int lanes = Owner::lanes_per_row, D = lanes * Columns, width = kRowVector<T, D, lanes>;
    using Vector = simt::Vector<T, width>;
#pragma unroll Unroll
    for (int j = 0; j < keys; j += 4) {
        float4 p[Owner::rows];
#pragma unroll
        for (int i = 0; i < Owner::rows; ++i) p[i] = P.template vec<float4>(owner.row(i), j);
#pragma unroll
        for (int k = 0; k < 4; ++k)
#pragma unroll
            for (int n = 0; n < D / lanes / width; ++n) {
                const Vector v = V.template vec<Vector>(first_key + j + k, output_column<T, D, lanes>(owner.lane, n));
#pragma unroll
                for (int i = 0; i < Owner::rows; ++i) {
                    const float p_ij = k == 0 ? p[i].x : k == 1 ? p[i].y : k == 2 ? p[i].z : p[i].w;
#pragma unroll
                    for (int e = 0; e < width; ++e) O[i][n * width + e] += p_ij * float(v.element[e]);
                }
            }
    }
}

/// O_i = this thread's columns of one row of O. `vectorized`: rows of O may be read 16 bytes at a time.
template <class T, int D>
__device__ __forceinline__ void load_output_row(float (&O_i)[D / 8], const simt::GlobalTensor<float, 2>& O, int row,
                                                int lane, bool vectorized) {
    constexpr int width = kRowVector<T, D>;
    using Four = simt::Vector<float, 4>;
    const int head_dim = int(O.extent(1));
#pragma unroll
    for (int c = 0; c < D / 8; c += 4) {
        const int column = output_column<T, D>(lane, c / width) + c % width;
        Four four{};
        if (vectorized) {
            if (column < head_dim) four = O.template vec<Four>(row, column);
        } else {
#pragma unroll
            for (int e = 0; e < 4; ++e)
                if (column + e < head_dim) four.element[e] = O(row, column + e);
        }
#pragma unroll
        for (int e = 0; e < 4; ++e) O_i[c + e] = four.element[e];
    }
}

/// The row's columns = O_i, as elements of O, which need not be those (T) whose width divided up the columns.
template <class T, int D, class Element>
__device__ __forceinline__ void store_output_row(const simt::GlobalTensor<Element, 2>& O, int row,
                                                 const float (&O_i)[D / 8], int lane, bool vectorized) {
    constexpr int width = kRowVector<T, D>;
    using Four = simt::Vector<Element, 4>;
    const int head_dim = int(O.extent(1));
#pragma unroll
    for (int c = 0; c < D / 8; c += 4) {
        const int column = output_column<T, D>(lane, c / width) + c % width;
        if (vectorized) {
            Four four;
#pragma unroll
            for (int e = 0; e < 4; ++e) four.element[e] = Element(O_i[c + e]);
            if (column < head_dim) O.template vec<Four>(row, column) = four;
        } else {
#pragma unroll
            for (int e = 0; e < 4; ++e)
                if (column + e < head_dim) O(row, column + e) = Element(O_i[c + e]);
        }
    }
}

}  // namespace ladder::SIMT_MACHINE
