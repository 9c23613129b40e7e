#pragma once

#include "common/attention/dispatch.cuh"
#include "common/attention/global_bytes.h"
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
///   grid    x = N
///   block   256 threads = 8 warps, which own a row together: warp w merges parts w, w + 8, …, fetching four at a time;
///           lane k owns columns k, k + 32, … Then the warps' results are merged, by the same rule
///   shared  O_w   [8, D]     32 D     one line per warp
///           m, s  [1, 8]     64       the largest LSE_p that it met, and the sum of exp(LSE_p - m)
///   global  reads O_p and LSE_p once; writes O and LSE once
// clang-format on

inline constexpr int kCombineWarps = 8;                     ///< of a block
inline constexpr int kCombineThreads = 32 * kCombineWarps;  ///< likewise
inline constexpr int kPartsAtOnce = 4;                      ///< that a warp has under way

/// What the kernel is given: P parts of each of N rows.
template <class T>
struct CombineTensors {
    simt::GlobalTensor<const float, 3> O_p;    ///< [P, N, D]
    simt::GlobalTensor<const float, 2> LSE_p;  ///< [P, N]
    simt::GlobalTensor<T, 2> O;                ///< [N, D]
    simt::GlobalTensor<float, 1> LSE;          ///< [N]
};

/// What x, of a part whose sum has the logarithm `part`, contributes where the largest of these is `largest`.
///
/// The O of a part that saw nothing that counts may be NaN (0 / 0); 0 * NaN would be NaN, so it is left out where
/// others count. (Left out with it: the NaN of 0 * inf, where a part has only scores of -inf and V is infinite. One
/// split keeps it.)
__device__ __forceinline__ float contribution(float x, float part, float largest) {
    if (part == -INFINITY && largest != -INFINITY) return 0.0f;
    const float weight = merge_weight(part, largest);
    return weight * x;
}

template <class T, int D>
__global__ void __launch_bounds__(kCombineThreads, 2) decode_combine_kernel(CombineTensors<T> t) {
    constexpr int columns = D / 32;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const std::int64_t n = blockIdx.x;
    const int parts = int(t.O_p.extent(0)), head_dim = int(t.O.extent(1));

    simt::SharedArena arena;
    const auto O_w = arena.tile<float, kCombineWarps, D>("O_w");
    const auto m_w = arena.tile<float, 1, kCombineWarps>("m");
    const auto s_w = arena.tile<float, 1, kCombineWarps>("s");

    float m = -INFINITY, s = 0.0f, O_n[columns] = {};
    for (int first = warp; first < parts; first += kPartsAtOnce * kCombineWarps) {
        const int mine = first + lane * kCombineWarps;  // lane i fetches the LSE of the i-th of these parts
        float LSE_mine = -INFINITY;                     // as of a part that saw nothing, where there is none
        if (lane < kPartsAtOnce && mine < parts) LSE_mine = t.LSE_p(mine, n);
        float O_p[kPartsAtOnce][columns];
#pragma unroll
        for (int i = 0; i < kPartsAtOnce; ++i)
#pragma unroll
            for (int c = 0; c < columns; ++c) {
                const int p = first + i * kCombineWarps, column = lane + 32 * c;
                O_p[i][c] = 0.0f;
                if (p < parts && column < head_dim) O_p[i][c] = t.O_p(p, n, column);
            }

        // BEGIN SOLUTION merge: m, s and O_n, of the parts before and of these, under the new maximum
        float LSE_p[kPartsAtOnce], m_new = m;
#pragma unroll
        for (int i = 0; i < kPartsAtOnce; ++i) {
            LSE_p[i] = __shfl_sync(0xffffffffu, LSE_mine, i);
            const bool is_number = LSE_p[i] == LSE_p[i];  // NaN ranks above all, so that nobody leaves it out
            m_new = fmaxf(m_new, is_number ? LSE_p[i] : INFINITY);
        }
        watch_maximum(n, m_new, warp);
        s = contribution(s, m, m_new);
#pragma unroll
        for (int c = 0; c < columns; ++c) O_n[c] = contribution(O_n[c], m, m_new);
#pragma unroll
        for (int i = 0; i < kPartsAtOnce; ++i) {
            s += contribution(1.0f, LSE_p[i], m_new);
            const int p = first + i * kCombineWarps;
            if (p < parts) watch_rescale(n, merge_weight(LSE_p[i], m_new), p);
#pragma unroll
            for (int c = 0; c < columns; ++c) O_n[c] += contribution(O_p[i][c], LSE_p[i], m_new);
        }
        m = m_new;
        //= s = 1.0f;
        // END SOLUTION merge
    }

#pragma unroll
    for (int c = 0; c < columns; ++c) O_w(warp, lane + 32 * c) = O_n[c];
    if (lane == 0) {
        m_w(0, warp) = m;
        s_w(0, warp) = s;
    }
    __syncthreads();  // every warp's line is there before anyone merges

    float largest = -INFINITY;
#pragma unroll
    for (int w = 0; w < kCombineWarps; ++w) largest = fmaxf(largest, m_w(0, w));
    for (int c = threadIdx.x; c < head_dim; c += kCombineThreads) {
        // BEGIN SOLUTION merge: what the warps have, under the maximum of all
        float sum = 0.0f, O_c = 0.0f;  // in the order of the warps, so that the last bit is always the same
#pragma unroll
        for (int w = 0; w < kCombineWarps; ++w) {
            sum += contribution(s_w(0, w), m_w(0, w), largest);
            O_c += contribution(O_w(w, c), m_w(0, w), largest);
        }
        //= const float sum = s_w(0, 0), O_c = O_w(0, c);
        // END SOLUTION merge
        t.O(n, c) = T(O_c / sum);
        if (c == 0) t.LSE(n) = largest + logf(sum);
    }
}

/// Every partial O and LSE once; O and LSE once.
GlobalBytes decode_combine_bytes(const CombineArguments& a) {
    const std::uint64_t parts = a.parts() * a.rows(), row = a.head_dim();
    const std::uint64_t element = a.out.type == simt::ElementType::f32 ? 4 : 2;
    return {.read = parts * (row + 1) * sizeof(float), .written = a.rows() * (row * element + sizeof(float))};
}

/// Launches the kernel compiled for the result's dtype and head dimension.
void launch_decode_combine(const CombineArguments& a) {
    with_element_type(a.out.type, [&]<class T>(std::type_identity<T>) {
        with_head_dim(a.head_dim(), [&]<int D>(std::integral_constant<int, D>) {
            cudaLaunchConfig_t config{};
            config.gridDim = dim3(unsigned(a.rows()));
            config.blockDim = dim3(kCombineThreads);
            config.dynamicSmemBytes =
                simt::shared_bytes<float>(kCombineWarps, D) + 2 * simt::shared_bytes<float>(1, kCombineWarps);
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
