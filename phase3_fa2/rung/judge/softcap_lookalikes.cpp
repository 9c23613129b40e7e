#include "phase3_fa2/rung/judge/softcap_lookalikes.h"

#include <algorithm>
#include <array>

#include "common/classroom/judge/resemblance.h"

namespace ladder::classroom::phase3_fa2 {
namespace {

/// Scores of the products q . k, the scale and the cap.
using Cap = torch::Tensor (*)(const torch::Tensor& products, double scale, double cap);

torch::Tensor right(const torch::Tensor& products, double scale, double cap) {
    return at::tanh(products * scale / cap) * cap;
}

struct WrongCap {
    std::string_view name;
    Cap scores;
    bool missing_keys_capped = false;  ///< so that they count, up to a whole tile
};

constexpr std::array kWrongCaps{
    WrongCap{"phase3_fa2/exercises/cap_after_the_mask", right, true},
    WrongCap{"phase3_fa2/exercises/no_cap",
             [](const torch::Tensor& products, double scale, double) -> torch::Tensor { return products * scale; }},
    WrongCap{"phase3_fa2/exercises/cap_without_its_factor",
             [](const torch::Tensor& products, double scale, double cap) -> torch::Tensor {
                 return at::tanh(products * scale / cap);
             }},
    WrongCap{"phase3_fa2/exercises/cap_without_its_division",
             [](const torch::Tensor& products, double scale, double cap) -> torch::Tensor {
                 return at::tanh(products * scale) * cap;
             }},
    WrongCap{"phase3_fa2/exercises/cap_without_factor_and_division",
             [](const torch::Tensor& products, double scale, double) -> torch::Tensor {
                 return at::tanh(products * scale);
             }},
    WrongCap{"phase3_fa2/exercises/cap_before_the_scale",
             [](const torch::Tensor& products, double scale, double cap) -> torch::Tensor {
                 return at::tanh(products / cap) * cap * scale;
             }},
    WrongCap{"phase3_fa2/exercises/cap_cuts_off",
             [](const torch::Tensor& products, double scale, double cap) -> torch::Tensor {
                 return at::clamp(products * scale, -cap, cap);
             }},
};

Attended computed_by(const WrongCap& mistake, const AttentionQuestion& question) {
    const auto& [q, k, v, form, rows_per_tile, keys_per_tile, scores_kept, weights_rounded, garbage] = question;
    torch::Tensor scores = mistake.scores(scores_of(q, k, {}, torch::kFloat64), form.scale, *form.softcap);
    torch::Tensor values = v.repeat_interleave(q.size(1) / v.size(1), 1).to(torch::kFloat64);
    if (mistake.missing_keys_capped) {
        const int64_t missing = (keys_per_tile - k.size(2) % keys_per_tile) % keys_per_tile;
        scores = at::constant_pad_nd(scores, {0, missing}, -*form.softcap);
        values = at::constant_pad_nd(values, {0, 0, 0, missing}, 0);
    }
    return {at::matmul(at::softmax(scores, -1), values), at::logsumexp(scores, -1)};
}

}  // namespace

std::vector<AttentionMistake> softcap_mistakes() {
    std::vector<AttentionMistake> mistakes;
    for (const WrongCap& mistake : kWrongCaps)
        mistakes.push_back({mistake.name, [&mistake](const AttentionQuestion& question, const Attended& result) {
                                return question.form.softcap &&
                                       resembles(question, result, computed_by(mistake, question));
                            }});
    return mistakes;
}

}  // namespace ladder::classroom::phase3_fa2
