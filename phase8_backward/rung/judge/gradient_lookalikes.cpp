// Mistakes in a backward pass that are known by their results: the derivation in float64, with one change each.

#include <cmath>

#include "common/classroom/judge/first_given.h"
#include "common/reference/comparison.h"
#include "phase8_backward/rung/judge/problems.h"

namespace ladder::classroom::phase8_backward {
namespace {

/// What a mistake changes in the derivation.
struct Recipe {
    std::string_view name;     ///< in the catalogue of wrong kernels
    WrongGradients shows;      ///< in these gradients and no others
    double of_D = 1;           ///< factor on D_i: 0 where it is left out
    double of_dlse = 1;        ///< factor on dLSE_i
    bool O_for_dO = false;     ///< in D_i
    bool weighed = true;       ///< dS has P as a factor
    bool scaled = true;        ///< dQ and dK have the scale
    bool scales_dv = false;    ///< and dV has it, too
    bool P_for_dS = false;     ///< in dQ and dK
    bool first_heads = false;  ///< of each group alone add to dK and dV
    bool last_heads = false;   ///< of each group alone add to dK and dV
};

constexpr WrongGradients kScores{.dk = true, .dq = true}, kKeys{.dv = true, .dk = true};

constexpr Recipe kMistakes[] = {
    {.name = "phase8_backward/dS_without_D", .shows = {.dk = true}, .of_D = 0, .of_dlse = 0},
    {.name = "phase8_backward/dq_without_D", .shows = {.dq = true}, .of_D = 0, .of_dlse = 0},
    {.name = "phase8_backward/dS_with_D_added", .shows = {.dk = true}, .of_D = -1, .of_dlse = -1},
    {.name = "phase8_backward/dS_without_P", .shows = {.dk = true}, .weighed = false},
    {.name = "phase8_backward/dS_is_P", .shows = {.dk = true}, .P_for_dS = true},
    {.name = "phase8_backward/dK_not_scaled", .shows = {.dk = true}, .scaled = false},
    {.name = "phase8_backward/dq_not_scaled", .shows = {.dq = true}, .scaled = false},
    {.name = "phase8_backward/dV_scaled", .shows = {.dv = true}, .scales_dv = true},
    {.name = "phase8_backward/D_of_the_output_alone", .shows = kScores, .O_for_dO = true},
    {.name = "phase8_backward/dlse_ignored", .shows = kScores, .of_dlse = 0},
    {.name = "phase8_backward/dlse_added", .shows = kScores, .of_dlse = -1},
    {.name = "phase8_backward/one_head_of_the_group", .shows = kKeys, .first_heads = true},
    {.name = "phase8_backward/each_head_begins_anew", .shows = kKeys, .last_heads = true},
};

/// [B, Hkv, Sk, D]: the sums over each group of query heads, or one head of each.
torch::Tensor over_groups(const torch::Tensor& of_heads, int64_t kv_heads, const Recipe& recipe) {
    const int64_t group = of_heads.size(1) / kv_heads;
    const torch::Tensor groups =
        of_heads.reshape({of_heads.size(0), kv_heads, group, of_heads.size(2), of_heads.size(3)});
    if (recipe.first_heads) return groups.select(2, 0);
    if (recipe.last_heads) return groups.select(2, group - 1);
    return groups.sum(2);
}

AttentionGradients computed_by(const Recipe& recipe, const reference::BackwardInputs& x, bool with_dlse) {
    const auto wide = [](const torch::Tensor& t) { return t.to(torch::kFloat64); };
    const int64_t kv_heads = x.k.size(1), group = x.q.size(1) / kv_heads;
    const torch::Tensor q = wide(x.q), k = wide(x.k).repeat_interleave(group, 1),
                        v = wide(x.v).repeat_interleave(group, 1), dout = wide(x.dout), out = wide(x.out);
    const double scale = x.options.scale.value_or(1.0 / std::sqrt(double(q.size(3))));
    const torch::Tensor seen = sight(q.size(2), k.size(2), {.scale = scale, .mask = x.options.mask});
    const torch::Tensor P =
        at::exp(at::matmul(q, k.mT()) * scale - wide(x.lse).unsqueeze(-1)).masked_fill(seen.logical_not(), 0);
    torch::Tensor D = recipe.of_D * ((recipe.O_for_dO ? out : dout) * out).sum(-1);
    if (with_dlse) D = D - recipe.of_dlse * wide(x.dlse);
    const torch::Tensor weight = recipe.weighed ? P : seen.to(torch::kFloat64).expand_as(P);
    const torch::Tensor dS = recipe.P_for_dS ? P : weight * (at::matmul(dout, v.mT()) - D.unsqueeze(-1));
    const double factor = recipe.scaled ? scale : 1.0;
    return {.dq = factor * at::matmul(dS, k),
            .dk = over_groups(factor * at::matmul(dS.mT(), q), kv_heads, recipe),
            .dv = over_groups((recipe.scales_dv ? scale : 1.0) * at::matmul(P.mT(), dout), kv_heads, recipe)};
}

bool agrees(const char* name, const torch::Tensor& got, const torch::Tensor& wrong) {
    if (!at::isfinite(wrong).all().item<bool>()) return false;
    return reference::compare(got, wrong, wrong.to(got.scalar_type()), wrong.abs().max().item<double>(), name).passed;
}

}  // namespace

std::optional<std::string_view> known_wrong_gradients(const reference::BackwardInputs& inputs, bool with_dlse,
                                                      const AttentionGradients& got, const WrongGradients& wrong) {
    return first_given(kMistakes, [&](const Recipe& recipe) {
        const WrongGradients& shows = recipe.shows;
        if (shows.dv != wrong.dv || shows.dk != wrong.dk || shows.dq != wrong.dq) return false;
        const AttentionGradients mistaken = computed_by(recipe, inputs, with_dlse);
        return (!wrong.dv || agrees("dv", got.dv, mistaken.dv)) && (!wrong.dk || agrees("dk", got.dk, mistaken.dk)) &&
               (!wrong.dq || agrees("dq", got.dq, mistaken.dq));
    });
}

std::vector<std::string_view> gradient_mistakes() {
    std::vector<std::string_view> names;
    for (const Recipe& recipe : kMistakes) names.push_back(recipe.name);
    return names;
}

}  // namespace ladder::classroom::phase8_backward
