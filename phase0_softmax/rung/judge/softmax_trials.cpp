// Problems for softmax over rows. The suite: {"problem": "softmax", "device": PROFILE, "longest": N, "warps": N}
//
// warps  how many share a row, in chunks as block_softmax_kernel has them; one warp a row if not given

#include "phase0_softmax/rung/judge/softmax_trials.h"

#include <fmt/format.h>

#include <limits>

#include "common/classroom/judge/spread.h"
#include "common/classroom/judge/tensors.h"
#include "common/classroom/judge/trials.h"
#include "common/reference/comparison.h"
#include "common/reference/inputs.h"
#include "common/reference/oracle.h"
#include "phase0_softmax/rung/judge/block_softmax_lookalikes.h"
#include "phase0_softmax/rung/judge/softmax_lookalikes.h"

namespace ladder::classroom::phase0_softmax {
namespace {

using nlohmann::json;
using reference::Family;

std::optional<Finding> examine(const torch::Tensor& x, const torch::Tensor& y, int64_t warps) {
    const reference::Comparison comparison = reference::compare_softmax(y, x, "y");
    if (comparison.passed) return {};
    const Spread spread = spread_of("y", y, reference::softmax_oracle(x), comparison.wrong, 0);
    Finding finding{.summary = comparison.report, .first = spread.first, .pattern = spread.pattern};
    const auto known = warps > 1 ? block_softmax_lookalike(x, y, warps) : softmax_lookalike(x, y);
    if (known) finding.lookalike = std::string(*known);
    return finding;
}

std::vector<Trial> softmax_trials(const json& suite, std::uint64_t seed) {
    Draw draw(kSizes), values(seed);
    const int64_t longest = suite.value("longest", 1000), warps = suite.value("warps", 1);
    std::vector<Trial> trials;
    const auto add = [&](const std::string& property, int64_t rows, int64_t columns, Family family = Family::normal,
                         torch::ScalarType dtype = torch::kFloat32, int64_t hidden = 0, bool far_from_0 = false) {
        const torch::Tensor x = reference::make_scores({.query_length = rows,
                                                        .key_length = columns,
                                                        .dtype = dtype,
                                                        .family = family,
                                                        .seed = std::uint64_t(values(1, 1'000'000'000))},
                                                       torch::kCPU);
        x.slice(1, 0, hidden).fill_(-std::numeric_limits<double>::infinity());
        // Up and down by turns, which changes no weight: exp(x) overflows in one row and is 0 in the next.
        if (far_from_0) x.add_((at::arange(rows).remainder(2) * -200 + 100).unsqueeze(1));
        Trial trial{.property = property,
                    .name = fmt::format("{} {} of {}{}{}{}{}", rows, rows == 1 ? "row" : "rows", columns,
                                        dtype == torch::kFloat16 ? ", float16" : "",
                                        family == Family::normal ? "" : fmt::format(", {}", reference::name_of(family)),
                                        hidden > 0 ? fmt::format(", the first {} are -inf", hidden) : "",
                                        far_from_0 ? ", scores about 100 and -100" : ""),
                    .sizes = {{"rows", rows}, {"N", columns}, {"element", x.element_size()}}};
        trial.problem = empty_problem(suite.value("device", "rtx4090"));
        add_input(trial.problem, "x", x);
        add_output(trial.problem, "y", x.sizes(), dtype);
        trial.examine = [x, warps, asked = trial.problem](const Message& reply) {
            return examine(x, output_of(asked, reply, 0), warps);
        };
        trials.push_back(std::move(trial));
    };
    const auto add_far_from_0 = [&](const std::string& property, int64_t rows, int64_t columns,
                                    torch::ScalarType dtype = torch::kFloat32) {
        add(property, rows, columns, Family::normal, dtype, 0, true);
    };
    // More scores than a warp has lanes, or its lanes have room for in one chunk: otherwise nothing is merged.
    add("short_rows", 1, 128 + draw(1, 31));
    add_far_from_0("short_rows", draw(2, 5), 160);
    add("long_rows", draw(2, 9), 32 * draw(6, 16));
    add_far_from_0("long_rows", 2, std::min<int64_t>(longest, 512 + 4 * draw(1, 99)));
    add("ragged", draw(2, 9), 32 * draw(1, 5) + draw(1, 31));
    add_far_from_0("ragged", draw(2, 5), draw(2, 31));
    add("ragged", 3, 1);
    add("ragged", 2, longest - draw(1, 30));
    for (const Family family :
         {Family::scores_near_minus_1000, Family::one_huge_logit, Family::rising_scores, Family::falling_scores})
        add("extremes", draw(2, 5), draw(130, 250), family);
    add("extremes", draw(2, 5), draw(130, 250), Family::normal, torch::kFloat32, 64);  // as a mask leaves them
    add_far_from_0("float16", draw(2, 5), draw(260, 360), torch::kFloat16);
    return trials;
}

}  // namespace

ProblemKind softmax_problems() {
    ProblemKind kind{.name = "softmax",
                     .trials = softmax_trials,
                     .titles = {{"short_rows", "short rows"}, {"long_rows", "long rows"}},
                     .mistakes = softmax_lookalikes()};
    for (const std::string_view name : block_softmax_lookalikes()) kind.mistakes.push_back(name);
    return kind;
}

}  // namespace ladder::classroom::phase0_softmax
