#pragma once

#include "common/attention/key_tiles.cuh"
#include "common/attention/online_softmax.cuh"
#include "common/attention/warp_reduce.cuh"
#include "common/simt/simt.h"

namespace ladder::SIMT_MACHINE {

// Attention by warpgroups: what a warpgroup does with its 64 query rows and one tile of keys.
//
//     S_ij [64, B_c], then P_ij     Accumulator<B_c>: a thread has B_c / 4 scores of each of two rows
//     O_i  [64, D]                  Accumulator<D>: the same rows
//     m_i, l_i [2]                  of the thread's two rows: h = 0, and h = 1 eight rows below
//
// Nothing of it is exchanged with another warp, and of P_ij nothing even with another lane.

/// The rows and columns of accumulators that belong to the calling thread.
struct WarpgroupOwner {
    int first_row;  ///< of the warpgroup, in its block's tile

    /// Row h of the thread, in the block's tile: elements i with i / 2 % 2 == h.
    __device__ int row(int h) const { return first_row + simt::AccumulatorLayout::row(int(threadIdx.x), 2 * h); }
    /// Of the thread's first two columns the first.
    __device__ int column() const { return int(threadIdx.x) % 4 * 2; }
    /// Its place among the four lanes that share its rows.
    __device__ int lane_of_row() const { return int(threadIdx.x) % 4; }
    /// The first row of its warp, in the block's tile.
    __device__ int first_row_of_warp() const { return first_row + int(threadIdx.x) % 128 / 32 * 16; }
};

/// What the running softmax knows of a thread's two rows.
struct RunningRows {
    float m[2] = {-INFINITY, -INFINITY};  ///< the largest exponent of 2 so far
    float l[2] = {0.0f, 0.0f};            ///< the sum over this thread's columns
    float rescale[2] = {1.0f, 1.0f};      ///< what older sums count for since m rose last
};

/// S_ij = Q_i K_j^T for the warpgroup's rows, begun.
template <int N, class Queries, class Keys>
__device__ __forceinline__ void begin_scores(simt::Accumulator<N>& S_ij, const Queries& Q_i, int first_row,
                                             const Keys& K_j) {
    simt::begin_products(S_ij);
#pragma unroll
    for (int k = 0; k < Queries::columns(); k += 16)
        simt::multiply(S_ij, simt::k_major(Q_i, first_row, k), simt::k_major(K_j, 0, k), k != 0);
    simt::commit_products();
}

/// O_i += P_ij V_j for keys [16 first, 16 (first + Steps)) of the tile, begun.
template <class T, int D, int Steps, class Values>
__device__ __forceinline__ void begin_values(simt::Accumulator<D>& O_i, simt::OperandA<T> (&P_ij)[Steps],
                                             const Values& V_j, int first = 0) {
    simt::begin_products(O_i, P_ij);
#pragma unroll
    for (int k = 0; k < Steps; ++k) simt::multiply(O_i, P_ij[k], simt::mn_major(V_j, 16 * (first + k), 0), true);
    simt::commit_products();
}

/// The same while older products of O_i are under way, with operands that none of them reads.
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
__device__ __forceinline__ void raise_maxima(const simt::Accumulator<N>& S_ij, RunningRows& rows, float exponent) {
    float largest[2][2];  // two for each row: the chain of comparisons is half as long
#pragma unroll
    for (int i = 0; i < 4; ++i) largest[i / 2][i % 2] = S_ij[i];
#pragma unroll
    for (int i = 4; i < N / 2; ++i) largest[i / 2 % 2][i % 2] = fmaxf(largest[i / 2 % 2][i % 2], S_ij[i]);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
        const float m_new = fmaxf(rows.m[h], max_over<4>(fmaxf(largest[h][0], largest[h][1])) * exponent);
        rows.rescale[h] = simt::fast_exp2(merge_exponent(rows.m[h], m_new));
        rows.m[h] = m_new;
        rows.l[h] *= rows.rescale[h];
    }
}

/// Scores of keys [16 first, 16 (first + Steps)) become weights under the maxima, and join the sums.
template <int Steps, int N>
__device__ __forceinline__ void weigh(simt::Accumulator<N>& S_ij, RunningRows& rows, float exponent, int first) {
    const float subtracted[2] = {safe_maximum(rows.m[0]), safe_maximum(rows.m[1])};
#pragma unroll
    for (int i = 0; i < 8 * Steps; ++i) {
        float& s = S_ij[8 * first + i];
        s = simt::fast_exp2(fmaf(s, exponent, -subtracted[i / 2 % 2]));
        rows.l[i / 2 % 2] += s;
    }
}

/// Weights of 16 keys at a time, as operands of the second product.
template <class T, int Steps, int N>
__device__ __forceinline__ void to_operands(simt::OperandA<T> (&P_ij)[Steps], const simt::Accumulator<N>& S_ij,
                                            int first) {
#pragma unroll
    for (int k = 0; k < Steps; ++k) P_ij[k] = simt::to_operand<T>(S_ij, first + k);
}

/// O_i under the new maxima. After the first tiles they rarely rise, and then a vote costs less than multiplying by 1.
template <bool vote, int D>
__device__ __forceinline__ void rescale_rows(simt::Accumulator<D>& O_i, const RunningRows& rows) {
    if (vote && !__any_sync(0xffffffffu, rows.rescale[0] != 1.0f || rows.rescale[1] != 1.0f)) return;
#pragma unroll
    for (int i = 0; i < D / 2; ++i) O_i[i] *= rows.rescale[i / 2 % 2];
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
    simt::sync_threads(8 + owner.first_row / 64, simt::kWarpgroup);
}

/// The way out. LSE by ordinary stores; O_i divided by the sums, through the warp's 16 rows of `staging`, which nobody
/// else uses, by the tensor memory accelerator: the warp's elected lane asks, and must wait before the rows are used
/// again.
template <class T, int D, class Tile>
__device__ __forceinline__ void store_rows(simt::Accumulator<D>& O_i, RunningRows& rows, const WarpgroupOwner& owner,
                                           const Tile& staging, const simt::TensorMap<T, 4>& O_map,
                                           const simt::GlobalTensor<float, 3>& LSE, int b, int h, int first_query,
                                           int query_length, const int (&visible)[2]) {
    using Wide = simt::WideVector<T>;
    float factor[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const int query = first_query + owner.row(half);
        const float l = sum_over<4>(rows.l[half]);
        factor[half] = visible[half] > 0 ? 1.0f / l : 0.0f;  // a row that sees no key is 0
        if (query < query_length && owner.lane_of_row() == 0) LSE(b, h, query) = kLn2 * (rows.m[half] + log2f(l));
    }
    const int lane = int(threadIdx.x) % 32, first = owner.first_row_of_warp();
    if (simt::elect_one()) simt::wait_stores_read<0>();
    __syncwarp();  // what was sent from these rows before has left them
#pragma unroll
    for (int k = 0; k < D / 16; ++k) {
        std::uint32_t bits[4];
#pragma unroll
        for (int r = 0; r < 4; ++r)
            bits[r] = simt::pack<T>(O_i[8 * k + 2 * r] * factor[r % 2], O_i[8 * k + 2 * r + 1] * factor[r % 2]);
        simt::stmatrix(staging.template vec<Wide>(first + lane % 16, 16 * k + lane / 16 * 8), bits[0], bits[1], bits[2],
                       bits[3]);
    }
    simt::show_to_async();
    __syncwarp();  // the warp's rows are complete, and visible to the accelerator, before one lane has them sent
    if (first_query + first < query_length && simt::elect_one()) {
        simt::tma_store(O_map, {b, h, first_query + first, 0}, staging.template rows_from<16>(first));
        simt::commit_stores();
    }
}

}  // namespace ladder::SIMT_MACHINE
