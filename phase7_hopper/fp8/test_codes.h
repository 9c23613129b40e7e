#pragma once

// What the tests of 8-bit attention share: inputs with outliers, and checks of what a call gives.

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "common/attention/outputs.h"
#include "phase7_hopper/fp8/compare_codes.h"

namespace ladder::fp8 {

/// FlashAttention-3's inputs with outliers (section 4.3): one in a thousand is ten times as large.
inline torch::Tensor with_outliers(const std::vector<std::int64_t>& sizes, torch::ScalarType dtype = torch::kBFloat16) {
    torch::Tensor x = torch::randn(sizes, torch::kFloat32);
    x += torch::randn(sizes) * 10.0 * (torch::rand(sizes) < 0.001);
    return x.to(dtype);
}

/// Holds what the kernel makes of q, k and v against float64 of what their codes stand for. Of many numbers at random
/// the roundings are independent, and what they add up to is far below the bound: O as a whole errs by less than half a
/// step. This is what a wrong order of keys, columns or scales cannot keep to.
inline ::testing::AssertionResult agrees_with_its_codes(const torch::Tensor& q, const torch::Tensor& k,
                                                        const torch::Tensor& v, const AttentionOptions& options,
                                                        const Fp8Options& how) {
    const PoisonOutputs poison;
    const Fp8Operands codes = quantize_to_8_bits(q, k, v, options, how);
    const AttentionResult result = hopper_fp8_attention(codes, options.mask);
    const reference::Comparison verdict = compare_with_codes(result, codes, options.mask);
    if (!verdict.passed) return ::testing::AssertionFailure() << verdict.report;
    const torch::Tensor exact = expected_of(codes, options.mask).out;
    const double relative = rms(result.out.to(torch::kFloat64) - exact) / (rms(exact) + 1e-30);
    if (relative > 0.8 * format_of(how.values).half_a_step)
        return ::testing::AssertionFailure() << "O errs by " << relative << " of itself";
    return ::testing::AssertionSuccess();
}

/// Calls hopper_fp8_forward() and holds its codes and its result to their bounds.
inline ::testing::AssertionResult keeps_its_bounds(const torch::Tensor& q, const torch::Tensor& k,
                                                   const torch::Tensor& v, const AttentionOptions& options,
                                                   const Fp8Options& how) {
    const PoisonOutputs poison;
    const AttentionResult result = hopper_fp8_forward(q, k, v, options, how);
    const reference::Comparison verdict = compare_in_8_bits(result, q, k, v, options, how);
    if (!verdict.passed) return ::testing::AssertionFailure() << verdict.report;
    return ::testing::AssertionSuccess();
}

}  // namespace ladder::fp8
