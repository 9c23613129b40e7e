#include "common/reference/wide_checks.h"

#include <torch/torch.h>

#include <algorithm>
#include <cmath>

#include "common/reference/oracle.h"

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

::testing::AssertionResult large_sum_stays_exact(const AttentionEntry& entry, int64_t head_dim, torch::Device device) {
    constexpr int64_t late = 150;
    const torch::Tensor q = torch::ones({1, 1, kQueries, head_dim}), k = torch::zeros({1, 1, kKeys, head_dim}),
                        v = torch::ones({1, 1, kKeys, head_dim});
    // 2^-17 is a whole last digit of a float between 64 and 128, and half of one above.
    k.narrow(2, late, kKeys - late).fill_(256.0 / double(head_dim) + std::ldexp(1.0, -17));
    // Lost with half of the terms: 6e-6 for D = 16, and 4.9e-5 for D = 128. LSE, near 29, is exact to 1e-6.
    return within(error_of(entry, q, k, v, {.scale = 0.1}, device), 4e-6, head_dim);
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

}  // namespace ladder::reference
