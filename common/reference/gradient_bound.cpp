#include "common/reference/gradient_bound.h"

#include <cmath>

#include "common/reference/error_bound.h"
#include "common/reference/gradient_heads.h"
#include "common/reference/per_head.h"
#include "common/reference/roundings.h"

namespace ladder::reference {
namespace {

/// Roundings of a sum over grouped heads, of dQ and dK by the scale.
constexpr double kPerGradient = 3;

AttentionGradients bound_of_head(const Head& head, const HeadGradients& from) {
    const auto& [q, k, v, visible, scale] = head;
    const torch::Tensor hidden = visible.logical_not();
    const auto seen = [&](const torch::Tensor& x) { return x.masked_fill(hidden, 0.0); };
    const torch::Tensor scores = at::matmul(q, k.t()) * scale, score_error = score_errors(q, k, scale);

    // 1. P, from a score that is wrong by so much, and the log-sum-exp that was given.
    const torch::Tensor lse = logsumexp_of_visible(scores, visible).unsqueeze(-1);
    const torch::Tensor relative = score_error + (from.given.lse.unsqueeze(-1) - lse).abs() +
                                   kUnit * (kPerExponent * (scores - lse).abs() + kPerWeight);
    const torch::Tensor P = softmax_of_visible(scores, visible);
    const torch::Tensor P_error = seen(P * relative.expm1() + kSmallestNormal);

    // 2. dP - D + dLSE. D is made of the O that was given.
    const torch::Tensor out = at::matmul(P, v), dP = at::matmul(from.dout, v.t());
    const torch::Tensor D = (from.dout * out).sum(-1, true), dlse = from.dlse.unsqueeze(-1);
    const torch::Tensor D_error = (from.dout * (from.given.out - out)).sum(-1, true).abs() +
                                  score_errors(from.dout.unsqueeze(1), out.unsqueeze(1), 1.0).squeeze(-1) +
                                  kUnit * (D - dlse).abs();
    const torch::Tensor gap = dP - D + dlse;
    const torch::Tensor gap_error = score_errors(from.dout, v, 1.0) + D_error + kUnit * gap.abs();

    // 3. dS = P (dP - D + dLSE), a product of two numbers that are wrong and its rounding.
    const torch::Tensor dS = seen(P * gap);
    const torch::Tensor dS_error = seen(P * gap_error + P_error * (gap.abs() + gap_error) + kUnit * dS.abs());

    // 4. The sums over keys and queries.
    const torch::Tensor counts = visible.to(torch::kFloat64);
    const torch::Tensor of_keys = kUnit * roundings_of_sum(counts.sum(1, true));
    const torch::Tensor of_queries = kUnit * roundings_of_sum(counts.sum(0).unsqueeze(-1) * from.query_heads);
    const auto sum = [](const torch::Tensor& factors, const torch::Tensor& errors, const torch::Tensor& values,
                        const torch::Tensor& roundings) {
        return at::matmul(errors, values.abs()) +
               (roundings + kPerGradient * kUnit) * at::matmul(factors.abs(), values.abs()) + kSmallestNormal;
    };
    const double size = std::abs(scale);
    return {sum(dS, dS_error, k, of_keys) * size, sum(dS.t(), dS_error.t(), q, of_queries) * size,
            sum(P.t(), P_error.t(), from.dout, of_queries)};
}

}  // namespace

AttentionGradients gradient_bound(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                  const AttentionResult& given, const torch::Tensor& dout,
                                  const AttentionOptions& options, const std::optional<torch::Tensor>& dlse) {
    const at::NoGradGuard no_gradients;
    return differentiate_each_head(q, k, v, dout, options, dlse, given, torch::kFloat64, bound_of_head);
}

}  // namespace ladder::reference
