#pragma once

#include "common/attention/warpgroup_tile.cuh"
#include "common/simt/simt.h"

namespace ladder::SIMT_MACHINE {

/// The way out of a warpgroup's rows, of which row h of the thread sees visible[h] keys. LSE by ordinary stores; O_i
/// divided by the sums, through the warp's 16 rows of `staging`, which nobody else uses, by the tensor memory
/// accelerator: the warp's elected lane asks, and must wait before the rows are used again and before it leaves.
template <class T, int D, class Tile>
__device__ __forceinline__ void store_rows(simt::Accumulator<D>& O_i, RunningRows& rows, const WarpgroupOwner& owner,
                                           const Tile& staging, const simt::TensorMap<T, 4>& O_map,
                                           const simt::GlobalTensor<float, 3>& LSE, int b, int h, int query_length,
                                           const int (&visible)[2]) {
    using Wide = simt::WideVector<T>;
    float factor[2];  // one division a row
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const int query = owner.query(half);
        const float l = sum_over<4>(rows.l[half]);
        // A row that sees no key is 0; where it sees keys and every score is -inf, this becomes 0 * (1 / 0): NaN, as
        // softmax has it.
        factor[half] = visible[half] > 0 ? 1.0f / l : 0.0f;
        // From powers of 2 back to powers of e.
        if (query < query_length && owner.lane_of_row() == 0) LSE(b, h, query) = kLn2 * (rows.m[half] + log2f(l));
    }
    const int lane = int(threadIdx.x) % 32, first = owner.first_row_of_warp();
    if (simt::elect_one()) simt::wait_stores_read<0>();
    __syncwarp();  // what was sent from these rows before has left them
#pragma unroll
    for (int k = 0; k < D / 16; ++k) {
        std::uint32_t bits[4];
#pragma unroll
        for (int r = 0; r < 4; ++r)
            bits[r] = simt::pack<T>(O_i[8 * k + 2 * r] * factor[r % 2], O_i[8 * k + 2 * r + 1] * factor[r % 2]);
        simt::stmatrix(staging.template vec<Wide>(first + lane % 16, 16 * k + lane / 16 * 8), bits[0], bits[1], bits[2],
                       bits[3]);
    }
    simt::show_to_async();
    __syncwarp();  // the warp's rows are complete, and shown to the accelerator, before one lane has them sent
    if (owner.first_query + first < query_length && simt::elect_one()) {
        simt::tma_store(O_map, {b, h, owner.first_query + first, 0}, staging.template rows_from<16>(first));
        simt::commit_stores();
    }
}

}  // namespace ladder::SIMT_MACHINE
