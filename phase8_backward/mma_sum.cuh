#pragma once

#include <cstdint>

#include "common/attention/mma_store.cuh"
#include "common/attention/non_finite.cuh"
#include "common/simt/simt.h"

namespace ladder::SIMT_MACHINE {

/// What multiply_values does, sum += W X, for a tile X [K, …] that holds infinities or NaN, where not every row of W
/// sees every row of X: `sees(m, h, k)` says whether row (m, h) of the lane's fragments sees row k. What it does not
/// see has a weight of 0, but 0 * NaN is NaN. So what is finite is multiplied as ever, to the bit, and the rest row by
/// row: only who sees a row takes its product. Slow, and for almost nobody.
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

/// The warp's rows of a sum, times `factor`, through its rows of `tile` to `matrix`, where its row r of the block's
/// tile is row `first` + r.
template <int D, int M, class T, class Tile>
__device__ __forceinline__ void store_sum(const simt::GlobalTensor<T, 2>& matrix, int first, const Tile& tile,
                                          const simt::FragmentC (&sum)[M][D / 8], float factor,
                                          const MmaOwner<M>& owner, bool vectorized) {
#pragma unroll
    for (int m = 0; m < M; ++m)
#pragma unroll
        for (int c = 0; c < D / 8; ++c)
#pragma unroll
            for (int h = 0; h < 2; ++h) {
                simt::Vector<T, 2> pair;
#pragma unroll
                for (int e = 0; e < 2; ++e) pair.element[e] = T(sum[m][c].element[2 * h + e] * factor);
                tile.template vec<simt::Vector<T, 2>>(owner.row(m, h), 8 * c + owner.column()) = pair;
            }
    __syncwarp();  // the warp's rows are complete before its lanes read them in another order
    copy_rows_out<D>(matrix, tile, owner, first, vectorized);
}

}  // namespace ladder::SIMT_MACHINE
