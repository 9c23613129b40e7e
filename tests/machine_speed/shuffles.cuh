#pragma once

#include "common/simt/simt.h"

namespace ladder::SIMT_MACHINE {

/// Nothing but warps whose lanes meet, `times` times: what is left of a kernel when its arithmetic is taken away.
__global__ void shuffles_kernel(float* sums, int times) {
    float sum = float(threadIdx.x);
    for (int i = 0; i < times; ++i) sum += __shfl_xor_sync(0xffffffffu, sum, 1 + i % 16);
    sums[threadIdx.x] = sum;
}

void launch_shuffles(float* sums, int threads, int times) {
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(1);
    config.blockDim = dim3(threads);
    simt::launch("shuffles_kernel", config, shuffles_kernel, sums, times);
}

}  // namespace ladder::SIMT_MACHINE
