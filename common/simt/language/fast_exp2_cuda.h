#pragma once

namespace simt {
inline namespace cuda {

/// 2^x as the special function unit gives it, in one instruction (ex2.approx.ftz.f32): exact to 2 units in the last
/// place, and 0 where the result would be below 2^-126. exp2f() takes four more instructions to get those right, too;
/// __expf() likewise, and one to multiply by log2(e).
__device__ __forceinline__ float fast_exp2(float x) {
    float result;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
    return result;
}

}  // namespace cuda
}  // namespace simt
