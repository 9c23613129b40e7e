#pragma once

namespace simt {
inline namespace cpu {

/// The larger of two numbers; of a number and a NaN, the number. Kernels get this one (simt.h): to a compiler the C
/// library's is a call of an unknown function, and this is two comparisons.
inline float fmaxf(float x, float y) { return y != y ? x : x > y ? x : y; }

}  // namespace cpu
}  // namespace simt
