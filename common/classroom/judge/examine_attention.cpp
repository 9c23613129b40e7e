#include "common/classroom/judge/examine_attention.h"

#include <algorithm>
#include <cmath>

#include "common/classroom/judge/parts.h"
#include "common/classroom/judge/spread.h"
#include "common/reference/comparison.h"
#include "common/reference/error_bound.h"

namespace ladder::classroom {
namespace {

/// What float32 may do to this question's attention: the bound of common/reference, with the roundings that an
/// exercise's own changes to a score add.
reference::ErrorBound bound_of(const AttentionQuestion& question) {
    constexpr double kRoundings = 8 * 0x1p-24;
    const Form& form = question.form;
    const auto wide = [&](const torch::Tensor& kv) {
        return kv.to(torch::kFloat64).repeat_interleave(question.q.size(1) / kv.size(1), 1);
    };
    const torch::Tensor scores = scores_of(question.q, question.k, form, torch::kFloat64);
    torch::Tensor errors = reference::score_errors(question.q.to(torch::kFloat64), wide(question.k), form.scale);
    if (form.softcap)  // an infinite score becomes the cap, exactly
        errors = errors.masked_fill(at::isfinite(errors).logical_not(), 0) + kRoundings * std::abs(*form.softcap);
    if (form.slopes) {  // |slope (j - i)| is at most |slope| times the larger length
        const double longest = double(std::max(question.q.size(2), question.k.size(2)));
        errors = errors + kRoundings * longest * form.slopes->to(torch::kFloat64).abs().view({1, -1, 1, 1});
    }
    return reference::bound_of_scores(scores, errors, wide(question.v));
}

}  // namespace

std::optional<Finding> examine_attention(const AttentionQuestion& question, const Attended& result) {
    const auto& [q, k, v, form, rows_per_tile, keys_per_tile, scores_kept, weights_rounded, garbage] = question;
    Form fair_form = form;
    if (scores_kept) fair_form.scores_kept_as = q.scalar_type();
    if (weights_rounded) fair_form.weights_kept_as = v.scalar_type();
    const Attended expected = attend(q, k, v, form, torch::kFloat64),
                   fair = attend(q, k, v, fair_form, torch::kFloat32);
    reference::Comparison out, lse;
    if (q.scalar_type() == torch::kFloat32) {
        const reference::ErrorBound bound = bound_of(question);
        out = reference::compare_within(result.out, expected.out, bound.out, "O");
        lse = reference::compare_within(result.lse, expected.lse, bound.lse, "LSE");
    } else {
        const double magnitude = v.to(torch::kFloat64).abs().max().item<double>();
        out = reference::compare(result.out, expected.out, fair.out.to(q.scalar_type()), magnitude, "O");
        const torch::Tensor finite = expected.lse.masked_fill(at::isfinite(expected.lse).logical_not(), 0);
        lse = reference::compare(result.lse, expected.lse, fair.lse, std::max(1.0, finite.abs().max().item<double>()),
                                 "LSE");
    }
    if (out.passed && lse.passed) return {};

    Finding finding;
    const reference::Comparison& worse = out.passed ? lse : out;
    const Spread spread = out.passed ? spread_of("LSE", result.lse, expected.lse, lse.wrong, rows_per_tile)
                                     : spread_of("O", result.out, expected.out, out.wrong, rows_per_tile);
    finding.summary = worse.report;
    finding.first = spread.first;
    finding.pattern = spread.pattern + (out.passed   ? "; O is right"
                                        : lse.passed ? "; LSE is right"
                                                     : "; LSE is wrong too");
    if (const auto known = known_mistake(question, result)) finding.lookalike = std::string(*known);
    return finding;
}

}  // namespace ladder::classroom
