#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <type_traits>

#include "common/simt/language/cuda_names.h"
#include "common/simt/language/float16.h"

namespace simt {
inline namespace cpu {

// The two 8-bit floating-point types of the OCP 8-bit Floating Point Specification (OFP8), revision 1.0; also table 1
// of Micikevicius et al. 2022, "FP8 Formats for Deep Learning" (arXiv 2209.05433). A code is a sign, an exponent and a
// mantissa, as in the larger types:
//
// clang-format off
//
//                        e4m3                     e5m2
//   code                 s eeee mmm               s eeeee mm
//   normal number        1.mmm * 2^(eeee - 7)     1.mm * 2^(eeeee - 15)
//   subnormal, e = 0     0.mmm * 2^-6             0.mm * 2^-14
//   smallest above 0     2^-9                     2^-16
//   largest              448, code 0x7e           57344, code 0x7b
//   infinity             none                     code 0x7c
//   NaN                  code 0x7f                codes 0x7d to 0x7f
//
// clang-format on
//
// e4m3 is what products are computed from; e5m2, the upper byte of an f16, has its range.

/// The code nearest to `value`, as `cvt.rn.satfinite` finds it: see e4m3. `largest` is the code of the largest number.
template <int mantissa_bits, int bias, std::uint32_t largest>
std::uint8_t round_to_float8(float value) {
    const auto word = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t sign = word >> 24 & 0x80u, magnitude = word & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return 0x7f;  // NaN: CUDA's canonical one, without a sign
    std::uint32_t code;
    if (magnitude < std::uint32_t(127 - bias + 1) << 23) {
        // The result is subnormal, a multiple of 2^(1 - bias - mantissa_bits). So far apart are floats from 2^23 times
        // that on: adding this number moves the result's last bit to float's last bit, and the addition itself rounds
        // to nearest even.
        constexpr std::uint32_t shift = std::uint32_t(127 + 23 + 1 - bias - mantissa_bits) << 23;
        code = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + std::bit_cast<float>(shift)) - shift;
    } else {
        constexpr int dropped = 23 - mantissa_bits;
        const std::uint32_t rebased = magnitude - (std::uint32_t(127 - bias) << 23);
        code = (rebased + (1u << (dropped - 1)) - 1u + (rebased >> dropped & 1u)) >> dropped;
    }
    return static_cast<std::uint8_t>(sign | std::min(code, largest));  // infinity, too, becomes the largest
}

/// What CUDA makes of every NaN.
inline constexpr float kCanonicalNaN = std::bit_cast<float>(0x7fffffffu);

/// 8 bits as storage: 4 of exponent, 3 of mantissa, no infinity. Arithmetic happens in float; the conversions are bit
/// for bit those of CUDA's __nv_fp8_e4m3.
class e4m3 {
  public:
    e4m3() = default;
    /// The nearest one, ties to even; what lies beyond the largest, infinity too, becomes the largest of its sign
    /// (__NV_SATFINITE), and NaN the NaN 0x7f.
    explicit e4m3(float value) : bits_(round_to_float8<3, 7, 0x7e>(value)) {}
    explicit e4m3(double) = delete;  // CUDA rounds it once; on the way through float it would be rounded twice

    /// Without loss. Explicit, as CUDA's is.
    explicit operator float() const {
        const std::uint32_t sign = std::uint32_t{bits_} << 24 & 0x80000000u, magnitude = bits_ & 0x7fu;
        if (magnitude == 0x7fu) return kCanonicalNaN;
        // The multiplication by 2^120 rebases the exponent, and normalises subnormals on the way.
        const float scaled = std::bit_cast<float>(magnitude << 20) * 0x1p120f;
        return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(scaled));
    }

    /// The 8 bits as they lie in memory.
    static e4m3 from_bits(std::uint8_t bits) { return std::bit_cast<e4m3>(bits); }
    std::uint8_t bits() const { return bits_; }

  private:
    std::uint8_t bits_;
};

/// 8 bits as storage: 5 of exponent, 2 of mantissa. Everything said of e4m3 holds for it and __nv_fp8_e5m2. There are
/// codes for infinity, but no conversion from a float gives one.
class e5m2 {
  public:
    e5m2() = default;
    /// As e4m3's.
    explicit e5m2(float value) : bits_(round_to_float8<2, 15, 0x7b>(value)) {}
    explicit e5m2(double) = delete;

    /// Without loss. Explicit, as CUDA's is.
    explicit operator float() const {
        if ((bits_ & 0x7fu) > 0x7cu) return kCanonicalNaN;
        return f16::from_bits(static_cast<std::uint16_t>(bits_ << 8));  // whose upper byte it is
    }

    /// The 8 bits as they lie in memory.
    static e5m2 from_bits(std::uint8_t bits) { return std::bit_cast<e5m2>(bits); }
    std::uint8_t bits() const { return bits_; }

  private:
    std::uint8_t bits_;
};

/// One of the 8-bit types.
template <class T>
concept Float8 = std::is_same_v<T, e4m3> || std::is_same_v<T, e5m2>;

/// See simt::cuda::pack.
template <Float8 T>
std::uint32_t pack(float x0, float x1, float x2, float x3) {
    return T(x0).bits() | std::uint32_t{T(x1).bits()} << 8 | std::uint32_t{T(x2).bits()} << 16 |
           std::uint32_t{T(x3).bits()} << 24;
}

/// See simt::cuda::unpack.
template <Float8 T>
float2 unpack(std::uint16_t pair) {
    return {float(T::from_bits(static_cast<std::uint8_t>(pair))),
            float(T::from_bits(static_cast<std::uint8_t>(pair >> 8)))};
}

/// See simt::cuda::unpack_to_f16.
template <Float8 T>
std::uint32_t unpack_to_f16(std::uint16_t pair) {
    const float2 values = unpack<T>(pair);
    return f16(values.x).bits() | std::uint32_t{f16(values.y).bits()} << 16;
}

}  // namespace cpu
}  // namespace simt
