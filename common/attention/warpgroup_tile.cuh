#pragma once

#include "common/attention/online_softmax.cuh"
#include "common/attention/warp_reduce.cuh"
#include "common/attention/watch.cuh"
#include "common/simt/simt.h"

namespace ladder::SIMT_MACHINE {

// Attention by warpgroups: what a warpgroup does with its 64 query rows and one tile of keys, for 16-bit elements.
//
//     S_ij [64, B_c], then P_ij     Accumulator<B_c>: a thread has B_c / 4 scores of each of two rows
//     O_i  [64, D]                  Accumulator<D>: the same rows
//     m_i, l_i [2]                  of the thread's two rows: h = 0, and h = 1 eight rows below
//
// Nothing of it is exchanged with another warp, and of P_ij nothing even with another lane.

/// Rows of whole panels: of 64 elements, where D is a multiple of that, or else of 32.
template <int D>
inline constexpr simt::Swizzle kRowSwizzle = D % 64 == 0 ? simt::Swizzle::b128 : simt::Swizzle::b64;

/// The rows and columns of accumulators that belong to the calling thread.
struct WarpgroupOwner {
    int first_row;    ///< of the warpgroup, in its block's tile
    int first_query;  ///< of the block's tile

    /// Row h of the thread, in the block's tile: elements i with i / 2 % 2 == h.
    __device__ int row(int h) const { return first_row + simt::AccumulatorLayout::row(int(threadIdx.x), 2 * h); }
    /// The query of that row.
    __device__ int query(int h) const { return first_query + row(h); }
    /// The thread's first column; element i stands i / 4 * 8 + i % 2 columns further.
    __device__ int column() const { return lane_of_row() * 2; }
    /// Its place among the four lanes that share its rows.
    __device__ int lane_of_row() const { return int(threadIdx.x) % 4; }
    /// The first row of its warp, in the block's tile.
    __device__ int first_row_of_warp() const { return first_row + int(threadIdx.x) % 128 / 32 * 16; }
};

/// What the running softmax knows of a thread's two rows.
struct RunningRows {
    float m[2] = {-INFINITY, -INFINITY};  ///< the largest exponent of 2 so far: exp(scale s) = 2^(exponent s)
    float l[2] = {0.0f, 0.0f};            ///< the sum over this thread's columns
    float rescale[2] = {1.0f, 1.0f};      ///< what older sums count for since m rose last
};

/// S_ij = Q_i K_j^T for the warpgroup's rows, begun.
template <int N, class Queries, class Keys>
__device__ __forceinline__ void begin_scores(simt::Accumulator<N>& S_ij, const Queries& Q_i,
                                             const WarpgroupOwner& owner, const Keys& K_j) {
    // BEGIN SOLUTION products: S_ij = Q_i K_j^T for the rows from owner.first_row on, 16 columns a step; one group
    simt::begin_products(S_ij);
#pragma unroll
    for (int k = 0; k < Queries::columns(); k += 16)
        simt::multiply(S_ij, simt::k_major(Q_i, owner.first_row, k), simt::k_major(K_j, 0, k), k != 0);
    simt::commit_products();
    //= (void)S_ij, (void)Q_i, (void)owner, (void)K_j;
    // END SOLUTION products
}

/// O_i += P_ij V_j, begun.
template <class T, int D, int Steps, class Values>
__device__ __forceinline__ void begin_values(simt::Accumulator<D>& O_i, simt::OperandA<T> (&P_ij)[Steps],
                                             const Values& V_j) {
    simt::begin_products(O_i, P_ij);
    // BEGIN SOLUTION products: O_i += P_ij V_j, 16 keys a step; one group
#pragma unroll
    for (int k = 0; k < Steps; ++k) simt::multiply(O_i, P_ij[k], simt::mn_major(V_j, 16 * k, 0), true);
    simt::commit_products();
    //= (void)V_j;
    // END SOLUTION products
}

/// The same for keys from 16 `first` on, while older products of O_i are under way, with operands that none of them
/// reads.
template <class T, int D, int Steps, class Values>
__device__ __forceinline__ void begin_more_values(simt::Accumulator<D>& O_i, simt::OperandA<T> (&P_ij)[Steps],
                                                  const Values& V_j, int first) {
    simt::begin_products(P_ij);
#pragma unroll
    for (int k = 0; k < Steps; ++k) simt::multiply(O_i, P_ij[k], simt::mn_major(V_j, 16 * (first + k), 0), true);
    simt::commit_products();
}

/// Scores of keys that a row does not see become -inf: row h sees the first visible[h] keys of the tile.
template <int N>
__device__ __forceinline__ void hide_keys(simt::Accumulator<N>& S_ij, const WarpgroupOwner& owner,
                                          const int (&visible)[2]) {
#pragma unroll
    for (int i = 0; i < N / 2; ++i)
        if (i / 4 * 8 + owner.column() + i % 2 >= visible[i / 2 % 2]) S_ij[i] = -INFINITY;
}

/// The maxima of the rows with this tile, and what older sums count for under them.
template <int N>
__device__ __forceinline__ void raise_maxima(const simt::Accumulator<N>& S_ij, RunningRows& rows,
                                             const WarpgroupOwner& owner, const SignedScale& scale) {
    float largest[2][2];  // two for each row: the chain of comparisons is half as long
#pragma unroll
    for (int i = 0; i < 4; ++i) largest[i / 2][i % 2] = S_ij[i];
#pragma unroll
    for (int i = 4; i < N / 2; ++i) largest[i / 2 % 2][i % 2] = fmaxf(largest[i / 2 % 2][i % 2], S_ij[i]);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
        // BEGIN SOLUTION maxima: rows.m[h], the maximum of the row with this tile; rows.rescale[h]; rows.l[h] under it
        const float m_new = fmaxf(rows.m[h], max_over<4>(fmaxf(largest[h][0], largest[h][1])) * scale.exponent);
        rows.rescale[h] = simt::fast_exp2(merge_exponent(rows.m[h], m_new));
        rows.m[h] = m_new;
        rows.l[h] *= rows.rescale[h];
        //= rows.m[h] = 0.0f;
        // END SOLUTION maxima
        watch_maximum(owner.query(h), rows.m[h], owner.lane_of_row());
        watch_rescale(owner.query(h), rows.rescale[h], owner.lane_of_row());
    }
}

/// Scores of keys [16 first, 16 (first + Steps)) of the tile become weights under the maxima, one multiply-add and one
/// 2^x each, and join the sums.
template <int Steps, int N>
__device__ __forceinline__ void weigh(simt::Accumulator<N>& S_ij, RunningRows& rows, const WarpgroupOwner& owner,
                                      const SignedScale& scale, int first_key, int first = 0) {
    const float subtracted[2] = {safe_maximum(rows.m[0]), safe_maximum(rows.m[1])};
#pragma unroll
    for (int i = 0; i < 8 * Steps; ++i) {
        float& s = S_ij[8 * first + i];
        watch_score(owner.query(i / 2 % 2), first_key + 16 * first + i / 4 * 8 + owner.column() + i % 2,
                    s * scale.magnitude);
        s = simt::fast_exp2(fmaf(s, scale.exponent, -subtracted[i / 2 % 2]));
        rows.l[i / 2 % 2] += s;
    }
#pragma unroll
    for (int h = 0; h < 2; ++h) watch_sum(owner.query(h), rows.l[h], owner.lane_of_row());
}

/// Weights of 16 keys at a time, rounded, as operands of the second product: the thread that computed a weight is the
/// one whose operand needs it, so nothing moves.
template <class T, int Steps, int N>
__device__ __forceinline__ void to_operands(simt::OperandA<T> (&P_ij)[Steps], const simt::Accumulator<N>& S_ij,
                                            int first = 0) {
#pragma unroll
    for (int k = 0; k < Steps; ++k) P_ij[k] = simt::to_operand<T>(S_ij, first + k);
}

/// O_i under the new maxima. After the first tiles they rarely rise, and then a vote costs less than multiplying by 1.
template <int D>
__device__ __forceinline__ void rescale_rows(simt::Accumulator<D>& O_i, const RunningRows& rows) {
    if (!__any_sync(0xffffffffu, rows.rescale[0] != 1.0f || rows.rescale[1] != 1.0f)) return;
#pragma unroll
    for (int i = 0; i < D / 2; ++i) O_i[i] *= rows.rescale[i / 2 % 2];
}

/// O_i before the first tile.
template <int D>
__device__ __forceinline__ void clear_rows(simt::Accumulator<D>& O_i) {
#pragma unroll
    for (int i = 0; i < D / 2; ++i) O_i[i] = 0.0f;
}

/// The warpgroup's rows of a tile times `factor`, -1 or 0: the sign of a scale. The tensor cores read them next.
template <class Tile>
__device__ __forceinline__ void multiply_warpgroup_rows(const Tile& Q_i, const WarpgroupOwner& owner, float factor) {
    using T = typename Tile::Element;
    for (int i = int(threadIdx.x) % simt::kWarpgroup; i < 64 * Tile::columns(); i += simt::kWarpgroup) {
        const int row = owner.first_row + i / Tile::columns(), column = i % Tile::columns();
        Q_i(row, column) = T(factor * float(Q_i(row, column)));
    }
    simt::show_to_async();
    // The warpgroup's rows have their sign, and are shown to the tensor cores, before any of its warps has them read.
    simt::sync_threads(8 + owner.first_row / 64, simt::kWarpgroup);
}

}  // namespace ladder::SIMT_MACHINE
