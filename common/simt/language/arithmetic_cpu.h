#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <type_traits>

// Arithmetic under CUDA's names, with CUDA's meaning.

// The GPU's fast versions trade a few last bits for speed; here they are exact. Half of the exponents that an online
// softmax takes are 0.
inline float __expf(float x) { return x == 0.0f ? 1.0f : std::exp(x); }
inline float __logf(float x) { return std::log(x); }
inline float __fdividef(float x, float y) { return x / y; }

/// x y, rounded, also where the product is added to something at once: never part of a fused multiply-add.
inline float __fmul_rn(float x, float y) {
    const volatile float product = x * y;  // in memory, where no compiler looks for something to fuse
    return product;
}

/// The smaller and the larger of two numbers of one type. Of a number and a NaN it is the number.
template <class T>
requires std::is_arithmetic_v<T>
inline T min(T a, T b) {
    if constexpr (std::is_floating_point_v<T>) return std::fmin(a, b);
    return b < a ? b : a;
}
template <class T>
requires std::is_arithmetic_v<T>
inline T max(T a, T b) {
    if constexpr (std::is_floating_point_v<T>) return std::fmax(a, b);
    return a < b ? b : a;
}

/// The bits of a number, and the number of bits.
inline unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }
inline float __uint_as_float(unsigned bits) { return std::bit_cast<float>(bits); }
inline int __float_as_int(float x) { return std::bit_cast<int>(x); }
inline float __int_as_float(int bits) { return std::bit_cast<float>(bits); }

/// The largest of three: one instruction from Hopper on (CUDA's DPX functions).
inline int __vimax3_s32(int a, int b, int c) { return max(a, max(b, c)); }

/// Four of the eight bytes of x (bytes 0 to 3) and y (4 to 7): byte n of the result is the one that the n-th four bits
/// of `selector` name, the lowest first.
inline unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
    const std::uint64_t bytes = std::uint64_t{y} << 32 | x;
    unsigned chosen = 0;
    for (int n = 0; n < 4; ++n) chosen |= unsigned(bytes >> 8 * (selector >> 4 * n & 7) & 0xff) << 8 * n;
    return chosen;
}
