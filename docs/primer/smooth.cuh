#pragma once

#include "common/simt/simt.h"

// The primer's first kernel: y(i) is the mean of x(i - 1), x(i) and x(i + 1). At the ends, where a neighbour is
// missing, the end itself takes its place.
//
// A block has 128 threads and smooths 128 elements, one per thread. Each x is wanted by three threads, so the block
// brings its 130 into shared memory first, and each is read from global memory once.

namespace ladder::SIMT_MACHINE {

constexpr int kThreads = 128, kPart = kThreads + 2;

/// Smooths x into y, which are equally long.
__global__ void smooth_kernel(simt::GlobalTensor<const float, 1> x, simt::GlobalTensor<float, 1> y) {
    const int length = int(x.extent(0));
    const int first = int(blockIdx.x) * kThreads;  // of this block's elements
    const int own = int(threadIdx.x);              // this thread's place among them

    simt::SharedArena arena;
    const auto part = arena.tile<float, 1, kPart>("part");  // x(first - 1) to x(first + 128)
    for (int k = own; k < kPart; k += kThreads) {
        const int from = first - 1 + k;
        part(0, k) = x(from < 0 ? 0 : from < length ? from : length - 1);
    }
    __syncthreads();  // part is complete before anyone reads it

    if (first + own < length) y(first + own) = (part(0, own) + part(0, own + 1) + part(0, own + 2)) / 3.0f;
}

/// Launches it: so many blocks that every element has a thread.
inline void smooth(const simt::TensorArgument& x, const simt::TensorArgument& y) {
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(unsigned((x.extents[0] + kThreads - 1) / kThreads));
    config.blockDim = dim3(kThreads);
    config.dynamicSmemBytes = kPart * sizeof(float);
    simt::launch("smooth_kernel", config, smooth_kernel, simt::global_tensor<const float, 1>(x),
                 simt::global_tensor<float, 1>(y));
}

}  // namespace ladder::SIMT_MACHINE
