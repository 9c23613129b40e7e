#pragma once

#include "common/attention/row_tile.cuh"
#include "common/simt/simt.h"

namespace ladder::SIMT_MACHINE {

/// dV_j or dK_j += P^T(row i, :) X, of the queries of a tile that see each key: those from from[i] on, before `until`.
/// The others have no part in it: not even as 0 * NaN, which is NaN.
template <class Owner, int Columns, class PTile, class XTile>
__device__ __forceinline__ void accumulate_seeing(float (&sum)[Owner::rows][Columns], const Owner& owner,
                                                  const int (&from)[Owner::rows], int until, const PTile& P,
                                                  const XTile& X) {
    using T = typename XTile::Element;
    constexpr int lanes = Owner::lanes_per_row, D = lanes * Columns, width = kRowVector<T, D, lanes>;
    using Vector = simt::Vector<T, width>;
    for (int q = max(from[0], 0); q < min(until, PTile::columns()); ++q) {
        float p[Owner::rows];
#pragma unroll
        for (int i = 0; i < Owner::rows; ++i) p[i] = P(owner.row(i), q);
#pragma unroll
        for (int n = 0; n < Columns / width; ++n) {
            const Vector x = X.template vec<Vector>(q, output_column<T, D, lanes>(owner.lane, n));
#pragma unroll
            for (int i = 0; i < Owner::rows; ++i) {
                if (q < from[i]) continue;
#pragma unroll
                for (int e = 0; e < width; ++e) sum[i][n * width + e] += p[i] * float(x.element[e]);
            }
        }
    }
}

}  // namespace ladder::SIMT_MACHINE
