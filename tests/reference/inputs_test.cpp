// The inputs that kernels are tried on, good and bad.

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/attention/machine.h"
#include "common/reference/bad_inputs.h"
#include "common/reference/cases.h"
#include "common/reference/checks.h"
#include "common/reference/inputs.h"
#include "common/reference/oracle.h"
#include "common/reference/test_device.h"
#include "tests/reference/by_hand.h"

namespace ladder::reference {
namespace {

bool fit_for_gtest(const std::string& name) {
    return !name.empty() &&
           std::all_of(name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) || c == '_'; });
}

// ---- inputs --------------------------------------------------------------------------------------------------------

TEST(Inputs, are_the_same_every_time_and_differ_by_seed) {
    auto problem = grouped_case(torch::kFloat32);
    const auto first = make_inputs(problem, test_device()), second = make_inputs(problem, test_device());
    EXPECT_TRUE(at::equal(first.q, second.q) && at::equal(first.k, second.k) && at::equal(first.v, second.v));
    EXPECT_FALSE(at::equal(first.k, first.v));
    problem.seed += 1;
    EXPECT_FALSE(at::equal(first.q, make_inputs(problem, test_device()).q));
}

TEST(Inputs, layouts_hold_the_same_numbers) {
    auto problem = grouped_case(torch::kFloat16);
    const auto plain = make_inputs(problem, test_device());
    EXPECT_TRUE(plain.q.is_contiguous() && plain.k.is_contiguous() && plain.v.is_contiguous());
    for (const auto layout : kLayouts) {
        if (layout == Layout::expanded_heads || layout == Layout::expanded_batch) continue;
        problem.layouts = {.q = layout, .k = layout, .v = layout};
        const auto laid_out = make_inputs(problem, test_device());
        EXPECT_TRUE(at::equal(plain.q, laid_out.q) && at::equal(plain.k, laid_out.k) && at::equal(plain.v, laid_out.v));
        for (const auto& x : {laid_out.q, laid_out.k, laid_out.v}) EXPECT_EQ(x.stride(3), 1);
    }
}

TEST(Inputs, each_tensor_has_the_layout_of_its_own) {
    auto problem = grouped_case(torch::kFloat32);
    const auto strides_of = [](const torch::Tensor& x, Layout layout) {
        return with_layout(x, layout).strides().vec();
    };
    for (const auto layout : kLayouts) {
        problem.layouts = {.q = layout, .k = Layout::packed_qkv, .v = Layout::bshd};
        const auto [q, k, v] = make_inputs(problem, test_device());
        EXPECT_EQ(q.strides().vec(), strides_of(q, layout));
        EXPECT_EQ(k.strides().vec(), strides_of(k, Layout::packed_qkv));
        EXPECT_EQ(v.strides().vec(), strides_of(v, Layout::bshd));
        EXPECT_NE(k.strides().vec(), v.strides().vec());
    }
}

TEST(Inputs, scores_are_what_attention_makes_of_the_same_case) {
    AttentionCase problem{.query_length = 5, .key_length = 33, .head_dim = 8, .dtype = torch::kBFloat16, .seed = 3};
    problem.options.scale = -0.5;
    auto in_float32 = problem;
    in_float32.dtype = torch::kFloat32;
    const auto inputs = make_inputs(in_float32, test_device());
    const auto expected = (at::matmul(inputs.q[0][0], inputs.k[0][0].t()) * -0.5).to(torch::kBFloat16);
    const auto plain = make_scores(problem, test_device());
    EXPECT_TRUE(plain.is_contiguous());
    EXPECT_TRUE(at::allclose(plain.to(torch::kFloat32), expected.to(torch::kFloat32), 0.01, 0.01));
    problem.layouts.q = Layout::padded_rows;
    const auto padded = make_scores(problem, test_device());
    EXPECT_TRUE(at::equal(padded, plain));
    EXPECT_GT(padded.stride(0), 33);

    problem.query_heads = 2;
    EXPECT_TRUE(throws_mentioning([&] { make_scores(problem, test_device()); }, {"one batch and one head"}));
}

TEST(Inputs, layouts_are_what_their_names_say) {
    for (const auto dtype : kDtypes) {
        for (const int64_t head_dim : {1, 7, 15, 16, 64}) {
            const auto x = at::randn({2, 3, 5, head_dim}, at::kFloat).to(test_device()).to(dtype);
            EXPECT_EQ(with_layout(x, Layout::bshd).strides(),
                      at::IntArrayRef({15 * head_dim, head_dim, 3 * head_dim, 1}));

            const auto packed = with_layout(x, Layout::packed_qkv);
            EXPECT_EQ(packed.strides(), at::IntArrayRef({45 * head_dim, head_dim, 9 * head_dim, 1}));
            EXPECT_EQ(packed.storage_offset(), 3 * head_dim);

            // What keeps rows from being read 16 bytes at a time: one reason each.
            const auto aligned = [](const torch::Tensor& x, int64_t elements) {
                return elements * x.element_size() % 16 == 0;
            };
            const auto starts_aligned = [](const torch::Tensor& x) {
                return reinterpret_cast<uintptr_t>(x.data_ptr()) % 16 == 0;
            };
            const auto is_nan = [](const torch::Tensor& x, int64_t offset) {
                return x.as_strided({1}, {1}, offset).isnan().all().item<bool>();
            };
            const auto padded = with_layout(x, Layout::padded_rows);
            EXPECT_GT(padded.stride(2), head_dim);
            EXPECT_TRUE(starts_aligned(padded) && !aligned(padded, padded.stride(2)));
            EXPECT_TRUE(is_nan(padded, head_dim));

            const auto apart = with_layout(x, Layout::padded_heads);
            EXPECT_EQ(apart.stride(2), head_dim);
            EXPECT_GT(apart.stride(1), 5 * head_dim);
            EXPECT_TRUE(starts_aligned(apart) && !aligned(apart, apart.stride(1)));
            EXPECT_TRUE(is_nan(apart, 5 * head_dim));

            const auto shifted = with_layout(x, Layout::shifted);
            EXPECT_EQ(shifted.strides(), x.strides());
            EXPECT_FALSE(starts_aligned(shifted));
            EXPECT_TRUE(is_nan(shifted, 0));

            const auto sliced = with_layout(x, Layout::sliced_offset);
            EXPECT_GT(sliced.storage_offset(), 0);
            EXPECT_GT(sliced.stride(1), 5 * head_dim);
            EXPECT_EQ(sliced.stride(2), head_dim);
            const auto row_before = sliced.as_strided({head_dim}, {1}, sliced.storage_offset() - head_dim);
            EXPECT_TRUE(row_before.isnan().all().item<bool>());

            const auto expanded = with_layout(x, Layout::expanded_heads);
            EXPECT_EQ(expanded.stride(1), 0);
            EXPECT_TRUE(at::equal(expanded.select(1, 2), x.select(1, 0)));
            EXPECT_EQ(expanded.sizes(), x.sizes());
            const auto one_sequence = with_layout(x, Layout::expanded_batch);
            EXPECT_EQ(one_sequence.stride(0), 0);
            EXPECT_TRUE(at::equal(one_sequence.select(0, 1), x.select(0, 0)));
            EXPECT_EQ(one_sequence.sizes(), x.sizes());

            for (const auto layout : kLayouts)
                if (aligns_rows(layout) && aligned(x, head_dim)) {
                    EXPECT_TRUE(tensor_argument("x", with_layout(x, layout)).rows_aligned_to_16_bytes())
                        << name_of(layout);
                } else {
                    EXPECT_FALSE(tensor_argument("x", with_layout(x, layout)).rows_aligned_to_16_bytes())
                        << name_of(layout);
                }
        }
    }
}

TEST(Inputs, sequences_that_share_their_memory_are_poisoned_past_the_longest_only) {
    const auto lengths = lengths_tensor({23, 31});
    for (const auto layout : kLayouts) {
        auto problem = grouped_case(torch::kFloat32);
        problem.layouts.k = layout;
        auto inputs = make_inputs(problem, test_device());
        poison_past_lengths(inputs, lengths);
        const bool shared = layout == Layout::expanded_batch;
        EXPECT_FALSE(inputs.k[0].narrow(1, 0, 23).isnan().any().item<bool>()) << name_of(layout);
        EXPECT_FALSE(inputs.k[1].narrow(1, 0, 31).isnan().any().item<bool>()) << name_of(layout);
        EXPECT_EQ(inputs.k[0].narrow(1, 23, 8).isnan().all().item<bool>(), !shared) << name_of(layout);
        EXPECT_TRUE(inputs.k.narrow(2, 31, inputs.k.size(2) - 31).isnan().all().item<bool>()) << name_of(layout);
    }
}

class Families : public ::testing::TestWithParam<torch::ScalarType> {
  protected:
    /// Scores [B, H, Sq, Sk] and V of a family with ungrouped heads, in float64 on the CPU.
    struct Look {
        torch::Tensor scores, v;
        AttentionResult result;
    };
    static Look look(Family family, int64_t head_dim = 64) {
        const AttentionCase problem{.batch = 2,
                                    .query_heads = 3,
                                    .kv_heads = 3,
                                    .query_length = 20,
                                    .key_length = 30,
                                    .head_dim = head_dim,
                                    .dtype = GetParam(),
                                    .family = family,
                                    .seed = 9};
        const auto [q, k, v] = make_inputs(problem, test_device());
        EXPECT_TRUE(at::isfinite(q).all().item<bool>() && at::isfinite(k).all().item<bool>() &&
                    at::isfinite(v).all().item<bool>());
        const auto wide = [](const torch::Tensor& x) { return x.cpu().to(torch::kFloat64); };
        return {at::matmul(wide(q), wide(k).transpose(2, 3)) / std::sqrt(static_cast<double>(head_dim)), wide(v),
                attention_oracle(q, k, v)};
    }
};

TEST_P(Families, normal_has_distinct_scores_of_standard_deviation_one) {
    const auto [scores, v, result] = look(Family::normal);
    EXPECT_NEAR(scores.std().item<double>(), 1.0, 0.2);
    EXPECT_NEAR(v.std().item<double>(), 1.0, 0.1);
}

TEST_P(Families, scores_lie_near_minus_1000_and_still_differ) {
    for (const int64_t head_dim : {1, 40, 64}) {
        const auto [scores, v, result] = look(Family::scores_near_minus_1000, head_dim);
        EXPECT_LT(scores.max().item<double>(), -980.0);
        EXPECT_GT(scores.min().item<double>(), -1020.0);
        EXPECT_GT(scores.std(-1).max().item<double>(), 0.5);
    }
}

TEST_P(Families, one_huge_logit_decides_even_rows) {
    const auto [scores, v, result] = look(Family::one_huge_logit);
    for (int64_t b = 0; b < 2; ++b) {
        for (int64_t h = 0; h < 3; ++h) {
            const auto huge_key = scores[b][h][0].argmax().item<int64_t>();
            EXPECT_NEAR(scores[b][h][0][huge_key].item<double>(), 500.0, 2.0);
            EXPECT_NEAR(scores[b][h][1][huge_key].item<double>(), -500.0, 2.0);
            EXPECT_LT(distance(result.out[b][h][0], v[b][h][huge_key]), 1e-12);
            EXPECT_GT(distance(result.out[b][h][1], v[b][h][huge_key]), 0.1);
        }
    }
}

TEST_P(Families, equal_scores_are_equal_but_not_zero) {
    const auto [scores, v, result] = look(Family::equal_scores);
    EXPECT_LT((scores - scores.narrow(-1, 0, 1)).abs().max().item<double>(), 1e-12);
    EXPECT_GT(scores.abs().mean().item<double>(), 0.1);
}

TEST_P(Families, index_ramp_finds_the_documented_key_exactly) {
    const auto [scores, v, result] = look(Family::index_ramp);
    EXPECT_TRUE(at::equal(v, make_inputs({.batch = 2,
                                          .query_heads = 3,
                                          .kv_heads = 3,
                                          .query_length = 20,
                                          .key_length = 30,
                                          .head_dim = 64,
                                          .family = Family::index_ramp},
                                         torch::kCPU)
                                 .v.to(torch::kFloat64)))
        << "the ramp must be exact in every dtype";
    for (int64_t b = 0; b < 2; ++b) {
        for (int64_t h = 0; h < 3; ++h) {
            for (int64_t i = 0; i < 20; ++i) {
                EXPECT_EQ(scores[b][h][i].argmax().item<int64_t>(), (5 * i + 3 * h + b) % 30);
            }
            // Neighbours along every axis differ, so no swapped or shifted index can hide.
            EXPECT_GT((v[b][h].narrow(0, 1, 29) - v[b][h].narrow(0, 0, 29)).abs().min().item<double>(), 0.0);
            EXPECT_GT((v[b][h].narrow(1, 1, 63) - v[b][h].narrow(1, 0, 63)).abs().min().item<double>(), 0.0);
            EXPECT_GT((v[b][h] - v[b][(h + 1) % 3]).abs().min().item<double>(), 0.0);
            EXPECT_GT((v[b][h] - v[1 - b][h]).abs().min().item<double>(), 0.0);
        }
    }
}

TEST_P(Families, offset_values_lie_near_a_hundred) {
    const auto [scores, v, result] = look(Family::offset_values);
    EXPECT_GT(v.abs().min().item<double>(), 90.0);
    EXPECT_LT(v.abs().max().item<double>(), 110.0);
    EXPECT_LT(v.min().item<double>(), 0.0);
    EXPECT_GT(v.max().item<double>(), 0.0);
}

TEST_P(Families, tiny_is_tiny_and_not_lost_to_underflow) {
    const auto [scores, v, result] = look(Family::tiny);
    EXPECT_LT(v.abs().max().item<double>(), 0.01);
    EXPECT_LT(scores.abs().max().item<double>(), 0.01);
    EXPECT_GT(scores.abs().max().item<double>(), 1e-5);
    EXPECT_GT(result.out.abs().max().item<double>(), 1e-5);
}

TEST_P(Families, scores_rise_and_fall_along_the_keys) {
    const auto rising = look(Family::rising_scores).scores.mean(at::IntArrayRef({0, 1, 2}));
    const auto falling = look(Family::falling_scores).scores.mean(at::IntArrayRef({0, 1, 2}));
    EXPECT_NEAR(rising[29].item<double>() - rising[0].item<double>(), 20.0, 2.0);
    EXPECT_NEAR(falling[0].item<double>() - falling[29].item<double>(), 20.0, 2.0);
}

INSTANTIATE_TEST_SUITE_P(dtypes, Families, ::testing::ValuesIn(kDtypes),
                         [](const auto& info) { return name_of(info.param); });

// ---- bad input -----------------------------------------------------------------------------------------------------

TEST(BadInputs, have_names_and_say_what_a_message_must_mention) {
    std::set<std::string> names;
    for (const auto& input : bad_inputs(test_device())) {
        EXPECT_TRUE(fit_for_gtest(input.name)) << input.name;
        EXPECT_TRUE(names.insert(input.name).second) << input.name;
        EXPECT_FALSE(input.mentions.empty()) << input.name;
    }
    for (const auto* name : {"all_float64", "k_of_another_dtype", "q_rank_3", "batch_0", "head_dim_257",
                             "query_heads_not_a_multiple", "v_length_differs", "k_last_stride_7", "scale_nan"}) {
        EXPECT_TRUE(names.count(name)) << name;
    }
}

TEST(ThrowsMentioning, wants_an_exception_with_every_needle) {
    const auto thrower = [] { throw std::invalid_argument("k: head dim is 64, q's is 32"); };
    EXPECT_TRUE(throws_mentioning(thrower, {"k:", "64"}));
    EXPECT_TRUE(throws_mentioning(thrower, {}));
    EXPECT_FALSE(throws_mentioning(thrower, {"k:", "65"}));
    EXPECT_FALSE(throws_mentioning([] {}, {}));
    EXPECT_FALSE(throws_mentioning([] { throw 7; }, {}));
    // A backtrace is full of colons and numbers; it must not satisfy anything.
    EXPECT_FALSE(throws_mentioning([] { TORCH_CHECK(false, "no"); }, {"frame"}));
    EXPECT_TRUE(throws_mentioning([] { TORCH_CHECK(false, "v: no"); }, {"v:"}));
}

}  // namespace
}  // namespace ladder::reference
