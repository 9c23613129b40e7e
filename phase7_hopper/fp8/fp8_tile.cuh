#pragma once

#include "common/attention/warpgroup_tile.cuh"
#include "phase7_hopper/fp8/block_scales.cuh"

namespace ladder::SIMT_MACHINE {

// The softmax of 8-bit attention. Differences to warpgroup_tile.cuh:
//
// - A tile's scores have a scale of their own, 2^(e_Q + e_K), and its values one, 2^(e_V). The latter goes into the
//   weights: P'_ij = P_ij 2^(e_V), so that the products P'_ij V_j of all tiles add up.
// - A weight must fit e4m3, which reaches to 448; e5m2 reaches further. Weights begin at 2^6, not at 1: that leaves 15
//   powers of 2 below before they vanish, in place of 9.
//
//     x_ij         S_ij scale 2^(e_Q + e_K) log2(e) + e_V, the weight's exponent
//     m_i          the largest x_ij so far, or up to kHeadroom less
//     P'_ij        2^(x_ij - m_i + 6)
//     l_i          sum of P'_ij 2^(-e_V)
//     O_i          sum of P'_ij V_j, so that O_i / l_i is the result, and ln 2 (m_i - 6 + log2 l_i) its LSE

/// The weight of a score at m_i is 2^this. Those of larger scores are larger: m_i is raised only for scores that are
/// 2^kHeadroom above it, so that O_i is rarely multiplied. Both together reach 430, and e4m3 448.
inline constexpr float kLargestWeightExponent = 6.0f, kHeadroom = 2.75f;

/// The largest scores of the thread's two rows, found as integers: those of floats order like the floats themselves as
/// long as one is not negative, and of integers Hopper compares three at a time. If all scores of a row are negative,
/// so is what is found, and it is not the largest.
template <int N>
__device__ __forceinline__ void find_largest_as_integers(const simt::Accumulator<N>& S_ij, int (&largest)[2]) {
    static_assert(N % 16 == 0);
    int either[2][2];  // two for each row: the chain of comparisons is half as long
#pragma unroll
    for (int i = 0; i < N / 2; i += 8) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
            int& so_far = either[e / 2][e % 2];
            const int a = __float_as_int(S_ij[i + e]), b = __float_as_int(S_ij[i + 4 + e]);
            so_far = i == 0 ? max(a, b) : __vimax3_s32(so_far, a, b);
        }
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        largest[half] = max(either[half][0], either[half][1]);
#pragma unroll
        for (int lane = 1; lane < 4; lane *= 2)
            largest[half] = max(largest[half], __shfl_xor_sync(0xffffffffu, largest[half], lane));
    }
}

/// The largest scores, of whatever sign.
template <int N>
__device__ __forceinline__ void find_largest(const simt::Accumulator<N>& S_ij, float (&largest)[2]) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        float so_far = S_ij[2 * half];
#pragma unroll
        for (int i = 0; i < N / 2; i += 4) so_far = fmaxf(so_far, fmaxf(S_ij[i + 2 * half], S_ij[i + 2 * half + 1]));
        largest[half] = max_over<4>(so_far);
    }
}

/// raise_maxima() for a tile with scales, O_i included: `exponent` and `shift` make of a score the exponent of its
/// weight. After the first tiles there is rarely anything to do, and one vote of the warp finds that out.
template <int N, int D>
__device__ __forceinline__ void raise_maxima(const simt::Accumulator<N>& S_ij, simt::Accumulator<D>& O_i,
                                             RunningRows& rows, float exponent, float shift) {
    int found[2];
    find_largest_as_integers(S_ij, found);
    float largest[2] = {__int_as_float(found[0]), __int_as_float(found[1])};
    bool stays = true;
#pragma unroll
    for (int half = 0; half < 2; ++half)
        stays = stays && found[half] >= 0 && fmaf(largest[half], exponent, shift) <= rows.m[half] + kHeadroom;
    if (__all_sync(0xffffffffu, stays)) return;

    if (__any_sync(0xffffffffu, min(found[0], found[1]) < 0)) find_largest(S_ij, largest);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const float risen = fmaf(largest[half], exponent, shift);
        const float m_new = risen > rows.m[half] + kHeadroom ? risen : rows.m[half];
        rows.rescale[half] = simt::fast_exp2(merge_exponent(rows.m[half], m_new));
        rows.m[half] = m_new;
        rows.l[half] *= rows.rescale[half];
    }
#pragma unroll
    for (int i = 0; i < D / 2; ++i) O_i[i] *= rows.rescale[i / 2 % 2];
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

/// V_j [keys, D] becomes V_j^T [D, keys], which 8-bit products want; each warp of a warpgroup does so for 32 keys.
///
/// ldmatrix_trans reads 16-bit elements, here two neighbouring columns of V_j at once; a byte permutation parts them.
/// What comes out of it by itself is another order of rows and columns, the same in each 16 of them:
///
///     row    r of V_j^T is column 2 r of V_j for r < 8, and 2 (r - 8) + 1 from there on
///     column c           row    8 (c % 4 / 2) + 2 (c / 4) + c % 2: as the lanes have P_ij
template <class Values, class Transposed>
__device__ __forceinline__ void transpose_values(const Values& V_j, const Transposed& V_t, int warp) {
    using Wide = simt::WideVector<typename Values::Element>;
    constexpr int pieces = Values::columns() / 16, at_once = 2;
    static_assert(Values::rows() == 128);
    const int lane = int(threadIdx.x) % 32, first_key = 32 * warp;
    const auto row = V_j.template row<Wide>(first_key + lane);
#pragma unroll 1
    for (int first = 0; first < pieces; first += at_once) {
        std::uint32_t pairs[at_once][4];
#pragma unroll
        for (int i = 0; i < at_once; ++i) simt::ldmatrix_trans(pairs[i], row.piece(first + i));
#pragma unroll
        for (int i = 0; i < at_once; ++i) {
            const auto& p = pairs[i];
            const auto rows = V_t.template rows_from<16>(16 * (first + i));
            simt::stmatrix(rows.template vec<Wide>(lane / 16 * 8 + lane % 8, first_key + lane / 8 % 2 * 16),
                           __byte_perm(p[0], p[1], 0x6420), __byte_perm(p[2], p[3], 0x6420),
                           __byte_perm(p[0], p[1], 0x7531), __byte_perm(p[2], p[3], 0x7531));
        }
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
