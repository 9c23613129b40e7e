#include "common/classroom/judge/examine_attention.h"

#include <algorithm>

#include "common/classroom/judge/parts.h"
#include "common/classroom/judge/spread.h"
#include "common/reference/comparison.h"

namespace ladder::classroom {

std::optional<Finding> examine_attention(const AttentionQuestion& question, const Attended& result) {
    const auto& [q, k, v, form, rows_per_tile, keys_per_tile, scores_kept, garbage] = question;
    Form fair_form = form;
    if (scores_kept) fair_form.scores_kept_as = q.scalar_type();
    const Attended expected = attend(q, k, v, form, torch::kFloat64),
                   fair = attend(q, k, v, fair_form, torch::kFloat32);
    const double magnitude = v.to(torch::kFloat64).abs().max().item<double>();
    const reference::Comparison out =
        reference::compare(result.out, expected.out, fair.out.to(q.scalar_type()), magnitude, "O");
    const torch::Tensor finite = expected.lse.masked_fill(at::isfinite(expected.lse).logical_not(), 0);
    const reference::Comparison lse =
        reference::compare(result.lse, expected.lse, fair.lse, std::max(1.0, finite.abs().max().item<double>()), "LSE");
    if (out.passed && lse.passed) return {};

    Finding finding;
    const reference::Comparison& worse = out.passed ? lse : out;
    const Spread spread = out.passed ? spread_of("LSE", result.lse, expected.lse,
                                                 wrong_elements(result.lse, expected.lse, lse.bound), rows_per_tile)
                                     : spread_of("O", result.out, expected.out,
                                                 wrong_elements(result.out, expected.out, out.bound), rows_per_tile);
    finding.summary = worse.report;
    finding.first = spread.first;
    finding.pattern = spread.pattern + (out.passed   ? "; O is right"
                                        : lse.passed ? "; LSE is right"
                                                     : "; LSE is wrong too");
    if (const auto known = known_mistake(question, result)) finding.lookalike = std::string(*known);
    return finding;
}

}  // namespace ladder::classroom
