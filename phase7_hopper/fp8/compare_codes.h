#pragma once

// Verdicts on attention in 8 bits, for tests and for the fuzzer: on the codes, and on what the kernel makes of them.

#include <ATen/ops/eye.h>
#include <ATen/ops/nan_to_num.h>

#include <cmath>
#include <string>

#include "common/reference/comparison.h"
#include "phase7_hopper/fp8/code_bound.h"

namespace ladder::fp8 {

/// The root of the mean square.
inline double rms(const torch::Tensor& x) { return x.square().mean().sqrt().item<double>(); }

/// Holds what the kernel made of codes against float64 of what they stand for (code_bound.h).
///
/// A number of V that is not finite is NaN among the codes: it makes NaN of the rows that see it, and may make NaN of
/// rows whose tile of queries visits its tile of keys.
inline reference::Comparison compare_with_codes(const AttentionResult& result, const Fp8Operands& codes, Mask mask) {
    if (!result.out.defined() || result.out.scalar_type() != codes.dtype)
        return {.report = "out: it is not of the type that the tensors had"};
    const Expected expected = expected_of(codes, mask);
    torch::Tensor out = result.out.to(torch::kFloat32);
    if (out.sizes() == expected.out.sizes()) {
        const torch::Tensor reached = values_of_v(codes)
                                          .slice(3, 0, codes.head_dim)
                                          .isnan()
                                          .any(2, true)
                                          .repeat_interleave(codes.q.size(1) / codes.k.size(1), 1);
        out = torch::where(out.isnan().logical_and(reached), expected.out.to(torch::kFloat32), out);
    }
    constexpr const char* kOrigin = "there, from what 8 bits and tensor cores cut off";
    reference::Comparison verdict = reference::compare_within(out, expected.out, expected.out_bound, "out", kOrigin);
    const reference::Comparison of_lse =
        reference::compare_within(result.lse, expected.lse, expected.lse_bound, "lse", kOrigin);
    verdict.passed = verdict.passed && of_lse.passed;
    verdict.report += (verdict.passed ? "; " : "\n") + of_lse.report;
    if (!verdict.passed || !has_many_results(expected.out)) return verdict;
    const torch::Tensor finite = expected.out.isfinite();
    const double error = rms((out.to(torch::kFloat64) - expected.out).masked_select(finite)),
                 allowed = rms(expected.typical.masked_select(finite));
    if (!finite.any().item<bool>() || error <= allowed) return verdict;
    return {.max_abs_error = error,
            .bound = allowed,
            .report = "out: as a whole it errs by " + std::to_string(error / allowed) +
                      " times what independent roundings come to"};
}

/// A tensor before it is rounded, float64 [B, H, S, D]: its rows turned by the angles of their positions.
inline torch::Tensor turned(const torch::Tensor& x, const Rotary& rotary, std::int64_t first_position) {
    const std::int64_t D = x.size(3), last = first_position + x.size(2);
    const torch::Tensor x64 = x.to(torch::kFloat64), even = x64.slice(3, 0, D, 2), odd = x64.slice(3, 1, D, 2);
    const torch::Tensor c = rotary.cosines.slice(0, first_position, last),
                        s = rotary.sines.slice(0, first_position, last);
    return torch::stack({even * c - odd * s, even * s + odd * c}, 4).reshape(x.sizes());
}

/// The matrix that rows are multiplied by, float64 [head_dim, columns]: what becomes of the rows of the identity. Its
/// elements are one number, of either sign, which no code need hold.
inline torch::Tensor rotation_of(const torch::Tensor& q) {
    const torch::Tensor eye = at::eye(q.size(3), q.options().dtype(torch::kFloat32));
    const torch::Tensor identity = eye.to(q.scalar_type()).view({1, 1, q.size(3), q.size(3)});
    const torch::Tensor rows = values_of_k(quantize_to_8_bits(identity, identity, identity))[0][0];
    return rows.sign() / std::sqrt(double(rows.size(1)));
}

/// Holds the codes of a tensor against the numbers that they round. Of what is not finite the codes are NaN.
///
/// A block's exponent must be the smallest that its largest number leaves: half a low step is then at most as large as
/// here, unless the block is so small that `smallest_exponent` decides.
///
/// @param exact   float64 [B, H, S, D], before it is rounded
/// @param values  float64, what the codes stand for
/// @param strays  float64 [B, H, S, 1]: how far float32 may be from `exact` by then
inline reference::Comparison compare_rounded(const torch::Tensor& exact, const torch::Tensor& values, int block_rows,
                                             ValueCodes type, int smallest_exponent, const torch::Tensor& strays,
                                             const char* name) {
    const CodeFormat format = format_of(type);
    const torch::Tensor magnitude = torch::where(exact.isfinite(), exact.abs(), torch::zeros_like(exact));
    const std::int64_t length = exact.size(2), blocks = (length + block_rows - 1) / block_rows;
    const torch::Tensor of_rows = (magnitude.amax(3, true) + strays).squeeze(3);
    const torch::Tensor largest = at::constant_pad_nd(of_rows, {0, blocks * block_rows - length})
                                      .view({exact.size(0), exact.size(1), blocks, block_rows})
                                      .amax(3)
                                      .repeat_interleave(block_rows, 2)
                                      .slice(2, 0, length)
                                      .unsqueeze(3);
    const torch::Tensor scale = (largest * (2.0 / format.largest)).clamp_min(std::ldexp(1.0, smallest_exponent));
    const torch::Tensor bound =
        torch::maximum(magnitude * format.half_a_step, scale * format.half_a_low_step) + 2.0 * strays;
    const torch::Tensor expected = torch::where(exact.isfinite(), exact, torch::full_like(exact, NAN));
    return reference::compare_within(values.to(torch::kFloat32), expected, bound, name,
                                     "there, half a step of its code");
}

/// Holds the codes of q, k and v against the tensors, each element against half a step of its code.
inline reference::Comparison compare_quantized(const Fp8Operands& codes, const torch::Tensor& q, const torch::Tensor& k,
                                               const torch::Tensor& v, const Fp8Options& how) {
    constexpr int kSmallestScoreExponent = -60, kSmallestValueExponent = -100;
    const std::int64_t columns = codes.q.size(3);
    const torch::Tensor rotation = how.rotated ? rotation_of(q) : torch::Tensor();
    if (how.rotated &&
        !at::allclose(torch::matmul(rotation, rotation.t()), at::eye(q.size(3), rotation.options()), 0.0, 1e-12))
        return {.report = "q, k: the matrix that rotates them is not orthogonal"};
    const auto exact = [&](const torch::Tensor& x, double sign, std::int64_t first_position) {
        const torch::Tensor x64 = (how.rotary ? turned(x, *how.rotary, first_position) : x.to(torch::kFloat64)) * sign;
        return how.rotated ? torch::matmul(x64, rotation) : at::constant_pad_nd(x64, {0, columns - x.size(3)});
    };
    // In float32, before rounding: a butterfly of log2 D sums, or two products and a sum.
    const auto strays = [&](const torch::Tensor& x) {
        if (!how.rotated && !how.rotary) return torch::zeros({1, 1, 1, 1}, x.options().dtype(torch::kFloat64));
        const torch::Tensor finite = at::nan_to_num(x.to(torch::kFloat64), 0.0, 0.0, 0.0);
        return finite.abs().sum(3, true) * (how.rotated ? 0x1p-20 / std::sqrt(double(columns)) : 0x1p-22);
    };
    const double sign = codes.scale > 0.0 ? 1.0 : codes.scale < 0.0 ? -1.0 : 0.0;
    reference::Comparison verdict{.passed = true};
    const auto join = [&](const reference::Comparison& part) {
        if (verdict.passed && !part.passed) verdict = part;
    };
    const std::int64_t first_query = how.rotary ? how.rotary->first_query : 0;
    join(compare_rounded(exact(q, sign, first_query), values_of_q(codes), kQueryRows, ValueCodes::e4m3,
                         kSmallestScoreExponent, strays(q), "codes of q"));
    join(compare_rounded(exact(k, 1.0, 0), values_of_k(codes), kKeyRows, ValueCodes::e4m3, kSmallestScoreExponent,
                         strays(k), "codes of k"));
    join(compare_rounded(at::constant_pad_nd(v.to(torch::kFloat64), {0, columns - v.size(3)}), values_of_v(codes),
                         kKeyRows, codes.values, kSmallestValueExponent,
                         torch::zeros({1, 1, 1, 1}, v.options().dtype(torch::kFloat64)), "codes of v"));
    return verdict;
}

/// The promise of hopper_fp8_forward(): the tensors' codes are as near to them as codes can be, and the result is as
/// near to what the codes stand for as its bound allows. The error and the bound are those of O.
inline reference::Comparison compare_in_8_bits(const AttentionResult& result, const torch::Tensor& q,
                                               const torch::Tensor& k, const torch::Tensor& v,
                                               const AttentionOptions& options, const Fp8Options& how) {
    const Fp8Operands codes = quantize_to_8_bits(q, k, v, options, how);
    const reference::Comparison rounded = compare_quantized(codes, q, k, v, how);
    return rounded.passed ? compare_with_codes(result, codes, options.mask) : rounded;
}

}  // namespace ladder::fp8
