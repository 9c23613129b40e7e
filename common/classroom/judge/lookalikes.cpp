#include "common/classroom/judge/lookalikes.h"

#include <algorithm>
#include <array>
#include <limits>

#include "common/classroom/judge/lane_lookalikes.h"
#include "common/classroom/judge/resemblance.h"
#include "common/classroom/judge/softcap_lookalikes.h"

namespace ladder::classroom {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// How attention is computed, tile by tile. As it stands here it is right; a mistake changes a field or two.
struct Recipe {
    enum class Lse { natural, base_2, without_maximum, sum };
    enum class Fetch { from_first_key, from_number_of_tile, always_first };  ///< which keys a step gets

    std::string_view name = {};        ///< of the entry for kernels whose keys come in tiles; empty if there is none
    std::string_view of_one_key = {};  ///< for those that take one key after the other, where it is another entry
    bool scaled = true, scaled_twice = false;
    double first_maximum = -kInfinity;
    bool maximum_subtracted = true;
    bool maximum_kept = true;    ///< for the next tile
    int sum_rescalings = 1;      ///< of l_i, when the maximum moves
    int output_rescalings = 1;   ///< of O_i, when the maximum moves
    bool tile_rescaled = false;  ///< the sum of the new tile, too
    bool tile_output_rescaled = false;
    bool factor_upside_down = false;
    bool infinities_guarded = true;  ///< -inf - (-inf) never computed
    bool under_new_maximum = true;   ///< the new weights, and not under the old one
    bool values_weighted = true;
    bool sum_collected = true, output_collected = true;
    int copies_of_old_sum = 1;  ///< that are added up
    Fetch fetch = Fetch::from_first_key;
    bool first_tile_only = false;
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
    Recipe{.name = "phase3_fa2/O_not_rescaled",
           .of_one_key = "phase0_softmax/attention_O_not_rescaled",
           .output_rescalings = 0},
    Recipe{.name = "phase3_fa2/l_not_rescaled",
           .of_one_key = "phase0_softmax/attention_l_not_rescaled",
           .sum_rescalings = 0},
    Recipe{.name = "phase3_fa2/O_rescaled_twice", .output_rescalings = 2},
    Recipe{.name = "phase2_fa1/old_sum_rescaled_twice", .sum_rescalings = 2},
    Recipe{.name = "phase3_fa2/l_not_collected",
           .of_one_key = "phase0_softmax/attention_l_not_collected",
           .sum_collected = false},
    Recipe{.name = "phase3_fa2/new_sum_rescaled_too",
           .of_one_key = "phase0_softmax/attention_new_term_of_l_rescaled_too",
           .tile_rescaled = true},
    Recipe{.of_one_key = "phase0_softmax/attention_new_key_rescaled_too",
           .tile_rescaled = true,
           .tile_output_rescaled = true},
    Recipe{.of_one_key = "phase0_softmax/attention_weight_under_the_old_maximum", .under_new_maximum = false},
    Recipe{.of_one_key = "phase0_softmax/attention_values_not_weighted", .values_weighted = false},
    Recipe{.name = "phase3_fa2/old_sum_of_every_lane", .copies_of_old_sum = 8},
    Recipe{.name = "phase3_fa2/maximum_not_carried_over",
           .of_one_key = "phase0_softmax/attention_maximum_not_kept",
           .maximum_kept = false},
    Recipe{.name = "phase3_fa2/maximum_starts_at_zero",
           .of_one_key = "phase0_softmax/attention_maximum_starts_at_zero",
           .first_maximum = 0},
    Recipe{.name = "phase3_fa2/infinity_minus_infinity",
           .of_one_key = "phase0_softmax/attention_infinity_minus_infinity",
           .infinities_guarded = false},
    Recipe{.name = "phase3_fa2/rescale_upside_down",
           .of_one_key = "phase0_softmax/attention_factor_upside_down",
           .factor_upside_down = true},
    Recipe{.name = "phase3_fa2/O_not_collected",
           .of_one_key = "phase0_softmax/attention_o_not_collected",
           .output_collected = false},
    Recipe{.name = "phase3_fa2/probabilities_without_the_maximum", .maximum_subtracted = false},
    Recipe{.name = "phase3_fa2/no_scale", .of_one_key = "phase0_softmax/attention_no_scale", .scaled = false},
    Recipe{
        .name = "phase3_fa2/scale_twice", .of_one_key = "phase0_softmax/attention_scale_twice", .scaled_twice = true},
    Recipe{
        .name = "phase3_fa2/no_division_by_l", .of_one_key = "phase0_softmax/attention_no_division", .divided = false},
    Recipe{.name = "phase3_fa2/division_each_tile_and_at_the_end",
           .of_one_key = "phase0_softmax/attention_division_at_each_key_and_at_the_end",
           .divided_each_tile = true},
    Recipe{.name = "phase3_fa2/lse_without_m",
           .of_one_key = "phase0_softmax/attention_lse_without_m",
           .lse = Recipe::Lse::without_maximum},
    Recipe{.name = "phase3_fa2/lse_in_log2",
           .of_one_key = "phase0_softmax/attention_lse_in_log2",
           .lse = Recipe::Lse::base_2},
    Recipe{.name = "phase3_fa2/l_for_the_lse", .lse = Recipe::Lse::sum},
    Recipe{.name = "phase3_fa2/keys_beyond_the_end_count_as_zero", .ragged_keys_count = true},
    Recipe{.name = "phase3_fa2/last_key_dropped",
           .of_one_key = "phase0_softmax/attention_last_key_dropped",
           .last_key_dropped = true},
    Recipe{.name = "phase3_fa2/first_tile_only", .first_tile_only = true},
    Recipe{.name = "phase3_fa2/last_tile_dropped", .last_tile_dropped = true},
    Recipe{.name = "phase3_fa2/first_tile_twice", .first_tile_twice = true},
    Recipe{.name = "phase3_fa2/tiles_counted_for_keys", .fetch = Recipe::Fetch::from_number_of_tile},
    Recipe{.name = "phase3_fa2/first_tile_fetched_always", .fetch = Recipe::Fetch::always_first},
    Recipe{.name = "phase3_fa2/V_from_K", .values_from_keys = true},
    Recipe{.name = "phase3_fa2/grouped_heads_taken_in_turn", .kv_heads_in_turn = true},
    Recipe{.name = "phase3_fa2/heads_swapped", .query_heads_turned_round = true},
    Recipe{.name = "phase3_fa2/batch_index_forgotten", .first_sequence = true},
    Recipe{.name = "phase4_causal/query_does_not_see_its_own_key", .further = -1},
    Recipe{.name = "phase4_causal/query_sees_the_next_key", .further = 1},
    Recipe{.name = "phase4_causal/alignments_swapped", .other_alignment = true},
};

/// The keys of one step, for a kernel that has no tiles.
constexpr int64_t kOneKey = 1;

std::string_view name_of(const Recipe& mistake, int64_t keys_per_tile) {
    return keys_per_tile == kOneKey && !mistake.of_one_key.empty() ? mistake.of_one_key : mistake.name;
}

/// Whether the mistake can be made in this problem at all.
bool applies(const Recipe& mistake, const Form& form, int64_t keys, int64_t keys_per_tile) {
    if (name_of(mistake, keys_per_tile).empty()) return false;
    if (form.mask == Mask::none && (mistake.further != 0 || mistake.other_alignment)) return false;
    if (mistake.last_tile_dropped || mistake.last_key_dropped || mistake.first_tile_only ||
        mistake.fetch != Recipe::Fetch::from_first_key)
        return keys > keys_per_tile && (keys_per_tile > kOneKey || mistake.last_key_dropped);
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
        const int64_t fetched = recipe.fetch == Recipe::Fetch::from_first_key        ? first
                                : recipe.fetch == Recipe::Fetch::from_number_of_tile ? first / keys_per_tile
                                                                                     : 0;
        const torch::Tensor S = scores.narrow(3, fetched, width);
        const torch::Tensor m_new = recipe.maximum_subtracted ? at::maximum(m, S.amax(-1, true)) : at::zeros_like(m);
        const auto safe = [&](const torch::Tensor& maximum) {
            return recipe.infinities_guarded ? maximum.masked_fill(maximum.eq(-kInfinity), 0) : maximum;
        };
        const torch::Tensor moved = recipe.factor_upside_down ? safe(m_new) - m : m - safe(m_new);
        const torch::Tensor rescale = recipe.maximum_subtracted ? at::exp(moved) : at::ones_like(m);
        const torch::Tensor P = at::exp(S - safe(recipe.under_new_maximum ? m_new : m)), one = at::ones_like(m);
        const torch::Tensor weights = recipe.values_weighted ? P : at::ones_like(P);
        if (recipe.sum_collected)
            l = l * at::pow(rescale, recipe.sum_rescalings) * recipe.copies_of_old_sum +
                P.sum(-1, true) * (recipe.tile_rescaled ? rescale : one);
        if (recipe.output_collected)
            O = O * at::pow(rescale, recipe.output_rescalings) +
                at::matmul(weights, values.narrow(2, fetched, width)) * (recipe.tile_output_rescaled ? rescale : one);
        if (recipe.divided_each_tile) O = O / l;
        if (recipe.maximum_kept) m = m_new;
    };
    if (recipe.first_tile_twice) visit(0);
    for (int64_t first = 0; first < keys; first += recipe.first_tile_only ? keys : keys_per_tile) visit(first);

    if (!recipe.maximum_kept &&
        keys_per_tile == kOneKey) {  // the kernel merges parts, and these count as parts of no keys
        l.zero_();
        O.zero_();
    }
    torch::Tensor out = recipe.divided ? O / l : O;
    const torch::Tensor sees_none = sight(q.size(2), k.size(2), form).any(-1, true).logical_not();
    out = out.masked_fill(sees_none, 0);
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

}  // namespace

std::vector<std::string_view> lookalikes() {
    std::vector<std::string_view> names;
    for (const Recipe& mistake : kMistakes)
        for (const std::string_view name : {mistake.name, mistake.of_one_key})
            if (!name.empty()) names.push_back(name);
    for (const NormalisedRecipe& mistake : kNormalisedMistakes)
        if (std::ranges::find(names, mistake.name) == names.end()) names.push_back(mistake.name);
    for (const auto& others : {lane_lookalikes(), softcap_lookalikes()})
        names.insert(names.end(), others.begin(), others.end());
    return names;
}

std::optional<std::string_view> lookalike(const Attended& result, const torch::Tensor& q, const torch::Tensor& k,
                                          const torch::Tensor& v, const Form& form, int64_t keys_per_tile) {
    const double magnitude = std::max(1.0, v.abs().max().item<double>());
    // Behind keys that nobody sees there may be NaN, and then a result of nothing but NaN need not come from
    // arithmetic.
    const bool nan_may_come_from_keys = form.mask != Mask::none || form.lengths;
    const auto looks_like = [&](const Attended& wrong) {
        if (nan_may_come_from_keys && wrong.out.isnan().all().item<bool>()) return false;
        return resembles(result, wrong, magnitude);
    };
    if (form.softcap)
        if (const auto found = softcap_lookalike(result, q, k, v, form, keys_per_tile)) return found;
    for (const Recipe& mistake : kMistakes)
        if (applies(mistake, form, k.size(2), keys_per_tile) &&
            looks_like(computed_by(mistake, q, k, v, form, keys_per_tile)))
            return name_of(mistake, keys_per_tile);
    for (const NormalisedRecipe& mistake : kNormalisedMistakes)
        if (looks_like(computed_by(mistake, q, k, v, form, keys_per_tile))) return mistake.name;
    if (keys_per_tile > kOneKey) return lane_lookalike(result, q, k, v, form, keys_per_tile);
    return {};
}

}  // namespace ladder::classroom
