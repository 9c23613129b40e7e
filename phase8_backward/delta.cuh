#pragma once

#include "common/attention/warp_reduce.cuh"
#include "phase8_backward/backward_tensors.cuh"

namespace ladder::SIMT_MACHINE {

// clang-format off
/// Before and after the two large kernels of the backward pass: what is one number, or one element, for itself.
///
///   D_i = rowsum(dO_i o O_i) - dLSE_i      which equals rowsum(P_i o dP_i) - dLSE_i, but needs neither P nor dP
///
/// so that dS_ij = P_ij (dP_ij - D_i) is made of what a tile has, and of one number for each row beside LSE_i.
///
///   grid    x = ceil(Sq / 4), y = Hq heads, z = B sequences
///   block   128 threads = 4 warps, a row each; neighbouring lanes read neighbouring columns
///
///   global  reads O, dO (and dLSE) once; writes D once, and zeros to dQ_sum where blocks are to add into that
// clang-format on
template <class T>
__global__ void __launch_bounds__(kBackwardThreads) backward_delta_kernel(BackwardTensors<T> t) {
    const int b = blockIdx.z, h = blockIdx.y, query = blockIdx.x * (kBackwardThreads / 32) + threadIdx.x / 32;
    const int lane = threadIdx.x % 32;
    const auto O = t.O.slice(b, h), dO = t.dO.slice(b, h);
    if (query >= int(O.extent(0))) return;
    // BEGIN SOLUTION row_dots: `sum`, of dO_i o O_i over the row's columns, the same in all lanes
    float sum = 0.0f;
    for (int c = lane; c < int(O.extent(1)); c += 32) sum += float(dO(query, c)) * float(O(query, c));
    sum = warp_sum(sum);
    //= const float sum = 0.0f;
    // END SOLUTION row_dots
    // BEGIN SOLUTION dlse: D_i, where the loss looks at LSE and where it does not
    if (lane == 0) t.D(b, h, query) = t.has_dlse ? sum - t.dLSE(b, h, query) : sum;
    //= if (lane == 0) t.D(b, h, query) = sum;
    // END SOLUTION dlse
    const auto dQ_sum = t.dQ_sum.extent(0) ? t.dQ_sum.slice(b, h) : simt::GlobalTensor<float, 2>();
    for (int c = lane; c < int(dQ_sum.extent(1)); c += 32) dQ_sum(query, c) = 0.0f;
}

/// dQ = dQ_sum, rounded to 16 bits once all blocks have added to it. Grid and block as above.
template <class T>
__global__ void __launch_bounds__(kBackwardThreads) backward_round_kernel(BackwardTensors<T> t) {
    const int query = blockIdx.x * (kBackwardThreads / 32) + threadIdx.x / 32;
    const auto dQ = t.dQ.slice(blockIdx.z, blockIdx.y);
    const auto dQ_sum = t.dQ_sum.slice(blockIdx.z, blockIdx.y);
    if (query >= int(dQ.extent(0))) return;
    for (int c = threadIdx.x % 32; c < int(dQ.extent(1)); c += 32) dQ(query, c) = T(dQ_sum(query, c));
}

/// Launches a kernel whose warps have a row each.
template <class T, class Kernel>
void launch_by_rows(const char* name, const BackwardArguments& a, Kernel kernel) {
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(ceil_div(a.query_length(), kBackwardThreads / 32), a.query_heads(), a.batch());
    config.blockDim = dim3(kBackwardThreads);
    config.stream = static_cast<cudaStream_t>(a.stream);
    simt::launch(name, config, kernel, backward_tensors<T>(a));
}

/// Launches the kernel that comes before the large ones.
void launch_backward_delta(const BackwardArguments& a) {
    with_element_type(a.q.type, [&]<class T>(std::type_identity<T>) {
        launch_by_rows<T>("backward_delta_kernel", a, backward_delta_kernel<T>);
    });
}

/// Launches the kernel that comes after them, where blocks have added to dq_sum and dQ has 16 bits.
void launch_backward_round(const BackwardArguments& a) {
    with_element_type(a.q.type, [&]<class T>(std::type_identity<T>) {
        launch_by_rows<T>("backward_round_kernel", a, backward_round_kernel<T>);
    });
}

/// O and dO once, and dLSE where there is one; D once, and zeros.
GlobalBytes backward_delta_bytes(const BackwardArguments& a) {
    const std::uint64_t rows = a.batch() * a.query_heads() * a.query_length(), element = element_bytes(a.q.type);
    return {.read = rows * (2 * a.head_dim() * element + (a.dlse.rank ? sizeof(float) : 0)),
            .written = rows * sizeof(float) * (1 + (a.dq_sum.rank ? a.head_dim() : 0))};
}

/// The sums once, in 32 bits, and dQ once.
GlobalBytes backward_round_bytes(const BackwardArguments& a) {
    const std::uint64_t elements = a.batch() * a.query_heads() * a.query_length() * a.head_dim();
    return {.read = elements * sizeof(float), .written = elements * element_bytes(a.q.type)};
}

}  // namespace ladder::SIMT_MACHINE
