#pragma once

#include "common/simt/simt.h"

namespace ladder::SIMT_MACHINE {

/// Over groups of `Lanes` neighbouring lanes, a power of two. All lanes of the warp must call; all lanes of a group get
/// the same result. After the step of distance d, a lane knows the result over the 2 d lanes around it.
template <int Lanes>
__device__ __forceinline__ float max_over(float x) {
#pragma unroll
    for (int step = 1; step < Lanes; step *= 2) x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, step));
    return x;
}

/// As max_over, with the sum.
template <int Lanes>
__device__ __forceinline__ float sum_over(float x) {
#pragma unroll
    for (int step = 1; step < Lanes; step *= 2) x += __shfl_xor_sync(0xffffffffu, x, step);
    return x;
}

/// Over all 32 lanes.
__device__ __forceinline__ float warp_max(float x) { return max_over<32>(x); }
__device__ __forceinline__ float warp_sum(float x) { return sum_over<32>(x); }

}  // namespace ladder::SIMT_MACHINE
