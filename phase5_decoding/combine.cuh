#pragma once

#include "common/attention/dispatch.cuh"
#include "common/attention/global_bytes.h"
#include "common/attention/warp_reduce.cuh"
#include "common/attention/watch.cuh"
#include "phase5_decoding/decode_arguments.h"
#include "phase5_decoding/merge.cuh"

namespace ladder::SIMT_MACHINE {

// clang-format off
/// The second kernel of flash decoding (Dao, Haziza, Massa, Sizov 2023): partial results become one.
///
/// Part p of row n is attention over some of the keys only: O_p, already divided by its own sum, and LSE_p, the
/// logarithm of that sum. With LSE = log sum_p exp(LSE_p), the whole is
///
///   O = sum_p exp(LSE_p - LSE) O_p
///
/// a weighted mean: the parts with large sums count most. Nothing here knows of keys, heads or masks.
///
///   grid    x = ceil(N / 4)
///   block   128 threads = 4 warps, each owns one row: lane k fetches LSE_p for p = k, k + 32, … and owns
///           columns k, k + 32, …
///   shared  none: a weight travels from its lane to the others by shuffle
///   global  reads O_p once and LSE_p twice (for the maximum, then for the weights); writes O and LSE once
// clang-format on

inline constexpr int kCombineThreads = 128;                ///< of a block
inline constexpr int kCombineRows = kCombineThreads / 32;  ///< of a block: a warp for each

/// What the kernel is given: P parts of each of N rows.
template <class T>
struct CombineTensors {
    simt::GlobalTensor<const float, 3> O_p;    ///< [P, N, D]
    simt::GlobalTensor<const float, 2> LSE_p;  ///< [P, N]
    simt::GlobalTensor<T, 2> O;                ///< [N, D]
    simt::GlobalTensor<float, 1> LSE;          ///< [N]
};

template <class T, int D>
__global__ void __launch_bounds__(kCombineThreads) decode_combine_kernel(CombineTensors<T> t) {
    const int lane = threadIdx.x % 32;
    const std::int64_t n = std::int64_t(blockIdx.x) * kCombineRows + threadIdx.x / 32;
    const int parts = int(t.O_p.extent(0)), head_dim = int(t.O.extent(1));
    if (n >= t.O.extent(0)) return;  // a whole warp leaves, and no barrier waits for it

    float largest = -INFINITY;
    for (int p = lane; p < parts; p += 32) largest = fmaxf(largest, t.LSE_p(p, n));
    largest = warp_max(largest);
    watch_maximum(n, largest);

    float sum = 0.0f, O_n[D / 32];
#pragma unroll
    for (int c = 0; c < D / 32; ++c) O_n[c] = 0.0f;

    for (int first = 0; first < parts; first += 32) {
        float lse_mine = -INFINITY;
        if (first + lane < parts) lse_mine = t.LSE_p(first + lane, n);
        const int here = parts - first < 32 ? parts - first : 32;
#pragma unroll 4
        for (int p = 0; p < here; ++p) {
            const float lse = __shfl_sync(0xffffffffu, lse_mine, p);
            // The O of a part that saw nothing that counts may be NaN (0 / 0); 0 * NaN would be NaN, so it is left out.
            // (Left out with it: the NaN of 0 * inf, where a part has only scores of -inf and V is infinite. One split
            // keeps it.)
            const bool counts = lse != -INFINITY || largest == -INFINITY;
            const float weight = counts ? merge_weight(lse, largest) : 0.0f;
            sum += weight;
            watch_rescale(n, weight, first + p);
#pragma unroll
            for (int c = 0; c < D / 32; ++c) {
                if (lane + 32 * c >= head_dim) continue;
                const float O_p = t.O_p(first + p, n, lane + 32 * c);
                O_n[c] += counts ? weight * O_p : 0.0f;
            }
        }
    }

#pragma unroll
    for (int c = 0; c < D / 32; ++c)
        if (lane + 32 * c < head_dim) t.O(n, lane + 32 * c) = T(O_n[c] / sum);
    if (lane == 0) t.LSE(n) = largest + logf(sum);
}

/// Every partial O once, every partial LSE twice; O and LSE once.
GlobalBytes decode_combine_bytes(const CombineArguments& a) {
    const std::uint64_t parts = a.parts() * a.rows(), row = a.head_dim();
    const std::uint64_t element = a.out.type == simt::ElementType::f32 ? 4 : 2;
    return {.read = parts * (row + 2) * sizeof(float), .written = a.rows() * (row * element + sizeof(float))};
}

/// Launches the kernel compiled for the result's dtype and head dimension.
void launch_decode_combine(const CombineArguments& a) {
    with_element_type(a.out.type, [&]<class T>(std::type_identity<T>) {
        with_head_dim(a.head_dim(), [&]<int D>(std::integral_constant<int, D>) {
            cudaLaunchConfig_t config{};
            config.gridDim = dim3(ceil_div(a.rows(), kCombineRows));
            config.blockDim = dim3(kCombineThreads);
            config.stream = static_cast<cudaStream_t>(a.stream);
            simt::launch("decode_combine_kernel", config, decode_combine_kernel<T, D>,
                         CombineTensors<T>{.O_p = simt::global_tensor<const float, 3>(a.out_parts),
                                           .LSE_p = simt::global_tensor<const float, 2>(a.lse_parts),
                                           .O = simt::global_tensor<T, 2>(a.out),
                                           .LSE = simt::global_tensor<float, 1>(a.lse)});
        });
    });
}

}  // namespace ladder::SIMT_MACHINE
