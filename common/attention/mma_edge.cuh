#pragma once

#include <cstdint>
#include <cstring>

#include "common/attention/mma_tile.cuh"
#include "common/attention/non_finite.cuh"
#include "common/simt/simt.h"

namespace ladder::SIMT_MACHINE {

// What a tile of keys needs where not every row sees every key.

/// Scores of keys that a row does not see become -inf: row (m, h) sees the first visible[m][h] keys of the tile.
template <int M, int N>
__device__ __forceinline__ void hide_keys(simt::FragmentC (&S_ij)[M][N], const MmaOwner<M>& owner,
                                          const int (&visible)[M][2]) {
#pragma unroll
    for (int m = 0; m < M; ++m)
#pragma unroll
        for (int n = 0; n < N; ++n)
#pragma unroll
            for (int e = 0; e < 4; ++e)
                if (8 * n + owner.column() + e % 2 >= visible[m][e / 2]) S_ij[m][n].element[e] = -INFINITY;
}

/// Whether `tile`, which is complete, holds an infinity or NaN in its first Rows rows and Columns columns. All threads
/// of the block together; all get the same answer. A thread reads pieces at constant distances.
template <int Threads, int Rows, int Columns, class Tile>
__device__ __forceinline__ bool holds_non_finite(const Tile& tile) {
    using T = typename Tile::Element;
    using Words = simt::Vector<std::uint32_t, 4>;
    constexpr int width = simt::kVectorWidth<T>, pieces = Columns / width;
    constexpr int neighbours = pieces & -pieces;  // that read side by side: the largest power of 2 that divides a row
    static_assert(Rows % (Threads / neighbours) == 0);
    const int r = threadIdx.x / neighbours, c = threadIdx.x % neighbours * width;
    std::uint32_t carries = 0;
#pragma unroll
    for (int i = 0; i < Rows; i += Threads / neighbours)
#pragma unroll
        for (int n = 0; n < Columns; n += neighbours * width) {
            const simt::WideVector<T> piece = tile.template vec<simt::WideVector<T>>(r + i, c + n);
            Words words;
            std::memcpy(&words, &piece, sizeof words);
#pragma unroll
            for (int e = 0; e < 4; ++e) carries |= carries_of_not_finite<T>(words.element[e]);
        }
    return __syncthreads_or((carries & kCarries) != 0) != 0;
}

/// What multiply_values does, sum += W X, for a tile X of K rows that holds infinities or NaN, where not every row of W
/// sees every row of X: sees(m, h, k) says whether row (m, h) of the lane's fragments sees row k. What it does not see
/// has a weight of 0, but 0 * NaN is NaN, and it must not reach the row whatever it holds. So what is finite is
/// multiplied as ever, to the bit, and the rest row by row: only who sees a row takes its product. Slow, and for almost
/// nobody.
template <class T, int K, int M, int Columns, class Weight, class Tile, class Sees>
__device__ __forceinline__ void multiply_seen(simt::FragmentC (&sum)[M][Columns], const Weight& weight, const Tile& X,
                                              const Sees& sees) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int k = 0; k < K / 16; ++k) {
        simt::FragmentA<T> w[M];
#pragma unroll
        for (int m = 0; m < M; ++m) w[m] = weight(m, k);
#pragma unroll
        for (int c = 0; c < Columns; c += 2) {
            simt::FragmentB<T> b[2], rest[2];
            simt::ldmatrix_trans(b, X.block(16 * k, 8 * c));
#pragma unroll
            for (int side = 0; side < 2; ++side) {
#pragma unroll
                for (int r = 0; r < 2; ++r) {
                    const std::uint32_t bits = b[side].registers[r];
                    rest[side].registers[r] = bits & not_finite<T>(bits);
                    b[side].registers[r] = bits & ~not_finite<T>(bits);
                }
#pragma unroll
                for (int m = 0; m < M; ++m) simt::mma_m16n8k16(sum[m][c + side], w[m], b[side]);
            }
#pragma unroll 1
            for (int row = 0; row < 16; ++row) {
                // Registers hold rows 2 (lane % 4) and the next, and those 8 on: the lower half is the lower row.
                const std::uint32_t half = row / 2 % 4 == lane % 4 ? 0xffffu << row % 2 * 16 : 0;
                const std::uint32_t low = row < 8 ? half : 0, high = row < 8 ? 0 : half;
#pragma unroll
                for (int side = 0; side < 2; ++side) {
                    const simt::FragmentB<T> of_row = {{rest[side].registers[0] & low, rest[side].registers[1] & high}};
#pragma unroll
                    for (int m = 0; m < M; ++m) {
                        simt::FragmentC product = sum[m][c + side];
                        simt::mma_m16n8k16(product, w[m], of_row);
#pragma unroll
                        for (int e = 0; e < 4; ++e)
                            if (sees(m, e / 2, 16 * k + row)) sum[m][c + side].element[e] = product.element[e];
                    }
                }
            }
        }
    }
}

/// The same for values, of which row (m, h) sees the first visible[m][h].
template <class T, int B_c, int M, int Columns, class Weight, class Tile>
__device__ __forceinline__ void multiply_visible_values(simt::FragmentC (&O_i)[M][Columns], const Weight& weight,
                                                        const Tile& V_j, const int (&visible)[M][2]) {
    multiply_seen<T, B_c>(O_i, weight, V_j, [&](int m, int h, int key) { return key < visible[m][h]; });
}

}  // namespace ladder::SIMT_MACHINE
