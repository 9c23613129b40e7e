#pragma once

#include "common/attention/warpgroup_tile.cuh"
#include "tests/hopper_fp8/block_scales.cuh"

namespace ladder::SIMT_MACHINE {

// The softmax of 8-bit attention. Differences to warpgroup_tile.cuh:
//
// - A tile's scores have a scale of their own, 2^(e_Q + e_K), and its values one, 2^(e_V). The latter goes into the
//   weights: P'_ij = P_ij 2^(e_V), so that the products P'_ij V_j of all tiles add up.
// - A weight must fit e4m3, and e4m3 reaches to 448. Weights are up to 2^8, not 1: that leaves 17 powers of 2 below
//   before they vanish, in place of 9.
//
//     S_ij         e = S_ij scale 2^(e_Q + e_K) log2(e) + e_V    the weight's exponent
//     m_i          the largest e so far
//     P'_ij        2^(e - m_i + 8)
//     l_i          sum of P'_ij 2^(-e_V)
//     O_i          sum of P'_ij V_j, so that O_i / l_i is the result, and ln 2 (m_i - 8 + log2 l_i) its LSE

/// The weight of a score at m_i is 2^this. Those of larger scores are larger: m_i is raised only for scores that are
/// 2^kHeadroom above it, so that O_i is rarely multiplied. Both together reach 430, and e4m3 448.
inline constexpr float kLargestWeightExponent = 6.0f, kHeadroom = 2.75f;

/// raise_maxima() for a tile with scales: `exponent` and `shift` make of a score the exponent of its weight.
template <int N>
__device__ __forceinline__ void raise_maxima(const simt::Accumulator<N>& S_ij, RunningRows& rows, float exponent,
                                             float shift) {
    float largest[2][2];  // two for each row: the chain of comparisons is half as long
#pragma unroll
    for (int i = 0; i < 4; ++i) largest[i / 2][i % 2] = S_ij[i];
#pragma unroll
    for (int i = 4; i < N / 2; ++i) largest[i / 2 % 2][i % 2] = fmaxf(largest[i / 2 % 2][i % 2], S_ij[i]);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
        const float risen = fmaf(max_over<4>(fmaxf(largest[h][0], largest[h][1])), exponent, shift);
        const float m_new = risen > rows.m[h] + kHeadroom ? risen : rows.m[h];
        rows.rescale[h] = simt::fast_exp2(merge_exponent(rows.m[h], m_new));
        rows.m[h] = m_new;
        rows.l[h] *= rows.rescale[h];
    }
}

/// Scores of keys [32 part, 32 part + 32) become weights, and join `sums`, those of this tile.
template <int N>
__device__ __forceinline__ void weigh_part(simt::Accumulator<N>& S_ij, float (&sums)[2], const float (&subtracted)[2],
                                           float exponent, int part) {
#pragma unroll
    for (int i = 0; i < 16; ++i) {
        float& s = S_ij[16 * part + i];
        s = simt::fast_exp2(fmaf(s, exponent, -subtracted[i / 2 % 2]));
        sums[i / 2 % 2] += s;
    }
}

/// Weights of 32 keys as an operand of 8 bits. Its lane wants four neighbours along the keys where the accumulator has
/// two, and two more eight keys on. The order of keys is free, as long as V's is the same: transpose_values() has it
/// so.
template <class T, int N>
__device__ __forceinline__ simt::OperandA<T> to_operand_of_8_bits(const simt::Accumulator<N>& S_ij, int part) {
    simt::OperandA<T> operand;
#pragma unroll
    for (int r = 0; r < 4; ++r) {
        const int i = 16 * part + r / 2 * 8 + r % 2 * 2;
        operand.set(r, simt::pack<T>(S_ij[i], S_ij[i + 1], S_ij[i + 4], S_ij[i + 5]));
    }
    return operand;
}

/// V_j [keys, D] becomes V_j^T [D, keys], which 8-bit products want; `warp` of `warps` does its share of it.
///
/// ldmatrix_trans reads 16-bit elements, here two neighbouring columns of V_j at once; a byte permutation parts them.
/// What comes out of it by itself is another order of rows and columns, the same in each 16 of them:
///
///     row    r of V_j^T is column 2 r of V_j for r < 8, and 2 (r - 8) + 1 from there on
///     column c           row    8 (c % 4 / 2) + 2 (c / 4) + c % 2: as the lanes have P_ij
template <class Values, class Transposed>
__device__ __forceinline__ void transpose_values(const Values& V_j, const Transposed& V_t, int warp, int warps) {
    using Wide = simt::WideVector<typename Values::Element>;
    constexpr int across = Values::columns() / 16, down = Values::rows() / 32;
    const int lane = int(threadIdx.x) % 32;
#pragma unroll 2
    for (int piece = warp; piece < across * down; piece += warps) {
        const int column = piece % across * 16, key = piece / across * 32;
        std::uint32_t pairs[4];
        simt::ldmatrix_trans(pairs, V_j.template vec<Wide>(key + lane, column));
        simt::stmatrix(V_t.template vec<Wide>(column + lane / 16 * 8 + lane % 8, key + lane / 8 % 2 * 16),
                       __byte_perm(pairs[0], pairs[1], 0x6420), __byte_perm(pairs[2], pairs[3], 0x6420),
                       __byte_perm(pairs[0], pairs[1], 0x7531), __byte_perm(pairs[2], pairs[3], 0x7531));
    }
}

/// The way out: O_i over its sums, and LSE, by ordinary stores. Of 16 columns a lane has four neighbours, in the order
/// that transpose_values() gave V's rows.
template <class T, int D>
__device__ __forceinline__ void store_rows_of_8_bits(const simt::Accumulator<D>& O_i, const RunningRows& rows,
                                                     const WarpgroupOwner& owner, const simt::GlobalTensor<T, 2>& O,
                                                     const simt::GlobalTensor<float, 1>& LSE, const int (&visible)[2],
                                                     bool vectorized) {
    const int query_length = int(O.extent(0)), head_dim = int(O.extent(1));
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const int query = owner.query(half);
        const float l = sum_over<4>(rows.l[half]);
        const float factor = visible[half] > 0 ? 1.0f / l : 0.0f;  // a row that sees no key is 0
        if (query >= query_length) continue;
        if (owner.lane_of_row() == 0) LSE(query) = kLn2 * (rows.m[half] - kLargestWeightExponent + log2f(l));
#pragma unroll
        for (int k = 0; k < D / 16; ++k) {
            const int column = 16 * k + 4 * owner.lane_of_row(), i = 8 * k + 2 * half;
            const simt::Vector<T, 4> four{
                {T(O_i[i] * factor), T(O_i[i + 4] * factor), T(O_i[i + 1] * factor), T(O_i[i + 5] * factor)}};
            if (vectorized && column < head_dim)
                O.template vec<simt::Vector<T, 4>>(query, column) = four;
            else
#pragma unroll
                for (int e = 0; e < 4; ++e)
                    if (column + e < head_dim) O(query, column + e) = four.element[e];
        }
    }
}

}  // namespace ladder::SIMT_MACHINE
