#include "phase7_hopper/hopper.h"

#include <gtest/gtest.h>

#include <iterator>
#include <limits>
#include <set>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "common/attention/machine.h"
#include "common/attention/outputs.h"
#include "common/attention/rungs.h"
#include "common/reference/entry_checks.h"
#include "common/reference/test_device.h"
#include "common/simt/device/device.h"
#include "common/simt/device/device_profile.h"
#include "common/simt/machine/schedule.h"
#include "common/simt/report/launch_log.h"

namespace ladder {
namespace {

using namespace reference;

const PoisonOutputs poison_outputs;  // an element that is never written stays NaN

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

using Function = AttentionResult (*)(const torch::Tensor&, const torch::Tensor&, const torch::Tensor&,
                                     const AttentionOptions&);

/// On the CPU machine, as an H100 has it: what it imitates otherwise has no wgmma.
template <class Result>
std::function<Result(const torch::Tensor&, const torch::Tensor&, const torch::Tensor&, const AttentionOptions&)>
on_h100(Result (*function)(const torch::Tensor&, const torch::Tensor&, const torch::Tensor&, const AttentionOptions&)) {
    return
        [=](const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v, const AttentionOptions& options) {
            const simt::ScopedCpuDevice imitated(simt::device_from(simt::device_profile("h100")));
            return function(q, k, v, options);
        };
}

struct NamedEntry {
    const char* name;
    Function function;
    GlobalBytes (*bytes)(const torch::Tensor&, const torch::Tensor&, const torch::Tensor&, const AttentionOptions&);
    AttentionEntry entry = on_h100(function);
};
const NamedEntry kFastest{"hopper_forward", hopper_forward, hopper_forward_bytes};
const NamedEntry kSteps[] = {{"hopper_plain_forward", hopper_plain_forward, hopper_plain_bytes},
                             {"hopper_turns_forward", hopper_turns_forward, hopper_turns_bytes},
                             {"hopper_overlapped_forward", hopper_overlapped_forward, hopper_overlapped_bytes}};

std::vector<const NamedEntry*> all_entries() {
    std::vector<const NamedEntry*> all = {&kFastest};
    for (const NamedEntry& step : kSteps) all.push_back(&step);
    return all;
}

/// A GPU without wgmma runs none of these tests but that of its refusal.
bool runs_here() {
    if (!test_device().is_cuda() || device_limits(test_device()).has_feature(simt::Feature::wgmma)) return true;
    not_run_on_gpu("needs wgmma");
    return false;
}

/// The cases with 16-bit elements: float32 becomes one type and the other in turn, unless that is a case already.
std::vector<AttentionCase> all_cases() {
    std::vector<AttentionCase> cases;
    std::set<std::string> known;
    std::size_t n = 0;
    for (const auto& list : {standard_cases(), causal_cases()})
        for (AttentionCase problem : list) {
            if (problem.dtype == torch::kFloat32) {
                problem.dtype = n++ % 2 == 0 ? torch::kFloat16 : torch::kBFloat16;
                problem.name = describe(problem);
            }
            if (known.insert(problem.name).second) cases.push_back(problem);
        }
    return cases;
}

constexpr Mask kMasks[] = {Mask::none, Mask::causal_bottom_right, Mask::causal_top_left};
const EntryTraits kTraits{.masks = {std::begin(kMasks), std::end(kMasks)},
                          .dtypes = {torch::kFloat16, torch::kBFloat16},
                          .key_lengths = {40, 170},
                          .head_dims = {16, 96, 192}};
/// For checks that try many values of each.
const EntryTraits kFewTraits{.masks = {std::begin(kMasks), std::end(kMasks)},
                             .dtypes = {torch::kBFloat16},
                             .key_lengths = {170},
                             .head_dims = {16, 192}};

class HopperCases : public ::testing::TestWithParam<AttentionCase> {};

TEST_P(HopperCases, MatchesReference) {
    if (!runs_here()) return;
    EXPECT_TRUE(matches_reference(kFastest.entry, GetParam(), test_device()));
}

INSTANTIATE_TEST_SUITE_P(All, HopperCases, ::testing::ValuesIn(all_cases()), ByName{});

class HopperSteps : public ::testing::TestWithParam<AttentionCase> {};

TEST_P(HopperSteps, MatchReference) {
    if (!runs_here()) return;
    for (const NamedEntry& step : kSteps)
        EXPECT_TRUE(matches_reference(step.entry, GetParam(), test_device())) << step.name;
}

INSTANTIATE_TEST_SUITE_P(Some, HopperSteps, ::testing::ValuesIn(every(6, all_cases())), ByName{});

TEST(Hopper, RepeatsBitwise) {
    if (!runs_here()) return;
    EXPECT_TRUE(repeats_bitwise(kFastest.entry, every(16, all_cases())));
    for (const NamedEntry& step : kSteps) EXPECT_TRUE(repeats_bitwise(step.entry, every(64, all_cases()))) << step.name;
}

// Threads of a block may run in any order; on the CPU machine a seed chooses one.
TEST(Hopper, AnyOrderOfThreadsIsRight) {
    if (not_run_on_gpu("the CPU machine chooses the order of threads")) return;
    for (const auto& [head_dim, mask] :
         {std::pair<int64_t, Mask>{64, Mask::causal_bottom_right}, {192, Mask::causal_bottom_right}, {128, Mask::none}})
        for (const std::uint64_t seed : {1, 2}) {
            const simt::ScopedOrder order(seed);
            for (const NamedEntry* one : all_entries())
                EXPECT_TRUE(matches_reference(one->entry,
                                              {.query_length = 200,
                                               .key_length = 400,
                                               .head_dim = head_dim,
                                               .dtype = torch::kBFloat16,
                                               .options = {.scale = {}, .mask = mask}},
                                              test_device()))
                    << one->name << ", seed " << seed << ", head dimension " << head_dim;
        }
}

TEST(Hopper, MovesWhatTheFormulaSays) {
    if (!runs_here()) return;
    EXPECT_TRUE(moves_what_the_formula_says(kFastest.entry, on_h100(kFastest.bytes), every(8, all_cases())));
    for (const NamedEntry& step : kSteps)
        EXPECT_TRUE(moves_what_the_formula_says(step.entry, on_h100(step.bytes), every(32, all_cases()))) << step.name;
}

TEST(Hopper, RefusesBadInput) {
    if (!runs_here()) return;
    EXPECT_TRUE(refuses_bad_input(kFastest.entry, kTraits));
    EXPECT_TRUE(refuses_bad_input(hopper_forward_bytes, kTraits));
    EXPECT_TRUE(refuses_bad_input(kSteps[0].entry, kTraits));
}

TEST(Hopper, WorksAfterAnError) {
    if (!runs_here()) return;
    EXPECT_TRUE(works_after_an_error(kFastest.entry, all_cases().back()));
}

TEST(Hopper, AgreesOnNonFiniteInput) {
    if (!runs_here()) return;
    EXPECT_TRUE(agrees_on_non_finite_input(
        kFastest.entry,
        {.masks = kTraits.masks, .dtypes = {torch::kBFloat16}, .key_lengths = {170}, .head_dims = {16}}));
    EXPECT_TRUE(agrees_on_non_finite_input(
        kFastest.entry,
        {.masks = {Mask::causal_bottom_right}, .dtypes = {torch::kFloat16}, .key_lengths = {130}, .head_dims = {136}}));
    for (const NamedEntry& step : kSteps)
        EXPECT_TRUE(agrees_on_non_finite_input(
            step.entry,
            {.masks = {Mask::causal_top_left}, .dtypes = {torch::kFloat16}, .key_lengths = {150}, .head_dims = {24}}))
            << step.name;
}

TEST(Hopper, RowOfNegativeInfinitiesIsNaN) {
    if (!runs_here()) return;
    for (const NamedEntry* one : all_entries())
        EXPECT_TRUE(row_of_negative_infinities_is_nan(one->entry, kFewTraits)) << one->name;
}

TEST(Hopper, IgnoresBatchNeighbours) {
    if (!runs_here()) return;
    for (const NamedEntry* one : all_entries())
        EXPECT_TRUE(ignores_batch_neighbours(one->entry, kFewTraits)) << one->name;
}

TEST(Hopper, IgnoresKeyOrder) {
    if (!runs_here()) return;
    for (const NamedEntry* one : all_entries()) EXPECT_TRUE(ignores_key_order(one->entry, kFewTraits)) << one->name;
}

// Scaling by a negative number turns the order of the scores round: the maximum must be taken afterwards. With 3 keys
// for 130 queries there are query tiles that see none, and whose rows of Q_i are overwritten all the same.
TEST(Hopper, AnyScaleUnderAnyMask) {
    if (!runs_here()) return;
    for (const NamedEntry* one : all_entries())
        for (const Mask mask : kMasks)
            for (const double scale : {-2.0, 0.0, 3.0})
                for (const auto& [queries, keys, family] :
                     {std::tuple(70, 175, Family::one_huge_logit), {130, 3, Family::normal}})
                    EXPECT_TRUE(matches_reference(one->entry,
                                                  {.query_length = queries,
                                                   .key_length = keys,
                                                   .head_dim = 16,
                                                   .dtype = torch::kBFloat16,
                                                   .family = family,
                                                   .options = {.scale = scale, .mask = mask},
                                                   .seed = 7},
                                                  test_device()))
                        << one->name << ", scale " << scale;
}

TEST(Hopper, RefusesFloat32AndNamesWhatTakesIt) {
    const torch::Tensor q = torch::randn({1, 1, 8, 16}).to(test_device());
    EXPECT_TRUE(
        throws_mentioning([&] { hopper_forward(q, q, q); },
                          {"hopper_forward", "q is Float", "float16 and bfloat16", "fa2_forward", "causal_forward"}));
}

TEST(Hopper, NamesPhase6WhereThereIsNoWgmma) {
    const torch::Tensor q = torch::randn({1, 1, 8, 16}).to(torch::kFloat16).to(test_device());
    const auto refuses = [&](const char* entry, const Function& function) {
        EXPECT_TRUE(throws_mentioning([&] { function(q, q, q, {}); }, {entry, "needs wgmma", "does not have", "h100",
                                                                       "phase 6", "mma_forward", "--profile"}));
    };
    if (test_device().is_cuda()) {
        if (!device_limits(test_device()).has_feature(simt::Feature::wgmma)) refuses("hopper_forward", hopper_forward);
        return;
    }
    for (const char* profile : {"rtx4090", "a100", "gtx1080"}) {
        const simt::ScopedCpuDevice imitated(simt::device_from(simt::device_profile(profile)));
        for (const NamedEntry* one : all_entries()) refuses(one->name, one->function);
    }
}

bool sees(Mask mask, int64_t i, int64_t j, int64_t queries, int64_t keys) {
    return mask == Mask::none || (mask == Mask::causal_top_left ? j <= i : j <= i + keys - queries);
}

// A key that a row does not see has no influence on any bit of it, whatever it holds: not even 0 * NaN, nor 0 * inf.
void expect_that_what_a_row_may_not_see_never_reaches_it(const NamedEntry& one, Mask mask, int64_t queries,
                                                         int64_t keys, int64_t head_dim, torch::ScalarType dtype) {
    const auto random = [&](int64_t length) {
        return torch::randn({1, 1, length, head_dim}).to(dtype).to(test_device());
    };
    const AttentionOptions options{.scale = {}, .mask = mask};
    const torch::Tensor q = random(queries), k = random(keys), v = random(keys);
    const AttentionResult clean = one.entry(q, k, v, options);
    const auto look = [&](float poison, int64_t key, bool in_values) {
        torch::Tensor k_bad = k.clone(), v_bad = v.clone();
        (in_values ? v_bad : k_bad)[0][0][key].fill_(poison);
        const AttentionResult result = one.entry(q, k_bad, v_bad, options);
        int64_t blind = 0;
        while (blind < queries && !sees(mask, blind, key, queries, keys)) ++blind;
        EXPECT_TRUE(result.out.slice(2, 0, blind).equal(clean.out.slice(2, 0, blind)) &&
                    result.lse.slice(2, 0, blind).equal(clean.lse.slice(2, 0, blind)))
            << one.name << ": " << poison << (in_values ? " in value " : " in key ") << key << " reached one of the "
            << blind << " rows that do not see it";
        const Comparison verdict = compare_attention(result, q, k_bad, v_bad, options);
        EXPECT_TRUE(verdict.passed) << one.name << ": " << poison << " at " << key << ": " << verdict.report;
    };
    for (const int64_t key : {int64_t{1}, int64_t{64}, keys / 2, keys - 1}) {
        look(kInfinity, key, true);
        look(kNaN, key, key == 1);
    }
    look(-kInfinity, keys / 2, true);
    look(kNaN, keys - 1, true);
}

TEST(Hopper, WhatARowMayNotSeeNeverReachesIt) {
    if (!runs_here()) return;
    for (const Mask mask : {Mask::causal_bottom_right, Mask::causal_top_left})
        for (const auto& [queries, keys] : {std::pair<int64_t, int64_t>{200, 200}, {90, 170}}) {
            expect_that_what_a_row_may_not_see_never_reaches_it(kFastest, mask, queries, keys, 16, torch::kFloat16);
            if (queries < keys)
                expect_that_what_a_row_may_not_see_never_reaches_it(kFastest, mask, queries, keys, 192,
                                                                    torch::kBFloat16);
        }
    for (const NamedEntry& step : kSteps)
        expect_that_what_a_row_may_not_see_never_reaches_it(step, Mask::causal_bottom_right, 100, 150, 64,
                                                            torch::kBFloat16);
}

// All head dimensions that kernels are compiled for, one that is narrower, one whose rows are no whole pieces of 16
// bytes; many tiles, with a whole one at the end and without; blocks that take one tile of queries, and many.
TEST(Hopper, EachHeadDimension) {
    if (!runs_here()) return;
    for (const int64_t head_dim : {64, 80, 91, 96, 128, 192, 256})
        for (const auto& [queries, keys, mask] :
             {std::tuple<int64_t, int64_t, Mask>{33, 384, Mask::none}, {200, 397, Mask::causal_bottom_right}}) {
            const AttentionCase problem{.query_length = queries,
                                        .key_length = keys,
                                        .head_dim = head_dim,
                                        .dtype = head_dim % 64 ? torch::kBFloat16 : torch::kFloat16,
                                        .options = {.scale = {}, .mask = mask},
                                        .seed = 21};
            for (const NamedEntry* one : all_entries())
                EXPECT_TRUE(matches_reference(one->entry, problem, test_device()))
                    << one->name << ", head dimension " << head_dim << ", " << keys << " keys";
        }
}

// Without a mask, and with few keys, a block takes tile after tile: the same bits whoever takes them.
TEST(Hopper, BlocksThatTakeSeveralTiles) {
    if (not_run_on_gpu("it imitates smaller devices")) return;
    const auto random = [](int64_t heads, int64_t length) {
        return torch::randn({1, heads, length, 72}).to(torch::kBFloat16);
    };
    const torch::Tensor q = random(6, 150), k = random(2, 300), v = random(2, 300);
    const AttentionResult expected = kFastest.entry(q, k, v, {});
    EXPECT_TRUE(compare_attention(expected, q, k, v, {}).passed);
    for (const int multiprocessors : {1, 3, 5}) {
        simt::Device device = simt::device_from(simt::device_profile("h100"));
        device.multiprocessors = multiprocessors;
        const simt::ScopedCpuDevice imitated(device);
        for (const std::uint64_t seed : {0, 1}) {
            const simt::ScopedOrder order(seed);
            const AttentionResult result = hopper_forward(q, k, v);
            EXPECT_TRUE(result.out.equal(expected.out) && result.lse.equal(expected.lse)) << multiprocessors;
        }
    }
}

// So many keys that the heads do not all walk side by side; under this mask a single query sees only the first of them.
TEST(Hopper, MoreHeadsThanL2Holds) {
    if (!runs_here()) return;
    for (const int64_t heads : {3, 5})
        EXPECT_TRUE(matches_reference(kFastest.entry,
                                      {.query_heads = heads,
                                       .kv_heads = heads,
                                       .query_length = 1,
                                       .key_length = 96 * 1024,
                                       .head_dim = 32,
                                       .dtype = torch::kBFloat16,
                                       .options = {.scale = {}, .mask = Mask::causal_top_left},
                                       .seed = 8},
                                      test_device()))
            << heads << " heads";
}

// What the accelerator cannot address is copied: the result is the same, to the bit.
TEST(Hopper, CopiesWhatCannotBeAddressed) {
    if (!runs_here()) return;
    const auto random = [](int64_t heads, int64_t length) {
        return torch::randn({2, heads, length, 64}).to(torch::kFloat16).to(test_device());
    };
    const torch::Tensor q = random(4, 70), k = random(2, 90), v = random(2, 90);
    const AttentionResult expected = kFastest.entry(q, k, v, {});
    const auto gives_the_same = [&](const char* what, const torch::Tensor& k_form, const torch::Tensor& v_form) {
        const AttentionResult result = kFastest.entry(q, k_form, v_form, {});
        EXPECT_TRUE(result.out.equal(expected.out) && result.lse.equal(expected.lse)) << what;
    };
    const auto shifted = [](const torch::Tensor& x) {  // each row begins one element after a multiple of 16 bytes
        const torch::Tensor wide = at::constant_pad_nd(x, {1, 7}, 0);
        return wide.slice(3, 1, 65);
    };
    gives_the_same("rows that begin anywhere", shifted(k), shifted(v));
    gives_the_same("rows of 65 elements", at::constant_pad_nd(k, {0, 1}, 0).slice(3, 0, 64), v);
    gives_the_same("heads side by side", k.transpose(1, 2).contiguous().transpose(1, 2),
                   v.transpose(1, 2).contiguous().transpose(1, 2));

    const torch::Tensor one_k = k.slice(1, 0, 1), one_v = v.slice(1, 0, 1);
    const AttentionResult shared = kFastest.entry(q, one_k, one_v, {}),
                          expanded = kFastest.entry(q, one_k.expand({2, 4, 90, 64}), one_v.expand({2, 4, 90, 64}), {});
    EXPECT_TRUE(shared.out.equal(expanded.out)) << "expanded heads";

    const torch::Tensor narrow = q.slice(3, 0, 3);
    const AttentionResult of_narrow = kFastest.entry(narrow, k.slice(3, 0, 3), v.slice(3, 0, 3), {});
    EXPECT_EQ(of_narrow.out.sizes(), narrow.sizes());
    EXPECT_TRUE(of_narrow.out.is_contiguous());
}

TEST(Hopper, LaunchesWhatSuitsTheProblem) {
    if (not_run_on_gpu("it reads the CPU machine's log")) return;
    const auto launched = [](int64_t head_dim, int64_t keys, Mask mask) {
        const torch::Tensor q = torch::ones({1, 1, 8, head_dim}).to(torch::kFloat16),
                            k = torch::ones({1, 1, keys, head_dim}).to(torch::kFloat16);
        const simt::LaunchLog log;
        kFastest.entry(q, k, k, {.scale = {}, .mask = mask});
        return std::pair(log.records()[0].kernel, log.records()[0].shared_bytes_per_block);
    };
    using Launched = std::pair<std::string, std::size_t>;
    const auto expect = [&](const Launched& expected, int64_t head_dim, int64_t keys, Mask mask) {
        EXPECT_EQ(Launched(launched(head_dim, keys, mask)), expected) << "head dimension " << head_dim;
    };
    expect({"hopper_parts_kernel", 106656}, 64, 1024, Mask::none);
    expect({"hopper_parts_kernel", 180384}, 128, 1025, Mask::none);
    expect({"hopper_parts_kernel", 106656}, 64, 8, Mask::causal_top_left);
    expect({"hopper_parts_kernel", 135328}, 96, 8, Mask::causal_top_left);
    expect({"hopper_parts_kernel", 180384}, 128, 8, Mask::causal_top_left);
    expect({"hopper_overlapped_kernel", 196752}, 128, 1024, Mask::none);
    expect({"hopper_overlapped_kernel", 221328}, 192, 8, Mask::none);
    expect({"hopper_overlapped_kernel", 229520}, 256, 8, Mask::none);
}

TEST(Hopper, LeavesShortNarrowProblemsToOtherRungs) {
    if (not_run_on_gpu("it imitates another device")) return;
    const simt::ScopedCpuDevice imitated(simt::device_from(simt::device_profile("h100")));
    const auto takes = [](int64_t queries, int64_t keys, int64_t head_dim) {
        const torch::Tensor q = torch::zeros({1, 1, queries, head_dim}, torch::kFloat16);
        const torch::Tensor k = torch::zeros({1, 1, keys, head_dim}, torch::kFloat16);
        try {
            return forward_rung(q, k, k, {}).name == "hopper_forward";
        } catch (const std::runtime_error&) {  // a program without any other
            return false;
        }
    };
    EXPECT_FALSE(takes(512, 512, 64));
    EXPECT_FALSE(takes(512, 512, 8));
    EXPECT_TRUE(takes(513, 512, 64));
    EXPECT_TRUE(takes(512, 513, 64));
    EXPECT_TRUE(takes(512, 512, 72));
    EXPECT_TRUE(takes(512, 512, 60));  // whose rows are not read 16 bytes at a time
}

}  // namespace
}  // namespace ladder
