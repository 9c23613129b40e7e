#pragma once

#include <cstdint>
#include <type_traits>

#include "common/simt/simt.h"

namespace ladder::SIMT_MACHINE {

/// Bits of two neighbouring elements of T: their exponents, and the last bit of each.
template <class T>
inline constexpr std::uint32_t kExponents = std::is_same_v<T, simt::f16> ? 0x7c007c00 : 0x7f807f80;
template <class T>
inline constexpr std::uint32_t kExponentOnes = std::is_same_v<T, simt::f16> ? 0x04000400 : 0x00800080;

/// Of two neighbouring elements those that are infinite or NaN, by a bit in the sign's place: all bits of their
/// exponent are set, so that the carry from adding one to it reaches that place.
template <class T>
__device__ __forceinline__ std::uint32_t carries_of_not_finite(std::uint32_t bits) {
    return (bits & kExponents<T>)+kExponentOnes<T>;
}
inline constexpr std::uint32_t kCarries = 0x80008000;  ///< these bits; what lies below is without meaning

/// The same as a mask of all their bits.
template <class T>
__device__ __forceinline__ std::uint32_t not_finite(std::uint32_t bits) {
    return ((carries_of_not_finite<T>(bits) & kCarries) >> 15) * 0xffffu;
}

}  // namespace ladder::SIMT_MACHINE
