// Problems for kernels that compute the gradients of attention.
//
// The suite: {"problem": "backward", "mask": "none" | "both", "dlse": true, "device": PROFILE}
//
// dlse   in every second problem the loss looks at LSE, and there are problems more in which it looks at nothing else
//
// Among the sizes, `tile_queries` is how many queries have to be read for a head: for each tile of 64 keys, those in
// the tiles of 32 queries of which any sees any of them.

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "common/classroom/judge/spread.h"
#include "common/classroom/judge/tensors.h"
#include "common/reference/gradient_comparison.h"
#include "phase8_backward/rung/judge/problems.h"

namespace ladder::classroom::phase8_backward {
namespace {

using nlohmann::json;
using reference::AttentionCase, reference::BackwardInputs, reference::Family;

constexpr int64_t kKeyTile = 64, kQueryTile = 32;

int64_t tile_queries(const AttentionCase& problem) {
    const torch::Tensor seen = sight(problem.query_length, problem.key_length, {.mask = problem.options.mask})[0][0];
    int64_t queries = 0;
    for (int64_t j = 0; j < problem.key_length; j += kKeyTile)
        for (int64_t i = 0; i < problem.query_length; i += kQueryTile) {
            const int64_t rows = std::min(kQueryTile, problem.query_length - i);
            if (seen.narrow(0, i, rows).narrow(1, j, std::min(kKeyTile, problem.key_length - j)).any().item<bool>())
                queries += rows;
        }
    return queries;
}

std::string words_for(const AttentionCase& problem, bool with_dlse) {
    std::string text = fmt::format("B {}, heads {}/{}, Sq {}, Sk {}, D {}", problem.batch, problem.query_heads,
                                   problem.kv_heads, problem.query_length, problem.key_length, problem.head_dim);
    if (problem.dtype == torch::kFloat16) text += ", float16";
    if (problem.family != Family::normal) text += fmt::format(", {}", reference::name_of(problem.family));
    if (problem.options.mask != Mask::none)
        text += problem.options.mask == Mask::causal_top_left ? ", causal (top left)" : ", causal (bottom right)";
    return text + (with_dlse ? ", with a gradient of LSE" : "");
}

/// The first gradient that is wrong says where; the others, whether they are right.
std::optional<Finding> examine(const BackwardInputs& x, bool with_dlse, const AttentionGradients& got) {
    const reference::ExpectedGradients expected(x.q, x.k, x.v, {x.out, x.lse}, x.dout, x.options,
                                                with_dlse ? std::optional(x.dlse) : std::nullopt);
    const reference::GradientComparisons verdict = expected.compare_each(got);
    if (verdict.dv.passed && verdict.dk.passed && verdict.dq.passed) return {};
    struct One {
        const char* name;
        const reference::Comparison& verdict;
        const torch::Tensor &got, &expected;
    };
    const AttentionGradients& oracle = expected.oracle();
    const std::array all{One{"dV", verdict.dv, got.dv, oracle.dv}, One{"dK", verdict.dk, got.dk, oracle.dk},
                         One{"dQ", verdict.dq, got.dq, oracle.dq}};
    const One& first = *std::ranges::find_if(all, [](const One& one) { return !one.verdict.passed; });
    const Spread spread = spread_of(first.name, first.got, first.expected, first.verdict.wrong, 0);
    Finding finding{.summary = first.verdict.report, .first = spread.first, .pattern = spread.pattern};
    for (const One& one : all)
        if (one.name != first.name)
            finding.pattern += fmt::format("; {} is {}", one.name, one.verdict.passed ? "right" : "wrong too");
    if (const auto known = known_wrong_gradients(
            x, with_dlse, got, {.dv = !verdict.dv.passed, .dk = !verdict.dk.passed, .dq = !verdict.dq.passed}))
        finding.lookalike = std::string(*known);
    return finding;
}

class Maker {
  public:
    Maker(const json& suite, std::uint64_t seed)
        : device_(suite.value("device", "rtx4090")), dlse_(suite.value("dlse", false)), values_(seed) {
        if (suite.value("mask", "none") == "both") masks_ = {Mask::causal_bottom_right, Mask::causal_top_left};
    }

    std::vector<Trial> all() {
        add("one_tile", {.query_length = draw_(2, 6), .key_length = draw_(2, 8), .head_dim = 32});
        add("one_tile", {.query_length = 1, .key_length = 1, .head_dim = 32});
        add("several_tiles", {.query_length = 3 * kQueryTile, .key_length = 2 * kKeyTile, .head_dim = 32});
        add("several_tiles", {.query_length = 4 * kQueryTile, .key_length = 2 * kKeyTile, .head_dim = 64});
        add("ragged", {.query_length = kQueryTile + draw_(1, kQueryTile - 1),
                       .key_length = kKeyTile + draw_(1, kKeyTile - 1),
                       .head_dim = 32});
        add("ragged", {.query_length = draw_(1, kQueryTile - 1), .key_length = kKeyTile + 1, .head_dim = 27});
        add("heads", {.batch = 2,
                      .query_heads = 4,
                      .kv_heads = 2,
                      .query_length = draw_(5, 40),
                      .key_length = kKeyTile + draw_(1, 9),
                      .head_dim = 32});
        add("heads", {.query_heads = 3, .query_length = draw_(33, 60), .key_length = draw_(5, 30), .head_dim = 24});
        add("extremes", {.query_length = 40, .key_length = 70, .head_dim = 32, .family = Family::one_huge_logit});
        if (!masks_.empty()) {  // the first query tiles see nothing, or the last key tile is seen by few
            add("unequal", {.query_length = 150, .key_length = 40, .head_dim = 32});
            add("unequal", {.query_length = 70, .key_length = 200, .head_dim = 32});
        }
        AttentionCase half{.query_heads = 2, .query_length = 50, .key_length = 90, .head_dim = 32};
        half.dtype = torch::kFloat16;
        add("float16", half);
        return std::move(trials_);
    }

  private:
    void add(const std::string& property, AttentionCase problem) {
        if (!masks_.empty()) problem.options.mask = masks_[trials_.size() % masks_.size()];
        problem.seed = std::uint64_t(values_(1, 1'000'000'000));
        const bool with_dlse = dlse_ && trials_.size() % 2 == 0;
        const BackwardInputs x = reference::make_backward_inputs(problem, torch::kCPU);
        Trial trial{.property = property,
                    .name = words_for(problem, with_dlse),
                    .sizes = {{"B", problem.batch},
                              {"Hq", problem.query_heads},
                              {"Hkv", problem.kv_heads},
                              {"Sq", problem.query_length},
                              {"Sk", problem.key_length},
                              {"D", problem.head_dim},
                              {"element", x.q.element_size()},
                              {"tile_queries", tile_queries(problem)}}};
        trial.problem = empty_problem(device_);
        for (const auto& [name, tensor] : {std::pair<const char*, const torch::Tensor&>{"Q", x.q},
                                           {"K", x.k},
                                           {"V", x.v},
                                           {"O", x.out},
                                           {"LSE", x.lse},
                                           {"dO", x.dout},
                                           {"dLSE", x.dlse}})
            add_input(trial.problem, name, tensor);
        add_number(trial.problem, "scale", problem.options.scale.value_or(1.0 / std::sqrt(double(problem.head_dim))));
        add_number(trial.problem, "mask", double(int(problem.options.mask)));
        add_number(trial.problem, "has_dlse", with_dlse);
        add_output(trial.problem, "dQ", x.q.sizes(), problem.dtype);
        add_output(trial.problem, "dK", x.k.sizes(), problem.dtype);
        add_output(trial.problem, "dV", x.v.sizes(), problem.dtype);
        trial.examine = [x, with_dlse, asked = trial.problem](const Message& reply) {
            return examine(
                x, with_dlse,
                {.dq = output_of(asked, reply, 0), .dk = output_of(asked, reply, 1), .dv = output_of(asked, reply, 2)});
        };
        trials_.push_back(std::move(trial));
    }

    std::string device_;
    bool dlse_;
    Draw draw_{kSizes}, values_;
    std::vector<Mask> masks_;
    std::vector<Trial> trials_;
};

std::vector<Trial> backward_trials(const json& suite, std::uint64_t seed) { return Maker(suite, seed).all(); }

}  // namespace

ProblemKind backward_problems() {
    return {.name = "backward",
            .trials = backward_trials,
            .titles = {{"unequal", "more queries than keys, and fewer"}},
            .mistakes = gradient_mistakes()};
}

}  // namespace ladder::classroom::phase8_backward
