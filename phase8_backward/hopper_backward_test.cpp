#include "phase8_backward/hopper_backward.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "common/attention/machine.h"
#include "common/attention/outputs.h"
#include "common/reference/checks.h"
#include "common/reference/gradient_cases.h"
#include "common/reference/gradient_comparison.h"
#include "common/reference/oracle.h"
#include "common/reference/test_device.h"
#include "common/simt/device/device_profile.h"
#include "common/simt/report/launch_log.h"
#include "phase8_backward/backward_checks.h"

namespace ladder {
namespace {

using namespace reference;
using namespace backward_checks;

const PoisonOutputs poison_outputs;  // an element that is never written stays NaN

bool can_run() {
    const bool can = test_device().is_cpu() || device_limits(test_device()).has_feature(simt::Feature::wgmma);
    if (!can) std::printf("NOT RUN: this GPU has no wgmma\n");
    return can;
}

/// What the checks call a second pass, which repeats bitwise, is here the order of the key tiles.
BackwardOptions ours(const BackwardOptions& how) {
    return how.gather == DqGather::second_pass ? BackwardOptions{.gather = DqGather::in_order} : how;
}

const Entry kHopper{
    .call =
        [](const torch::Tensor& dout, const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
           const torch::Tensor& out, const torch::Tensor& lse, const AttentionOptions& options,
           const BackwardOptions& how, const std::optional<torch::Tensor>& dlse) {
            const simt::ScopedCpuDevice imitated(simt::device_from(simt::device_profile("h100")));
            return hopper_backward(dout, q, k, v, out, lse, options, ours(how), dlse);
        },
    .bytes = {},
    .dtypes = {torch::kFloat16, torch::kBFloat16},
    .head_dims = {64, 128, 192, 256}};

/// The cases in 16 bits, one type and the other in turn.
std::vector<AttentionCase> taken(std::vector<AttentionCase> cases) {
    std::size_t n = 0;
    for (AttentionCase& problem : cases) {
        if (problem.dtype == torch::kFloat32) problem.dtype = n++ % 2 == 0 ? torch::kFloat16 : torch::kBFloat16;
    }
    return cases;
}

class HopperBackwardStandard : public ::testing::TestWithParam<AttentionCase> {};

TEST_P(HopperBackwardStandard, MatchesOracle) {
    if (can_run()) matches_oracle(kHopper, GetParam(), /*with_dlse=*/std::hash<std::string>()(GetParam().name) % 2);
}

INSTANTIATE_TEST_SUITE_P(Unmasked, HopperBackwardStandard, ::testing::ValuesIn(taken(every(6, standard_cases()))),
                         ByName{});
INSTANTIATE_TEST_SUITE_P(Causal, HopperBackwardStandard, ::testing::ValuesIn(taken(every(6, causal_cases()))),
                         ByName{});

// Each ring goes round, and three key tiles take turns.
TEST(HopperBackward, ManyTilesOfEverySizeMatchOracle) {
    if (can_run()) many_tiles_of_every_size_match_oracle(kHopper, 300, 270);
}

// Both kernels beyond 128, full and with columns that no head dimension fills; rows of 250 elements are copied first.
TEST(HopperBackward, WideHeadDimensionsMatchOracle) {
    if (!can_run()) return;
    for (const int64_t head_dim : {136, 192, 250, 256})
        matches_oracle(kHopper,
                       {.query_length = 150,
                        .key_length = 140,
                        .head_dim = head_dim,
                        .dtype = torch::kBFloat16,
                        .options = {.mask = Mask::causal_bottom_right}},
                       /*with_dlse=*/true);
}

// Nine key heads: where eight, four or two walk side by side, one is left.
TEST(HopperBackward, HeadsSideBySideMatchOracle) {
    if (!can_run()) return;
    for (const int64_t head_dim : {64, 136})
        for (const Mask mask : {Mask::none, Mask::causal_bottom_right})
            matches_oracle(kHopper,
                           {.batch = 3,
                            .query_heads = 3,
                            .kv_heads = 3,
                            .query_length = 40,
                            .key_length = 200,
                            .head_dim = head_dim,
                            .dtype = torch::kFloat16,
                            .options = {.mask = mask}},
                           /*with_dlse=*/false);
}

TEST(HopperBackward, GradientsWithStridesOfTheirOwnMatchOracle) {
    if (can_run()) gradients_with_strides_of_their_own_match_oracle(kHopper);
}

TEST(HopperBackward, RepeatsBitwise) {
    if (!can_run()) return;
    std::vector<AttentionCase> cases = every(4, taken(some_cases()));
    cases.push_back(
        {.query_heads = 2, .query_length = 150, .key_length = 500, .head_dim = 128, .dtype = torch::kFloat16});
    repeats_bitwise(kHopper, cases);
}

TEST(HopperBackward, RowsThatSeeNothingGetZero) {
    if (can_run()) rows_that_see_nothing_get_zero(kHopper);
}

TEST(HopperBackward, OneRowAloneReachesItsOwnDqOnly) {
    if (can_run()) one_row_alone_reaches_its_own_dq_only(kHopper);
}

TEST(HopperBackward, HiddenRowsReachNobody) {
    if (can_run()) hidden_rows_reach_nobody(kHopper);
}

TEST(HopperBackward, KeysOfNoWeightReachOnlyWhoSeesThem) {
    if (can_run()) keys_of_no_weight_reach_only_who_sees_them(kHopper);
}

TEST(HopperBackward, LargeScoresDoNotOverflow) {
    if (can_run()) large_scores_do_not_overflow(kHopper);
}

TEST(HopperBackward, RefusesBadInput) {
    if (can_run()) refuses_bad_input(kHopper);
}

TEST(HopperBackward, MovesWhatTheFormulaSays) {
    if (not_run_without_counters()) return;
    const simt::ScopedCpuDevice imitated(simt::device_from(simt::device_profile("h100")));
    for (const AttentionCase& problem : every(5, taken(some_cases())))
        for (const bool with_dlse : {false, true}) {
            if (problem.head_dim % 8 != 0) continue;  // what it copies to address it is not in the formula
            const BackwardInputs g = make_backward_inputs(problem, test_device());
            const BackwardOptions how{.gather = DqGather::atomics};
            const simt::LaunchLog log;
            call(kHopper, g, how.gather, with_dlse);
            const auto counted = log.total();
            const GlobalBytes stated = hopper_backward_bytes(g.q, g.k, g.v, g.options, how, with_dlse);
            EXPECT_EQ(counted.global_bytes_read(), stated.read) << problem;
            EXPECT_EQ(counted.global_bytes_written(), stated.written) << problem;
        }
}

TEST(HopperBackward, RefusesWhatOthersTakeAndNamesThem) {
    const torch::Tensor x = torch::randn({1, 1, 8, 16}).to(test_device()), lse = x.select(3, 0).contiguous();
    const simt::LaunchLog log;
    EXPECT_TRUE(throws_mentioning([&] { hopper_backward(x, x, x, x, x, lse); },
                                  {"hopper_backward", "q is Float", "float16 and bfloat16", "plain_backward"}));
    EXPECT_TRUE(throws_mentioning([&] { hopper_backward(x, x, x, x, x, lse, {}, {.gather = DqGather::second_pass}); },
                                  {"gather:", "no second pass", "in_order and atomics"}));
    if (!not_run_on_gpu("it imitates other devices")) {
        const simt::ScopedCpuDevice imitated(simt::device_from(simt::device_profile("rtx4090")));
        const torch::Tensor half = x.to(torch::kFloat16);
        EXPECT_TRUE(throws_mentioning([&] { hopper_backward(half, half, half, half, half, lse); },
                                      {"hopper_backward", "wgmma", "mma_backward", "--profile h100"}));
    }
    EXPECT_TRUE(log.records().empty());
}

// What stmatrix leaves of dS, and what each lane leaves of dQ, lies in different banks; so does what lanes look at
// where the mask hides something.
TEST(HopperBackward, TilesHaveNoBankConflicts) {
    if (not_run_on_gpu("the CPU machine counts wavefronts")) return;
    for (const int64_t head_dim : {64, 128, 192, 256}) {
        const BackwardInputs given = make_backward_inputs({.query_length = 128,
                                                           .key_length = 128,
                                                           .head_dim = head_dim,
                                                           .dtype = torch::kBFloat16,
                                                           .options = {.mask = Mask::causal_bottom_right}},
                                                          test_device());
        const simt::LaunchLog log;
        call(kHopper, given, DqGather::atomics);
        const simt::Counters counted = log.total();
        EXPECT_EQ(counted.shared_wavefronts, counted.shared_wavefronts_ideal) << "head dimension " << head_dim;
    }
}

}  // namespace
}  // namespace ladder
