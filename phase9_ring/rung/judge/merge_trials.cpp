// Partial results of attention over some of the keys each, that come one after another and are merged into a sum. The
// suite: {"problem": "ring_merge"}

#include <fmt/format.h>

#include <limits>

#include "common/classroom/judge/spread.h"
#include "common/classroom/judge/tensors.h"
#include "common/reference/comparison.h"
#include "phase9_ring/rung/judge/problems.h"

namespace ladder::classroom::phase9_ring {
namespace {

using nlohmann::json;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Sums of all parts: [P, B, H, S, D] and [P, B, H, S], in the given precision.
AttentionResult merged(const torch::Tensor& out, const torch::Tensor& lse, torch::ScalarType precision) {
    const torch::Tensor sums = lse.to(precision), sum = at::logsumexp(sums, 0);
    const torch::Tensor weights = at::exp(sums - sum.masked_fill(sum.eq(-kInfinity), 0)).unsqueeze(-1);
    const torch::Tensor outs = out.to(precision).masked_fill(sums.eq(-kInfinity).unsqueeze(-1), 0);
    return {.out = (weights * outs).sum(0), .lse = sum};
}

std::optional<Finding> examine(const torch::Tensor& out, const torch::Tensor& lse, const AttentionResult& got) {
    const AttentionResult expected = merged(out, lse, torch::kFloat64), fair = merged(out, lse, torch::kFloat32);
    const auto of_out = reference::compare(got.out, expected.out, fair.out, 1.0, "O");
    const auto of_lse = reference::compare(got.lse, expected.lse, fair.lse, 1.0, "LSE");
    if (of_out.passed && of_lse.passed) return {};
    const torch::Tensor column = expected.lse.unsqueeze(-1), got_column = got.lse.unsqueeze(-1);
    const Spread spread =
        of_out.passed ? spread_of("LSE", got_column, column, wrong_elements(got_column, column, of_lse.bound), 0)
                      : spread_of("O", got.out, expected.out, wrong_elements(got.out, expected.out, of_out.bound), 0);
    return Finding{.summary = (of_out.passed ? of_lse : of_out).report,
                   .first = spread.first,
                   .pattern = spread.pattern + (of_out.passed   ? "; O is right"
                                                : of_lse.passed ? "; LSE is right"
                                                                : "; LSE is wrong too")};
}

std::vector<Trial> merge_trials(const json& suite, std::uint64_t seed) {
    Draw draw(kSizes), values(seed);
    std::vector<Trial> trials;
    const auto add = [&](const std::string& property, const std::string& name, std::int64_t parts, std::int64_t rows,
                         std::int64_t head_dim, double spread_of_lse, bool some_empty, bool far_from_0 = true) {
        at::manual_seed(std::uint64_t(values(1, 1'000'000'000)));
        // The first of them is what was there before.
        const torch::Tensor out = at::randn({parts + 1, 1, 2, rows, head_dim}),
                            lse = at::randn({parts + 1, 1, 2, rows}) * spread_of_lse;
        // Up and down by turns, which changes no weight: exp(LSE) overflows in one row and is 0 in the next.
        if (far_from_0) lse.add_(at::arange(rows).remainder(2) * -200 + 100);
        if (some_empty) {
            const torch::Tensor empty = at::rand({parts + 1, 1, 2, rows}) < 0.5;
            empty.select(3, 0).fill_(true);  // the first row saw nothing at all
            lse.masked_fill_(empty, -kInfinity);
            out.masked_fill_(empty.unsqueeze(-1), 0);
        }
        Trial trial{.property = property,
                    .name = fmt::format("{}: {} parts of {} rows, D {}{}", name, parts, rows, head_dim,
                                        far_from_0 ? ", LSE about 100 and -100" : ""),
                    .sizes = {{"P", parts}, {"N", 2 * rows}, {"D", head_dim}}};
        trial.problem = empty_problem(suite.value("device", "rtx4090"));
        add_number(trial.problem, "parts", double(parts));
        add_input(trial.problem, "O_before", out[0]);
        add_input(trial.problem, "LSE_before", lse[0]);
        for (std::int64_t p = 0; p < parts; ++p) {
            add_input(trial.problem, "O_part" + std::to_string(p), out[p + 1]);
            add_input(trial.problem, "LSE_part" + std::to_string(p), lse[p + 1]);
        }
        add_output(trial.problem, "O", out[0].sizes(), torch::kFloat32);
        add_output(trial.problem, "LSE", lse[0].sizes(), torch::kFloat32);
        trial.examine = [out, lse, asked = trial.problem](const Message& reply) {
            return examine(out, lse, {.out = output_of(asked, reply, 0), .lse = output_of(asked, reply, 1)});
        };
        trials.push_back(std::move(trial));
    };
    add("one_part", "two sums become one", 1, draw(2, 9), 32, 2, false, false);
    add("one_part", "ragged", 1, draw(9, 15), draw(5, 15) * 2 + 1, 1, false);
    add("several_parts", "one after another", draw(3, 7), draw(5, 9), 32, 2, false);
    add("empty", "parts that saw no key", draw(3, 6), draw(4, 9), 32, 1, true);
    add("extremes", "sums of very different size", draw(2, 5), draw(4, 9), 32, 100, false, false);
    return trials;
}

}  // namespace

ProblemKind merge_problems() {
    return {.name = "ring_merge",
            .trials = merge_trials,
            .titles = {{"one_part", "one more part"},
                       {"several_parts", "several parts, one after another"},
                       {"empty", "parts that saw no key"}}};
}

}  // namespace ladder::classroom::phase9_ring
