#include <array>
#include <limits>

#include "common/classroom/judge/online_attention.h"
#include "common/classroom/judge/resemblance.h"

namespace ladder::classroom::phase2_fa1 {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// How a kernel computes attention that keeps O_i divided by l_i after each tile. As it stands here it is right; a
/// mistake changes a field or two.
struct Recipe {
    std::string_view name;
    int sum_rescalings = 1;                     ///< of l_i, when the maximum moves
    bool tile_sum_weighted = true;              ///< the tile's sum, brought to the new maximum
    bool output_multiplied = true;              ///< O_i by its old sum, which it was divided by
    bool output_rescaled = true;                ///< O_i at all
    bool tile_weighted = true;                  ///< P~ V_j at all: brought to the new maximum and divided
    bool tile_rescaled = true;                  ///< P~ V_j, brought to the new maximum
    bool maximum_of_all = true;                 ///< or of the new tile only
    bool maximum_kept = true, sum_kept = true;  ///< for the next tile, and not the tile's own
    bool divided = true, divided_at_the_end = false;
};

constexpr std::array kMistakes{
    Recipe{.name = "phase2_fa1/O_not_rescaled", .output_rescaled = false},
    Recipe{.name = "phase2_fa1/O_not_multiplied_by_its_sum", .output_multiplied = false},
    Recipe{.name = "phase2_fa1/tile_not_weighted", .tile_weighted = false},
    Recipe{.name = "phase2_fa1/tile_product_under_its_own_maximum", .tile_rescaled = false},
    Recipe{.name = "phase2_fa1/l_not_rescaled", .sum_rescalings = 0},
    Recipe{.name = "phase2_fa1/old_sum_rescaled_twice", .sum_rescalings = 2},
    Recipe{.name = "phase2_fa1/tile_sum_not_weighted", .tile_sum_weighted = false},
    Recipe{.name = "phase2_fa1/maximum_of_this_tile_only", .maximum_of_all = false},
    Recipe{.name = "phase2_fa1/maximum_forgotten_between_steps", .maximum_kept = false},
    Recipe{.name = "phase2_fa1/sum_forgotten_between_steps", .sum_kept = false},
    Recipe{.name = "phase2_fa1/no_division", .divided = false},
    Recipe{.name = "phase2_fa1/divided_twice", .divided_at_the_end = true},
};

Attended computed_by(const Recipe& recipe, const AttentionQuestion& question) {
    const auto& [q, k, v, form, rows_per_tile, keys_per_tile, scores_kept, weights_rounded, garbage] = question;
    const torch::Tensor scores = scores_of(q, k, form, torch::kFloat64);
    const torch::Tensor values = v.repeat_interleave(q.size(1) / v.size(1), 1).to(torch::kFloat64);
    const auto safe = [](const torch::Tensor& m) { return m.masked_fill(m.eq(-kInfinity), 0); };
    const auto if_wanted = [](const torch::Tensor& x, bool wanted) { return wanted ? x : at::ones_like(x); };

    torch::Tensor m = at::full_like(scores.narrow(3, 0, 1), -kInfinity), l = at::zeros_like(m);
    torch::Tensor O = at::zeros(q.sizes(), torch::kFloat64), lse;
    for (int64_t first = 0; first < scores.size(3); first += keys_per_tile) {
        const int64_t width = std::min(keys_per_tile, scores.size(3) - first);
        const torch::Tensor S = scores.narrow(3, first, width), m_tile = S.amax(-1, true);
        const torch::Tensor P = at::exp(S - safe(m_tile)), l_tile = P.sum(-1, true);
        const torch::Tensor m_new = recipe.maximum_of_all ? at::maximum(m, m_tile) : m_tile;
        const torch::Tensor rescale = at::exp(m - safe(m_new)), tile_weight = at::exp(m_tile - safe(m_new));
        const torch::Tensor old_sum = l * at::pow(rescale, recipe.sum_rescalings);
        const torch::Tensor l_new = old_sum + if_wanted(tile_weight, recipe.tile_sum_weighted) * l_tile;
        const torch::Tensor divisor = if_wanted(l_new.masked_fill(l_new.eq(0), 1), recipe.divided);
        const torch::Tensor old_share = (recipe.output_multiplied ? old_sum : rescale) / divisor;
        O = if_wanted(old_share, recipe.output_rescaled) * O +
            if_wanted(if_wanted(tile_weight, recipe.tile_rescaled) / divisor, recipe.tile_weighted) *
                at::matmul(P, values.narrow(2, first, width));
        lse = (m_new + at::log(l_new)).squeeze(-1);
        m = recipe.maximum_kept ? m_new : m_tile;
        l = recipe.sum_kept ? l_new : l_tile;
    }
    return {recipe.divided_at_the_end ? O / l : O, lse};
}

/// Such mistakes show from the second tile on; what they make of a single tile, other kernels' mistakes do too.
bool gives(const Recipe& recipe, const AttentionQuestion& question, const Attended& result) {
    return question.k.size(2) > question.keys_per_tile && resembles(question, result, computed_by(recipe, question));
}

}  // namespace

Part part() {
    Part part{.problems = {},
              .mistakes = {
                  online_mistake("phase2_fa1/old_sum_rescaled_twice", {.sum_rescalings = 2}),
              }};
    for (const Recipe& recipe : kMistakes)
        part.mistakes.push_back({recipe.name, [&recipe](const auto& question, const auto& result) {
                                     return gives(recipe, question, result);
                                 }});
    return part;
}

}  // namespace ladder::classroom::phase2_fa1
