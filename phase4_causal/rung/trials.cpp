#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "common/reference/large_device.h"
#include "common/reference/register_tile_checks.h"
#include "phase4_causal/causal.h"
#include "tests/mutants/trials.h"

namespace ladder::mutants {
namespace {

/// NaN in a key and value, or an infinity in the value, that only the queries from that one on see: it must not reach
/// the others.
::testing::AssertionResult stays_unseen(const reference::AttentionEntry& entry, torch::ScalarType dtype, float poison,
                                        int64_t key) {
    at::manual_seed(9);
    const auto random = [&] { return at::randn({1, 1, 40, 16}).to(dtype); };
    const torch::Tensor q = random(), k = random(), v = random();
    if (std::isnan(poison)) k.select(2, key).fill_(poison);
    v.select(2, key).fill_(poison);
    const AttentionOptions options{.scale = {}, .mask = Mask::causal_bottom_right};
    const auto verdict = reference::compare_attention(entry(q, k, v, options), q, k, v, options);
    if (verdict.passed) return ::testing::AssertionSuccess();
    return ::testing::AssertionFailure() << verdict.report;
}

/// What only a masked entry needs. `prefix` begins the trials' names.
std::vector<Trial> masked_trials(const reference::AttentionEntry& entry, torch::ScalarType dtype, int64_t query_heads,
                                 const std::string& prefix) {
    std::vector<Trial> trials;
    constexpr float kNaN = std::numeric_limits<float>::quiet_NaN(), kInfinity = std::numeric_limits<float>::infinity();
    for (const auto& [name, poison] : {std::pair("nan", kNaN), std::pair("infinity", kInfinity)})
        for (const int64_t key : {39, 2})
            trials.push_back(trial(prefix + "unseen_" + name + "_" + std::to_string(key),
                                   [=] { return stays_unseen(entry, dtype, poison, key); }));
    for (const auto& [alignment, mask] :
         {std::pair("bottom_right", Mask::causal_bottom_right), std::pair("top_left", Mask::causal_top_left)})
        for (const auto& [queries, keys] :
             {std::pair(150, 150), std::pair(70, 200), std::pair(200, 70), std::pair(1, 65)})
            for (const auto family : {reference::Family::normal, reference::Family::rising_scores})
                trials.push_back(attention_trial(
                    entry, {.name = prefix + alignment + "_" + std::to_string(queries) + "x" + std::to_string(keys),
                            .query_heads = query_heads,
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

}  // namespace

std::vector<Trial> trials(torch::ScalarType dtype) {
    std::vector<Trial> trials = attention_trials(causal_plain_forward, dtype);
    const auto add = [&](std::vector<Trial> more) {
        for (Trial& trial : more) trials.push_back(std::move(trial));
    };
    add(masked_trials(causal_plain_forward, dtype, 2, ""));
    add(register_tile_trials(causal_tiled_forward, dtype));
    if (dtype == torch::kFloat32)
        trials.push_back(trial("tiled_hidden_key", [] {
            return reference::hidden_keys_change_nothing(reference::on_large_device(causal_tiled_forward), 32,
                                                         at::kCPU);
        }));
    if (dtype == torch::kFloat32)
        add(masked_trials(reference::on_large_device(causal_tiled_forward), dtype, 1, "tiled_"));
    return trials;
}

}  // namespace ladder::mutants
