// Partial results of attention over some of the keys each, to be merged. The suite: {"problem": "merge"}

#include <fmt/format.h>

#include <array>
#include <functional>
#include <limits>

#include "common/classroom/judge/first_given.h"
#include "common/classroom/judge/spread.h"
#include "common/classroom/judge/tensors.h"
#include "common/reference/comparison.h"
#include "phase5_decoding/rung/judge/problems.h"

namespace ladder::classroom::phase5_decoding {
namespace {

using nlohmann::json;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

constexpr std::string_view kMean = "phase5_decoding/splits_not_weighted",
                           kSum = "phase5_decoding/no_division_in_the_merge",
                           kSumOverCount = "phase5_decoding/weights_without_the_sums",
                           kNoMaximum = "phase5_decoding/combined_lse_without_the_maximum";

struct Merged {
    torch::Tensor out, lse;
};

Merged merge(const torch::Tensor& out_parts, const torch::Tensor& lse_parts, torch::ScalarType precision) {
    const torch::Tensor lse_p = lse_parts.to(precision), lse = at::logsumexp(lse_p, 0);
    const torch::Tensor empty = lse.eq(-kInfinity);
    const torch::Tensor weights = at::exp(lse_p - lse.masked_fill(empty, 0)).unsqueeze(-1);
    const torch::Tensor parts = out_parts.to(precision).masked_fill(lse_p.eq(-kInfinity).unsqueeze(-1), 0);
    return {(weights * parts).sum(0), lse};
}

std::optional<Finding> examine(const torch::Tensor& out_parts, const torch::Tensor& lse_parts, const Merged& got) {
    const Merged expected = merge(out_parts, lse_parts, torch::kFloat64),
                 fair = merge(out_parts, lse_parts, torch::kFloat32);
    const auto out = reference::compare(got.out, expected.out, fair.out, {}, "O");
    const auto lse = reference::compare(got.lse, expected.lse, fair.lse, {}, "LSE");
    if (out.passed && lse.passed) return {};
    const torch::Tensor column = expected.lse.unsqueeze(-1);
    const Spread spread =
        out.passed ? spread_of("LSE", got.lse.unsqueeze(-1), column,
                               wrong_elements(got.lse.unsqueeze(-1), column, lse.bound), 0)
                   : spread_of("O", got.out, expected.out, wrong_elements(got.out, expected.out, out.bound), 0);
    Finding finding{.summary = (out.passed ? lse : out).report,
                    .first = spread.first,
                    .pattern = spread.pattern + (out.passed   ? "; O is right"
                                                 : lse.passed ? "; LSE is right"
                                                              : "; LSE is wrong too")};
    const auto same = [&](const torch::Tensor& other) {
        return at::isfinite(other).all().item<bool>() &&
               reference::compare(got.out, other, other.to(torch::kFloat32), {}, "O").passed;
    };
    const torch::Tensor sum =
        (at::exp(lse_parts.to(torch::kFloat64) - lse_parts.amax(0).to(torch::kFloat64)).unsqueeze(-1) *
         out_parts.to(torch::kFloat64))
            .sum(0);
    struct Mistake {
        std::string_view name;
        std::function<bool()> gives;
    };
    const std::array mistakes{
        Mistake{kMean, [&] { return !out.passed && same(out_parts.to(torch::kFloat64).mean(0)); }},
        Mistake{kSum, [&] { return !out.passed && same(sum); }},
        Mistake{kSumOverCount, [&] { return !out.passed && same(sum / double(out_parts.size(0))); }},
        Mistake{kNoMaximum, [&] {
                    const torch::Tensor maximum = lse_parts.amax(0);
                    return out.passed &&
                           reference::compare(got.lse, expected.lse - maximum, fair.lse - maximum, {}, "LSE").passed;
                }}};
    if (const auto known = first_given(mistakes, [](const Mistake& mistake) { return mistake.gives(); }))
        finding.lookalike = std::string(*known);
    return finding;
}

std::vector<Trial> merge_trials(const json& suite, std::uint64_t seed) {
    Draw draw(kSizes), values(seed);
    std::vector<Trial> trials;
    const auto add = [&](const std::string& property, const std::string& name, int64_t parts, int64_t rows,
                         int64_t head_dim, double spread_of_lse, bool some_empty, bool far_from_0 = true) {
        at::manual_seed(std::uint64_t(values(1, 1'000'000'000)));
        const torch::Tensor out_parts = at::randn({parts, rows, head_dim}),
                            lse_parts = at::randn({parts, rows}) * spread_of_lse;
        // Up and down by turns, which changes no weight: exp(LSE) overflows in one row and is 0 in the next.
        if (far_from_0) lse_parts.add_(at::arange(rows).remainder(2) * -200 + 100);
        if (some_empty) {  // as a part that saw no key leaves them
            const torch::Tensor empty = at::rand({parts, rows}) < 0.5;
            empty.select(1, 0).fill_(true);  // the first row saw nothing at all
            empty.select(1, rows - 1).select(0, parts - 1).fill_(false);
            lse_parts.masked_fill_(empty, -kInfinity);
            out_parts.masked_fill_(empty.unsqueeze(-1), 0);
        }
        Trial trial{.property = property,
                    .name = fmt::format("{}: {} parts of {} rows, D {}{}", name, parts, rows, head_dim,
                                        far_from_0 ? ", LSE about 100 and -100" : ""),
                    .sizes = {{"P", parts}, {"N", rows}, {"D", head_dim}}};
        trial.problem = empty_problem(suite.value("device", "rtx4090"));
        add_input(trial.problem, "O_part", out_parts);
        add_input(trial.problem, "LSE_part", lse_parts);
        add_output(trial.problem, "O", {rows, head_dim}, torch::kFloat32);
        add_output(trial.problem, "LSE", {rows}, torch::kFloat32);
        trial.examine = [out_parts, lse_parts, asked = trial.problem](const Message& reply) {
            return examine(out_parts, lse_parts, {output_of(asked, reply, 0), output_of(asked, reply, 1)});
        };
        trials.push_back(std::move(trial));
    };
    add("one_split", "one part is the result", 1, draw(2, 6), 32, 1, false);
    add("parts", "unequal sums", draw(2, 9), draw(2, 9), 32, 2, false, false);
    add("parts", "ragged", draw(2, 9), draw(5, 9), draw(5, 15) * 2 + 1, 1, false);
    add("many_parts", "more parts than lanes", 32 + draw(1, 40), draw(2, 6), 32, 1, false);
    add("empty", "parts that saw no key", draw(3, 9), draw(4, 9), 32, 1, true);
    add("extremes", "sums of very different size", draw(3, 9), draw(4, 9), 32, 300, false, false);
    return trials;
}

}  // namespace

ProblemKind merge_problems() {
    return {.name = "merge",
            .trials = merge_trials,
            .titles = {{"one_split", "one split"},
                       {"parts", "several parts"},
                       {"many_parts", "many parts"},
                       {"empty", "parts that saw no key"}},
            .mistakes = {kMean, kSum, kSumOverCount, kNoMaximum}};
}

}  // namespace ladder::classroom::phase5_decoding
