#pragma once

#include <cmath>
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
