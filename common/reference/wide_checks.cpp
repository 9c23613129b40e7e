#include "common/reference/wide_checks.h"

#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "common/reference/oracle.h"
#include "common/reference/test_device.h"
#include "common/reference/wide_cases.h"

namespace ladder::reference {
namespace {

/// Of tiles in which sums start over.
std::vector<int64_t> head_dims() {
    std::vector<int64_t> head_dims = wide_head_dims();
    std::erase_if(head_dims, [](int64_t head_dim) { return head_dim < 64; });
    return head_dims;
}

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
    constexpr int64_t queries = 130, keys = 200;
    for (const int64_t head_dim : head_dims()) {
        const int64_t half = head_dim / 2;
        const torch::Tensor q = torch::ones({1, 1, queries, head_dim}), k = torch::zeros({1, 1, keys, head_dim}),
                            v = torch::ones({1, 1, keys, head_dim});
        k.select(-1, half - 1).fill_(200.0);
        k.narrow(-1, half, half).fill_(std::ldexp(1.0, -18));
        // 0.1 * 2^-13 is 1.2e-5, and a float near 25 is exact to 1e-6.
        if (const auto near = within(error_of(entry, q, k, v, {.scale = 0.1}), 4e-6); !near)
            return ::testing::AssertionFailure() << "D = " << head_dim << ": " << near.message();
    }
    return ::testing::AssertionSuccess();
}

::testing::AssertionResult outliers_spare_their_neighbours(const AttentionEntry& entry) {
    constexpr int64_t queries = 130, keys = 200;
    for (const int64_t head_dim : head_dims()) {
        torch::manual_seed(7);
        const torch::Tensor q = torch::randn({1, 1, queries, head_dim}), k = torch::randn({1, 1, keys, head_dim}),
                            v = torch::randn({1, 1, keys, head_dim});
        q.select(-1, 0).fill_(1.0);
        q.select(-1, head_dim - 1).fill_(1.0);
        for (const int64_t outlier : {3, 150}) {
            k[0][0][outlier].zero_();
            k[0][0][outlier][0] = 1e7;
            k[0][0][outlier][head_dim - 1] = -1e7 - 1000.0;
        }
        if (const auto near = within(error_of(entry, q, k, v, {}), 2e-5); !near)
            return ::testing::AssertionFailure() << "D = " << head_dim << ": " << near.message();
    }
    return ::testing::AssertionSuccess();
}

}  // namespace ladder::reference
