#include "common/reference/register_tile_checks.h"

#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "common/reference/comparison.h"
#include "common/reference/oracle.h"
#include "common/simt/launch_log.h"

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

::testing::AssertionResult large_sums_stay_exact(const AttentionEntry& entry, int64_t head_dim, torch::Device device) {
    constexpr int64_t large_keys = 50;
    const torch::Tensor q = torch::ones({1, 1, kQueries, head_dim}), v = torch::ones({1, 1, kKeys, head_dim});
    // Beyond 128, 2^-17 is half of a float's last digit; below it is a whole one. Whoever goes from 0 to 256 is beyond
    // from the first term on; whoever goes from -256 to 0, until the last one if that is the large one.
    torch::Tensor large = torch::full({head_dim}, 128.0 / double(head_dim) + std::ldexp(1.0, -17));
    large[0] = 128.0 + 128.0 / double(head_dim);
    const auto exact_with = [&](const torch::Tensor& key, int64_t first, int64_t last) {
        torch::Tensor k = torch::zeros({1, 1, kKeys, head_dim});
        k.narrow(2, first, last - first).copy_(key);
        // With this scale the maximum is 32 powers of 2. What is lost is 1e-5 for D = 16, and 8e-5 for D = 128.
        return within(error_of(entry, q, k, v, {.scale = std::log(2.0) / 8}, device), 4e-6, head_dim);
    };
    if (auto exact = exact_with(large, 0, large_keys); !exact) return exact << " (first keys)";
    if (auto exact = exact_with(large.flip(0), 0, large_keys); !exact) return exact << " (the large term last)";
    if (auto exact = exact_with(large, kKeys - large_keys, kKeys); !exact) return exact << " (last keys)";
    if (auto exact = exact_with(-large, 0, kKeys); !exact) return exact << " (negative scores)";
    return ::testing::AssertionSuccess();
}

::testing::AssertionResult hidden_keys_change_nothing(const AttentionEntry& entry, int64_t head_dim,
                                                      torch::Device device) {
    constexpr int64_t length = 300, key = 200;
    torch::manual_seed(13);
    const auto random = [&] { return torch::randn({1, 1, length, head_dim}); };
    const torch::Tensor q = random(), k = random(), v = random();
    q.select(-1, 0).fill_(1.0);
    k.select(-1, 0).fill_(20.0 * std::sqrt(double(head_dim)));  // all scores near 20, so that all sums are shifted
    const torch::Tensor huge = k.clone();
    huge.select(2, key) *= 100.0;
    const auto blind_rows = [&](const torch::Tensor& keys) {
        const AttentionResult result =
            entry(q.to(device), keys.to(device), v.to(device), {.scale = {}, .mask = Mask::causal_top_left});
        return torch::cat({result.out, result.lse.unsqueeze(-1)}, -1).narrow(2, 0, key).to(torch::kCPU);
    };
    const torch::Tensor changed = blind_rows(k).ne(blind_rows(huge)).any(-1).flatten().nonzero().flatten();
    if (changed.numel() == 0) return ::testing::AssertionSuccess();
    return ::testing::AssertionFailure() << "D = " << head_dim << ": " << changed.numel() << " rows, the first of them "
                                         << changed[0].item<int64_t>() << ", change with key " << key
                                         << ", which they do not see";
}

::testing::AssertionResult small_scores_are_computed_once(const AttentionEntry& entry, int64_t head_dim) {
    torch::manual_seed(11);
    const torch::Tensor q = torch::randn({1, 1, kQueries, head_dim}), k = torch::randn({1, 1, kKeys, head_dim});
    const auto read_with_scores = [&](double factor) {
        const simt::LaunchLog log(simt::LaunchLog::Detail::bytes);
        entry(factor * q, k, k, {});
        return log.total().shared_bytes_read;
    };
    const std::uint64_t without = read_with_scores(0.0), small = read_with_scores(1.0), large = read_with_scores(100.0);
    if (small == without && large > without) return ::testing::AssertionSuccess();
    return ::testing::AssertionFailure() << "D = " << head_dim << ": read from shared memory are " << small
                                         << " bytes for normal inputs, " << without << " for scores of 0, " << large
                                         << " for scores a hundred times as large";
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

::testing::AssertionResult huge_scores_are_weighed(const AttentionEntry& entry, int64_t head_dim, Mask mask,
                                                   torch::Device device) {
    torch::manual_seed(17);
    const torch::Tensor q = torch::ones({1, 1, kQueries, head_dim}).to(device);
    const torch::Tensor v = torch::randn({1, 1, kKeys, head_dim}).to(device);
    const AttentionOptions options{.scale = 1.0, .mask = mask};
    for (const float of_last_keys : {1e9f, -1e9f, 1.4e38f, -1.4e38f}) {
        torch::Tensor k = torch::zeros({1, 1, kKeys, head_dim});
        k.select(-1, 0).fill_(-1.2f * of_last_keys);
        k.select(-1, 0).narrow(2, 150, kKeys - 150).fill_(of_last_keys);
        k = k.to(device);
        const Comparison verdict = compare_attention(entry(q, k, v, options), q, k, v, options);
        if (!verdict.passed)
            return ::testing::AssertionFailure()
                   << "D = " << head_dim << ", last scores of " << of_last_keys << ": " << verdict.report;
        k[0][0][3][0] = std::numeric_limits<float>::quiet_NaN();  // which all queries see
        if (!entry(q, k, v, options).out.isnan().all().item<bool>())
            return ::testing::AssertionFailure()
                   << "D = " << head_dim << ", last scores of " << of_last_keys << ": a score of NaN is lost";
    }
    return ::testing::AssertionSuccess();
}

::testing::AssertionResult large_roundings_are_made_good(const AttentionEntry& entry, int64_t head_dim, Mask mask,
                                                         torch::Device device) {
    constexpr int64_t keys = 400, first_of_larger = 300;
    torch::manual_seed(19);
    const torch::Tensor q = torch::ones({1, 1, kQueries, head_dim}).to(device);
    const torch::Tensor v = torch::randn({1, 1, keys, head_dim}).to(device);
    const AttentionOptions options{.scale = 1.0, .mask = mask};
    for (const float sign : {1.0f, -1.0f})
        for (float score = 1.0e8f; score < 1.3e8f; score += 1.0e6f + 8.0f) {  // multiples of 8, as are all floats there
            torch::Tensor k = torch::zeros({1, 1, keys, head_dim});
            k.select(-1, 0).fill_(sign * score);
            k.select(-1, 0).narrow(2, first_of_larger, 1).add_(8.0f);
            k = k.to(device);
            const Comparison verdict = compare_attention(entry(q, k, v, options), q, k, v, options);
            if (!verdict.passed)
                return ::testing::AssertionFailure()
                       << "D = " << head_dim << ", scores of " << sign * score << ": " << verdict.report;
        }
    return ::testing::AssertionSuccess();
}

::testing::AssertionResult weights_agree_where_the_shift_moves(const AttentionEntry& entry, int64_t head_dim, Mask mask,
                                                               torch::Device device) {
    constexpr int64_t keys = 1024, queries = 40, keys_per_level = 128;
    torch::manual_seed(5);
    const torch::Tensor level = (torch::arange(keys) / keys_per_level).floor();
    const torch::Tensor noise = torch::randint(0, 64, {keys}) / 64.0;
    const torch::Tensor q = torch::ones({1, 1, queries, head_dim}).to(device);
    const torch::Tensor sign = 1.0 - 2.0 * (level % 2);  // tells the levels apart
    const torch::Tensor v = sign.view({1, 1, keys, 1}).expand({1, 1, keys, head_dim}).contiguous().to(device);
    const AttentionOptions options{.scale = 1.0, .mask = mask};
    for (int start = 500; start < 1500; start += 123)
        for (const int way : {1, -1})
            // Steps so small that the shift moves once, when most of the levels before still count.
            for (const double step : {0.8, 0.85, 0.9, 0.95, 1.0}) {
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
