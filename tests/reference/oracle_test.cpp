// The oracle, held against attention written as sums over indices, and plain torch in low precision beside it.

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "common/reference/cases.h"
#include "common/reference/inputs.h"
#include "common/reference/low_precision.h"
#include "common/reference/oracle.h"
#include "common/reference/test_device.h"
#include "tests/reference/by_hand.h"

namespace ladder::reference {
namespace {

// ---- the oracle ----------------------------------------------------------------------------------------------------

class OracleByHand : public ::testing::TestWithParam<AttentionCase> {};

TEST_P(OracleByHand, agrees_with_sums_over_indices) {
    const auto& problem = GetParam();
    const auto [q, k, v] = make_inputs(problem, test_device());
    const auto oracle = attention_oracle(q, k, v, problem.options);
    const std::vector<int64_t> lengths(problem.batch, problem.key_length);
    const auto by_hand = attention_by_hand(q, k, v, problem.options, lengths);
    ASSERT_EQ(oracle.out.scalar_type(), torch::kFloat64);
    ASSERT_EQ(oracle.lse.scalar_type(), torch::kFloat64);
    ASSERT_EQ(oracle.out.sizes(), q.sizes());
    EXPECT_EQ(oracle.out.device(), q.device());
    // 1e-10 in a score near -1000 is what float64 leaves of it; it reaches the result through |v| up to 104.
    EXPECT_LT(distance(oracle.out, by_hand.out), 1e-10);
    EXPECT_LT(distance(oracle.lse, by_hand.lse), 1e-10);
}

INSTANTIATE_TEST_SUITE_P(standard, OracleByHand, ::testing::ValuesIn(standard_cases()), ByName{});
INSTANTIATE_TEST_SUITE_P(causal, OracleByHand, ::testing::ValuesIn(causal_cases()), ByName{});

TEST(Oracle, cuts_each_sequence_at_its_length) {
    const std::vector<int64_t> lengths{40, 17, 0, 1};
    for (const auto mask : {Mask::none, Mask::causal_bottom_right, Mask::causal_top_left}) {
        auto problem = grouped_case(torch::kFloat32, mask);
        problem.batch = 4;
        const auto [q, k, v] = make_inputs(problem, test_device());
        const auto by_hand = attention_by_hand(q, k, v, problem.options, lengths);
        for (const auto dtype : {torch::kInt64, torch::kInt32}) {
            const auto oracle = attention_oracle(q, k, v, problem.options, lengths_tensor(lengths).to(dtype));
            EXPECT_LT(distance(oracle.out, by_hand.out), 1e-12);
            EXPECT_LT(distance(oracle.lse, by_hand.lse), 1e-12);
            EXPECT_EQ(oracle.out[2].abs().max().item<double>(), 0.0);
            EXPECT_EQ(oracle.lse[2].max().item<double>(), -kInfinity);
        }
    }
}

TEST(Oracle, aligns_causal_masks_as_documented) {
    const auto q = at::zeros({1, 1, 2, 1}, at::kFloat).to(test_device());
    const auto k = at::zeros({1, 1, 4, 1}, at::kFloat).to(test_device());
    const auto v = tensor_of({1, 2, 4, 8}, {1, 1, 4, 1});
    const auto bottom_right = attention_oracle(q, k, v, {.scale = {}, .mask = Mask::causal_bottom_right});
    EXPECT_LT(distance(bottom_right.out, tensor_of({7.0 / 3, 15.0 / 4}, {1, 1, 2, 1})), 1e-14);
    EXPECT_LT(distance(bottom_right.lse, tensor_of({std::log(3.0), std::log(4.0)}, {1, 1, 2})), 1e-14);
    const auto top_left = attention_oracle(q, k, v, {.scale = {}, .mask = Mask::causal_top_left});
    EXPECT_LT(distance(top_left.out, tensor_of({1.0, 1.5}, {1, 1, 2, 1})), 1e-14);
}

TEST(Oracle, gives_zero_and_minus_infinity_to_rows_without_keys) {
    const auto problem = grouped_case(torch::kFloat32);
    const auto [q, k, v] = make_inputs(problem, test_device());
    const auto few_keys = [](const torch::Tensor& x) { return x.narrow(2, 0, 5); };
    const auto result = attention_oracle(q, few_keys(k), few_keys(v), {.scale = {}, .mask = Mask::causal_bottom_right});
    const auto blind = result.out.narrow(2, 0, 28), seeing = result.out.narrow(2, 28, 5);
    EXPECT_EQ(blind.abs().max().item<double>(), 0.0);
    EXPECT_EQ(result.lse.narrow(2, 0, 28).max().item<double>(), -kInfinity);
    EXPECT_GT(seeing.abs().min().item<double>(), 0.0);
    EXPECT_TRUE(at::isfinite(result.lse.narrow(2, 28, 5)).all().item<bool>());
}

TEST(Oracle, averages_v_when_all_scores_are_equal) {
    AttentionCase problem{
        .query_length = 7, .key_length = 33, .head_dim = 16, .family = Family::equal_scores, .seed = 3};
    const auto [q, k, v] = make_inputs(problem, test_device());
    const auto oracle = attention_oracle(q, k, v);
    const auto mean = v.to(torch::kFloat64).mean(2, /*keepdim=*/true).expand(oracle.out.sizes());
    EXPECT_LT(distance(oracle.out, mean), 1e-14);
}

TEST(Oracle, knows_closed_forms) {
    const auto q = tensor_of({1.0}, {1, 1, 1, 1});
    const auto k = tensor_of({0.0, std::log(3.0)}, {1, 1, 2, 1});
    const auto v = tensor_of({10.0, 20.0}, {1, 1, 2, 1});
    const auto plain = attention_oracle(q, k, v);
    EXPECT_NEAR(plain.out.item<double>(), 17.5, 1e-13);
    EXPECT_NEAR(plain.lse.item<double>(), std::log(4.0), 1e-14);
    const auto doubled = attention_oracle(q, k, v, {.scale = 2.0});
    EXPECT_NEAR(doubled.out.item<double>(), 19.0, 1e-13);
    EXPECT_NEAR(doubled.lse.item<double>(), std::log(10.0), 1e-14);

    const auto x = tensor_of({0.0, std::log(3.0), -kInfinity}, {1, 3});
    EXPECT_LT(distance(softmax_oracle(x), tensor_of({0.25, 0.75, 0.0}, {1, 3})), 1e-15);
    EXPECT_NEAR(logsumexp_oracle(x).item<double>(), std::log(4.0), 1e-15);
    EXPECT_EQ(logsumexp_oracle(x).sizes(), at::IntArrayRef({1}));
}

TEST(Oracle, keeps_what_a_row_cannot_see_out_of_it) {
    const auto problem = grouped_case(torch::kFloat32, Mask::causal_bottom_right);
    const auto [q, k, v] = make_inputs(problem, test_device());
    const auto clean = attention_oracle(q, k, v, problem.options);
    for (const double poison : {kNan, kInfinity, -kInfinity}) {
        for (const bool in_k : {true, false}) {
            auto poisoned_k = k.clone(), poisoned_v = v.clone();
            (in_k ? poisoned_k : poisoned_v).select(2, 39).fill_(poison);
            const auto result = attention_oracle(q, poisoned_k, poisoned_v, problem.options);
            EXPECT_LT(distance(result.out.narrow(2, 0, 32), clean.out.narrow(2, 0, 32)), 1e-14);
            EXPECT_LT(distance(result.lse.narrow(2, 0, 32), clean.lse.narrow(2, 0, 32)), 1e-14);
            if (std::isnan(poison)) {
                EXPECT_TRUE(result.out.select(2, 32).isnan().all().item<bool>());
            }
            const auto fair = attention_low_precision(q, poisoned_k, poisoned_v, problem.options);
            EXPECT_LT(distance(fair.out.narrow(2, 0, 32), clean.out.narrow(2, 0, 32)), 1e-5);
        }
    }
    auto poisoned_k = k.clone(), poisoned_v = v.clone();
    for (const auto& cache : {poisoned_k, poisoned_v}) cache.narrow(2, 20, 20).fill_(kNan);
    const auto lengths = lengths_tensor({20, 20});
    const auto expected = attention_oracle(q, k, v, {}, lengths);
    EXPECT_LT(distance(attention_oracle(q, poisoned_k, poisoned_v, {}, lengths).out, expected.out), 1e-14);
}

TEST(Oracle, treats_infinite_scores_and_values_as_plain_arithmetic_does) {
    const auto q = tensor_of({1.0}, {1, 1, 1, 1});
    const auto v = tensor_of({1.0, 2.0}, {1, 1, 2, 1});
    const auto with_keys = [&](double first, double second) {
        return attention_oracle(q, tensor_of({first, second}, {1, 1, 2, 1}), v);
    };
    const auto nothing_finite = with_keys(-kInfinity, -kInfinity);
    EXPECT_TRUE(std::isnan(nothing_finite.out.item<double>()));
    EXPECT_EQ(nothing_finite.lse.item<double>(), -kInfinity);
    const auto one_gone = with_keys(-kInfinity, 3.0);
    EXPECT_EQ(one_gone.out.item<double>(), 2.0);
    EXPECT_EQ(one_gone.lse.item<double>(), 3.0);
    const auto one_infinite = with_keys(kInfinity, 3.0);
    EXPECT_TRUE(std::isnan(one_infinite.out.item<double>()));
    EXPECT_EQ(one_infinite.lse.item<double>(), kInfinity);
    const auto one_nan = with_keys(kNan, 3.0);
    EXPECT_TRUE(std::isnan(one_nan.out.item<double>()));
    EXPECT_TRUE(std::isnan(one_nan.lse.item<double>()));

    const auto equal_keys = tensor_of({0.0, 0.0}, {1, 1, 2, 1});
    EXPECT_EQ(attention_oracle(q, equal_keys, tensor_of({1.0, -kInfinity}, {1, 1, 2, 1})).out.item<double>(),
              -kInfinity);
    const auto opposite = attention_oracle(q, equal_keys, tensor_of({kInfinity, -kInfinity}, {1, 1, 2, 1}));
    EXPECT_TRUE(std::isnan(opposite.out.item<double>()));
}

TEST(Oracle, refuses_shapes_that_do_not_fit) {
    const auto x = [](at::IntArrayRef sizes) { return at::ones(sizes, at::kFloat).to(test_device()); };
    const auto call = [](const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                         const std::optional<torch::Tensor>& lengths = {}) {
        return [=] { attention_oracle(q, k, v, {}, lengths); };
    };
    EXPECT_TRUE(throws_mentioning(call(x({1, 3, 4, 8}), x({1, 2, 4, 8}), x({1, 2, 4, 8})), {"3", "2", "multiple"}));
    EXPECT_TRUE(throws_mentioning(call(x({1, 2, 4, 8}), x({1, 2, 4, 7}), x({1, 2, 4, 7})), {"head dim"}));
    EXPECT_TRUE(throws_mentioning(call(x({1, 2, 4, 8}), x({1, 2, 4, 8}), x({1, 2, 5, 8})), {"one shape"}));
    EXPECT_TRUE(throws_mentioning(call(x({2, 4, 8}), x({2, 4, 8}), x({2, 4, 8})), {"[B, H, S, D]"}));
    EXPECT_TRUE(throws_mentioning(call({}, x({1, 2, 4, 8}), x({1, 2, 4, 8})), {"defined"}));
    const auto q = x({1, 2, 4, 8});
    EXPECT_TRUE(throws_mentioning(call(q, q, q, lengths_tensor({5})), {"kv_lengths[0]", "5", "4"}));
    EXPECT_TRUE(throws_mentioning(call(q, q, q, lengths_tensor({-1})), {"kv_lengths[0]", "-1"}));
    EXPECT_TRUE(throws_mentioning(call(q, q, q, lengths_tensor({1, 1})), {"kv_lengths", "B = 1"}));
}

// ---- plain torch in low precision ----------------------------------------------------------------------------------

TEST(LowPrecision, is_close_to_the_oracle_but_not_it) {
    for (const auto dtype : kDtypes) {
        const auto problem = grouped_case(dtype);
        const auto [q, k, v] = make_inputs(problem, test_device());
        const auto oracle = attention_oracle(q, k, v);
        const auto fair = attention_low_precision(q, k, v);
        ASSERT_EQ(fair.out.scalar_type(), dtype);
        ASSERT_EQ(fair.lse.scalar_type(), torch::kFloat32);
        const double epsilon = dtype == torch::kFloat32 ? 0x1p-23 : dtype == torch::kFloat16 ? 0x1p-10 : 0x1p-7;
        EXPECT_GT(distance(fair.out, oracle.out), 0.02 * epsilon) << name_of(dtype);
        EXPECT_LT(distance(fair.out, oracle.out), 10 * epsilon) << name_of(dtype);
        EXPECT_GT(distance(fair.lse, oracle.lse), 0.02 * epsilon) << name_of(dtype);
        EXPECT_LT(distance(fair.lse, oracle.lse), 10 * epsilon) << name_of(dtype);
    }
}

TEST(LowPrecision, rounds_scores_and_weights_to_the_dtype) {
    const auto bfloat16 = [](const std::vector<double>& values, at::IntArrayRef sizes) {
        return tensor_of(values, sizes).to(torch::kBFloat16);
    };
    // Three equal keys: 1 / 3 becomes 0.333984375, and 380 times that rounds to 127; 380 / 3 itself rounds to 126.5.
    const auto zeros = bfloat16({0, 0, 0}, {1, 1, 3, 1}), one_query = bfloat16({0}, {1, 1, 1, 1});
    const auto thirds = attention_low_precision(one_query, zeros, bfloat16({380, 0, 0}, {1, 1, 3, 1}));
    EXPECT_EQ(thirds.out.item<double>(), 127.0);
    // One key of score 1.0078125^2 = 1.01568603515625, which bfloat16 holds as 1.015625.
    const auto x = bfloat16({1.0078125}, {1, 1, 1, 1});
    EXPECT_EQ(attention_low_precision(x, x, x).lse.item<double>(), 1.015625);
    // Times 1.48073 it rounds again: 1.015625 gives 1.50387 and thus 1.5; unrounded it would give 1.50396,
    // so 1.5078125.
    EXPECT_EQ(attention_low_precision(x, x, x, {.scale = 1.48073}).lse.item<double>(), 1.5);
}

TEST(LowPrecision, equals_torch_operators_in_float32) {
    const auto problem = grouped_case(torch::kFloat32);
    const auto [q, k, v] = make_inputs(problem, test_device());
    const auto repeated = [](const torch::Tensor& x) { return x.repeat_interleave(2, 1); };
    const auto scores = at::matmul(q, repeated(k).transpose(2, 3)) * (1.0 / std::sqrt(32.0));
    const auto expected = at::matmul(at::softmax(scores, -1), repeated(v));
    EXPECT_LT(distance(attention_low_precision(q, k, v).out, expected), 1e-6);
}

TEST(LowPrecision, rounds_softmax_to_the_dtype) {
    const auto x = at::arange(10, at::kFloat).to(test_device()).to(torch::kBFloat16);
    const auto result = softmax_low_precision(x);
    EXPECT_EQ(result.scalar_type(), torch::kBFloat16);
    EXPECT_LT(distance(result, softmax_oracle(x)), 0x1p-8);
    EXPECT_EQ(logsumexp_low_precision(x).scalar_type(), torch::kFloat32);
    EXPECT_LT(distance(logsumexp_low_precision(x), logsumexp_oracle(x)), 2e-6);
}

}  // namespace
}  // namespace ladder::reference
