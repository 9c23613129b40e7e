#pragma once

#include "common/attention/forward_tensors.cuh"
#include "common/attention/mma_tile.cuh"
#include "common/simt/simt.h"

namespace ladder::SIMT_MACHINE {

/// The warp's rows of `tile` to O, where its row r of the block's tile is row `first_query` + r. A lane stays in its
/// columns, as in copy_rows_async().
template <int D, int M, class T, class Tile>
__device__ __forceinline__ void copy_rows_out(const simt::GlobalTensor<T, 2>& O, const Tile& tile,
                                              const MmaOwner<M>& owner, int first_query, bool vectorized) {
    using Wide = simt::WideVector<T>;
    constexpr int rows = MmaOwner<M>::rows, width = simt::kVectorWidth<T>, pieces = D / width;
    constexpr int neighbours = pieces & -pieces;  // that copy side by side: the largest power of 2 that divides a row
    constexpr int rows_at_once = 32 / neighbours;
    const int lane = threadIdx.x % 32, first = owner.first_row + lane / neighbours, c = lane % neighbours * width;
    const int query_length = int(O.extent(0)), head_dim = int(O.extent(1));
    // Whole pieces have loops of their own: nvcc joins the two stores of a branch inside a loop into one, of elements.
    if (vectorized && first_query + owner.first_row + rows <= query_length && D <= head_dim) {
        const std::int64_t query = std::int64_t(first_query) + first;
#pragma unroll
        for (int i = 0; i < rows; i += rows_at_once)
#pragma unroll
            for (int n = 0; n < D; n += neighbours * width)
                O.template vec<Wide>(query + i, c + n) = tile.template vec<Wide>(first + i, c + n);
    } else if (vectorized) {
#pragma unroll 1
        for (int i = first; i < owner.first_row + rows && first_query + i < query_length; i += rows_at_once)
#pragma unroll 1
            for (int n = c; n < D && n < head_dim; n += neighbours * width)
                O.template vec<Wide>(first_query + i, n) = tile.template vec<Wide>(i, n);
    } else {
#pragma unroll 1
        for (int i = first; i < owner.first_row + rows && first_query + i < query_length; i += rows_at_once)
#pragma unroll 1
            for (int n = c; n < D; n += neighbours * width) {
                const Wide piece = tile.template vec<Wide>(i, n);
#pragma unroll
                for (int e = 0; e < width; ++e)
                    if (n + e < head_dim) O(first_query + i, n + e) = piece.element[e];
            }
    }
}

/// O and LSE of the warp's rows, of which row r of the block's tile is query `first_query` + r. O_i goes through the
/// warp's rows of `tile`, which nobody needs any more, so that it leaves 16 bytes at a time.
template <class T, int D, int M, class Tile, class SeenBy>
__device__ __forceinline__ void store_rows(const ForwardTensors<T>& t, int b, int h, int first_query, const Tile& tile,
                                           const simt::FragmentC (&O_i)[M][D / 8], const float (&m_i)[M][2],
                                           const float (&l_i)[M][2], const MmaOwner<M>& owner, const SeenBy& seen_by) {
    const auto O = t.O.slice(b, h);
    const auto LSE = t.LSE.slice(b, h);
#pragma unroll
    for (int m = 0; m < M; ++m) {
        float factor[2];  // one division a row
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int row = owner.row(m, half);
            const float l = sum_over<4>(l_i[m][half]);
            // A row that sees no key is 0; where it sees keys and every score is -inf, this becomes 0 * (1 / 0): NaN,
            // as softmax has it.
            factor[half] = seen_by(row) > 0 ? 1.0f / l : 0.0f;
            // From powers of 2 back to powers of e.
            if (first_query + row < int(O.extent(0)) && owner.lane_of_row() == 0)
                LSE(first_query + row) = kLn2 * (m_i[m][half] + log2f(l));
        }
#pragma unroll
        for (int c = 0; c < D / 8; ++c)
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                simt::Vector<T, 2> pair;
#pragma unroll
                for (int e = 0; e < 2; ++e) pair.element[e] = T(O_i[m][c].element[2 * half + e] * factor[half]);
                tile.template vec<simt::Vector<T, 2>>(owner.row(m, half), 8 * c + owner.column()) = pair;
            }
    }
    __syncwarp();  // the warp's rows are complete before its lanes read them in another order
    copy_rows_out<D>(O, tile, owner, first_query, t.vector_rows);
}

}  // namespace ladder::SIMT_MACHINE
