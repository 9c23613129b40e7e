#pragma once

#include "common/attention/arranged_tile.cuh"
#include "common/attention/online_softmax.cuh"
#include "common/attention/warp_reduce.cuh"
#include "common/attention/watch.cuh"
#include "common/simt/simt.h"

namespace ladder::SIMT_MACHINE {

// Attention on tensor cores: what a warp does with its query rows and one tile of keys, for 16-bit elements.
//
// A warp owns 16 M query rows for good. All that belongs to them lives in its registers, in fragments (which lane holds
// what: common/simt/matrix/fragments.h):
//
//     S_ij [16 M, B_c], then P_ij     fragment (m, n): rows [16 m, 16 m + 16), keys [8 n, 8 n + 8)
//     O_i  [16 M, D]                  fragment (m, c): the same rows, columns [8 c, 8 c + 8)
//     m_i, l_i [M][2]                 of the two rows that a lane has in fragments m: h = 0, and h = 1 eight rows below
//
// Nothing of it is exchanged with another warp, and of P_ij nothing even with another lane.

/// The rows and columns of fragments that belong to the calling lane.
template <int M>
struct MmaOwner {
    static constexpr int rows = 16 * M;  ///< of a warp

    int first_row;  ///< of the warp, in its block's tile

    __device__ MmaOwner() : first_row(int(threadIdx.x) / 32 * rows) {}
    /// Row h of fragments m, in the block's tile.
    __device__ int row(int m, int h) const { return first_row + 16 * m + 8 * h + int(threadIdx.x) % 32 / 4; }
    /// Of the lane's two neighbouring columns in fragment 0, the first.
    __device__ int column() const { return lane_of_row() * 2; }
    /// Its place among the four lanes that share its rows.
    __device__ int lane_of_row() const { return int(threadIdx.x) % 4; }
};

/// Multiplies D columns of the warp's rows of Q_i with `factor`, -1 or 0: the sign of a scale.
template <int D, int M, class Tile>
__device__ __forceinline__ void multiply_rows(const Tile& Q_i, const MmaOwner<M>& owner, float factor) {
    using T = typename Tile::Element;
    for (int i = threadIdx.x % 32; i < MmaOwner<M>::rows * D; i += 32) {
        const int row = owner.first_row + i / D, column = i % D;
        Q_i(row, column) = T(factor * float(Q_i(row, column)));
    }
}

/// Fragment (m, k) of the warp's rows of Q_i, the operand A of S_ij.
template <class T, int M, class Tile>
__device__ __forceinline__ simt::FragmentA<T> query_fragment(const Tile& Q_i, const MmaOwner<M>& owner, int m, int k) {
    simt::FragmentA<T> q;
    simt::ldmatrix(q, Q_i.block(owner.first_row + 16 * m, 16 * k));
    return q;
}

/// Nothing to do beside the products.
struct NothingBeside {
    /// In step k.
    __device__ void operator()(int) const {}
};

/// S_ij = Q_i K_j^T, unscaled, for D columns. `query(m, k)` gives a fragment of Q_i. Each fragment of K_j serves all of
/// the warp's rows. `beside(k)` does what is to be done between the products of step k, of D / 16, and those of the
/// next.
template <class T, int D, int M, int N, class Query, class Tile, class Beside = NothingBeside>
__device__ __forceinline__ void multiply_keys(simt::FragmentC (&S_ij)[M][N], const Query& query, const Tile& K_j,
                                              const Beside& beside = {}) {
#pragma unroll
    for (int k = 0; k < D / 16; ++k) {
        simt::FragmentA<T> q[M];
#pragma unroll
        for (int m = 0; m < M; ++m) q[m] = query(m, k);
#pragma unroll
        for (int n = 0; n < N; n += 2) {
            simt::FragmentB<T> b[2];
            simt::ldmatrix(b, K_j.block_of_columns(8 * n, 16 * k));
#pragma unroll
            for (int m = 0; m < M; ++m) {
                simt::mma_m16n8k16(S_ij[m][n], q[m], b[0]);
                simt::mma_m16n8k16(S_ij[m][n + 1], q[m], b[1]);
            }
        }
        beside(k);
    }
}

/// m_i rises to the largest score so far, and l_i and O_i follow. After the first tiles that is rare, and then a vote
/// costs less than multiplying O_i, of which a lane holds D / 4 numbers a row, by 1.
///
/// m_i is an exponent of 2: exp(scale s) = 2^(exponent s). l_i sums this lane's columns only: the four lanes of a row
/// are added up once, at the end.
template <int M, int N, int Columns>
__device__ __forceinline__ void raise_maxima(const simt::FragmentC (&S_ij)[M][N], float (&m_i)[M][2],
                                             float (&l_i)[M][2], simt::FragmentC (&O_i)[M][Columns],
                                             const MmaOwner<M>& owner, const SignedScale& scale, int first_query) {
    float m_new[M][2];
    bool risen = false;
#pragma unroll
    for (int m = 0; m < M; ++m)
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            // BEGIN SOLUTION maxima: m_new[m][h], the maximum of the row so far, this tile included; `risen`
            float largest = -INFINITY;
#pragma unroll
            for (int n = 0; n < N; ++n)
                largest = fmaxf(largest, fmaxf(S_ij[m][n].element[2 * h], S_ij[m][n].element[2 * h + 1]));
            m_new[m][h] = fmaxf(m_i[m][h], max_over<4>(largest) * scale.exponent);
            risen |= m_new[m][h] != m_i[m][h];
            //= m_new[m][h] = m_i[m][h];
            // END SOLUTION maxima
        }
    if (!__any_sync(0xffffffffu, risen)) return;
#pragma unroll
    for (int m = 0; m < M; ++m)
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            // BEGIN SOLUTION maxima: `rescale`; m_i, l_i and O_i of row (m, h) under the new maximum
            const float rescale = simt::fast_exp2(merge_exponent(m_i[m][h], m_new[m][h]));
            m_i[m][h] = m_new[m][h];
            l_i[m][h] *= rescale;
#pragma unroll
            for (int c = 0; c < Columns; ++c) {
                O_i[m][c].element[2 * h] *= rescale;
                O_i[m][c].element[2 * h + 1] *= rescale;
            }
            //= const float rescale = 1.0f;
            // END SOLUTION maxima
            watch_maximum(first_query + owner.row(m, h), m_i[m][h], owner.lane_of_row());
            watch_rescale(first_query + owner.row(m, h), rescale, owner.lane_of_row());
        }
}

/// Fragment m of P_ij for keys [16 k, 16 k + 16), as operand A of the second product: the scores' weights under m_i,
/// one multiply-add and one 2^x each, rounded to 16 bits. They join l_i unrounded. The lane that holds a score is the
/// one whose operand needs its weight (simt::to_a), so nothing moves.
template <class T, int M, int N>
__device__ __forceinline__ simt::FragmentA<T> weights(simt::FragmentC (&S_ij)[M][N], int m, int k,
                                                      const float (&m_i)[M][2], float (&l_i)[M][2],
                                                      const MmaOwner<M>& owner, const SignedScale& scale,
                                                      int first_query, int first_key) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
        const float subtracted = safe_maximum(m_i[m][h]);
#pragma unroll
        for (int n = 2 * k; n < 2 * k + 2; ++n)
#pragma unroll
            for (int e = 0; e < 2; ++e) {
                float& s = S_ij[m][n].element[2 * h + e];
                watch_score(first_query + owner.row(m, h), first_key + 8 * n + owner.column() + e, s * scale.magnitude);
                s = simt::fast_exp2(fmaf(s, scale.exponent, -subtracted));
                l_i[m][h] += s;
            }
        watch_sum(first_query + owner.row(m, h), l_i[m][h], owner.lane_of_row());
    }
    return simt::to_a<T>(S_ij[m][2 * k], S_ij[m][2 * k + 1]);
}

/// O_i += P_ij V_j. `weight(m, k)` gives a fragment of P_ij. Each fragment of V_j serves all of the warp's rows.
template <class T, int B_c, int M, int Columns, class Weight, class Tile>
__device__ __forceinline__ void multiply_values(simt::FragmentC (&O_i)[M][Columns], const Weight& weight,
                                                const Tile& V_j) {
#pragma unroll
    for (int k = 0; k < B_c / 16; ++k) {
        simt::FragmentA<T> p[M];
#pragma unroll
        for (int m = 0; m < M; ++m) p[m] = weight(m, k);
#pragma unroll
        for (int c = 0; c < Columns; c += 2) {
            simt::FragmentB<T> b[2];
            simt::ldmatrix_trans(b, V_j.block(16 * k, 8 * c));
#pragma unroll
            for (int m = 0; m < M; ++m) {
                simt::mma_m16n8k16(O_i[m][c], p[m], b[0]);
                simt::mma_m16n8k16(O_i[m][c + 1], p[m], b[1]);
            }
        }
    }
}

}  // namespace ladder::SIMT_MACHINE
