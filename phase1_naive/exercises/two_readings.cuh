#pragma once

#include "phase1_naive/standard.cuh"

namespace ladder::SIMT_MACHINE {

/// Standard attention whose softmax reads S twice.
///
/// The first and the last of the three kernels are those of standard.cuh, where the plan is written down. Added here:
/// a softmax that finds m and l of a row in one pass, as phase 0 does: each lane keeps an m and an l of its own keys,
/// and the 32 of them are brought together at the end.
///
///   global  S written once and read twice, P written once
template <class T>
__global__ void __launch_bounds__(kSoftmaxRows * 32) two_readings_softmax_kernel(StandardTensors<T> t) {
    const int query = int(blockIdx.x) * kSoftmaxRows + int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32;
    const auto S = t.S.slice(blockIdx.z, blockIdx.y);
    const auto P = t.P.slice(blockIdx.z, blockIdx.y);
    const auto LSE = t.forward.LSE.slice(blockIdx.z, blockIdx.y);
    const int key_length = int(S.extent(1));
    if (query >= S.extent(0)) return;  // a whole warp leaves, and no barrier follows

    // BEGIN SOLUTION online: m and l of the row in one pass over S
    float lane_m = -INFINITY, lane_l = 0.0f;
    for (int key = lane; key < key_length; key += 32) {
        const float score = float(S(query, key));
        const float m_new = fmaxf(lane_m, score);
        const float base = safe_maximum(m_new);
        lane_l = lane_l * __expf(lane_m - base) + __expf(score - base);
        lane_m = m_new;
    }
    const float m = warp_max(lane_m), m_safe = safe_maximum(m);
    const float l = warp_sum(lane_l * __expf(lane_m - m_safe));  // a lane without a key brings 0
    //= float m = -INFINITY;
    //= for (int key = lane; key < key_length; key += 32) m = fmaxf(m, float(S(query, key)));
    //= m = warp_max(m);
    //=
    //= const float m_safe = safe_maximum(m);
    //= float l = 0.0f;
    //= for (int key = lane; key < key_length; key += 32) l += __expf(float(S(query, key)) - m_safe);
    //= l = warp_sum(l);
    // END SOLUTION online

    for (int key = lane; key < key_length; key += 32) P(query, key) = T(__expf(float(S(query, key)) - m_safe) / l);
    if (lane == 0) LSE(query) = m + logf(l);
}

/// Launches the three kernels, as launch_standard_attention does.
void launch_two_readings(const StandardArguments& a) {
    with_element_type(a.q.type, [&]<class T>(std::type_identity<T>) {
        const StandardTensors<T> tensors{
            .forward = forward_tensors<T>(a), .S = simt::global_tensor<T, 4>(a.s), .P = simt::global_tensor<T, 4>(a.p)};
        const unsigned query_tiles = ceil_div(a.query_length(), kResultTile);
        cudaLaunchConfig_t matmul{};
        matmul.blockDim = dim3(kTileThreads);
        matmul.dynamicSmemBytes = matmul_shared_bytes();
        matmul.stream = static_cast<cudaStream_t>(a.stream);

        matmul.gridDim = dim3(query_tiles * ceil_div(a.key_length(), kResultTile), a.query_heads(), a.batch());
        simt::launch("scores_kernel", matmul, scores_kernel<T>, tensors);

        cudaLaunchConfig_t softmax{};
        softmax.gridDim = dim3(ceil_div(a.query_length(), kSoftmaxRows), a.query_heads(), a.batch());
        softmax.blockDim = dim3(kSoftmaxRows * 32);
        softmax.stream = matmul.stream;
        simt::launch("two_readings_softmax_kernel", softmax, two_readings_softmax_kernel<T>, tensors);

        matmul.gridDim = dim3(query_tiles * ceil_div(a.head_dim(), kResultTile), a.query_heads(), a.batch());
        simt::launch("values_kernel", matmul, values_kernel<T>, tensors);
    });
}

}  // namespace ladder::SIMT_MACHINE
