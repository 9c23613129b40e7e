#include "phase3_fa2/rung/judge/lane_lookalikes.h"

#include <algorithm>
#include <array>
#include <limits>

#include "common/classroom/judge/resemblance.h"

namespace ladder::classroom::phase3_fa2 {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr int64_t kLanes = 8;

struct Recipe {
    std::string_view name;
    bool maximum_of_row = true, sum_of_row = true;  ///< or of one lane's columns
};

constexpr std::array kMistakes{
    Recipe{.name = "phase3_fa2/sum_of_this_lane_only", .sum_of_row = false},
    Recipe{.name = "phase3_fa2/maximum_of_this_lane_only", .maximum_of_row = false},
    Recipe{.name = "phase3_fa2/exercises/reductions_forgotten", .maximum_of_row = false, .sum_of_row = false},
};

/// The lane that owns each column of O: vectors of kRowVector elements, eight lanes side by side.
torch::Tensor owners_of_columns(int64_t head_dim, int64_t element_bytes) {
    const int64_t compiled_for = head_dim <= 32 ? 32 : 64;  // runner/shadow/common/attention/compiled_for.cuh
    const int64_t width = std::min(16 / element_bytes, compiled_for / kLanes);
    return at::arange(head_dim).div(width, "floor").remainder(kLanes);
}

Attended computed_by(const Recipe& recipe, const AttentionQuestion& question) {
    const auto& [q, k, v, form, rows_per_tile, keys_per_tile, scores_kept, weights_rounded, garbage] = question;
    const torch::Tensor scores = scores_of(q, k, form, torch::kFloat64);
    const torch::Tensor values = v.repeat_interleave(q.size(1) / v.size(1), 1).to(torch::kFloat64);
    const torch::Tensor owners = owners_of_columns(q.size(3), q.element_size());
    const auto over_row = [](const torch::Tensor& x, bool wanted, const torch::Tensor& whole) {
        return wanted ? whole.expand_as(x) : x;
    };
    torch::Tensor m = at::full({q.size(0), q.size(1), q.size(2), kLanes}, -kInfinity, torch::kFloat64);
    torch::Tensor l = at::zeros_like(m), O = at::zeros(q.sizes(), torch::kFloat64);
    for (int64_t first = 0; first < scores.size(3); first += keys_per_tile) {
        const int64_t width = std::min(keys_per_tile, scores.size(3) - first);
        const int64_t missing = (kLanes - width % kLanes) % kLanes;
        // [..., column / 8, lane]
        const torch::Tensor S = at::constant_pad_nd(scores.narrow(3, first, width), {0, missing}, -kInfinity)
                                    .reshape({q.size(0), q.size(1), q.size(2), -1, kLanes});
        const torch::Tensor of_lane = S.amax(-2);
        const torch::Tensor m_new = at::maximum(m, over_row(of_lane, recipe.maximum_of_row, of_lane.amax(-1, true)));
        const torch::Tensor m_safe = m_new.masked_fill(m_new.eq(-kInfinity), 0);
        const torch::Tensor rescale = at::exp(m - m_safe), P = at::exp(S - m_safe.unsqueeze(-2)), sum = P.sum(-2);
        l = rescale * l + over_row(sum, recipe.sum_of_row, sum.sum(-1, true));
        O = O * rescale.index_select(-1, owners) +
            at::matmul(P.flatten(-2).narrow(3, 0, width), values.narrow(2, first, width));
        m = m_new;
    }
    return {O / l.index_select(-1, owners), (m + at::log(l)).select(-1, 0)};
}

}  // namespace

std::vector<AttentionMistake> lane_mistakes() {
    std::vector<AttentionMistake> mistakes;
    for (const Recipe& mistake : kMistakes)
        mistakes.push_back({mistake.name, [&mistake](const AttentionQuestion& question, const Attended& result) {
                                return question.keys_per_tile > 1 &&
                                       resembles(question, result, computed_by(mistake, question));
                            }});
    return mistakes;
}

}  // namespace ladder::classroom::phase3_fa2
