#include "common/classroom/judge/online_attention.h"

#include <algorithm>

#include "common/classroom/judge/resemblance.h"

namespace ladder::classroom {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// The keys of one step, for a kernel that has no tiles.
constexpr int64_t kOneKey = 1;

/// Whether the mistake can be made in this problem at all.
bool applies(const OnlineAttention& mistake, int64_t keys, int64_t keys_per_tile) {
    if (mistake.last_tile_dropped || mistake.last_key_dropped || mistake.first_tile_only ||
        mistake.fetch != OnlineAttention::Fetch::from_first_key)
        return keys > keys_per_tile && (keys_per_tile > kOneKey || mistake.last_key_dropped);
    return true;
}

Attended computed_by(const OnlineAttention& recipe, const AttentionQuestion& question) {
    const torch::Tensor q = question.q;
    torch::Tensor k = question.k, v = question.v;
    Form form = question.form;
    const int64_t keys_per_tile = question.keys_per_tile;
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
        const int64_t fetched = recipe.fetch == OnlineAttention::Fetch::from_first_key        ? first
                                : recipe.fetch == OnlineAttention::Fetch::from_number_of_tile ? first / keys_per_tile
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
    torch::Tensor lse = recipe.lse == OnlineAttention::Lse::sum                                    ? l
                        : recipe.lse == OnlineAttention::Lse::base_2                               ? m + at::log2(l)
                        : recipe.lse == OnlineAttention::Lse::natural && recipe.maximum_subtracted ? m + at::log(l)
                                                                                                   : at::log(l);
    lse = lse.squeeze(-1);
    if (recipe.query_heads_turned_round) {
        out = out.flip(1);
        lse = lse.flip(1);
    }
    return {out, lse};
}

}  // namespace

AttentionMistake online_mistake(std::string_view name, const OnlineAttention& wrong, Steps steps) {
    return {name, [=](const AttentionQuestion& question, const Attended& result) {
                return (steps == Steps::any || question.keys_per_tile == kOneKey) &&
                       applies(wrong, question.k.size(2), question.keys_per_tile) &&
                       resembles(question, result, computed_by(wrong, question));
            }};
}

}  // namespace ladder::classroom
