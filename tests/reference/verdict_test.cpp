// Who checks the checker? The harness is fed the mistakes that attention kernels really make, and must refuse each of
// them and accept correct ones.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstdint>
#include <functional>
#include <set>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "common/attention/machine.h"
#include "common/reference/cases.h"
#include "common/reference/checks.h"
#include "common/reference/comparison.h"
#include "common/reference/inputs.h"
#include "common/reference/low_precision.h"
#include "common/reference/oracle.h"
#include "common/reference/test_device.h"
#include "tests/reference/by_hand.h"

namespace ladder::reference {
namespace {

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
        return AttentionResult{attention_key_by_key(q, k, v, options, {}, {}).out, {}};
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
        const auto result = attention_key_by_key(q, k, v, problem.options, kv_lengths, {.mistake = made});
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
        auto result = attention_key_by_key(q, k, v, options, lengths, {});
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
            const auto result = attention_key_by_key(q, k, v, options, {}, {});
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
    const auto result = attention_key_by_key(q, k, v, {}, {}, {});
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
    const auto good_result = attention_key_by_key(q, k, v, problem.options, {}, {});
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

}  // namespace
}  // namespace ladder::reference
