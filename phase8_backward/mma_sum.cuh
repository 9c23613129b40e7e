#pragma once

#include "common/attention/mma_store.cuh"
#include "common/simt/simt.h"

namespace ladder::SIMT_MACHINE {

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
