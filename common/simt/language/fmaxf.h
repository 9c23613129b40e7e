#pragma once

/// What kernels find before what the C library has. Not in simt itself: there it would be found beside the C library's
/// wherever an argument is of the machine's types.
namespace simt::for_kernels {

/// The larger of two numbers; of a number and a NaN, the number. To a compiler the C library's is a call of an unknown
/// function, and this is two comparisons.
inline float fmaxf(float x, float y) { return y != y ? x : x > y ? x : y; }

}  // namespace simt::for_kernels
