#include "common/classroom/judge/lookalikes.h"

#include <algorithm>
#include <array>
#include <limits>

#include "common/reference/comparison.h"

namespace ladder::classroom {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// How attention is computed, tile by tile. As it stands here it is right; a mistake changes a field or two.
struct Recipe {
    enum class Lse { natural, base_2, without_maximum, sum };

    std::string_view name;
    bool scaled = true, scaled_twice = false;
    double first_maximum = -kInfinity;
    bool maximum_subtracted = true;
    bool maximum_kept = true;    ///< for the next tile
    int sum_rescalings = 1;      ///< of l_i, when the maximum moves
    int output_rescalings = 1;   ///< of O_i, when the maximum moves
    bool tile_rescaled = false;  ///< the sum of the new tile, too
    bool divided = true, divided_each_tile = false;
    Lse lse = Lse::natural;
    int64_t further = 0;  ///< keys that a masked query sees too many, or too few
    bool other_alignment = false;
    bool ragged_keys_count = false;  ///< as scores of 0, up to a whole tile
    bool last_tile_dropped = false, last_key_dropped = false, first_tile_twice = false;
    bool kv_heads_in_turn = false, query_heads_turned_round = false, first_sequence = false;
    bool values_from_keys = false;
};

constexpr std::array kMistakes{
    Recipe{.name = "phase0_softmax/attention_factor_after_the_maximum", .sum_rescalings = 0, .output_rescalings = 0},
    Recipe{.name = "phase3_fa2/O_not_rescaled", .output_rescalings = 0},
    Recipe{.name = "phase3_fa2/l_not_rescaled", .sum_rescalings = 0},
    Recipe{.name = "phase3_fa2/O_rescaled_twice", .output_rescalings = 2},
    Recipe{.name = "phase2_fa1/old_sum_rescaled_twice", .sum_rescalings = 2},
    Recipe{.name = "phase3_fa2/new_sum_rescaled_too", .tile_rescaled = true},
    Recipe{.name = "phase3_fa2/maximum_not_carried_over", .maximum_kept = false},
    Recipe{.name = "phase3_fa2/maximum_starts_at_zero", .first_maximum = 0},
    Recipe{.name = "phase3_fa2/probabilities_without_the_maximum", .maximum_subtracted = false},
    Recipe{.name = "phase3_fa2/no_scale", .scaled = false},
    Recipe{.name = "phase3_fa2/scale_twice", .scaled_twice = true},
    Recipe{.name = "phase3_fa2/no_division_by_l", .divided = false},
    Recipe{.name = "phase3_fa2/division_each_tile_and_at_the_end", .divided_each_tile = true},
    Recipe{.name = "phase3_fa2/lse_without_m", .lse = Recipe::Lse::without_maximum},
    Recipe{.name = "phase3_fa2/lse_in_log2", .lse = Recipe::Lse::base_2},
    Recipe{.name = "phase3_fa2/l_for_the_lse", .lse = Recipe::Lse::sum},
    Recipe{.name = "phase3_fa2/keys_beyond_the_end_count_as_zero", .ragged_keys_count = true},
    Recipe{.name = "phase3_fa2/last_key_dropped", .last_key_dropped = true},
    Recipe{.name = "phase3_fa2/last_tile_dropped", .last_tile_dropped = true},
    Recipe{.name = "phase3_fa2/first_tile_twice", .first_tile_twice = true},
    Recipe{.name = "phase3_fa2/V_from_K", .values_from_keys = true},
    Recipe{.name = "phase3_fa2/grouped_heads_taken_in_turn", .kv_heads_in_turn = true},
    Recipe{.name = "phase3_fa2/heads_swapped", .query_heads_turned_round = true},
    Recipe{.name = "phase3_fa2/batch_index_forgotten", .first_sequence = true},
    Recipe{.name = "phase4_causal/query_does_not_see_its_own_key", .further = -1},
    Recipe{.name = "phase4_causal/query_sees_the_next_key", .further = 1},
    Recipe{.name = "phase4_causal/alignments_swapped", .other_alignment = true},
};

/// Whether the mistake can be made in this problem at all.
bool applies(const Recipe& mistake, const Form& form, int64_t keys, int64_t keys_per_tile) {
    if (form.mask == Mask::none && (mistake.further != 0 || mistake.other_alignment)) return false;
    if (mistake.last_tile_dropped || mistake.last_key_dropped) return keys > keys_per_tile;
    return true;
}

Attended computed_by(const Recipe& recipe, const torch::Tensor& q, torch::Tensor k, torch::Tensor v, Form form,
                     int64_t keys_per_tile) {
    const int64_t heads = q.size(1);
    if (recipe.kv_heads_in_turn) {
        const torch::Tensor turn = at::arange(heads).remainder(k.size(1));
        k = k.index_select(1, turn);
        v = v.index_select(1, turn);
    }
    if (recipe.first_sequence) {
        k = k.narrow(0, 0, 1).expand_as(k);
        v = v.narrow(0, 0, 1).expand_as(v);
    }
    if (recipe.values_from_keys) v = k;
    if (!recipe.scaled) form.scale = 1;
    if (recipe.scaled_twice) form.scale *= form.scale;
    if (recipe.other_alignment)
        form.mask = form.mask == Mask::causal_top_left ? Mask::causal_bottom_right : Mask::causal_top_left;
    form.further = recipe.further;

    torch::Tensor scores = scores_of(q, k, form, torch::kFloat64);
    torch::Tensor values = v.repeat_interleave(heads / v.size(1), 1).to(torch::kFloat64);
    int64_t keys = k.size(2);
    if (recipe.ragged_keys_count && keys % keys_per_tile != 0) {
        const int64_t missing = keys_per_tile - keys % keys_per_tile;
        scores = at::constant_pad_nd(scores, {0, missing}, 0);
        values = at::constant_pad_nd(values, {0, 0, 0, missing}, 0);
        keys += missing;
    }
    if (recipe.last_key_dropped) --keys;
    if (recipe.last_tile_dropped) keys = (keys - 1) / keys_per_tile * keys_per_tile;

    torch::Tensor m = at::full_like(scores.narrow(3, 0, 1), recipe.first_maximum);
    torch::Tensor l = at::zeros_like(m), O = at::zeros(q.sizes(), torch::kFloat64);
    const auto visit = [&](int64_t first) {
        const int64_t width = std::min(keys_per_tile, keys - first);
        const torch::Tensor S = scores.narrow(3, first, width);
        const torch::Tensor m_new = recipe.maximum_subtracted ? at::maximum(m, S.amax(-1, true)) : at::zeros_like(m);
        const torch::Tensor m_safe = m_new.masked_fill(m_new.eq(-kInfinity), 0);
        const torch::Tensor rescale = recipe.maximum_subtracted ? at::exp(m - m_safe) : at::ones_like(m);
        const torch::Tensor P = at::exp(S - m_safe);
        l = l * at::pow(rescale, recipe.sum_rescalings) +
            P.sum(-1, true) * (recipe.tile_rescaled ? rescale : at::ones_like(m));
        O = O * at::pow(rescale, recipe.output_rescalings) + at::matmul(P, values.narrow(2, first, width));
        if (recipe.divided_each_tile) O = O / l;
        if (recipe.maximum_kept) m = m_new;
    };
    if (recipe.first_tile_twice) visit(0);
    for (int64_t first = 0; first < keys; first += keys_per_tile) visit(first);

    torch::Tensor out = (recipe.divided ? O / l : O).masked_fill(l.eq(0), 0);
    torch::Tensor lse = recipe.lse == Recipe::Lse::sum                                    ? l
                        : recipe.lse == Recipe::Lse::base_2                               ? m + at::log2(l)
                        : recipe.lse == Recipe::Lse::natural && recipe.maximum_subtracted ? m + at::log(l)
                                                                                          : at::log(l);
    lse = lse.squeeze(-1);
    if (recipe.query_heads_turned_round) {
        out = out.flip(1);
        lse = lse.flip(1);
    }
    return {out, lse};
}

/// As Recipe, for a kernel that keeps O_i divided by l_i after each tile (FlashAttention, phase 2).
struct NormalisedRecipe {
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

constexpr std::array kNormalisedMistakes{
    NormalisedRecipe{.name = "phase2_fa1/O_not_rescaled", .output_rescaled = false},
    NormalisedRecipe{.name = "phase2_fa1/O_not_multiplied_by_its_sum", .output_multiplied = false},
    NormalisedRecipe{.name = "phase2_fa1/tile_not_weighted", .tile_weighted = false},
    NormalisedRecipe{.name = "phase2_fa1/tile_product_under_its_own_maximum", .tile_rescaled = false},
    NormalisedRecipe{.name = "phase2_fa1/l_not_rescaled", .sum_rescalings = 0},
    NormalisedRecipe{.name = "phase2_fa1/old_sum_rescaled_twice", .sum_rescalings = 2},
    NormalisedRecipe{.name = "phase2_fa1/tile_sum_not_weighted", .tile_sum_weighted = false},
    NormalisedRecipe{.name = "phase2_fa1/maximum_of_this_tile_only", .maximum_of_all = false},
    NormalisedRecipe{.name = "phase2_fa1/maximum_forgotten_between_steps", .maximum_kept = false},
    NormalisedRecipe{.name = "phase2_fa1/sum_forgotten_between_steps", .sum_kept = false},
    NormalisedRecipe{.name = "phase2_fa1/no_division", .divided = false},
    NormalisedRecipe{.name = "phase2_fa1/divided_twice", .divided_at_the_end = true},
};

Attended computed_by(const NormalisedRecipe& recipe, const torch::Tensor& q, const torch::Tensor& k,
                     const torch::Tensor& v, const Form& form, int64_t keys_per_tile) {
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
        const torch::Tensor divisor = if_wanted(l_new, recipe.divided);
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

bool agrees(const torch::Tensor& got, const torch::Tensor& wrong, std::optional<double> magnitude) {
    return reference::compare(got.to(torch::kFloat32), wrong, wrong.to(torch::kFloat32), magnitude).passed;
}

}  // namespace

std::vector<std::string_view> lookalikes() {
    std::vector<std::string_view> names;
    for (const Recipe& mistake : kMistakes) names.push_back(mistake.name);
    for (const NormalisedRecipe& mistake : kNormalisedMistakes)
        if (std::ranges::find(names, mistake.name) == names.end()) names.push_back(mistake.name);
    return names;
}

std::optional<std::string_view> lookalike(const Attended& result, const torch::Tensor& q, const torch::Tensor& k,
                                          const torch::Tensor& v, const Form& form, int64_t keys_per_tile) {
    const double magnitude = std::max(1.0, v.abs().max().item<double>());
    const auto looks_like = [&](const Attended& wrong) {
        if (!at::isfinite(wrong.out).all().item<bool>()) return false;  // NaN looks like every NaN
        return agrees(result.out, wrong.out, magnitude) && agrees(result.lse, wrong.lse, {});
    };
    for (const Recipe& mistake : kMistakes)
        if (applies(mistake, form, k.size(2), keys_per_tile) &&
            looks_like(computed_by(mistake, q, k, v, form, keys_per_tile)))
            return mistake.name;
    for (const NormalisedRecipe& mistake : kNormalisedMistakes)
        if (looks_like(computed_by(mistake, q, k, v, form, keys_per_tile))) return mistake.name;
    return {};
}

}  // namespace ladder::classroom
