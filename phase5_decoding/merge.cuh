#pragma once

#include "common/simt/simt.h"

namespace ladder::SIMT_MACHINE {

/// What a part of a row counts for in the whole: exp(part - whole), where `whole` is the maximum over all parts.
///
/// The same rule merges warps (by their m) and splits (by their LSE). Equality is asked first, so that inf - inf is
/// never computed: where all parts are -inf each counts once, and NaN or 0 in them stays what it is.
__device__ __forceinline__ float merge_weight(float part, float whole) {
    return part == whole ? 1.0f : __expf(part - whole);
}

/// Over all 32 lanes of a warp; all of them get the result.
__device__ __forceinline__ float warp_max(float x) {
#pragma unroll
    for (int step = 1; step < 32; step *= 2) x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, step));
    return x;
}

__device__ __forceinline__ float warp_sum(float x) {
#pragma unroll
    for (int step = 1; step < 32; step *= 2) x += __shfl_xor_sync(0xffffffffu, x, step);
    return x;
}

}  // namespace ladder::SIMT_MACHINE
