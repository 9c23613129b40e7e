#pragma once

#include "common/simt/simt.h"

namespace ladder::SIMT_MACHINE {

// Scales of 8-bit blocks: a block of numbers is stored as codes c of e4m3 and one exponent e, and stands for c 2^e. A
// power of 2 costs no accuracy: e4m3 is a floating-point type, its steps are relative. And what a kernel does with such
// a scale is exact.

/// Rows of Q that share an exponent: those of a warpgroup.
inline constexpr int kQueryBlock = 64;
/// Rows of K that share one, and of V: those of a key tile.
inline constexpr int kKeyBlock = 128;

/// 2^e for e in [-126, 127].
__device__ __forceinline__ float power_of_two(int e) { return __uint_as_float(unsigned(e + 127) << 23); }

/// The smallest exponent under which numbers up to `largest`, finite, fit e4m3: largest <= 448 2^e. From -100 on, so
/// that products of two scales are still normal numbers.
__device__ __forceinline__ int block_exponent(float largest) {
    int e = int(__float_as_uint(largest) >> 23) - 127 - 8;  // 448 is 1.75 2^8
    if (largest > 448.0f * power_of_two(max(e, -100))) ++e;
    return max(e, -100);
}

}  // namespace ladder::SIMT_MACHINE
