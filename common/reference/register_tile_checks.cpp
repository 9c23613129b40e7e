#include "common/reference/register_tile_checks.h"

#include <algorithm>
#include <cmath>

#include "common/reference/comparison.h"
#include "common/reference/oracle.h"
#include "common/torch/torch.h"

namespace ladder::reference {
namespace {

constexpr int64_t kQueries = 130, kKeys = 200;  // more than a tile of each

/// The largest distance from the oracle, of out and of lse.
double error_of(const AttentionEntry& entry, const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                const AttentionOptions& options, torch::Device device) {
    const AttentionResult result = entry(q.to(device), k.to(device), v.to(device), options);
    const AttentionResult expected = attention_oracle(q, k, v, options);
    const auto distance = [](const torch::Tensor& a, const torch::Tensor& b) {
        return (a.to(torch::kCPU, torch::kFloat64) - b).abs().max().item<double>();
    };
    return std::max(distance(result.out, expected.out), distance(result.lse, expected.lse));
}

::testing::AssertionResult within(double error, double allowed, int64_t head_dim) {
    if (error <= allowed) return ::testing::AssertionSuccess();  // NaN is not
    return ::testing::AssertionFailure() << "D = " << head_dim << ": the error is " << error << ", allowed " << allowed;
}

}  // namespace

::testing::AssertionResult hidden_keys_change_nothing(const AttentionEntry& entry, int64_t head_dim,
                                                      torch::Device device) {
    constexpr int64_t length = 300, key = 200;
    torch::manual_seed(13);
    const auto random = [&] { return torch::randn({1, 1, length, head_dim}); };
    const torch::Tensor q = random(), k = random(), v = random();
    q.select(-1, 0).fill_(1.0);
    k.select(-1, 0).fill_(20.0 * std::sqrt(double(head_dim)));  // all scores near 20
    const torch::Tensor huge = k.clone();
    huge.select(2, key) *= 100.0;
    const auto blind_rows = [&](const torch::Tensor& keys) {
        const AttentionResult result =
            entry(q.to(device), keys.to(device), v.to(device), {.scale = {}, .mask = Mask::causal_top_left});
        return torch::concat({result.out, result.lse.unsqueeze(-1)}, -1).narrow(2, 0, key).to(torch::kCPU);
    };
    const torch::Tensor changed = blind_rows(k).ne(blind_rows(huge)).any(-1).flatten().nonzero().flatten();
    if (changed.numel() == 0) return ::testing::AssertionSuccess();
    return ::testing::AssertionFailure() << "D = " << head_dim << ": " << changed.numel() << " rows, the first of them "
                                         << changed[0].item<int64_t>() << ", change with key " << key
                                         << ", which they do not see";
}

::testing::AssertionResult outliers_spare_their_neighbours(const AttentionEntry& entry, int64_t head_dim,
                                                           torch::Device device) {
    torch::manual_seed(7);
    const torch::Tensor q = torch::randn({1, 1, kQueries, head_dim}), k = torch::randn({1, 1, kKeys, head_dim}),
                        v = torch::randn({1, 1, kKeys, head_dim});
    q.select(-1, 0).fill_(1.0);
    q.select(-1, head_dim - 1).fill_(1.0);
    for (const int64_t outlier : {3, 150}) {
        k[0][0][outlier].zero_();
        k[0][0][outlier][0] = 1e7;
        k[0][0][outlier][head_dim - 1] = -1e7 - 1000.0;
    }
    return within(error_of(entry, q, k, v, {}, device), 2e-5, head_dim);
}

::testing::AssertionResult large_scores_stay_right(const AttentionEntry& entry, int64_t head_dim, Mask mask,
                                                   torch::Device device) {
    constexpr int64_t keys = 1024, queries = 40, keys_per_level = 128;
    torch::manual_seed(5);
    const torch::Tensor level = (torch::arange(keys) / keys_per_level).floor();
    const torch::Tensor noise = torch::randint(0, 64, {keys}) / 64.0;
    const torch::Tensor q = torch::ones({1, 1, queries, head_dim}).to(device);
    const torch::Tensor sign = 1.0 - 2.0 * (level % 2);  // tells the levels apart
    const torch::Tensor v = sign.view({1, 1, keys, 1}).expand({1, 1, keys, head_dim}).contiguous().to(device);
    const AttentionOptions options{.scale = 1.0, .mask = mask};
    for (const int start : {500, 700, 1000, 1500, 3000, 6000, 12000, 20000, 25000, 32750})
        for (const int way : {1, -1})
            for (const double step : {0.8, 0.9, 1.0}) {  // so small that most of the levels before still count
                torch::Tensor k = torch::zeros({1, 1, keys, head_dim});
                k.select(-1, 0).copy_(way * start + step * level + noise);  // one term: no sum is rounded
                k = k.to(device);
                const Comparison verdict = compare_attention(entry(q, k, v, options), q, k, v, options);
                if (!verdict.passed)
                    return ::testing::AssertionFailure() << "D = " << head_dim << ", from " << way * start
                                                         << " in steps of " << step << ": " << verdict.report;
            }
    return ::testing::AssertionSuccess();
}

}  // namespace ladder::reference
