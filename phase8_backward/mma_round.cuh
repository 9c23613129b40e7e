#pragma once

#include "phase8_backward/backward_tensors.cuh"
#include "phase8_backward/mma_dq_sum.cuh"

namespace ladder::SIMT_MACHINE {

/// dQ = scale dQ_sum, rounded to 16 bits, once all blocks of mma_dkdv.cuh have added to it.
///
///   grid   x = query tiles, y = Hq heads, z = B sequences     block  the warps that have a share of dQ_i there
template <class T, class Shape>
__global__ void __launch_bounds__(Shape::threads / 2) mma_round_kernel(BackwardTensors<T> t) {
    const int first_query = blockIdx.x * Shape::B_r;
    const DqShare<Shape> share(threadIdx.x / 32);
    const auto dQ = t.dQ.slice(blockIdx.z, blockIdx.y);
    const auto dQ_sum = t.dQ_sum.slice(blockIdx.z, blockIdx.y);
    for (int m = 0; m < Shape::dq_m; ++m)
        for (int h = 0; h < 2; ++h) {
            const int query = first_query + share.row(m, h);
            if (query >= int(dQ.extent(0))) continue;
            for (int c = 0; c < Shape::dq_columns / 8; ++c)
                for (int e = 0; e < 2; ++e) {
                    const int column = share.column(c) + e;
                    if (column < int(dQ.extent(1)))
                        dQ(query, column) = T(t.scale * dQ_sum(blockIdx.x, share.place(m, c, 2 * h + e)));
                }
        }
}

/// The sums of dQ's elements, in 32 bits, and dQ once.
GlobalBytes mma_round_bytes(const BackwardArguments& a) {
    const std::uint64_t elements = a.batch() * a.query_heads() * a.query_length() * a.head_dim();
    return {.read = elements * sizeof(float), .written = elements * element_bytes(a.q.type)};
}

/// Launches the kernel that comes after mma_dkdv_kernel where blocks have added to dq_sum.
void launch_mma_round(const BackwardArguments& a) {
    with_element_type_of(MmaElements(), a.q.type, [&]<class T>(std::type_identity<T>) {
        with_mma_dkdv_shape(a, [&]<class Shape>(Shape) {
            cudaLaunchConfig_t config{};
            config.gridDim = dim3(ceil_div(a.query_length(), Shape::B_r), a.query_heads(), a.batch());
            config.blockDim = dim3(Shape::threads / 2);
            config.stream = static_cast<cudaStream_t>(a.stream);
            simt::launch("mma_round_kernel", config, mma_round_kernel<T, Shape>, backward_tensors<T>(a));
        });
    });
}

}  // namespace ladder::SIMT_MACHINE
