#pragma once

#include <cstdint>
#include <cstring>

#include "common/attention/non_finite.cuh"
#include "common/attention/warpgroup_tile.cuh"
#include "common/simt/simt.h"

namespace ladder::SIMT_MACHINE {

// Values that are not finite, where not every row sees every key. A key that a row does not see has a weight of 0, but
// 0 * NaN is NaN, and 0 * inf too: it must not reach the row whatever it holds. So zeros take the place of infinities
// and NaN in such a tile of V before the tensor cores read it, and rows that do see them get them by hand. What is
// finite is multiplied as ever, to the bit. Slow where there are any, and for almost nobody.

/// Zeros in the place of what is not finite in `V_j`, which is complete, for products to read. `Threads` threads share
/// the work, of which this is number `thread`. Returns whether this one found any. A barrier follows.
template <int Threads, class Tile>
__device__ __forceinline__ bool clear_non_finite(const Tile& V_j, int thread) {
    using T = typename Tile::Element;
    using Wide = simt::WideVector<T>;
    using Words = simt::Vector<std::uint32_t, 4>;
    constexpr int width = simt::kVectorWidth<T>, pieces = Tile::columns() / width;
    bool found = false;
#pragma unroll 1
    for (int i = thread; i < Tile::rows() * pieces; i += Threads) {
        Wide piece = V_j.template vec<Wide>(i / pieces, i % pieces * width);
        Words words;
        std::memcpy(&words, &piece, sizeof words);
        std::uint32_t carries = 0;
#pragma unroll
        for (int e = 0; e < 4; ++e) carries |= carries_of_not_finite<T>(words.element[e]);
        if ((carries & kCarries) == 0) continue;
        found = true;
#pragma unroll
        for (int e = 0; e < 4; ++e) words.element[e] &= ~not_finite<T>(words.element[e]);
        std::memcpy(&piece, &words, sizeof piece);
        V_j.template vec<Wide>(i / pieces, i % pieces * width) = piece;
    }
    if (found) simt::show_to_async();
    return found;
}

/// O_i += v for what is not finite in rows [first_key, …) of V, the head's, each for the rows of O_i that see its key:
/// row h sees the first visible[h] of all. No weight is needed: whatever its weight above 0, infinity is infinity. Rows
/// of V are whole pieces of 16 bytes.
template <class T, int D>
__device__ __forceinline__ void add_non_finite(simt::Accumulator<D>& O_i, const simt::GlobalTensor<const T, 2>& V,
                                               int first_key, const WarpgroupOwner& owner, const int (&visible)[2]) {
    using Pair = simt::Vector<T, 2>;
    const int columns = int(V.extent(1));
#pragma unroll 1
    for (int key = first_key; key < visible[1]; ++key) {
#pragma unroll
        for (int c = 0; c < D / 8; ++c) {
            if (8 * c + owner.column() >= columns) continue;
            const Pair pair = V.template vec<Pair>(key, 8 * c + owner.column());
#pragma unroll
            for (int e = 0; e < 2; ++e) {
                const float v = float(pair.element[e]);
                if (fabsf(v) < INFINITY) continue;
                O_i[4 * c + 2 + e] += v;
                if (key < visible[0]) O_i[4 * c + e] += v;
            }
        }
    }
}

/// Whether all that the warp's lanes hold of O_i is finite: neither infinity nor NaN leaves a sum that it has come
/// into.
template <int D>
__device__ __forceinline__ bool finite_in_warp(const simt::Accumulator<D>& O_i) {
    float sum[2] = {0.0f, 0.0f};
#pragma unroll
    for (int i = 0; i < D / 2; ++i) sum[i % 2] = fmaf(O_i[i], 0.0f, sum[i % 2]);  // 0, or NaN
    return __all_sync(0xffffffffu, sum[0] == sum[1]) != 0;
}

}  // namespace ladder::SIMT_MACHINE
