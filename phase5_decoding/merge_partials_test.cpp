#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "common/attention/outputs.h"
#include "common/reference/checks.h"
#include "common/reference/test_device.h"
#include "phase5_decoding/decode.h"

namespace ladder {
namespace {

using namespace reference;

constexpr float kInf = std::numeric_limits<float>::infinity(), kNaN = std::numeric_limits<float>::quiet_NaN();

const PoisonOutputs poison_outputs;  // an element that is never written stays NaN

/// Attention over [0, n), [n, 2 n), … as partial results: out_parts and lse_parts.
std::pair<torch::Tensor, torch::Tensor> partials(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                                 int64_t keys) {
    std::vector<torch::Tensor> out, lse;
    for (int64_t first = 0; first < k.size(2); first += keys) {
        const int64_t last = std::min(first + keys, k.size(2));
        const AttentionResult part = flash_decode(q, k.slice(2, first, last), v.slice(2, first, last));
        out.push_back(part.out);
        lse.push_back(part.lse);
    }
    return {torch::stack(out), torch::stack(lse)};
}

TEST(MergePartials, PartsMakeTheWhole) {
    const auto check = [](Family family, int64_t head_dim, int64_t keys) {
        const auto [q, k, v] = make_inputs({.batch = 2,
                                            .query_heads = 4,
                                            .kv_heads = 2,
                                            .query_length = 3,
                                            .key_length = 150,
                                            .head_dim = head_dim,
                                            .family = family,
                                            .seed = 3},
                                           test_device());
        const auto [out, lse] = partials(q, k, v, keys);
        const Comparison verdict = compare_attention(merge_partials(out, lse), q, k, v);
        EXPECT_TRUE(verdict.passed) << keys << " keys a part: " << verdict.report;
    };
    for (const int64_t head_dim : {1, 40, 128, 160})
        for (const int64_t keys : {150, 50}) check(Family::normal, head_dim, keys);
    for (const auto family : {Family::scores_near_minus_1000, Family::one_huge_logit, Family::rising_scores})
        check(family, 40, 50);
    check(Family::normal, 24, 2);  // 75 parts: more than a warp has lanes
}

TEST(DecodeParts, MergeToTheWhole) {
    for (const auto dtype : {torch::kFloat32, torch::kBFloat16})
        for (const std::optional<int64_t> splits :
             {std::optional<int64_t>(), std::optional<int64_t>(2), std::optional<int64_t>(5)}) {
            const auto [q, k, v] = make_inputs({.batch = 2,
                                                .query_heads = 4,
                                                .kv_heads = 2,
                                                .key_length = 500,
                                                .head_dim = 40,
                                                .dtype = dtype,
                                                .seed = 5},
                                               test_device());
            const AttentionResult parts = flash_decode_parts(q, k, v, {.splits = splits});
            EXPECT_GE(parts.out.size(0), 2);
            EXPECT_EQ(parts.out.scalar_type(), torch::kFloat32);
            EXPECT_EQ(parts.out.size(0), splits.value_or(parts.out.size(0)));
            AttentionResult merged = merge_partials(parts.out, parts.lse);
            merged.out = merged.out.to(dtype);
            const Comparison verdict = compare_attention(merged, q, k, v);
            EXPECT_TRUE(verdict.passed) << verdict.report;
        }
}

TEST(DecodeParts, OnePieceIsRefused) {
    const auto [q, k, v] = make_inputs({.key_length = 20}, test_device());
    try {
        flash_decode_parts(q, k, v, {.splits = 1});
        FAIL() << "not refused";
    } catch (const std::invalid_argument& error) {
        EXPECT_NE(std::string(error.what()).find("flash_decode gives"), std::string::npos) << error.what();
    }
}

TEST(MergePartials, ManyPartsMakeTheWhole) {
    for (const int64_t parts : {8, 9, 16, 17, 40, 200})
        for (const int64_t head_dim : {8, 64, 128, 200}) {
            at::manual_seed(parts);
            const torch::Tensor out = at::randn({parts, 1, 2, 1, head_dim}), lse = 3 * at::randn({parts, 1, 2, 1});
            const AttentionResult merged = merge_partials(out.to(test_device()), lse.to(test_device()));
            const torch::Tensor weights = at::softmax(lse.to(torch::kFloat64), 0).unsqueeze(-1);
            EXPECT_TRUE(at::allclose(merged.out.cpu().to(torch::kFloat64), (weights * out).sum(0), 1e-5, 1e-5))
                << parts << " parts, D " << head_dim;
            EXPECT_TRUE(at::allclose(merged.lse.cpu().to(torch::kFloat64), at::logsumexp(lse.to(torch::kFloat64), 0),
                                     1e-5, 1e-5));
        }
}

TEST(MergePartials, GroupingDoesNotMatter) {
    const auto [q, k, v] = make_inputs({.query_heads = 2, .kv_heads = 2, .key_length = 90, .seed = 9}, test_device());
    const auto [out, lse] = partials(q, k, v, 30);
    const AttentionResult left = merge_partials(out.slice(0, 0, 2), lse.slice(0, 0, 2)),
                          right = merge_partials(out.slice(0, 1, 3), lse.slice(0, 1, 3));
    for (const AttentionResult& grouped :
         {merge_partials(torch::stack({left.out, out[2]}), torch::stack({left.lse, lse[2]})),
          merge_partials(torch::stack({out[0], right.out}), torch::stack({lse[0], right.lse}))}) {
        const Comparison verdict = compare_attention(grouped, q, k, v);
        EXPECT_TRUE(verdict.passed) << verdict.report;
    }
}

TEST(MergePartials, PartsThatSawNothingCountForNothing) {
    const torch::Tensor out = torch::ones({3, 1, 1, 4, 8}, test_device()),
                        lse = torch::zeros({3, 1, 1, 4}, test_device());
    const auto set = [&](int part, int row, float out_value, float lse_value) {
        out[part][0][0][row].fill_(out_value);
        lse[part][0][0][row].fill_(lse_value);
    };
    set(0, 0, 0.0f, -kInf);                                      // row 0: one part is empty
    set(1, 1, kNaN, -kInf);                                      // row 1: one part is 0 / 0
    for (const int part : {0, 1, 2}) set(part, 2, 0.0f, -kInf);  // row 2: nobody saw anything
    for (const int part : {0, 1, 2}) set(part, 3, kNaN, -kInf);  // row 3: every score was -inf
    const AttentionResult merged = merge_partials(out, lse);
    const auto row = [&](int i) { return merged.out[0][0][i]; };
    EXPECT_TRUE(row(0).eq(1).all().item<bool>()) << row(0);
    EXPECT_TRUE(row(1).eq(1).all().item<bool>()) << row(1);
    EXPECT_TRUE(row(2).eq(0).all().item<bool>()) << row(2);
    EXPECT_TRUE(row(3).isnan().all().item<bool>()) << row(3);
    EXPECT_FLOAT_EQ(merged.lse[0][0][0].item<float>(), std::log(2.0f));
    EXPECT_TRUE(merged.lse[0][0].slice(0, 2).eq(-kInf).all().item<bool>());
}

TEST(MergePartials, RefusesBadInput) {
    const torch::Tensor out = torch::ones({3, 2, 4, 5, 16}, test_device()),
                        lse = torch::ones({3, 2, 4, 5}, test_device());
    const auto refuses = [](const torch::Tensor& out, const torch::Tensor& lse,
                            const std::vector<std::string>& mentions) {
        return throws_mentioning([&] { merge_partials(out, lse); }, mentions);
    };
    EXPECT_TRUE(refuses({}, lse, {"out_parts:", "undefined"}));
    EXPECT_TRUE(refuses(out, {}, {"lse_parts:", "undefined"}));
    EXPECT_TRUE(refuses(out[0], lse, {"out_parts:", "4", "5"}));
    EXPECT_TRUE(refuses(out, lse[0], {"lse_parts:", "3", "4"}));
    EXPECT_TRUE(refuses(out.to(torch::kFloat16), lse, {"out_parts:", "Half", "float32"}));
    EXPECT_TRUE(refuses(out, lse.to(torch::kBFloat16), {"lse_parts:", "BFloat16", "float32"}));
    EXPECT_TRUE(refuses(out, lse.slice(3, 0, 4).contiguous(), {"lse_parts:", "[3, 2, 4, 4]", "[3, 2, 4, 5, 16]"}));
    EXPECT_TRUE(refuses(out.slice(0, 0, 0), lse.slice(0, 0, 0), {"out_parts:", "0"}));
    EXPECT_TRUE(refuses(torch::ones({1, 1, 1, 1, 257}, test_device()), torch::ones({1, 1, 1, 1}, test_device()),
                        {"out_parts:", "257", "256"}));
    EXPECT_NO_THROW(merge_partials(out, lse));
}

}  // namespace
}  // namespace ladder
