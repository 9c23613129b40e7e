#pragma once

#include <cmath>
#include <limits>

namespace simt {
inline namespace cpu {

/// 2^x as the special function unit gives it, in one instruction (ex2.approx.ftz.f32): exact to 2 units in the last
/// place, and 0 where the result would be below 2^-126. exp2f() takes four more instructions to get those right, too;
/// __expf() likewise, and one to multiply by log2(e).
inline float fast_exp2(float x) {
    const float result = std::exp2(x);
    return result < std::numeric_limits<float>::min() ? 0.0f : result;
}

}  // namespace cpu
}  // namespace simt
