#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "common/attention/attention.h"
#include "common/reference/checks.h"
#include "common/reference/test_device.h"
#include "phase9_ring/merge.h"

namespace ladder {
namespace {

using namespace reference;

constexpr float kInf = std::numeric_limits<float>::infinity(), kNaN = std::numeric_limits<float>::quiet_NaN();

/// Attention over the keys, so many at a time.
AttentionResult merged(const AttentionInputs& x, std::int64_t keys) {
    SoFar so_far(x.q);
    for (std::int64_t first = 0; first < x.k.size(2); first += keys) {
        const std::int64_t last = std::min(first + keys, x.k.size(2));
        so_far.merge(0, attention_with_lse(x.q, x.k.slice(2, first, last), x.v.slice(2, first, last)));
    }
    return so_far.result();
}

TEST(Merge, PartsMakeTheWhole) {
    for (const auto dtype : {torch::kFloat32, torch::kFloat16, torch::kBFloat16})
        for (const std::int64_t head_dim : {1, 40, 160})
            for (const std::int64_t keys : {100, 30, 7}) {
                const AttentionInputs x = make_inputs({.batch = 2,
                                                       .query_heads = 2,
                                                       .kv_heads = 1,
                                                       .query_length = 9,
                                                       .key_length = 100,
                                                       .head_dim = head_dim,
                                                       .dtype = dtype,
                                                       .seed = 3},
                                                      test_device());
                const Comparison verdict = compare_attention(merged(x, keys), x.q, x.k, x.v);
                EXPECT_TRUE(verdict.passed) << keys << " keys a part, D " << head_dim << ": " << verdict.report;
            }
}

TEST(Merge, SumsOfAnySizeMerge) {
    for (const auto family : {Family::scores_near_minus_1000, Family::one_huge_logit, Family::rising_scores,
                              Family::falling_scores, Family::offset_values}) {
        const AttentionInputs x = make_inputs(
            {.query_length = 5, .key_length = 64, .head_dim = 24, .family = family, .seed = 4}, test_device());
        const Comparison verdict = compare_attention(merged(x, 8), x.q, x.k, x.v);
        EXPECT_TRUE(verdict.passed) << name_of(family) << ": " << verdict.report;
    }
}

TEST(Merge, AddsToTheRowsThatItIsToldOf) {
    const torch::Tensor q = at::zeros({2, 3, 20, 16}, test_device());
    SoFar so_far(q);
    const torch::Tensor part = at::randn({2, 3, 7, 16}).to(test_device());
    so_far.merge(9, {.out = part, .lse = at::ones({2, 3, 7}, test_device())});
    const auto [out, lse] = so_far.result();
    EXPECT_TRUE(at::equal(out.narrow(2, 9, 7), part));
    EXPECT_TRUE(out.narrow(2, 0, 9).eq(0).all().item<bool>());
    EXPECT_TRUE(out.narrow(2, 16, 4).eq(0).all().item<bool>());
    EXPECT_TRUE(lse.narrow(2, 9, 7).eq(1).all().item<bool>());
    EXPECT_TRUE(lse.narrow(2, 0, 9).eq(-kInf).all().item<bool>());
}

TEST(Merge, NoKeysAtAllGiveNothing) {
    const auto [out, lse] = SoFar(at::ones({1, 2, 3, 8}, test_device())).result();
    EXPECT_TRUE(out.eq(0).all().item<bool>());
    EXPECT_TRUE(lse.eq(-kInf).all().item<bool>());
}

TEST(Merge, WhatIsNotFiniteStaysSo) {
    const auto after = [](float lse, float out, float other_lse) {
        SoFar so_far(at::zeros({1, 1, 1, 8}, test_device()));
        const auto add = [&](float o, float l) {
            so_far.merge(
                0, {.out = at::full({1, 1, 1, 8}, o, test_device()), .lse = at::full({1, 1, 1}, l, test_device())});
        };
        add(out, lse);
        add(1.0f, other_lse);
        const auto [all, sum] = so_far.result();
        return std::pair(all.max().item<float>(), sum.max().item<float>());
    };
    EXPECT_EQ(after(-kInf, kNaN, 0.0f), std::pair(1.0f, 0.0f));  // a part that saw nothing, 0 / 0, counts for nothing
    EXPECT_EQ(after(-kInf, 0.0f, -kInf).second, -kInf);          // nobody saw anything
    EXPECT_TRUE(std::isnan(after(-kInf, kNaN, -kInf).first));    // every score was -inf
    EXPECT_TRUE(std::isnan(after(kInf, kNaN, 0.0f).first));      // a score was inf
    EXPECT_EQ(after(kInf, kNaN, 0.0f).second, kInf);
    EXPECT_TRUE(std::isnan(after(kNaN, kNaN, 0.0f).first));  // a score was NaN
    EXPECT_TRUE(std::isnan(after(kNaN, kNaN, 0.0f).second));
}

}  // namespace
}  // namespace ladder
