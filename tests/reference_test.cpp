// Who checks the checker? These tests hold the reference harness against attention written out by hand, feed it the
// mistakes that attention kernels really make, and require it to refuse each of them and to accept correct ones.

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <limits>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "common/attention/machine.h"
#include "common/reference/bad_inputs.h"
#include "common/reference/cases.h"
#include "common/reference/checks.h"
#include "common/reference/comparison.h"
#include "common/reference/inputs.h"
#include "common/reference/low_precision.h"
#include "common/reference/oracle.h"
#include "common/reference/test_device.h"
#include "common/torch/torch.h"

namespace ladder::reference {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr std::array kDtypes{torch::kFloat32, torch::kFloat16, torch::kBFloat16};

/// What a kernel could get wrong. `none` is the correct implementation.
enum class Mistake {
    none,
    dropped_last_key,
    scale_one_over_d,
    scale_off_by_percents,
    swapped_heads,
    swapped_batch,
    kv_head_modulo,
    causal_one_key_short,
    causal_one_key_more,
    top_left_for_bottom_right,
    mask_ignored,
    missing_rescale_of_sum,
    missing_rescale_of_output,
    max_seeded_with_zero,
    max_seeded_with_smallest_positive,
    max_seeded_with_finite_sentinel,
    no_max_at_all,
    not_normalised,
    lse_in_log2,
    lse_without_max,
    lse_negated,
    last_row_not_written,
    last_row_stale,
    last_column_not_written,
    one_element_not_written,
    v_shifted_by_one_row,
    k_shifted_by_one_row,
    length_one_more,
    length_one_less,
    length_ignored,
};

/// The legitimate freedoms of a kernel.
enum class Arithmetic {
    plain,            ///< exp in float32, weights in float32
    rounded_weights,  ///< P rounded to the dtype before P V, as tensor cores need it
    base_two,         ///< exp2 with the scale and log2(e) folded into one factor
};

struct Implementation {
    Mistake mistake = Mistake::none;
    Arithmetic arithmetic = Arithmetic::plain;
};

std::string name_of(Mistake mistake) {
    constexpr std::array kNames{"none",
                                "dropped_last_key",
                                "scale_one_over_d",
                                "scale_off_by_percents",
                                "swapped_heads",
                                "swapped_batch",
                                "kv_head_modulo",
                                "causal_one_key_short",
                                "causal_one_key_more",
                                "top_left_for_bottom_right",
                                "mask_ignored",
                                "missing_rescale_of_sum",
                                "missing_rescale_of_output",
                                "max_seeded_with_zero",
                                "max_seeded_with_smallest_positive",
                                "max_seeded_with_finite_sentinel",
                                "no_max_at_all",
                                "not_normalised",
                                "lse_in_log2",
                                "lse_without_max",
                                "lse_negated",
                                "last_row_not_written",
                                "last_row_stale",
                                "last_column_not_written",
                                "one_element_not_written",
                                "v_shifted_by_one_row",
                                "k_shifted_by_one_row",
                                "length_one_more",
                                "length_one_less",
                                "length_ignored"};
    return kNames.at(static_cast<size_t>(mistake));
}

std::string name_of(torch::ScalarType dtype) {
    return dtype == torch::kFloat32 ? "f32" : dtype == torch::kFloat16 ? "f16" : "bf16";
}

float rounded_to(torch::ScalarType dtype, float x) {
    switch (dtype) {
        case torch::kFloat16:
            return static_cast<float>(c10::Half(x));
        case torch::kBFloat16:
            return static_cast<float>(c10::BFloat16(x));
        default:
            return x;
    }
}

bool sees(Mask mask, int64_t i, int64_t j, int64_t queries, int64_t keys) {
    switch (mask) {
        case Mask::none:
            return true;
        case Mask::causal_bottom_right:
            return j <= i + keys - queries;
        case Mask::causal_top_left:
            return j <= i;
    }
    return false;
}

/// Online attention in float32, one key at a time, with any one mistake built in on request.
AttentionResult online_attention(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                 const AttentionOptions& options, const std::optional<torch::Tensor>& kv_lengths,
                                 Implementation implementation) {
    const auto [mistake, arithmetic] = implementation;
    const auto made = [mistake = mistake](Mistake other) { return mistake == other; };
    const int64_t batch = q.size(0), heads = q.size(1), queries = q.size(2), head_dim = q.size(3);
    const int64_t kv_heads = k.size(1), capacity = k.size(2);
    const auto q_host = q.cpu().to(torch::kFloat32).contiguous(), k_host = k.cpu().to(torch::kFloat32).contiguous(),
               v_host = v.cpu().to(torch::kFloat32).contiguous();
    const auto Q = q_host.accessor<float, 4>(), K = k_host.accessor<float, 4>(), V = v_host.accessor<float, 4>();

    auto out = at::full({batch, heads, queries, head_dim}, kNan, at::kFloat);
    auto lse = at::full({batch, heads, queries}, kNan, at::kFloat);
    auto O = out.accessor<float, 4>();
    auto L = lse.accessor<float, 3>();

    auto scale = static_cast<float>(options.scale.value_or(1.0 / std::sqrt(static_cast<double>(head_dim))));
    if (made(Mistake::scale_one_over_d)) scale = 1.0f / static_cast<float>(head_dim);
    // 1 %; bfloat16 keeps 8 bits of a score, so there an error that size is as large as honest rounding.
    if (made(Mistake::scale_off_by_percents)) scale *= q.scalar_type() == torch::kBFloat16 ? 1.1f : 1.01f;
    const float to_base_two = scale * 1.44269504f;
    const bool base_two = arithmetic == Arithmetic::base_two;
    const auto exponential = [base_two](float x) { return base_two ? std::exp2(x) : std::exp(x); };
    Mask mask = options.mask;
    if (made(Mistake::mask_ignored)) mask = Mask::none;
    if (made(Mistake::top_left_for_bottom_right)) mask = Mask::causal_top_left;

    for (int64_t b = 0; b < batch; ++b) {
        int64_t keys = kv_lengths ? (*kv_lengths)[b].item<int64_t>() : capacity;
        if (made(Mistake::length_one_more)) keys = std::min(keys + 1, capacity);
        if (made(Mistake::length_one_less)) keys = std::max<int64_t>(keys - 1, 0);
        if (made(Mistake::length_ignored)) keys = capacity;
        const int64_t kv_b = made(Mistake::swapped_batch) ? (b + 1) % batch : b;
        for (int64_t h = 0; h < heads; ++h) {
            int64_t kv_h = h / (heads / kv_heads);
            if (made(Mistake::kv_head_modulo)) kv_h = h % kv_heads;
            if (made(Mistake::swapped_heads)) kv_h = (kv_h + 1) % kv_heads;
            for (int64_t i = 0; i < queries; ++i) {
                if (i == queries - 1 && made(Mistake::last_row_not_written)) continue;
                if (i == queries - 1 && i > 0 && made(Mistake::last_row_stale)) {
                    for (int64_t d = 0; d < head_dim; ++d) O[b][h][i][d] = O[b][h][i - 1][d];
                    L[b][h][i] = L[b][h][i - 1];
                    continue;
                }
                float m = -std::numeric_limits<float>::infinity();
                if (made(Mistake::max_seeded_with_zero)) m = 0.0f;
                if (made(Mistake::max_seeded_with_smallest_positive)) m = std::numeric_limits<float>::min();
                if (made(Mistake::max_seeded_with_finite_sentinel)) m = -500.0f;
                float l = 0.0f;
                std::vector<float> o(head_dim, 0.0f);
                bool sees_any = false;
                for (int64_t j = 0; j < keys; ++j) {
                    int64_t shift = 0;
                    if (made(Mistake::causal_one_key_short)) shift = 1;
                    if (made(Mistake::causal_one_key_more)) shift = -1;
                    if (!sees(mask, i, j + (mask == Mask::none ? 0 : shift), queries, keys)) continue;
                    if (j == keys - 1 && made(Mistake::dropped_last_key)) continue;
                    sees_any = true;
                    float s = 0.0f;
                    const int64_t k_row = made(Mistake::k_shifted_by_one_row) ? (j + 1) % capacity : j;
                    for (int64_t d = 0; d < head_dim; ++d) s += Q[b][h][i][d] * K[kv_b][kv_h][k_row][d];
                    s *= base_two ? to_base_two : scale;
                    float m_new = std::max(m, s);
                    if (made(Mistake::no_max_at_all)) m = m_new = 0.0f;
                    const float rescale = m == m_new ? 1.0f : exponential(m - m_new);
                    const float p = exponential(s - m_new);
                    const float weight = arithmetic == Arithmetic::rounded_weights ? rounded_to(q.scalar_type(), p) : p;
                    l = l * (made(Mistake::missing_rescale_of_sum) ? 1.0f : rescale) + p;
                    const int64_t v_row = made(Mistake::v_shifted_by_one_row) ? (j + 1) % capacity : j;
                    for (int64_t d = 0; d < head_dim; ++d) {
                        o[d] = o[d] * (made(Mistake::missing_rescale_of_output) ? 1.0f : rescale) +
                               weight * V[kv_b][kv_h][v_row][d];
                    }
                    m = m_new;
                }
                const float normaliser = made(Mistake::not_normalised) ? 1.0f : l;
                for (int64_t d = 0; d < head_dim; ++d) O[b][h][i][d] = sees_any ? o[d] / normaliser : 0.0f;
                float row_lse = (base_two ? m * 0.69314718f : m) + std::log(l);
                if (!sees_any) row_lse = -std::numeric_limits<float>::infinity();
                if (made(Mistake::lse_in_log2)) row_lse *= 1.44269504f;
                if (made(Mistake::lse_without_max)) row_lse = std::log(l);
                if (made(Mistake::lse_negated)) row_lse = -row_lse;
                L[b][h][i] = row_lse;
                if (made(Mistake::last_column_not_written)) O[b][h][i][head_dim - 1] = std::nanf("");
            }
        }
    }
    if (made(Mistake::one_element_not_written)) O[batch - 1][0][queries / 2][head_dim / 2] = std::nanf("");
    return {out.to(q.scalar_type()).to(q.device()), lse.to(q.device())};
}

AttentionEntry entry_of(Implementation implementation, const std::optional<torch::Tensor>& kv_lengths = {}) {
    return
        [=](const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v, const AttentionOptions& options) {
            return online_attention(q, k, v, options, kv_lengths, implementation);
        };
}

/// Attention in double, written as sums over indices: shares nothing with the oracle's tensor operations.
AttentionResult attention_by_hand(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                  const AttentionOptions& options, const std::vector<int64_t>& lengths) {
    const auto q_host = q.cpu().to(torch::kFloat64).contiguous(), k_host = k.cpu().to(torch::kFloat64).contiguous(),
               v_host = v.cpu().to(torch::kFloat64).contiguous();
    const auto Q = q_host.accessor<double, 4>(), K = k_host.accessor<double, 4>(), V = v_host.accessor<double, 4>();
    auto out = at::zeros({q.size(0), q.size(1), q.size(2), q.size(3)}, at::kDouble);
    auto lse = at::full({q.size(0), q.size(1), q.size(2)}, -kInfinity, at::kDouble);
    auto O = out.accessor<double, 4>();
    auto L = lse.accessor<double, 3>();
    const double scale = options.scale.value_or(1.0 / std::sqrt(static_cast<double>(q.size(3))));
    for (int64_t b = 0; b < q.size(0); ++b) {
        for (int64_t h = 0; h < q.size(1); ++h) {
            const int64_t kv_h = h * k.size(1) / q.size(1);
            for (int64_t i = 0; i < q.size(2); ++i) {
                std::vector<double> scores(k.size(2), -kInfinity);
                double max = -kInfinity, sum = 0.0;
                for (int64_t j = 0; j < lengths[b]; ++j) {
                    if (!sees(options.mask, i, j, q.size(2), lengths[b])) continue;
                    double s = 0.0;
                    for (int64_t d = 0; d < q.size(3); ++d) s += Q[b][h][i][d] * K[b][kv_h][j][d];
                    scores[j] = s * scale;
                    max = std::max(max, scores[j]);
                }
                if (max == -kInfinity) continue;
                for (const double s : scores) sum += std::exp(s - max);
                for (int64_t d = 0; d < q.size(3); ++d) {
                    for (int64_t j = 0; j < lengths[b]; ++j) {
                        O[b][h][i][d] += std::exp(scores[j] - max) / sum * V[b][kv_h][j][d];
                    }
                }
                L[b][h][i] = max + std::log(sum);
            }
        }
    }
    return {out, lse};
}

/// Largest difference, where equal infinities count as no difference and NaN as an infinite one.
double distance(const torch::Tensor& a, const torch::Tensor& b) {
    const auto x = a.cpu().to(torch::kFloat64), y = b.cpu().to(torch::kFloat64);
    const auto difference = (x - y).abs().masked_fill(x.eq(y), 0.0);
    return difference.masked_fill(difference.isnan(), kInfinity).max().item<double>();
}

AttentionCase grouped_case(torch::ScalarType dtype, Mask mask = Mask::none) {
    AttentionCase problem{.batch = 2,
                          .query_heads = 4,
                          .kv_heads = 2,
                          .query_length = 33,
                          .key_length = 40,
                          .head_dim = 32,
                          .dtype = dtype,
                          .options = {.scale = {}, .mask = mask},
                          .seed = 11};
    problem.name = describe(problem);
    return problem;
}

torch::Tensor lengths_tensor(const std::vector<int64_t>& lengths) {
    return at::tensor(at::ArrayRef<int64_t>(lengths), at::kLong).to(test_device());
}

torch::Tensor tensor_of(const std::vector<double>& values, at::IntArrayRef sizes) {
    return at::tensor(at::ArrayRef<double>(values), at::kDouble).view(sizes).to(test_device());
}

bool fit_for_gtest(const std::string& name) {
    return !name.empty() &&
           std::all_of(name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) || c == '_'; });
}

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

// ---- what must be accepted -----------------------------------------------------------------------------------------

class Accepts : public ::testing::TestWithParam<AttentionCase> {};

TEST_P(Accepts, a_correct_online_kernel_with_float32_weights) {
    EXPECT_TRUE(matches_reference(entry_of({}), GetParam(), test_device()));
}

TEST_P(Accepts, a_correct_online_kernel_that_rounds_its_weights) {
    EXPECT_TRUE(matches_reference(entry_of({.arithmetic = Arithmetic::rounded_weights}), GetParam(), test_device()));
}

TEST_P(Accepts, a_correct_online_kernel_in_base_two) {
    EXPECT_TRUE(matches_reference(entry_of({.arithmetic = Arithmetic::base_two}), GetParam(), test_device()));
}

TEST_P(Accepts, the_low_precision_result_itself) {
    const auto entry = [](const auto& q, const auto& k, const auto& v, const auto& options) {
        return attention_low_precision(q, k, v, options);
    };
    EXPECT_TRUE(matches_reference(entry, GetParam(), test_device()));
}

INSTANTIATE_TEST_SUITE_P(standard, Accepts, ::testing::ValuesIn(standard_cases()), ByName{});
INSTANTIATE_TEST_SUITE_P(causal, Accepts, ::testing::ValuesIn(causal_cases()), ByName{});

TEST(AcceptsLengths, of_every_kind) {
    for (const auto dtype : kDtypes) {
        for (const auto mask : {Mask::none, Mask::causal_bottom_right, Mask::causal_top_left}) {
            const auto lengths = lengths_tensor({23, 40});
            EXPECT_TRUE(matches_reference(entry_of({}, lengths), grouped_case(dtype, mask), test_device(), Lse::present,
                                          lengths));
        }
    }
}

TEST(AcceptsLse, only_absent_when_told_so) {
    const auto entry = [](const auto& q, const auto& k, const auto& v, const auto& options) {
        return AttentionResult{online_attention(q, k, v, options, {}, {}).out, {}};
    };
    EXPECT_TRUE(matches_reference(entry, grouped_case(torch::kFloat32), test_device(), Lse::absent));
    const auto verdict = matches_reference(entry, grouped_case(torch::kFloat32), test_device());
    EXPECT_FALSE(verdict);
    EXPECT_NE(std::string(verdict.message()).find("lse: undefined"), std::string::npos) << verdict.message();
}

// ---- what must be refused ------------------------------------------------------------------------------------------

struct RefusedCase {
    std::string name;
    Mistake mistake;
    AttentionCase problem;
    std::vector<int64_t> kv_lengths = {};
};

std::ostream& operator<<(std::ostream& stream, const RefusedCase& refused) { return stream << refused.name; }

std::vector<RefusedCase> mistakes_on_plain_inputs() {
    std::vector<RefusedCase> refused;
    for (int n = 1; n <= static_cast<int>(Mistake::length_ignored); ++n) {
        const auto mistake = static_cast<Mistake>(n);
        for (const auto dtype : kDtypes) {
            RefusedCase one{
                .name = name_of(mistake) + "_" + name_of(dtype), .mistake = mistake, .problem = grouped_case(dtype)};
            switch (mistake) {
                case Mistake::causal_one_key_short:
                case Mistake::causal_one_key_more:
                case Mistake::top_left_for_bottom_right:
                case Mistake::mask_ignored:
                    one.problem.options.mask = Mask::causal_bottom_right;
                    break;
                case Mistake::max_seeded_with_zero:
                case Mistake::max_seeded_with_smallest_positive:
                case Mistake::max_seeded_with_finite_sentinel:
                    one.problem.family = Family::scores_near_minus_1000;
                    break;
                case Mistake::no_max_at_all:
                    one.problem.family = Family::one_huge_logit;
                    break;
                case Mistake::length_one_more:
                case Mistake::length_one_less:
                case Mistake::length_ignored:
                    one.kv_lengths = {23, 31};
                    break;
                default:
                    break;
            }
            refused.push_back(std::move(one));
        }
    }
    return refused;
}

class Refuses : public ::testing::TestWithParam<RefusedCase> {};

TEST_P(Refuses, the_mistake_but_not_the_correct_code_on_the_same_inputs) {
    const auto& [name, mistake, problem, lengths] = GetParam();
    const auto kv_lengths = lengths.empty() ? std::optional<torch::Tensor>{} : lengths_tensor(lengths);
    // The lengths' mistakes must show on ordinary numbers as well, so the cache is not poisoned past them here.
    const auto [q, k, v] = make_inputs(problem, test_device());
    const auto judge = [&](Mistake made) {
        const auto result = online_attention(q, k, v, problem.options, kv_lengths, {.mistake = made});
        return compare_attention(result, q, k, v, problem.options, kv_lengths);
    };
    const auto wrong = judge(mistake);
    EXPECT_FALSE(wrong.passed) << wrong.report;
    const auto right = judge(Mistake::none);
    EXPECT_TRUE(right.passed) << right.report;
}

INSTANTIATE_TEST_SUITE_P(plain_inputs, Refuses, ::testing::ValuesIn(mistakes_on_plain_inputs()), ByName{});

/// The lists must not only run but bite: in every dtype, each mistake turns some case red.
class CaseLists : public ::testing::TestWithParam<Mistake> {};

TEST_P(CaseLists, catch_the_mistake_in_every_dtype) {
    const auto mistake = GetParam();
    auto cases = standard_cases();
    const auto causal = causal_cases();
    cases.insert(cases.end(), causal.begin(), causal.end());
    for (const auto dtype : kDtypes) {
        const bool caught = std::any_of(cases.begin(), cases.end(), [&](const AttentionCase& problem) {
            return problem.dtype == dtype && !matches_reference(entry_of({.mistake = mistake}), problem, test_device());
        });
        EXPECT_TRUE(caught) << name_of(mistake) << " in " << name_of(dtype);
    }
}

std::vector<Mistake> mistakes_without_lengths() {
    std::vector<Mistake> mistakes;
    for (int n = 1; n < static_cast<int>(Mistake::length_one_more); ++n) mistakes.push_back(static_cast<Mistake>(n));
    return mistakes;
}

INSTANTIATE_TEST_SUITE_P(both, CaseLists, ::testing::ValuesIn(mistakes_without_lengths()),
                         [](const auto& info) { return name_of(info.param); });

TEST(RefusesLengths, read_past_even_with_weight_zero) {
    const auto lengths = lengths_tensor({23, 31});
    const auto reads_whole_cache = [&](const auto& q, const auto& k, const auto& v, const auto& options) {
        auto result = online_attention(q, k, v, options, lengths, {});
        result.out += 0.0 * v.sum();
        return result;
    };
    for (const auto dtype : kDtypes) {
        const auto problem = grouped_case(dtype);
        EXPECT_TRUE(matches_reference(entry_of({}, lengths), problem, test_device(), Lse::present, lengths));
        EXPECT_FALSE(matches_reference(reads_whole_cache, problem, test_device(), Lse::present, lengths));
    }
}

TEST(RefusesEntries, that_write_to_their_inputs_or_between_the_rows) {
    const auto problem = [] {
        auto padded = grouped_case(torch::kFloat16);
        padded.layouts = {.q = Layout::padded_rows, .k = Layout::padded_rows, .v = Layout::padded_rows};
        return padded;
    }();
    const auto refused = [&](const std::string& needle,
                             const std::function<void(torch::Tensor, torch::Tensor, torch::Tensor)>& spoil) {
        const auto entry = [&](const auto& q, const auto& k, const auto& v, const auto& options) {
            const auto result = online_attention(q, k, v, options, {}, {});
            spoil(q, k, v);
            return result;
        };
        const auto verdict = matches_reference(entry, problem, test_device());
        EXPECT_FALSE(verdict);
        EXPECT_NE(std::string(verdict.message()).find(needle), std::string::npos) << verdict.message();
    };
    refused("q: the entry wrote", [](auto q, auto, auto) { q[0][0][0][0].add_(1.0); });
    refused("k: the entry wrote", [](auto, auto k, auto) { k[1][1][39][31].fill_(kNan); });
    refused("v: the entry wrote", [](auto, auto, auto v) {
        v.as_strided({1}, {1}, v.storage_offset() + v.size(3)).zero_();  // the gap after the first row
    });
}

TEST(RefusesEntries, that_throw) {
    const auto entry = [](const auto&, const auto&, const auto&, const auto&) -> AttentionResult {
        throw std::runtime_error("race on K");
    };
    const auto verdict = matches_reference(entry, grouped_case(torch::kFloat32), test_device());
    EXPECT_FALSE(verdict);
    EXPECT_NE(std::string(verdict.message()).find("race on K"), std::string::npos) << verdict.message();
}

// ---- the comparison itself -----------------------------------------------------------------------------------------

class CompareTest : public ::testing::Test {
  protected:
    const torch::Tensor oracle = at::arange(24, at::kDouble).view({1, 2, 3, 4}).to(test_device()) + 0.25;
    const torch::Tensor good = oracle.to(torch::kFloat32);

    Comparison judge(const torch::Tensor& actual) const { return compare(actual, oracle, good); }
    torch::Tensor good_but(int64_t flat, double value) const {
        auto copy = good.clone();
        copy.view({-1})[flat].fill_(value);
        return copy;
    }
    static void expect_refused(const Comparison& comparison, const std::vector<std::string>& needles) {
        EXPECT_FALSE(comparison.passed) << comparison.report;
        for (const auto& needle : needles) {
            EXPECT_NE(comparison.report.find(needle), std::string::npos) << needle << " in: " << comparison.report;
        }
    }
};

TEST_F(CompareTest, passes_in_one_line) {
    const auto comparison = judge(good);
    EXPECT_TRUE(comparison.passed);
    EXPECT_EQ(comparison.max_abs_error, 0.0);
    EXPECT_GT(comparison.bound, 0.0);
    EXPECT_LT(comparison.bound, 1e-4);
    EXPECT_EQ(comparison.report.find('\n'), std::string::npos) << comparison.report;
}

TEST_F(CompareTest, names_the_worst_element) {
    auto actual = good_but(17, 99.0);  // 17 = (0, 1, 1, 1)
    actual.view({-1})[3].fill_(4.25);
    const auto comparison = judge(actual);
    expect_refused(comparison, {"2 of 24", "(b 0, h 1, s 1, d 1)", "got 99", "expected 17.25", "bound"});
    EXPECT_DOUBLE_EQ(comparison.max_abs_error, 81.75);
}

TEST_F(CompareTest, refuses_nan_and_infinity_where_the_oracle_is_finite) {
    const auto nan = judge(good_but(23, kNan));
    expect_refused(nan, {"1 of 24", "1 never written or NaN", "(b 0, h 1, s 2, d 3)"});
    EXPECT_EQ(nan.max_abs_error, kInfinity);
    expect_refused(judge(good_but(0, kInfinity)), {"1 of 24", "got inf"});
    expect_refused(judge(at::full_like(good, kNan)), {"24 of 24", "24 never written or NaN"});
}

TEST_F(CompareTest, wants_the_same_nan_and_infinity_as_the_oracle) {
    const auto unusual = tensor_of({kNan, kInfinity, -kInfinity, 1.0}, {4});
    const auto judge_unusual = [&](const std::vector<double>& values) {
        return compare(tensor_of(values, {4}).to(torch::kFloat32), unusual, unusual.to(torch::kFloat32)).passed;
    };
    EXPECT_TRUE(judge_unusual({kNan, kInfinity, -kInfinity, 1.0}));
    EXPECT_FALSE(judge_unusual({0.0, kInfinity, -kInfinity, 1.0}));
    EXPECT_FALSE(judge_unusual({kInfinity, kInfinity, -kInfinity, 1.0}));
    EXPECT_FALSE(judge_unusual({kNan, -kInfinity, -kInfinity, 1.0}));
    EXPECT_FALSE(judge_unusual({kNan, 3e38, -kInfinity, 1.0}));
    EXPECT_FALSE(judge_unusual({kNan, kInfinity, kNan, 1.0}));
    EXPECT_FALSE(judge_unusual({kNan, kInfinity, -kInfinity, 1.1}));
}

TEST_F(CompareTest, refuses_other_shapes_dtypes_and_devices) {
    expect_refused(judge({}), {"undefined"});
    expect_refused(judge(good.narrow(3, 0, 3)), {"shape", "[1, 2, 3, 3]", "[1, 2, 3, 4]"});
    expect_refused(judge(good.transpose(1, 2)), {"shape"});
    expect_refused(judge(good.to(torch::kFloat64)), {"dtype", "Double", "Float"});
    expect_refused(judge(good.to(torch::kFloat16)), {"dtype", "Half"});
    expect_refused(judge(at::empty({1, 2, 3, 4}, at::TensorOptions().device(torch::kMeta))), {"device", "meta"});
}

TEST_F(CompareTest, does_not_let_a_broken_yardstick_widen_the_bound) {
    auto broken = good.clone();
    broken.view({-1})[5].fill_(kInfinity);
    const auto comparison = compare(good_but(7, 8.0), oracle, broken);
    EXPECT_FALSE(comparison.passed);
    EXPECT_TRUE(std::isfinite(comparison.bound));
}

TEST_F(CompareTest, takes_any_rank) {
    const auto flat = oracle.view({6, 4});
    EXPECT_TRUE(compare(good.view({6, 4}), flat, good.view({6, 4})).passed);
    expect_refused(compare(good_but(9, 50.0).view({6, 4}), flat, good.view({6, 4}), {}, "softmax"),
                   {"softmax:", "(2, 1)"});
}

TEST_F(CompareTest, floor_is_one_ulp_and_small_against_mistakes) {
    EXPECT_DOUBLE_EQ(error_floor(torch::kFloat16, 1.0, 0.0), 0x1p-10);
    EXPECT_DOUBLE_EQ(error_floor(torch::kBFloat16, 2.0, 0.0), 0x1p-6);
    EXPECT_DOUBLE_EQ(error_floor(torch::kFloat32, 0.0, 1.0), 0x1p-19 + 0x1p-23 * 0x1p-126);
    EXPECT_DOUBLE_EQ(error_floor(torch::kFloat16, 0.0, 0.0), 0x1p-24);  // the spacing of subnormals
    EXPECT_TRUE(throws_mentioning([] { error_floor(torch::kFloat64, 1.0, 1.0); }, {"Double", "float32"}));
}

TEST_F(CompareTest, single_key_leaves_room_for_rounding_only) {
    for (const auto dtype : kDtypes) {
        AttentionCase problem{.query_length = 3, .key_length = 1, .head_dim = 8, .dtype = dtype, .seed = 5};
        const auto [q, k, v] = make_inputs(problem, test_device());
        const auto exact = v.expand({1, 1, 3, 8}).clone();
        const auto lse = attention_low_precision(q, k, v).lse;
        EXPECT_TRUE(compare_attention({exact, lse}, q, k, v).passed);
        EXPECT_FALSE(compare_attention({exact * 1.02, lse}, q, k, v).passed);
        EXPECT_FALSE(compare_attention({exact, lse + 0.2}, q, k, v).passed);
    }
}

TEST_F(CompareTest, attention_checks_out_and_lse_on_their_own) {
    const auto problem = grouped_case(torch::kFloat16);
    const auto [q, k, v] = make_inputs(problem, test_device());
    const auto result = online_attention(q, k, v, {}, {}, {});
    const auto fine = compare_attention(result, q, k, v);
    EXPECT_TRUE(fine.passed) << fine.report;
    EXPECT_EQ(fine.report.find('\n'), std::string::npos) << fine.report;
    const auto wrong_lse = compare_attention({result.out, result.lse + 0.1}, q, k, v);
    expect_refused(wrong_lse, {"out: max error", "lse: 264 of 264"});
    EXPECT_EQ(wrong_lse.max_abs_error, fine.max_abs_error);
    EXPECT_EQ(wrong_lse.bound, fine.bound);
    expect_refused(compare_attention({result.out, result.lse.to(torch::kFloat16)}, q, k, v), {"lse: dtype Half"});
    expect_refused(compare_attention({result.out.to(torch::kFloat32), result.lse}, q, k, v), {"out: dtype Float"});
    expect_refused(compare_attention({result.out.transpose(2, 3), result.lse}, q, k, v), {"out: shape"});
}

TEST_F(CompareTest, rows_without_keys_must_be_zero_and_minus_infinity) {
    const auto problem = [] {
        auto blind = grouped_case(torch::kFloat32, Mask::causal_bottom_right);
        blind.key_length = 10;
        return blind;
    }();
    const auto [q, k, v] = make_inputs(problem, test_device());
    const auto good_result = online_attention(q, k, v, problem.options, {}, {});
    EXPECT_TRUE(compare_attention(good_result, q, k, v, problem.options).passed);
    const auto spoiled = [&](double out, double lse) {
        AttentionResult result{good_result.out.clone(), good_result.lse.clone()};
        result.out[0][0][0].fill_(out);
        result.lse[0][0][0].fill_(lse);
        return compare_attention(result, q, k, v, problem.options).passed;
    };
    EXPECT_TRUE(spoiled(0.0, -kInfinity));
    EXPECT_FALSE(spoiled(kNan, -kInfinity));
    EXPECT_FALSE(spoiled(0.01, -kInfinity));
    EXPECT_FALSE(spoiled(0.0, kInfinity));
    EXPECT_FALSE(spoiled(0.0, -1e30));
    EXPECT_FALSE(spoiled(0.0, 0.0));
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
    for (const auto* name : {"all_float64", "k_float16_q_float32", "q_rank_3", "batch_0", "head_dim_257",
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

// ---- the test program itself ---------------------------------------------------------------------------------------

struct ProgramRun {
    int exit_code;
    std::string output;
};

/// Runs this very binary again with other arguments, through the emulator that a cross-compiled one needs. A share of
/// the cases, which this run may have been given, is not for that one.
ProgramRun run_self(const std::string& arguments) {
    const std::string self = std::filesystem::read_symlink("/proc/self/exe");
    const std::string command =
        "env -u GTEST_TOTAL_SHARDS -u GTEST_SHARD_INDEX " LADDER_EMULATOR " '" + self + "' " + arguments + " 2>&1";
    FILE* pipe = ::popen(command.c_str(), "r");
    if (!pipe) throw std::runtime_error("cannot run " + command);
    ProgramRun run{};
    std::array<char, 512> line{};
    while (std::fgets(line.data(), line.size(), pipe)) run.output += line.data();
    const int status = ::pclose(pipe);
    run.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return run;
}

TEST(TestProgram, fails_when_the_filter_selects_nothing) {
    const auto run = run_self("--gtest_filter=NoSuchTest.*");
    EXPECT_EQ(run.exit_code, 2) << run.output;
    EXPECT_NE(run.output.find("no test ran"), std::string::npos) << run.output;
}

TEST(TestProgram, says_not_run_instead_of_passing_without_a_gpu) {
    const auto run = run_self("--device=cuda --gtest_filter=Cases.describe_themselves");
    const bool not_run = run.output.rfind("NOT RUN: ", 0) == 0;
    EXPECT_EQ(run.exit_code, not_run ? 77 : 0) << run.output;
    EXPECT_FALSE(not_run && test_device().is_cuda()) << run.output;
    const auto* expected = not_run ? " on cuda: " : "[  PASSED  ] 1 test";
    EXPECT_NE(run.output.find(expected), std::string::npos) << run.output;
    EXPECT_TRUE(!not_run || std::count(run.output.begin(), run.output.end(), '\n') == 1) << run.output;
}

TEST(TestProgram, refuses_unknown_arguments_and_still_lists_tests) {
    EXPECT_EQ(run_self("--device=tpu").exit_code, 1);
    EXPECT_EQ(run_self("--devise=cpu").exit_code, 1);
    const auto list = run_self("--gtest_list_tests");
    EXPECT_EQ(list.exit_code, 0);
    EXPECT_NE(list.output.find("refuses_unknown_arguments"), std::string::npos);
}

}  // namespace
}  // namespace ladder::reference
