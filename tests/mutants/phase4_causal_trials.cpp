#include <limits>

#include "phase4_causal/causal.h"
#include "tests/mutants/trials.h"

namespace ladder::mutants {
namespace {

/// NaN in the keys and values that only the last query sees: it must not reach the others.
::testing::AssertionResult nan_stays_unseen(torch::ScalarType dtype) {
    at::manual_seed(9);
    const auto random = [&] { return at::randn({1, 1, 40, 16}).to(dtype); };
    const torch::Tensor q = random(), k = random(), v = random();
    k.select(2, 39).fill_(std::numeric_limits<float>::quiet_NaN());
    v.select(2, 39).fill_(std::numeric_limits<float>::quiet_NaN());
    const AttentionOptions options{.scale = {}, .mask = Mask::causal_bottom_right};
    const auto verdict = reference::compare_attention(causal_forward(q, k, v, options), q, k, v, options);
    if (verdict.passed) return ::testing::AssertionSuccess();
    return ::testing::AssertionFailure() << verdict.report;
}

}  // namespace

std::vector<Trial> trials(torch::ScalarType dtype) {
    std::vector<Trial> trials = attention_trials(causal_forward, dtype);
    trials.push_back(trial("unseen_nan", [=] { return nan_stays_unseen(dtype); }));
    for (const auto& [alignment, mask] :
         {std::pair("bottom_right", Mask::causal_bottom_right), std::pair("top_left", Mask::causal_top_left)})
        for (const auto& [queries, keys] :
             {std::pair(150, 150), std::pair(70, 200), std::pair(200, 70), std::pair(1, 65)})
            for (const auto family : {reference::Family::normal, reference::Family::rising_scores})
                trials.push_back(attention_trial(
                    causal_forward,
                    {.name = std::string(alignment) + "_" + std::to_string(queries) + "x" + std::to_string(keys),
                     .query_heads = 2,
                     .kv_heads = 1,
                     .query_length = queries,
                     .key_length = keys,
                     .head_dim = 32,
                     .dtype = dtype,
                     .family = family,
                     .options = {.scale = {}, .mask = mask},
                     .seed = 10}));
    return trials;
}

}  // namespace ladder::mutants
