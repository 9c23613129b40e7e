#pragma once

// What 8-bit codes stand for, by the table of the standard and not by the kernels' own conversions: what holds the
// kernels against float64 reads codes with it.

#include <cmath>
#include <vector>

#include "phase7_hopper/fp8/hopper_fp8.h"

namespace ladder::fp8 {

/// A format of codes: s eeee mmm, or s eeeee mm.
struct CodeFormat {
    int mantissa;            ///< its bits
    int bias;                ///< of the exponent
    double largest;          ///< of all codes
    double half_a_step;      ///< relative: what rounding moves a number by, as a share of it
    double half_a_low_step;  ///< absolute: half of what lies between the smallest codes
};

/// The format of these codes.
inline CodeFormat format_of(ValueCodes codes) {
    if (codes == ValueCodes::e4m3) return {3, 7, 448.0, 0x1p-4, 0x1p-10};
    return {2, 15, 57344.0, 0x1p-3, 0x1p-17};
}

/// The numbers of all 256 codes, float64 [256].
inline torch::Tensor numbers_of_codes(ValueCodes codes) {
    const auto [mantissa, bias, largest, half_a_step, half_a_low_step] = format_of(codes);
    std::vector<double> numbers;
    for (int code = 0; code < 256; ++code) {
        const int e = (code & 127) >> mantissa, m = code & ((1 << mantissa) - 1), one = 1 << mantissa;
        double magnitude = e == 0 ? std::ldexp(m, 1 - bias - mantissa) : std::ldexp(one + m, e - bias - mantissa);
        if (codes == ValueCodes::e4m3 ? (code & 127) == 127 : e == 31) magnitude = m == 0 ? INFINITY : NAN;
        numbers.push_back(code < 128 ? magnitude : -magnitude);
    }
    return torch::tensor(numbers, torch::kFloat64);
}

/// The scale of each row, float64 [B, H, S, 1]: 2 to the exponent of its block of so many rows.
inline torch::Tensor scales_of(const torch::Tensor& exponents, int rows, std::int64_t length) {
    const torch::Tensor scale = torch::pow(2.0, exponents.to(torch::kFloat64)).repeat_interleave(rows, 2);
    return scale.slice(2, 0, length).unsqueeze(-1);
}

/// What codes [B, H, S, D] stand for, with an exponent for each block of so many rows.
inline torch::Tensor values_of(const torch::Tensor& codes, const torch::Tensor& exponents, int rows, ValueCodes type) {
    const torch::Tensor numbers =
        numbers_of_codes(type).to(codes.device()).index_select(0, codes.reshape(-1).to(torch::kInt64));
    return numbers.view(codes.sizes()) * scales_of(exponents, rows, codes.size(2));
}

inline constexpr int kQueryRows = 64;  ///< that share an exponent
inline constexpr int kKeyRows = 128;   ///< of keys, and of values

/// What the codes of an operand stand for, float64 [B, H, S, D].
inline torch::Tensor values_of_q(const Fp8Operands& o) {
    return values_of(o.q, o.q_exponents, kQueryRows, ValueCodes::e4m3);
}
inline torch::Tensor values_of_k(const Fp8Operands& o) {
    return values_of(o.k, o.k_exponents, kKeyRows, ValueCodes::e4m3);
}
inline torch::Tensor values_of_v(const Fp8Operands& o) { return values_of(o.v, o.v_exponents, kKeyRows, o.values); }

}  // namespace ladder::fp8
