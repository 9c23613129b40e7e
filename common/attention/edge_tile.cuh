#pragma once

#include "common/attention/row_tile.cuh"
#include "common/simt/simt.h"

namespace ladder::SIMT_MACHINE {

// What kernels need whose loop over the keys runs in stages (key_tiles.cuh).

/// How a query tile meets a key tile that it has to visit.
enum class Stage {
    full,  ///< every query sees every key: nothing to test
    edge,  ///< the edge of sight, diagonal or end of the keys, runs through the tile: every score is tested
};

/// What `accumulate` does in a full tile, for an edge tile: O(row i) += P(row i, j) V(j, :) over the keys j that row i
/// sees, the first visible[i] of the tile. The others have probability 0, but that does not make them harmless:
/// 0 * NaN is NaN, and a key that a query does not see must not reach it whatever it holds. They are left out of the
/// sum, and those that no row of the thread sees are not even read.
template <class Owner, class T, int B_r, int B_c, int D, int PitchP, int PitchV>
__device__ __forceinline__ void accumulate_visible(float (&O)[Owner::rows][D / Owner::lanes_per_row],
                                                   const Owner& owner, const int (&visible)[Owner::rows],
                                                   const simt::SharedTile<float, B_r, B_c, PitchP>& P,
                                                   const simt::SharedTile<T, B_c, D, PitchV>& V) {
    constexpr int lanes = Owner::lanes_per_row, width = kRowVector<T, D, lanes>;
    using Vector = simt::Vector<T, width>;
    const int seen = visible[Owner::rows - 1], most = seen < B_c ? seen : B_c;
    for (int j = 0; j < most; ++j) {
        float p[Owner::rows];
#pragma unroll
        for (int i = 0; i < Owner::rows; ++i) p[i] = float(P(owner.row(i), j));
#pragma unroll
        for (int n = 0; n < D / lanes / width; ++n) {
            const Vector v = V.template vec<Vector>(j, output_column<T, D, lanes>(owner.lane, n));
#pragma unroll
            for (int i = 0; i < Owner::rows; ++i) {
                if (j >= visible[i]) continue;
#pragma unroll
                for (int e = 0; e < width; ++e) O[i][n * width + e] += p[i] * float(v.element[e]);
            }
        }
    }
}

}  // namespace ladder::SIMT_MACHINE
