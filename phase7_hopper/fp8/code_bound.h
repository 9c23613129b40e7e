#pragma once

// How far attention in 8 bits may lie from float64 of what its codes stand for.
//
// Let P_j be the exact weights of a row, d_j how far the kernel's score of key j may lie from the exact one, and
// P'_j = P_j e^(d_j) / sum_k P_k e^(d_k) what exact weights of the kernel's scores would be. With
//
//     a_j = e^|d_j| - 1     N = sum_j P_j e^-|d_j|     s = sqrt(sum_j P_j a_j^2) / N
//
// and the inequality of Cauchy and Schwarz, every sum over x_j moves by |sum P'_j x_j - sum P_j x_j| <= s sigma(x),
// where sigma is the deviation of x under P: a row with one key that outweighs the others may move its score by much.
//
//   scores    A step of 32 columns adds 32 terms to the sum so far. Tensor cores cut all 33 off 13 bits below the
//   largest
//             of them; the roundings of float32 come to less than one more.
//   weights   are rounded to codes: by half a step, a share of them, or half of a low step where the weight that
//   decided
//             on the maximum is at least 2^6 times a power of 2 that belongs to its block of values.
//   sums      of weights times values are cut off as scores are.
//   O         is rounded to its type.
//
// LSE is a sum in float32, so only scores move it: by log sum_j P_j e^(d_j), at most sum_j P_j a_j either way.
//
// Of many keys this is far more than ever happens, since it takes all roundings of weights to go the same way. They are
// independent, or where scores are equal the same: what they add up to is then of the size of sqrt(sum_j (P_j V_j)^2),
// or of O, times at most half a step. Single results may be larger, many together are not: their root mean square must
// keep to it. A kernel that mistakes one key for another cannot.

#include <ATen/ops/nan_to_num.h>

#include <cmath>

#include "common/reference/oracle.h"
#include "common/reference/per_head.h"
#include "phase7_hopper/fp8/codes.h"

namespace ladder::fp8 {

/// What the kernel should give, and how far it may lie from that. A row with a number that is not finite has no bound.
struct Expected {
    torch::Tensor out, lse;              ///< float64 of what the codes stand for, [B, Hq, Sq, D] and [B, Hq, Sq]
    torch::Tensor out_bound, lse_bound;  ///< of the same shapes
    torch::Tensor typical;  ///< of the shape of out: what the errors of many rows are at most, in the root mean square
};

/// Whether a head has so many results that their root mean square error says something.
inline bool has_many_results(const torch::Tensor& out) {
    return out.size(2) >= 16 && out.size(2) * out.size(3) >= 1024;
}

/// How far a sum over the last dimension of x and the one before it of y may be cut off: [..., M, D] and [..., D, N].
inline torch::Tensor cut_off_products(const torch::Tensor& x, const torch::Tensor& y) {
    constexpr std::int64_t kStep = 32;
    constexpr double kCut = 0x1p-13, kTerms = kStep + 2;
    torch::Tensor error, sum;
    for (std::int64_t c = 0; c < x.size(-1); c += kStep) {
        const torch::Tensor a = x.narrow(-1, c, kStep), b = y.narrow(-2, c, kStep);
        // The root of the sum of their squares is no less than the largest term.
        torch::Tensor largest = torch::matmul(a.square(), b.square()).sqrt();
        if (sum.defined()) largest = torch::maximum(largest, sum.abs() + error);
        error = sum.defined() ? error + largest * (kCut * kTerms) : largest * (kCut * kTerms);
        sum = sum.defined() ? sum + torch::matmul(a, b) : torch::matmul(a, b);
    }
    return error;
}

/// The deviation of each column of x [..., Sk, D] under the weights P [..., Sq, Sk]: [..., Sq, D].
inline torch::Tensor deviation(const torch::Tensor& P, const torch::Tensor& x) {
    const torch::Tensor squares = torch::matmul(P, x.square());
    const torch::Tensor variance = squares - torch::matmul(P, x).square();
    return variance.clamp_min(0.0).sqrt() + squares.sqrt() * 0x1p-24;  // of a difference that keeps nothing
}

/// Attention in float64 on what the codes stand for, and the bound.
inline Expected expected_of(const Fp8Operands& codes, Mask mask) {
    const CodeFormat weights = format_of(codes.values);
    const AttentionOptions options{.scale = codes.scale == 0.0 ? 1.0 : std::abs(codes.scale), .mask = mask};
    const std::int64_t queries = codes.q.size(2), keys = codes.k.size(2);
    const AttentionResult exact =
        reference::attention_oracle(values_of_q(codes), values_of_k(codes), values_of_v(codes), options);
    const auto columns = [&](const torch::Tensor& x) { return x.slice(3, 0, codes.head_dim); };
    const torch::Tensor out = columns(exact.out);

    const auto grouped = [&](const torch::Tensor& x) {
        return at::nan_to_num(x.repeat_interleave(codes.q.size(1) / codes.k.size(1), 1));
    };
    const torch::Tensor Q = at::nan_to_num(values_of_q(codes)), K_t = grouped(values_of_k(codes)).transpose(2, 3);
    const torch::Tensor V = grouped(columns(values_of_v(codes)));
    const torch::Tensor visible = reference::visible_keys(mask, queries, keys, Q.device());
    const torch::Tensor S = torch::matmul(Q, K_t) * *options.scale;
    const torch::Tensor P = reference::softmax_of_visible(S, visible);

    constexpr double kFarEnough = 300.0;  // e^kFarEnough says no more than infinity, and is a number
    const torch::Tensor d = (cut_off_products(Q, K_t) * *options.scale).clamp_max(kFarEnough);
    const torch::Tensor a = d.expm1(), N = (P * (-d).exp()).sum(3, true).clamp_min(std::exp(-kFarEnough));
    const torch::Tensor s = (P * a.square()).sum(3, true).sqrt() / N;

    const torch::Tensor magnitudes = torch::matmul(P, V.abs()) + s * deviation(P, V.abs());
    const double of_weights = weights.half_a_step;
    const double of_sums = double(keys + (keys + kKeyRows - 1) / kKeyRows * 4 + 1) * 0x1p-13;
    // Low steps: a key's weight is in units of the largest P'_j 2^(e_V), over 2^6.
    const torch::Tensor block = scales_of(grouped(codes.v_exponents.unsqueeze(-1)).squeeze(-1), kKeyRows, keys);
    const torch::Tensor largest = ((P * d.exp() / N).clamp_max(1.0) * block.transpose(2, 3)).amax(3, true);
    const torch::Tensor code_sums = torch::matmul(visible.to(torch::kFloat64), V.abs() / block);
    const torch::Tensor of_scores_and_low_steps =
        s * deviation(P, V) + largest * code_sums * (weights.half_a_low_step * 0x1p-6);
    const auto rounded = [&](const torch::Tensor& error) {
        const bool half = codes.dtype == torch::kFloat16;
        return error + (out.abs() + error) * (half ? 0x1p-11 : 0x1p-9) + (half ? 0x1p-25 : 1e-30);
    };
    const torch::Tensor independent = torch::matmul(P.square(), V.square()).sqrt();
    return {.out = out,
            .lse = exact.lse,
            .out_bound = rounded(of_scores_and_low_steps + (of_weights + of_sums * (1.0 + of_weights)) * magnitudes),
            .lse_bound = (P * a).sum(3) + 1e-4,
            .typical = rounded(of_scores_and_low_steps + of_weights * torch::maximum(independent, out.abs()))};
}

}  // namespace ladder::fp8
