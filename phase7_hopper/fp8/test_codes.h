#pragma once

// What the tests of 8-bit attention share: numbers out of codes, inputs with outliers, and what a result must keep to.

#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "common/attention/outputs.h"
#include "common/reference/oracle.h"
#include "phase7_hopper/fp8/hopper_fp8.h"

namespace ladder::fp8 {

/// The numbers of all 256 codes by the table of the standard: s eeee mmm, or s eeeee mm.
inline torch::Tensor numbers_of_codes(ValueCodes type) {
    const int mantissa = type == ValueCodes::e4m3 ? 3 : 2, bias = type == ValueCodes::e4m3 ? 7 : 15;
    std::vector<double> numbers;
    for (int code = 0; code < 256; ++code) {
        const int e = (code & 127) >> mantissa, m = code & ((1 << mantissa) - 1), one = 1 << mantissa;
        double magnitude = e == 0 ? std::ldexp(m, 1 - bias - mantissa) : std::ldexp(one + m, e - bias - mantissa);
        if (type == ValueCodes::e4m3 ? (code & 127) == 127 : e == 31) magnitude = m == 0 ? INFINITY : NAN;
        numbers.push_back(code < 128 ? magnitude : -magnitude);
    }
    return torch::tensor(numbers, torch::kFloat64);
}

/// What codes [B, H, S, D] stand for, with an exponent for each block of so many rows.
inline torch::Tensor values_of(const torch::Tensor& codes, const torch::Tensor& exponents, int rows, ValueCodes type) {
    const torch::Tensor scale = torch::pow(2.0, exponents.to(torch::kFloat64)).repeat_interleave(rows, 2);
    const torch::Tensor numbers =
        numbers_of_codes(type).to(codes.device()).index_select(0, codes.reshape(-1).to(torch::kInt64));
    return numbers.view(codes.sizes()) * scale.slice(2, 0, codes.size(2)).unsqueeze(-1);
}
inline torch::Tensor values_of_q(const Fp8Operands& o) { return values_of(o.q, o.q_exponents, 64, ValueCodes::e4m3); }
inline torch::Tensor values_of_k(const Fp8Operands& o) { return values_of(o.k, o.k_exponents, 128, ValueCodes::e4m3); }
inline torch::Tensor values_of_v(const Fp8Operands& o) { return values_of(o.v, o.v_exponents, 128, o.values); }

/// FlashAttention-3's inputs with outliers (section 4.3): one in a thousand is ten times as large.
inline torch::Tensor with_outliers(const std::vector<std::int64_t>& sizes, torch::ScalarType dtype = torch::kBFloat16) {
    torch::Tensor x = torch::randn(sizes, torch::kFloat32);
    x += torch::randn(sizes) * 10.0 * (torch::rand(sizes) < 0.001);
    return x.to(dtype);
}

/// The root of the mean square.
inline double rms(const torch::Tensor& x) { return x.square().mean().sqrt().item<double>(); }

/// P [B, H, Sq, Sk] without the keys that the mask hides.
inline torch::Tensor hidden_as_zero(const torch::Tensor& P, Mask mask) {
    if (mask == Mask::none) return P;
    return P.tril(mask == Mask::causal_top_left ? 0 : P.size(3) - P.size(2));
}

/// Holds what the kernel makes of q, k and v against float64 of what their codes stand for.
inline ::testing::AssertionResult agrees_with_its_codes(const torch::Tensor& q, const torch::Tensor& k,
                                                        const torch::Tensor& v, const AttentionOptions& options,
                                                        const Fp8Options& how) {
    const PoisonOutputs poison;
    const Fp8Operands codes = quantize_to_8_bits(q, k, v, options, how);
    const AttentionResult result = hopper_fp8_attention(codes, options.mask);
    const auto failure = [](const std::string& what) { return ::testing::AssertionFailure() << what; };
    if (result.out.sizes() != q.sizes() || result.out.scalar_type() != q.scalar_type())
        return failure("O is not like Q");

    const AttentionOptions positive{.scale = codes.scale == 0.0 ? 1.0 : std::abs(codes.scale), .mask = options.mask};
    const torch::Tensor q64 = values_of_q(codes), k64 = values_of_k(codes), v64 = values_of_v(codes);
    const AttentionResult exact = reference::attention_oracle(q64, k64, v64, positive);
    const auto cut = [&](const torch::Tensor& x) { return x.slice(3, 0, q.size(3)); };
    const torch::Tensor o64 = cut(exact.out), error = (result.out.to(torch::kFloat64) - o64).abs();

    const auto grouped = [&](const torch::Tensor& x) { return x.repeat_interleave(q.size(1) / k.size(1), 1); };
    const torch::Tensor K = grouped(k64).transpose(2, 3), V = cut(grouped(v64)).abs();
    torch::Tensor P = torch::matmul(q64, K) * *positive.scale - exact.lse.unsqueeze(3);
    P = torch::where(torch::isfinite(exact.lse).unsqueeze(3), P.exp(), torch::zeros_like(P));
    P = hidden_as_zero(P, options.mask);

    // A score: each step of 32 terms cuts off what lies 13 bits below the largest of them or of the sum so far. The
    // largest is at most the root of the sum of their squares.
    const torch::Tensor largest_term = torch::matmul(q64.square(), K.square()).sqrt();
    const torch::Tensor of_scores = (torch::matmul(q64.abs(), K.abs()) + double(q64.size(3)) * largest_term) *
                                    (*positive.scale * std::ldexp(1.0, -13));
    // A weight: 3 bits of mantissa (2 in e5m2), so 2^-4 of it; small ones are multiples of 2^-9, where the largest are
    // 2^6, or smaller by as much as their block of values is. Sums of weights times values are cut off as scores are. O
    // is rounded to its type.
    const double weight = std::ldexp(1.0, how.values == ValueCodes::e4m3 ? -4 : -3);
    const double of_sums = double(k.size(2) + 32) * std::ldexp(1.0, -13);
    const torch::Tensor magnitudes = torch::matmul(P, V), moved = P * of_scores.expm1();
    const torch::Tensor bound = (weight + of_sums) * magnitudes + torch::matmul(moved, V) +
                                moved.sum(3, true) * o64.abs() + std::ldexp(1.0, -16) * V.sum(2, true) +
                                std::ldexp(1.0, -8) * o64.abs() + 1e-30;
    if (result.out.isnan().any().item<bool>()) return failure("O has NaN");
    const double share = (error / bound).max().item<double>();
    if (!(share <= 1.0)) return failure("O errs by " + std::to_string(share) + " times its bound");
    // The roundings of many keys are independent: their sum is far below the bound. This is what a wrong order of keys,
    // columns or scales cannot keep to.
    const double relative = rms(error) / (rms(o64) + 1e-30);
    if (relative > 0.8 * weight) return failure("O errs by " + std::to_string(relative) + " of itself");

    const torch::Tensor seen = exact.lse.isfinite();
    if (!torch::equal(seen, result.lse.isfinite())) return failure("LSE is finite elsewhere");
    const torch::Tensor lse_error = (result.lse.to(torch::kFloat64) - exact.lse).abs() - moved.sum(3) - 1e-4;
    if (((lse_error > 0) & seen).any().item<bool>()) return failure("LSE errs");
    return ::testing::AssertionSuccess();
}

}  // namespace ladder::fp8
