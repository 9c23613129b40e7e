#include "common/reference/wide_checks.h"

#include <torch/torch.h>

#include <algorithm>
#include <cmath>

#include "common/reference/oracle.h"
#include "common/reference/test_device.h"
#include "common/reference/wide_cases.h"

namespace ladder::reference {
namespace {

constexpr int64_t kHeadDim = 128, kHalf = kHeadDim / 2;

bool has_room() { return !wide_cases({{.head_dim = kHeadDim}}).empty(); }

/// The largest distance from the oracle, of out and of lse.
double error_of(const AttentionEntry& entry, const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                const AttentionOptions& options) {
    const auto on_device = [](const torch::Tensor& x) { return x.to(test_device()); };
    const AttentionResult result = entry(on_device(q), on_device(k), on_device(v), options);
    const AttentionResult expected = attention_oracle(q, k, v, options);
    const auto distance = [](const torch::Tensor& a, const torch::Tensor& b) {
        return (a.to(torch::kCPU, torch::kFloat64) - b).abs().max().item<double>();
    };
    return std::max(distance(result.out, expected.out), distance(result.lse, expected.lse));
}

::testing::AssertionResult within(double error, double allowed) {
    if (error <= allowed) return ::testing::AssertionSuccess();  // NaN is not
    return ::testing::AssertionFailure() << "the error is " << error << ", allowed " << allowed;
}

}  // namespace

::testing::AssertionResult second_halves_count(const AttentionEntry& entry) {
    if (!has_room()) return ::testing::AssertionSuccess();
    constexpr int64_t queries = 130, keys = 200;
    const torch::Tensor q = torch::ones({1, 1, queries, kHeadDim}), k = torch::zeros({1, 1, keys, kHeadDim}),
                        v = torch::ones({1, 1, keys, kHeadDim});
    k.select(-1, kHalf - 1).fill_(200.0);
    k.narrow(-1, kHalf, kHalf).fill_(std::ldexp(1.0, -18));
    // 0.1 * 2^-12 is 2.4e-5, and a float near 25 is exact to 1e-6.
    return within(error_of(entry, q, k, v, {.scale = 0.1}), 4e-6);
}

::testing::AssertionResult outliers_spare_their_neighbours(const AttentionEntry& entry) {
    if (!has_room()) return ::testing::AssertionSuccess();
    constexpr int64_t queries = 130, keys = 200;
    torch::manual_seed(7);
    const torch::Tensor q = torch::randn({1, 1, queries, kHeadDim}), k = torch::randn({1, 1, keys, kHeadDim}),
                        v = torch::randn({1, 1, keys, kHeadDim});
    q.select(-1, 0).fill_(1.0);
    q.select(-1, kHeadDim - 1).fill_(1.0);
    for (const int64_t outlier : {3, 150}) {
        k[0][0][outlier].zero_();
        k[0][0][outlier][0] = 1e7;
        k[0][0][outlier][kHeadDim - 1] = -1e7 - 1000.0;
    }
    return within(error_of(entry, q, k, v, {}), 2e-5);
}

}  // namespace ladder::reference
