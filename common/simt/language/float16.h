#pragma once

#include <bit>
#include <cstdint>

namespace simt {
inline namespace cpu {

/// IEEE binary16 as storage. Arithmetic happens in float; the conversions round to nearest, ties to even, bit for bit
/// like __float2half_rn.
class f16 {
  public:
    f16() = default;
    /// The nearest one; back without loss.
    explicit f16(float value) : bits_(round(value)) {}
    operator float() const { return widen(bits_); }

    /// The 16 bits as they lie in memory.
    static f16 from_bits(std::uint16_t bits) { return std::bit_cast<f16>(bits); }
    std::uint16_t bits() const { return bits_; }

  private:
    static std::uint16_t round(float value) {
        const auto word = std::bit_cast<std::uint32_t>(value);
        const std::uint32_t sign = word >> 16 & 0x8000u, magnitude = word & 0x7fffffffu;
        if (magnitude > 0x7f800000u) return 0x7fff;                                       // NaN: CUDA's canonical one
        if (magnitude >= 0x477ff000u) return static_cast<std::uint16_t>(sign | 0x7c00u);  // rounds to 65536: infinity
        if (magnitude < 0x38800000u) {
            // Below 2^-14 the result is subnormal: adding 0.5 moves its last bit to float's last bit, and the addition
            // itself rounds to nearest even.
            const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
            return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x3f000000u));
        }
        const std::uint32_t rebased = magnitude - 0x38000000u;  // exponent bias 127 to 15
        return static_cast<std::uint16_t>(sign | ((rebased + 0xfffu + (rebased >> 13 & 1u)) >> 13));
    }

    static float widen(std::uint16_t bits) {
        const std::uint32_t sign = std::uint32_t{bits} << 16 & 0x80000000u, magnitude = bits & 0x7fffu;
        // The multiplication by 2^112 rebases the exponent, and normalises subnormals on the way. Infinity and NaN come
        // out as finite numbers from 2^16 on, and need an exponent of ones. No branch, so that compilers can vectorise.
        const float scaled = std::bit_cast<float>(magnitude << 13) * 0x1p112f;
        const std::uint32_t special = scaled >= 0x1p16f ? 0x7f800000u : 0u;
        return std::bit_cast<float>(sign | special | std::bit_cast<std::uint32_t>(scaled));
    }

    std::uint16_t bits_;
};

/// bfloat16 as storage: the upper half of a float, rounded to nearest, ties to even, like __float2bfloat16_rn.
class bf16 {
  public:
    bf16() = default;
    /// The nearest one; back without loss.
    explicit bf16(float value) : bits_(round(value)) {}
    operator float() const { return std::bit_cast<float>(std::uint32_t{bits_} << 16); }

    /// The 16 bits as they lie in memory.
    static bf16 from_bits(std::uint16_t bits) { return std::bit_cast<bf16>(bits); }
    std::uint16_t bits() const { return bits_; }

  private:
    static std::uint16_t round(float value) {
        const auto word = std::bit_cast<std::uint32_t>(value);
        if ((word & 0x7fffffffu) > 0x7f800000u) return 0x7fff;  // NaN: CUDA's canonical one
        return static_cast<std::uint16_t>((word + 0x7fffu + (word >> 16 & 1u)) >> 16);
    }

    std::uint16_t bits_;
};

}  // namespace cpu
}  // namespace simt
