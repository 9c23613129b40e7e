#pragma once

namespace simt {
inline namespace cpu {

/// The larger of two numbers; of a number and a NaN, the number. Kernels get this one (simt.h). To a compiler the C
/// library's is a call, and it may exchange its arguments; here x, nearly always a running maximum, is expected to stay
/// one. A branch that is foreseen takes no time, while a maximum that is computed must be waited for: online_softmax,
/// unchecked, takes 8 % longer with the library's.
inline float fmaxf(float x, float y) {
    if (x >= y) [[likely]]
        return x;
    return y != y ? x : y;
}

}  // namespace cpu
}  // namespace simt
