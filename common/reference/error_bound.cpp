#include "common/reference/error_bound.h"

#include <algorithm>
#include <cmath>

#include "common/reference/per_head.h"
#include "common/reference/roundings.h"

namespace ladder::reference {
namespace {

/// Roundings of a score besides the additions: its products, the scale, and scaling by it.
constexpr double kPerScore = 3;

/// Relative to the maximum m: splits are merged by their log-sum-exp, which is about m, in two roundings.
constexpr double kPerMaximum = 2;

/// After a tile in which the maximum moved, sums are multiplied by an exponential, 5 u, and merged, 1 u.
constexpr double kPerTile = 6, kKeysOfTile = 32;

/// Independent roundings of n additions add up to sqrt(n), not to n. Those of equal terms are not independent; to 256
/// additions, n itself is allowed (lambda of Higham and Mary, Theorem 2.4).
constexpr double kLambda = 16;

}  // namespace

torch::Tensor roundings_of_sum(const torch::Tensor& terms) {
    const torch::Tensor certain = terms + kPerTile * at::ceil(terms / kKeysOfTile) + kPerWeight;
    return at::minimum(certain, kLambda * at::sqrt(certain));
}

torch::Tensor score_errors(const torch::Tensor& q, const torch::Tensor& k, double scale) {
    constexpr int64_t kBlock = 8;
    const int64_t D = q.size(-1);
    const torch::Tensor all = at::matmul(q, k.transpose(-1, -2));
    torch::Tensor before = at::zeros_like(all), magnitude = at::zeros_like(all);
    torch::Tensor from_front = at::zeros_like(all), from_back = at::zeros_like(all);
    // One sum in turn rounds each partial sum, and errs by u times the sum of their sizes. Within a block of columns
    // they stay below the sum at its edge and the block's magnitude. Where q is 0, nothing is added, and nothing
    // rounded.
    for (int64_t first = 0; first < D; first += kBlock) {
        const int64_t columns = std::min(kBlock, D - first);
        const torch::Tensor q_b = q.narrow(-1, first, columns), k_b = k.narrow(-1, first, columns).transpose(-1, -2);
        const torch::Tensor additions = q_b.ne(0).sum(-1, true).to(q.scalar_type());
        const torch::Tensor of_block = at::matmul(q_b.abs(), k_b.abs());
        from_front += additions * (before.abs() + of_block);
        before += at::matmul(q_b, k_b);
        from_back += additions * ((all - before).abs() + of_block);
        magnitude += of_block;
    }
    // In any other order, eight lanes at least, a product passes an eighth of the additions, and those of the lanes.
    const torch::Tensor columns = q.ne(0).sum(-1, true).to(q.scalar_type());
    const torch::Tensor in_lanes = at::minimum(columns, columns / 8 + 8) * magnitude;
    return (at::maximum(at::maximum(from_front, from_back), in_lanes) + kPerScore * magnitude) *
           (std::abs(scale) * kUnit);
}

ErrorBound bound_of_scores(const torch::Tensor& scores, const torch::Tensor& errors, const torch::Tensor& v) {
    const torch::Tensor hidden = scores.eq(kHiddenScore);
    const torch::Tensor m = scores.amax(-1, /*keepdim=*/true), lse = at::logsumexp(scores, -1, /*keepdim=*/true);
    // An absolute error of a score is a relative error of its weight, and so are those of the exponent.
    const torch::Tensor relative = errors + kUnit * (kPerMaximum * m.abs() + kPerExponent * (m - scores) + kPerWeight);
    const torch::Tensor logs = scores - lse;
    const auto seen = [&](const torch::Tensor& x) { return x.masked_fill(hidden, 0.0); };
    const torch::Tensor weights = seen(at::exp(logs));
    // Their sum is 1. It may shrink to `least` when each is as small as it may be, and grow by what `moved` adds up to.
    const torch::Tensor least = seen(at::exp(logs - relative)).sum(-1, true).clamp_min(kSmallestNormal);
    const torch::Tensor moved = seen(at::exp(logs + relative) - weights + kSmallestNormal);
    const torch::Tensor moved_share = (moved / least).clamp_max(1.0);

    const torch::Tensor sum_error = kUnit * roundings_of_sum(hidden.logical_not().sum(-1, true).to(scores.dtype()));
    const torch::Tensor values = v.masked_fill(at::isfinite(v).logical_not(), 0.0);
    const torch::Tensor out = at::matmul(weights, values);
    // A weight that moves by w_j moves the output by w_j (v_j - o). The sum over j of w_j |v_j - o| is at most, by
    // Cauchy and Schwarz, the root of the sum of w_j times that of w_j (v_j - o)^2, which takes no more than products
    // of matrices.
    const torch::Tensor moved_in_all = moved_share.sum(-1, true);
    const torch::Tensor squares = at::matmul(moved_share, values.square()) - 2 * out * at::matmul(moved_share, values) +
                                  out.square() * moved_in_all;
    const torch::Tensor by_weights = at::sqrt(moved_in_all * squares.clamp_min(0.0));
    const torch::Tensor by_sums = sum_error * (at::matmul(weights, values.abs()) + out.abs());
    // Merged splits are scaled by an exponential of the whole's log-sum-exp.
    const torch::Tensor by_logarithm = kUnit * (kPerMaximum * (m.abs() + lse.abs()) + kPerWeight);

    const torch::Tensor by_scores = at::maximum(at::log1p(moved.sum(-1, true)), -at::log(least));
    const torch::Tensor sees_nothing = hidden.all(-1, true);
    return {(by_weights + by_sums + by_logarithm * out.abs() + kSmallestNormal).masked_fill(sees_nothing, 0.0),
            (by_scores + sum_error + by_logarithm).masked_fill(sees_nothing, 0.0).squeeze(-1)};
}

ErrorBound attention_bound(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                           const AttentionOptions& options, const std::optional<torch::Tensor>& kv_lengths) {
    const auto attend = [](const Head& head) -> AttentionResult {
        const torch::Tensor scores = at::matmul(head.q, head.k.t()) * head.scale;
        const ErrorBound bound = bound_of_scores(scores.masked_fill(head.visible.logical_not(), kHiddenScore),
                                                 score_errors(head.q, head.k, head.scale), head.v);
        return {bound.out, bound.lse};
    };
    const AttentionResult bound =
        attend_each_head(q, k, v, options, kv_lengths, torch::kFloat64, torch::kFloat64, attend);
    return {bound.out, bound.lse};
}

torch::Tensor softmax_bound(const torch::Tensor& x) {
    constexpr double kLanes = 32, kTermsOfPart = 64, kMerges = 5;
    const at::NoGradGuard no_gradients;
    const torch::Tensor scores = x.detach().to(torch::kFloat64);
    const torch::Tensor y = at::softmax(scores, -1);
    const torch::Tensor hidden = scores.eq(kHiddenScore);
    const torch::Tensor exponents =
        (scores.amax(-1, true) - scores).masked_fill(hidden, 0.0) * kPerExponent + kPerWeight;
    // Each addition may come with a rescaled sum.
    const double longest_way = 2 * (kTermsOfPart + std::ceil(double(x.size(-1)) / (kLanes * kTermsOfPart)) + kMerges);
    const torch::Tensor of_sum = (y * exponents).sum(-1, true) + longest_way;
    return kUnit * y * (exponents + of_sum) + kSmallestNormal;
}

}  // namespace ladder::reference
