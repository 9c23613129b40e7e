#pragma once

#include "common/attention/warpgroup_tile.cuh"
#include "common/simt/simt.h"
#include "phase8_backward/hopper_queries.cuh"

namespace ladder::SIMT_MACHINE {

// What consumers do with their registers: weights and their gradients, and the ways out of them.

/// P_ij^T = 2^(exponent S_ij^T - LSE_i), column by column.
template <int N, class Numbers>
__device__ __forceinline__ void weigh_columns(simt::Accumulator<N>& S_ij, const Numbers& LSE, int stage, int column,
                                              float exponent) {
#pragma unroll
    for (int c = 0; c < N / 8; ++c) {
        const float2 lse = LSE.template vec<float2>(stage, 8 * c + column);
#pragma unroll
        for (int e = 0; e < 4; ++e)
            S_ij[4 * c + e] = simt::fast_exp2(fmaf(S_ij[4 * c + e], exponent, e % 2 ? -lse.y : -lse.x));
    }
}

/// dS_ij^T = P_ij^T o (dP_ij^T - D_i), in the place of dP_ij^T.
template <int N, class Numbers>
__device__ __forceinline__ void differentiate_columns(simt::Accumulator<N>& dP_ij, const simt::Accumulator<N>& P_ij,
                                                      const Numbers& D, int stage, int column) {
#pragma unroll
    for (int c = 0; c < N / 8; ++c) {
        const float2 d = D.template vec<float2>(stage, 8 * c + column);
#pragma unroll
        for (int e = 0; e < 4; ++e) dP_ij[4 * c + e] = P_ij[4 * c + e] * (dP_ij[4 * c + e] - (e % 2 ? d.y : d.x));
    }
}

/// For both keys of a thread the first query that sees it, or one beyond all where there is no such key; and where the
/// queries end.
struct FirstQueries {
    int of[2];  ///< key h of the thread
    int end;    ///< one beyond the last query

    /// Of the rows that `owner` has of its block's keys, where B_r queries come past.
    __device__ __forceinline__ FirstQueries(const BackwardProblem& p, const WarpgroupOwner& owner, int B_r)
        : end(p.query_length) {
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            const int key = owner.query(h);
            of[h] = key < p.key_length ? first_seeing(p.mask, key, p.query_length, p.key_length) : p.query_length + B_r;
        }
    }
    /// The same, counted from a tile's first query.
    __device__ __forceinline__ FirstQueries from(int first_query) const {
        FirstQueries counted = *this;
#pragma unroll
        for (int h = 0; h < 2; ++h) counted.of[h] -= first_query;
        counted.end -= first_query;
        return counted;
    }
};

/// Zeros for the queries that do not see key h of the thread, those before first.of[h] of the tile; and for those that
/// do not exist: their scores are 0, but with a key of infinities NaN.
template <int N>
__device__ __forceinline__ void hide_queries(simt::Accumulator<N>& x, int column, const FirstQueries& first) {
#pragma unroll
    for (int i = 0; i < N / 2; ++i) {
        const int query = i / 4 * 8 + column + i % 2;
        if (query < first.of[i / 2 % 2] || query >= first.end) x[i] = 0.0f;
    }
}

/// A warp's 16 rows of dS_ij^T, from its operands' registers, into shared memory, where tensor cores read them next.
template <class T, int Steps, class Tile>
__device__ __forceinline__ void leave_scores(const Tile& dS, const simt::OperandA<T> (&operands)[Steps],
                                             int first_row) {
    using Wide = simt::WideVector<T>;
    const int lane = int(threadIdx.x) % 32;
#pragma unroll
    for (int k = 0; k < Steps; ++k)
        simt::stmatrix(dS.template vec<Wide>(first_row + lane % 16, 16 * k + lane / 16 * 8), operands[k][0],
                       operands[k][1], operands[k][2], operands[k][3]);
    simt::show_to_async();
}

/// 64 x N elements of dQ_i = dS_ij K_j, from (row, column) on, begun. dS_ij lies transposed: keys are its rows, and k.
template <int N, class Scores, class Keys>
__device__ __forceinline__ void begin_sums(simt::Accumulator<N>& dQ_i, const Scores& dS_ij, int row, const Keys& K_j,
                                           int column) {
    simt::begin_products(dQ_i);
#pragma unroll
    for (int k = 0; k < Keys::rows(); k += 16)
        simt::multiply(dQ_i, simt::mn_major(dS_ij, k, row), simt::mn_major(K_j, k, column), k != 0);
    simt::commit_products();
}

/// Columns [from, from + Columns) of what a warpgroup has of dQ_i, into shared memory from (row, column) on, where the
/// accelerator reads them next. Four neighbouring rows are written at once, with the same 32 bytes of each; of those,
/// the swizzle moves no two rows apart. So odd rows take the columns 16 further, or nearer, in their turn.
template <int Columns, int N, class Tile>
__device__ __forceinline__ void leave_sums(const Tile& dQ_i, const simt::Accumulator<N>& sums, int from, int row,
                                           int column) {
    const int first_row = row + simt::AccumulatorLayout::row(int(threadIdx.x), 0);
    const bool odd = first_row % 2 != 0;
#pragma unroll
    for (int c = 0; c < Columns / 8; ++c) {
        const int first_column = column + 8 * (odd ? c ^ 2 : c) + int(threadIdx.x) % 4 * 2;
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            const int own = from / 2 + 4 * c + 2 * h, other = from / 2 + 4 * (c ^ 2) + 2 * h;
            dQ_i.template vec<float2>(first_row + 8 * h, first_column) =
                float2{odd ? sums[other] : sums[own], odd ? sums[other + 1] : sums[own + 1]};
        }
    }
    simt::show_to_async();
}

/// The way out of a warp's 16 rows of dK_j or dV_j: times `factor`, rounded, through rows of `staging` from `first` on,
/// which nobody else uses, by the accelerator.
template <class T, int D, class Tile>
__device__ __forceinline__ void send_keys(const simt::Accumulator<D>& sums, float factor, const Tile& staging,
                                          int first, const simt::TensorMap<T, 4>& map, const KeyTile& keys,
                                          int key_length) {
    using Wide = simt::WideVector<T>;
    const int lane = int(threadIdx.x) % 32;
#pragma unroll
    for (int k = 0; k < D / 16; ++k) {
        std::uint32_t bits[4];
#pragma unroll
        for (int r = 0; r < 4; ++r)
            bits[r] = simt::pack<T>(sums[8 * k + 2 * r] * factor, sums[8 * k + 2 * r + 1] * factor);
        simt::stmatrix(staging.template vec<Wide>(first + lane % 16, 16 * k + lane / 16 * 8), bits[0], bits[1], bits[2],
                       bits[3]);
    }
    simt::show_to_async();
    __syncwarp();  // the warp's rows are complete, and shown to the accelerator, before one lane has them sent
    if (keys.first_key + first < key_length && simt::elect_one()) {
        simt::tma_store(map, {keys.b, keys.kv_head, keys.first_key + first, 0}, staging.template rows_from<16>(first));
        simt::commit_stores();
    }
}

}  // namespace ladder::SIMT_MACHINE
