// The checks that every phase's entry must pass are only worth what they reject: each mistake that one of them is there
// for must fail it, and an honest entry must pass them all.

#include "common/reference/entry_checks.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "common/attention/check.h"
#include "common/reference/per_head.h"
#include "common/reference/test_device.h"
#include "common/simt/report/launch_log.h"

namespace ladder::reference {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

using Result = ::testing::AssertionResult;

const EntryTraits kEveryMask{.masks = {Mask::none, Mask::causal_bottom_right, Mask::causal_top_left}};
const EntryTraits kWithoutLse{.lse = Lse::absent};

/// Scores are handed to `distort` before anything else happens to them.
AttentionResult attend(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                       const AttentionOptions& options,
                       const std::function<torch::Tensor(const torch::Tensor&)>& distort = {}) {
    const auto attend_head = [&](const Head& head) -> AttentionResult {
        auto scores = at::matmul(head.q, head.k.t()) * head.scale;
        if (distort) scores = distort(scores);
        return {weighted_sum(softmax_of_visible(scores, head.visible), head.v, head.visible),
                logsumexp_of_visible(scores, head.visible)};
    };
    return attend_each_head(q, k, v, options, {}, torch::kFloat32, q.scalar_type(), attend_head);
}

/// An honest entry without masks: checks its arguments, then works in float32.
AttentionResult honest(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                       const AttentionOptions& options) {
    check_attention(q, k, v, options);
    return attend(q, k, v, options);
}

AttentionResult honest_with_masks(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                  const AttentionOptions& options) {
    check_attention(q, k, v, options, {Mask::none, Mask::causal_bottom_right, Mask::causal_top_left});
    return attend(q, k, v, options);
}

AttentionResult honest_without_lse(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                   const AttentionOptions& options) {
    return {honest(q, k, v, options).out, {}};
}

/// What an imagined kernel moves that reads its inputs once and writes its results once.
GlobalBytes bytes_moved_once(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                             const AttentionOptions& options) {
    check_attention(q, k, v, options);
    const auto item_size = std::uint64_t(q.element_size()), rows = std::uint64_t(q.numel() / q.size(3));
    return {.read = std::uint64_t(q.numel() + k.numel() + v.numel()) * item_size,
            .written = std::uint64_t(q.numel()) * item_size + rows * sizeof(float)};
}

/// Tells the log of a launch that moved so much.
void pretend_launch(const GlobalBytes& moved, bool counted = true) {
    simt::LaunchRecord record;
    record.kernel = "pretended";
    record.counted = counted;
    record.counters.tensors.push_back({.tensor = "all",
                                       .bytes_read = moved.read,
                                       .bytes_written = moved.written,
                                       .sectors_read = 0,
                                       .sectors_written = 0});
    simt::LaunchLog::record(record);
}

AttentionResult honest_and_counted(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                   const AttentionOptions& options) {
    const auto result = honest(q, k, v, options);
    pretend_launch(bytes_moved_once(q, k, v, options));
    return result;
}

/// An honest entry whose result `spoil` changes.
AttentionEntry spoiled(const std::function<void(AttentionResult&)>& spoil) {
    return [=](const auto& q, const auto& k, const auto& v, const auto& options) {
        auto result = honest_with_masks(q, k, v, options);
        spoil(result);
        return result;
    };
}

/// An entry with a mistake in its scores.
AttentionEntry distorted(const std::function<torch::Tensor(const torch::Tensor&)>& distort) {
    return [=](const auto& q, const auto& k, const auto& v, const auto& options) {
        check_attention(q, k, v, options);
        return attend(q, k, v, options, distort);
    };
}

AttentionResult throws_always(const torch::Tensor&, const torch::Tensor&, const torch::Tensor&,
                              const AttentionOptions&) {
    throw std::runtime_error("always");
}

std::vector<AttentionCase> two_cases() {
    return {{.query_heads = 2, .kv_heads = 1, .query_length = 5, .key_length = 9, .head_dim = 16, .seed = 1},
            {.query_length = 3, .key_length = 40, .head_dim = 8, .dtype = torch::kFloat16, .seed = 2}};
}

AttentionCase fine() { return two_cases().front(); }

/// Fails, and the message has these words: the case at fault among them.
Result fails(const Result& result, const std::vector<std::string>& words) {
    if (result) return ::testing::AssertionFailure() << "passed: " << result.message();
    for (const auto& word : words) {
        if (std::string(result.message()).find(word) == std::string::npos) {
            return ::testing::AssertionFailure() << "the message lacks \"" << word << "\": " << result.message();
        }
    }
    return ::testing::AssertionSuccess() << result.message();
}

// ---- honest entries ------------------------------------------------------------------------------------------------

TEST(EntryChecks, HonestEntryPassesAll) {
    EXPECT_TRUE(refuses_bad_input(honest));
    EXPECT_TRUE(refuses_bad_input(bytes_moved_once));
    EXPECT_TRUE(works_after_an_error(honest, fine()));
    EXPECT_TRUE(repeats_bitwise(honest, every(4, standard_cases())));
    EXPECT_TRUE(agrees_on_non_finite_input(honest));
    EXPECT_TRUE(row_of_negative_infinities_is_nan(honest));
    EXPECT_TRUE(ignores_batch_neighbours(honest));
    EXPECT_TRUE(ignores_key_order(honest));
    EXPECT_TRUE(moves_what_the_formula_says(honest_and_counted, bytes_moved_once, two_cases()));
}

TEST(EntryChecks, HonestEntryWithMasksPassesAll) {
    EXPECT_TRUE(refuses_bad_input(honest_with_masks, kEveryMask));
    EXPECT_TRUE(works_after_an_error(honest_with_masks, causal_cases().back()));
    EXPECT_TRUE(repeats_bitwise(honest_with_masks, every(4, causal_cases())));
    EXPECT_TRUE(agrees_on_non_finite_input(honest_with_masks, kEveryMask));
    EXPECT_TRUE(row_of_negative_infinities_is_nan(honest_with_masks, kEveryMask));
    EXPECT_TRUE(ignores_batch_neighbours(honest_with_masks, kEveryMask));
    EXPECT_TRUE(ignores_key_order(honest_with_masks, kEveryMask));
}

TEST(EntryChecks, LogSumExpIsAskedForUnlessTheEntryHasNone) {
    EXPECT_TRUE(works_after_an_error(honest_without_lse, fine(), Lse::absent));
    EXPECT_TRUE(repeats_bitwise(honest_without_lse, two_cases(), Lse::absent));
    EXPECT_TRUE(agrees_on_non_finite_input(honest_without_lse, kWithoutLse));
    EXPECT_TRUE(row_of_negative_infinities_is_nan(honest_without_lse, kWithoutLse));
    EXPECT_TRUE(ignores_batch_neighbours(honest_without_lse, kWithoutLse));
    EXPECT_TRUE(ignores_key_order(honest_without_lse, kWithoutLse));

    EXPECT_FALSE(works_after_an_error(honest_without_lse, fine()));
    EXPECT_FALSE(repeats_bitwise(honest_without_lse, two_cases()));
    EXPECT_FALSE(agrees_on_non_finite_input(honest_without_lse));
    EXPECT_FALSE(row_of_negative_infinities_is_nan(honest_without_lse));
    EXPECT_FALSE(ignores_batch_neighbours(honest_without_lse));
    EXPECT_FALSE(ignores_key_order(honest_without_lse));
}

TEST(EntryChecks, NothingToLookAtIsAFailure) {
    const EntryTraits no_masks{.masks = {}}, no_lengths{.key_lengths = {}};
    EXPECT_TRUE(fails(repeats_bitwise(honest, {}), {"no cases"}));
    for (const auto& traits : {no_masks, no_lengths}) {
        EXPECT_TRUE(fails(agrees_on_non_finite_input(honest, traits), {"no cases"}));
        EXPECT_TRUE(fails(row_of_negative_infinities_is_nan(honest, traits), {"no cases"}));
        EXPECT_TRUE(fails(ignores_batch_neighbours(honest, traits), {"no cases"}));
        EXPECT_TRUE(fails(ignores_key_order(honest, traits), {"no cases"}));
    }
    if (!test_device().is_cpu()) return;  // nothing counts on the GPU
    EXPECT_TRUE(fails(moves_what_the_formula_says(honest_and_counted, bytes_moved_once, {}), {"no cases"}));
}

TEST(EntryChecks, EntryThatThrowsFailsUnderTheNameOfItsCase) {
    EXPECT_TRUE(fails(works_after_an_error(throws_always, fine()), {"after q_undefined", "always"}));
    EXPECT_TRUE(fails(repeats_bitwise(throws_always, two_cases()), {"f16_q3_k40_d8: threw: always"}));
    EXPECT_TRUE(fails(agrees_on_non_finite_input(throws_always), {"k holds -inf in row 39", "threw: always"}));
    EXPECT_TRUE(fails(row_of_negative_infinities_is_nan(throws_always), {"140 keys, none, D 16: threw: always"}));
    EXPECT_TRUE(fails(ignores_batch_neighbours(throws_always), {"sequence 1 of f32_b2_h3_q50_k40_d24: threw: always"}));
    EXPECT_TRUE(fails(ignores_key_order(throws_always), {"k75_d24_rising_scores: threw: always"}));
    if (!test_device().is_cpu()) return;  // nothing counts on the GPU
    EXPECT_TRUE(fails(moves_what_the_formula_says(throws_always, bytes_moved_once, two_cases()),
                      {"f16_q3_k40_d8: threw: always"}));
}

// ---- bad input -----------------------------------------------------------------------------------------------------

TEST(RefusesBadInput, FailsAnEntryThatLooksAtNothing) {
    const AttentionEntry accepts_all = [](const auto& q, const auto&, const auto&, const auto&) {
        return AttentionResult{q, q};
    };
    EXPECT_TRUE(fails(refuses_bad_input(accepts_all),
                      {"q_undefined", "all_float64", "head_dim_257", "scale_nan", "causal_top_left", "threw nothing"}));
}

TEST(RefusesBadInput, FailsAFormulaThatLooksAtNothing) {
    const AttentionBytes accepts_all = [](const auto&, const auto&, const auto&, const auto&) { return GlobalBytes{}; };
    EXPECT_TRUE(fails(refuses_bad_input(accepts_all), {"key_length_0", "scale_nan", "threw nothing"}));
}

TEST(RefusesBadInput, FailsAnEntryThatForgetsOneArgument) {
    const AttentionEntry takes_any_scale = [](const auto& q, const auto& k, const auto& v, auto options) {
        options.scale.reset();
        return honest(q, k, v, options);
    };
    EXPECT_TRUE(fails(refuses_bad_input(takes_any_scale), {"out of", "scale_nan", "scale_infinity"}));
    EXPECT_FALSE(fails(refuses_bad_input(takes_any_scale), {"q_undefined"})) << "a case that was refused is listed";
}

TEST(RefusesBadInput, FailsAnEntryThatIgnoresMasks) {
    EXPECT_TRUE(fails(refuses_bad_input(honest_with_masks), {"causal_bottom_right", "causal_top_left"}));
    const AttentionEntry ignores_masks = [](const auto& q, const auto& k, const auto& v, auto options) {
        options.mask = Mask::none;
        return honest(q, k, v, options);
    };
    EXPECT_TRUE(fails(refuses_bad_input(ignores_masks), {"causal_bottom_right", "mask 9", "threw nothing"}));
    EXPECT_TRUE(fails(refuses_bad_input(ignores_masks, kEveryMask), {"mask 9"}));
}

// Under a mask, a check may take another path.
TEST(RefusesBadInput, FailsAnEntryThatChecksOnlyWithoutAMask) {
    const AttentionEntry careless = [](const auto& q, const auto& k, const auto& v, const auto& options) {
        if (options.mask == Mask::causal_top_left) return AttentionResult{q, q};
        return honest_with_masks(q, k, v, options);
    };
    EXPECT_TRUE(fails(refuses_bad_input(careless, kEveryMask), {"scale_nan, causal_top_left"}));
}

TEST(RefusesBadInput, FailsAMessageWithoutTheReason) {
    EXPECT_TRUE(fails(refuses_bad_input(throws_always), {"k_head_dim_differs", "lacks \"k:\"", "always"}));
}

TEST(RefusesBadInput, FailsAnEntryThatLaunchesFirst) {
    const AttentionEntry hasty = [](const auto& q, const auto& k, const auto& v, const auto& options) {
        pretend_launch({});
        return honest(q, k, v, options);
    };
    EXPECT_TRUE(fails(refuses_bad_input(hasty), {"q_rank_3", "something was launched"}));
}

// ---- errors --------------------------------------------------------------------------------------------------------

TEST(WorksAfterAnError, FailsAnEntryThatAnErrorLeavesBroken) {
    for (const bool refuses_from_then_on : {false, true}) {
        const auto broken = std::make_shared<bool>(false);
        const AttentionEntry fragile = [=](const auto& q, const auto& k, const auto& v, const auto& options) {
            if (*broken && refuses_from_then_on) throw std::runtime_error("an earlier error");
            try {
                auto result = honest(q, k, v, options);
                if (*broken) result.out.zero_();
                return result;
            } catch (const std::exception&) {
                *broken = true;
                throw;
            }
        };
        EXPECT_TRUE(matches_reference(fragile, fine(), test_device()));
        EXPECT_TRUE(fails(works_after_an_error(fragile, fine()), {"after q_undefined"}));
    }
}

TEST(WorksAfterAnError, FailsAnEntryThatOnlyOneKindOfErrorBreaks) {
    const auto broken = std::make_shared<bool>(false);
    const AttentionEntry fragile = [=](const auto& q, const auto& k, const auto& v, const auto& options) {
        if (q.defined() && q.dim() == 4 && q.size(3) == 257) *broken = true;
        auto result = honest(q, k, v, options);
        if (*broken) result.lse.zero_();
        return result;
    };
    EXPECT_TRUE(fails(works_after_an_error(fragile, fine()), {"after head_dim_257"}));
}

TEST(WorksAfterAnError, FailsWhenThereWasNoError) {
    const AttentionEntry accepts_all = [](const auto& q, const auto& k, const auto& v, const auto& options) {
        try {
            return honest(q, k, v, options);
        } catch (const std::exception&) {
            return AttentionResult{};
        }
    };
    EXPECT_TRUE(fails(works_after_an_error(accepts_all, fine()), {"after all_float64", "threw nothing"}));
}

// ---- repetition ----------------------------------------------------------------------------------------------------

TEST(RepeatsBitwise, FailsWhateverChangesFromCallToCall) {
    const auto calls = std::make_shared<int>(0);
    const auto every_other = [=](const std::function<void(AttentionResult&)>& spoil) {
        return spoiled([=](AttentionResult& result) {
            if (++*calls % 2 == 0) spoil(result);
        });
    };
    const auto last = [](const torch::Tensor& tensor) { return tensor.view({-1})[tensor.numel() - 1]; };
    const std::vector<std::pair<std::string, std::function<void(AttentionResult&)>>> spoils{
        {"out differs", [=](auto& result) { last(result.out).mul_(1.002); }},
        {"lse differs", [=](auto& result) { last(result.lse).mul_(1 + 1e-6); }},
        {"out differs", [](auto& result) { result.out = result.out.narrow(2, 0, 1); }},
        {"out differs", [](auto& result) { result.out = result.out.to(torch::kBFloat16); }},
        {"out is undefined", [](auto& result) { result.out = torch::Tensor(); }},
        {"lse is undefined", [](auto& result) { result.lse = torch::Tensor(); }}};
    for (const auto& [wrong, spoil] : spoils)
        EXPECT_TRUE(fails(repeats_bitwise(every_other(spoil), two_cases()), {"f16_q3_k40_d8: " + wrong}));
}

TEST(RepeatsBitwise, TellsMinusZeroFromZeroButTakesNaN) {
    const auto calls = std::make_shared<int>(0);
    const auto zero_of_either_sign =
        spoiled([=](AttentionResult& result) { result.out.fill_(++*calls % 2 ? 0.0 : -0.0); });
    EXPECT_TRUE(fails(repeats_bitwise(zero_of_either_sign, two_cases()), {"out differs"}));
    const auto nan = spoiled([](AttentionResult& result) { result.out.fill_(std::nan("")); });
    EXPECT_TRUE(repeats_bitwise(nan, two_cases())) << "equal bits are equal; other checks see the NaN";
}

// ---- infinities and NaN --------------------------------------------------------------------------------------------

TEST(AgreesOnNonFiniteInput, FailsAnEntryThatHidesOrSpreadsThem) {
    const auto nan_to_zero = spoiled([](auto& result) { result.out.nan_to_num_(0.0); });
    EXPECT_TRUE(
        fails(agrees_on_non_finite_input(nan_to_zero), {"q holds nan in row 3, column 7, 40 keys, none", "out:"}));
    const auto finite_lse = spoiled([](auto& result) { result.lse.clamp_(-1e30, 1e30); });
    EXPECT_TRUE(fails(agrees_on_non_finite_input(finite_lse), {"q holds -inf", "lse:"}));
    const auto finite_sentinel = distorted([](const auto& scores) { return scores.clamp_min(-1e4); });
    EXPECT_TRUE(fails(agrees_on_non_finite_input(finite_sentinel), {"q holds -inf in row 3"}));
    const auto nan_for_all = spoiled([](auto& result) {
        if (result.out.isnan().any().template item<bool>()) result.out.fill_(std::nan(""));
    });
    EXPECT_TRUE(fails(agrees_on_non_finite_input(nan_for_all), {"v holds nan in row 3"}));
}

TEST(AgreesOnNonFiniteInput, FailsAnEntryThatMishandlesOnlyTheLastKeys) {
    const auto hides_after_key_100 = distorted([](const auto& scores) {
        if (scores.size(1) > 100) scores.slice(1, 100).clamp_(-1e4, 1e4);
        return scores;
    });
    EXPECT_TRUE(fails(agrees_on_non_finite_input(hides_after_key_100), {"k holds inf in row 139, column 7, 140 keys"}));
    EXPECT_FALSE(fails(agrees_on_non_finite_input(hides_after_key_100), {"75 keys"}));
}

TEST(AgreesOnNonFiniteInput, FailsAnEntryThatLosesAnInfinityAfterAHugeScore) {
    const auto loses = distorted([](const auto& scores) {
        return (scores.isfinite() & (scores > 300)).any().template item<bool>() ? scores.nan_to_num(0.0, std::nan(""))
                                                                                : scores;
    });
    EXPECT_TRUE(fails(agrees_on_non_finite_input(loses), {"k holds 100 in row 0 and inf in row 139", "lse:"}));
    EXPECT_FALSE(fails(agrees_on_non_finite_input(loses), {"k holds inf in row 139"}));
}

TEST(AgreesOnNonFiniteInput, FailsAnEntryThatLetsAMaskedKeyThrough) {
    const AttentionEntry leaks = [](const auto& q, const auto& k, const auto& v, const auto& options) {
        auto result = honest_with_masks(q, k, v, options);
        result.out += v.select(2, v.size(2) - 1).unsqueeze(2) * 0.0;
        return result;
    };
    EXPECT_TRUE(fails(agrees_on_non_finite_input(leaks, kEveryMask), {"v holds nan in row 39", "causal_top_left"}));
}

TEST(RowOfNegativeInfinitiesIsNan, FailsAnEntryThatInventsAnAnswer) {
    const auto nan_to_zero = spoiled([](auto& result) { result.out.nan_to_num_(0.0); });
    EXPECT_TRUE(fails(row_of_negative_infinities_is_nan(nan_to_zero), {"40 keys, none", "the row's out is not NaN"}));
    const auto finite_sentinel = distorted([](const auto& scores) { return scores.clamp_min(-1e4); });
    EXPECT_TRUE(fails(row_of_negative_infinities_is_nan(finite_sentinel), {"out is not NaN", "lse is not -inf"}));
    const auto nan_lse = spoiled([](auto& result) { result.lse.masked_fill_(result.lse.isinf(), std::nan("")); });
    EXPECT_TRUE(fails(row_of_negative_infinities_is_nan(nan_lse), {"the row's lse is not -inf"}));
}

TEST(RowOfNegativeInfinitiesIsNan, FailsAnEntryThatSpreadsIt) {
    const auto next_row_out = spoiled([](auto& result) { result.out.select(2, 7).fill_(std::nan("")); });
    EXPECT_TRUE(fails(row_of_negative_infinities_is_nan(next_row_out), {"another row's out is not finite"}));
    const auto first_row_lse = spoiled([](auto& result) { result.lse.select(2, 0).fill_(-kInfinity); });
    EXPECT_TRUE(fails(row_of_negative_infinities_is_nan(first_row_lse), {"another row's lse is not finite"}));
}

TEST(RowOfNegativeInfinitiesIsNan, TriesEveryMask) {
    const AttentionEntry wrong_under_a_mask = [](const auto& q, const auto& k, const auto& v, const auto& options) {
        auto result = honest_with_masks(q, k, v, options);
        if (options.mask == Mask::causal_top_left) result.out.nan_to_num_(0.0);
        return result;
    };
    EXPECT_TRUE(row_of_negative_infinities_is_nan(wrong_under_a_mask));
    EXPECT_TRUE(fails(row_of_negative_infinities_is_nan(wrong_under_a_mask, kEveryMask), {"75 keys, causal_top_left"}));
}

// ---- batch neighbours and the order of keys ------------------------------------------------------------------------

TEST(IgnoresBatchNeighbours, FailsAnEntryThatLetsThemIn) {
    const auto from_the_other = [](torch::Tensor& tensor, int64_t reader) {
        const int64_t other = tensor.size(0) - 1 - reader;
        if (tensor.size(0) > 1) tensor[reader] += tensor[other] * 1e-3;
    };
    for (const int64_t reader : {0, 1}) {
        const std::string sequence = "sequence " + std::to_string(reader);
        const auto out_leaks = spoiled([=](auto& result) { from_the_other(result.out, reader); });
        EXPECT_TRUE(fails(ignores_batch_neighbours(out_leaks), {sequence, "k140", "out differs"}));
        const auto lse_leaks = spoiled([=](auto& result) { from_the_other(result.lse, reader); });
        EXPECT_TRUE(fails(ignores_batch_neighbours(lse_leaks), {sequence, "k140", "lse differs"}));
    }
}

// Right within the error bound, but not for the reason that it should be.
TEST(IgnoresBatchNeighbours, FailsAnEntryWhoseRoundingDependsOnTheBatch) {
    const auto rounds_otherwise = spoiled([](auto& result) {
        if (result.out.size(0) > 1) result.out *= 1 + 1e-7;
    });
    EXPECT_TRUE(matches_reference(rounds_otherwise, {.batch = 2, .query_length = 9, .key_length = 9}, test_device()));
    EXPECT_TRUE(fails(ignores_batch_neighbours(rounds_otherwise), {"out differs"}));
}

TEST(IgnoresKeyOrder, FailsAnEntryThatPrefersSomeKeys) {
    const auto prefers_late_keys =
        distorted([](const auto& scores) { return scores + at::arange(scores.size(1), scores.options()) * 1e-3; });
    EXPECT_TRUE(fails(ignores_key_order(prefers_late_keys), {"k40_d24", "k75_d24", "k140_d24", "rising_scores"}));
    const auto forgets_the_last_key = distorted([](const auto& scores) {
        scores.select(1, scores.size(1) - 1).fill_(-kInfinity);
        return scores;
    });
    EXPECT_TRUE(fails(ignores_key_order(forgets_the_last_key), {"out:", "lse:"}));
}

// The largest score comes last in rising_scores, so that this one is right for as long as nobody moves a key.
TEST(IgnoresKeyOrder, FailsAnEntryThatCountsOnTheOrder) {
    const AttentionEntry counts_on_the_order = [](const auto& q, const auto& k, const auto& v, const auto& options) {
        check_attention(q, k, v, options);
        return attend(q, k, v, options, [](const torch::Tensor& scores) {
            const auto last = scores.select(1, scores.size(1) - 1).unsqueeze(1);
            return at::where(scores > last + 8.0, scores - 1.0, scores);
        });
    };
    EXPECT_TRUE(matches_reference(
        counts_on_the_order,
        {.query_length = 9, .key_length = 75, .head_dim = 24, .family = Family::rising_scores, .seed = 1},
        test_device()));
    EXPECT_TRUE(fails(ignores_key_order(counts_on_the_order), {"rising_scores"}));
}

// ---- traffic -------------------------------------------------------------------------------------------------------

TEST(MovesWhatTheFormulaSays, FailsAWrongFormula) {
    if (!test_device().is_cpu()) return;  // nothing counts on the GPU
    const AttentionBytes reads_too_much = [](const auto& q, const auto& k, const auto& v, const auto& options) {
        auto bytes = bytes_moved_once(q, k, v, options);
        ++bytes.read;
        return bytes;
    };
    EXPECT_TRUE(fails(moves_what_the_formula_says(honest_and_counted, reads_too_much, two_cases()),
                      {"f32_h2_kv1_q5_k9_d16: read 1792 bytes, the formula says 1793"}));
    const AttentionBytes forgets_lse = [](const auto& q, const auto& k, const auto& v, const auto& options) {
        auto bytes = bytes_moved_once(q, k, v, options);
        bytes.written = std::uint64_t(q.numel()) * q.element_size();
        return bytes;
    };
    EXPECT_TRUE(fails(moves_what_the_formula_says(honest_and_counted, forgets_lse, two_cases()),
                      {"f16_q3_k40_d8: wrote 60 bytes, the formula says 48"}));
}

TEST(MovesWhatTheFormulaSays, FailsWhereNothingCounts) {
    if (!test_device().is_cpu()) return;  // nothing counts on the GPU
    EXPECT_TRUE(fails(moves_what_the_formula_says(honest, bytes_moved_once, two_cases()), {"read 0 bytes"}));
    const AttentionBytes nothing = [](const auto&, const auto&, const auto&, const auto&) { return GlobalBytes{}; };
    EXPECT_TRUE(fails(moves_what_the_formula_says(honest, nothing, two_cases()), {"the machine counted nothing"}));
    const AttentionEntry uncounted = [](const auto& q, const auto& k, const auto& v, const auto& options) {
        pretend_launch({}, /*counted=*/false);
        return honest(q, k, v, options);
    };
    EXPECT_TRUE(fails(moves_what_the_formula_says(uncounted, nothing, two_cases()), {"the machine counted nothing"}));
}

}  // namespace
}  // namespace ladder::reference
