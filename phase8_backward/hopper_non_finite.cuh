#pragma once

#include "common/attention/warpgroup_edge.cuh"
#include "common/simt/simt.h"
#include "phase8_backward/hopper_queries.cuh"
#include "phase8_backward/hopper_scores.cuh"

namespace ladder::SIMT_MACHINE {

// Infinities and NaN, where not every query sees every key. P_ij and dS_ij of a hidden pair are 0, but 0 * NaN is NaN,
// and 0 * inf too. Three products sum over pairs: dV_j over rows of dO_i, dK_j over those of Q_i, dQ_i over those of
// K_j. So at the edge of the mask, once the scores are there, zeros take the place of infinities and NaN in these
// tiles, and those who see them get by hand, from global memory, what the products leave out. The next scores want K_j
// as it was. What is finite is multiplied as ever, to the bit. Slow where there are any, and for almost nobody.

/// The consumers' thread.
__device__ __forceinline__ int consumer_thread() { return int(threadIdx.x) - simt::kWarpgroup; }

/// Whether this thread, number `thread` of `Threads` that share the work, finds an infinity or NaN in `tile`.
template <int Threads, class Tile>
__device__ __forceinline__ bool finds_non_finite(const Tile& tile, int thread) {
    using T = typename Tile::Element;
    using Words = simt::Vector<std::uint32_t, 4>;
    constexpr int width = simt::kVectorWidth<T>, pieces = Tile::columns() / width;
    std::uint32_t carries = 0;
#pragma unroll 4
    for (int i = thread; i < Tile::rows() * pieces; i += Threads) {
        const simt::WideVector<T> piece = tile.template vec<simt::WideVector<T>>(i / pieces, i % pieces * width);
        Words words;
        std::memcpy(&words, &piece, sizeof words);
#pragma unroll
        for (int e = 0; e < 4; ++e) carries |= carries_of_not_finite<T>(words.element[e]);
    }
    return (carries & kCarries) != 0;
}

/// Whether one of the first `Warps` consumer warps has said, in its place of row `row`, that it found any.
template <int Warps, class Places>
__device__ __forceinline__ bool any_found(const Places& found, int row) {
    bool any = false;
#pragma unroll
    for (int warp = 0; warp < Warps; ++warp) any |= found(row, warp) != 0;
    return any;
}

/// Whether any of `tiles`, which are complete, holds an infinity or NaN. The first `Warps` consumer warps share the
/// work, say so in row `row`, and meet at barrier `id`.
template <int Warps, class Places, class... Tiles>
__device__ __forceinline__ bool hold_non_finite(const Places& found, int row, int id, const Tiles&... tiles) {
    const bool in_warp = __any_sync(0xffffffffu, (finds_non_finite<32 * Warps>(tiles, consumer_thread()) || ...)) != 0;
    if (simt::elect_one()) found(row, consumer_thread() / 32) = in_warp;
    simt::sync_threads(id, 32 * Warps);  // all have looked, and said what they saw
    return any_found<Warps>(found, row);
}

/// K_j as it was given, after it was cleared. `Threads` threads share the work, of which this is number `thread`. A
/// barrier follows.
template <int Threads, class T, class Tile>
__device__ __forceinline__ void restore_keys(const Tile& K_j, const simt::GlobalTensor<const T, 2>& K, int first_key,
                                             int thread) {
    using Wide = simt::WideVector<T>;
    constexpr int width = simt::kVectorWidth<T>, pieces = Tile::columns() / width;
#pragma unroll 1
    for (int i = thread; i < Tile::rows() * pieces; i += Threads) {
        const int row = i / pieces, column = i % pieces * width;
        if (first_key + row >= int(K.extent(0)) || column >= int(K.extent(1))) continue;  // zeros, as ever
        const Wide piece = K.template vec<Wide>(first_key + row, column);
        K_j.template vec<Wide>(row, column) = piece;
    }
    simt::show_to_async();
}

/// sums += weight x for what is not finite in rows [first, first + rows) of X and from `first_column` on, each for
/// those rows h of the thread that see it: sees(h, row).
template <class T, int N, class Sees>
__device__ __forceinline__ void add_left_out(simt::Accumulator<N>& sums, const simt::GlobalTensor<const T, 2>& X,
                                             int first, int rows, int first_column, float weight, const Sees& sees) {
    using Pair = simt::Vector<T, 2>;
    // Said to be known here alone: or nvcc works out N / 8 columns in advance, and spills what every step needs.
    const int own_column = simt::same_in_warp(first_column) + int(threadIdx.x) % 4 * 2;
#pragma unroll 1
    for (int row = first; row < min(first + rows, int(X.extent(0))); ++row) {
#pragma unroll
        for (int c = 0; c < N / 8; ++c) {
            const int column = own_column + 8 * c;
            if (column >= int(X.extent(1))) continue;
            const Pair pair = X.template vec<Pair>(row, column);
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const float x = float(pair.element[i % 2]);
                if (!(fabsf(x) < INFINITY) && sees(i / 2, row)) sums[4 * c + i] += weight * x;
            }
        }
    }
}

/// dV_j += P_ij dO_i for what is not finite in dO_i. No weight is needed: whatever it is above 0, infinity is infinity.
/// (dK_j needs nothing of the kind: where an element of Q_i is not finite, neither is LSE_i or O_i, and dS_ij is NaN.)
template <class T, int N>
__device__ __forceinline__ void add_left_out_values(simt::Accumulator<N>& dV_j,
                                                    const simt::GlobalTensor<const T, 2>& dO, int first_query, int B_r,
                                                    const FirstQueries& first) {
    add_left_out(dV_j, dO, first_query, B_r, 0, 1.0f, [&](int h, int query) { return query >= first.of[h]; });
}

/// dQ_i += dS_ij K_j for what is not finite in the B_c rows of K_j. No score with it is finite, so that dS_ij is 0 or
/// NaN, and the product NaN. The sums are those of rows from query `first_query` on, of columns from `first_column` on.
template <class T, int N>
__device__ __forceinline__ void add_left_out_queries(simt::Accumulator<N>& dQ_i,
                                                     const simt::GlobalTensor<const T, 2>& K, const BackwardProblem& p,
                                                     int first_key, int B_c, int first_query, int first_column) {
    int visible[2];
#pragma unroll
    for (int h = 0; h < 2; ++h)
        visible[h] = visible_keys(p.mask, first_query + simt::AccumulatorLayout::row(int(threadIdx.x), 2 * h),
                                  p.query_length, p.key_length);
    add_left_out(dQ_i, K, first_key, B_c, first_column, 0.0f, [&](int h, int key) { return key < visible[h]; });
}

}  // namespace ladder::SIMT_MACHINE
