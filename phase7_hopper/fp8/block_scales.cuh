#pragma once

#include "common/simt/simt.h"

namespace ladder::SIMT_MACHINE {

// Scales of 8-bit blocks: a block of numbers is stored as codes c of e4m3 or e5m2 and one exponent e, and stands for
// c 2^e. A power of 2 costs no accuracy: codes are floating-point numbers, their steps are relative. And what a kernel
// does with such a scale is exact.

/// Rows of Q that share an exponent: those of a warpgroup.
inline constexpr int kQueryBlock = 64;
/// Rows of K that share one, and of V: those of a key tile.
inline constexpr int kKeyBlock = 128;

/// 2^e for e in [-126, 127].
__device__ __forceinline__ float power_of_two(int e) { return __uint_as_float(unsigned(e + 127) << 23); }

/// The exponent of the largest code, 1.75 2^this: 448 in e4m3, 57344 in e5m2.
template <class Code>
inline constexpr int kLargestCodeExponent = std::is_same_v<Code, simt::e4m3> ? 8 : 15;

/// The smallest exponent, from `smallest` on, under which numbers up to `largest`, finite, fit the codes: largest <=
/// 1.75 2^kLargestCodeExponent 2^e.
template <class Code>
__device__ __forceinline__ int block_exponent(float largest, int smallest) {
    constexpr int top = kLargestCodeExponent<Code>;
    const int e = int(__float_as_uint(largest) >> 23) - 127 - top;
    const bool too_large = largest > 1.75f * power_of_two(max(e, smallest) + top);
    return max(e + int(too_large), smallest);
}

}  // namespace ladder::SIMT_MACHINE
