#include "phase8_backward/backward.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>

#include "common/attention/outputs.h"
#include "common/reference/checks.h"
#include "common/reference/gradient_cases.h"
#include "common/reference/test_device.h"
#include "common/simt/report/launch_log.h"
#include "phase8_backward/backward_checks.h"

namespace ladder {
namespace {

using namespace reference;
using namespace backward_checks;

const PoisonOutputs poison_outputs;  // an element that is never written stays NaN

const Entry kPlain{.call = plain_backward,
                   .bytes = plain_backward_bytes,
                   .dtypes = {torch::kFloat32, torch::kFloat16, torch::kBFloat16},
                   .head_dims = {32, 64, 128, 250}};

class BackwardStandard : public ::testing::TestWithParam<AttentionCase> {};

TEST_P(BackwardStandard, MatchesOracle) {
    matches_oracle(kPlain, GetParam(), /*with_dlse=*/std::hash<std::string>()(GetParam().name) % 2);
}

INSTANTIATE_TEST_SUITE_P(Unmasked, BackwardStandard, ::testing::ValuesIn(standard_cases()), ByName{});
INSTANTIATE_TEST_SUITE_P(Causal, BackwardStandard, ::testing::ValuesIn(causal_cases()), ByName{});

/// The example of README.md, whose every number is computed by hand there.
TEST(Backward, GivesTheExampleByHand) {
    const float ln3 = std::log(3.0f);
    const auto rows = [](float a, float b, float c, float d) {
        return at::tensor({a, b, c, d}).view({1, 1, 2, 2}).to(test_device());
    };
    const torch::Tensor q = rows(1, 0, 0, 0), k = rows(ln3, 0, 0, 1), v = rows(1, 0, 0, 2);
    const torch::Tensor out = rows(0.75f, 0.5f, 0.5f, 1), dout = rows(4, 8, 2, -2);
    const torch::Tensor lse = at::tensor({std::log(4.0f), std::log(2.0f)}).view({1, 1, 2}).to(test_device());
    const torch::Tensor dlse = at::tensor({4.0f, 0.0f}).view({1, 1, 2}).to(test_device());
    const auto near = [](const torch::Tensor& a, const torch::Tensor& b) { return at::allclose(a, b, 1e-5, 1e-5); };
    for (const DqGather gather : kGathers) {
        const BackwardOptions how{.gather = gather};
        const AttentionGradients result = plain_backward(dout, q, k, v, out, lse, {.scale = 1.0}, how);
        EXPECT_TRUE(near(result.dv, rows(4, 5, 2, 1)));
        EXPECT_TRUE(near(result.dq, rows(-2.25f * ln3, 2.25f, 1.5f * ln3, -1.5f)));
        EXPECT_TRUE(near(result.dk, rows(-2.25f, 0, 2.25f, 0)));
        const AttentionGradients with_lse = plain_backward(dout, q, k, v, out, lse, {.scale = 1.0}, how, dlse);
        EXPECT_TRUE(near(with_lse.dv, result.dv));
        EXPECT_TRUE(near(with_lse.dk, rows(0.75f, 0, 3.25f, 0)));
    }
}

/// What README.md says of 1024 queries and keys of one head, D = 64.
TEST(Backward, MovesWhatThePageSays) {
    const torch::Tensor x = at::empty({1, 1, 1024, 64});
    constexpr std::uint64_t kKiB = 1024;
    const GlobalBytes passes = plain_backward_bytes(x, x, x, {}, {.gather = DqGather::second_pass});
    EXPECT_EQ(passes.read, 18056 * kKiB);
    EXPECT_EQ(passes.written, 772 * kKiB);
    const GlobalBytes adding = plain_backward_bytes(x, x, x, {}, {.gather = DqGather::atomics});
    EXPECT_EQ(adding.read, 9344 * kKiB);
    EXPECT_EQ(adding.written, 4868 * kKiB);
}

TEST(Backward, ManyTilesOfEverySizeMatchOracle) { many_tiles_of_every_size_match_oracle(kPlain, 101, 135); }

TEST(Backward, GradientsWithStridesOfTheirOwnMatchOracle) { gradients_with_strides_of_their_own_match_oracle(kPlain); }

TEST(Backward, RepeatsBitwise) { repeats_bitwise(kPlain, some_cases()); }

TEST(Backward, RowsThatSeeNothingGetZero) { rows_that_see_nothing_get_zero(kPlain); }

TEST(Backward, OneRowAloneReachesItsOwnDqOnly) { one_row_alone_reaches_its_own_dq_only(kPlain); }

TEST(Backward, HiddenRowsReachNobody) { hidden_rows_reach_nobody(kPlain); }

TEST(Backward, KeysOfNoWeightReachOnlyWhoSeesThem) { keys_of_no_weight_reach_only_who_sees_them(kPlain); }

TEST(Backward, LargeScoresDoNotOverflow) { large_scores_do_not_overflow(kPlain); }

TEST(Backward, MovesWhatTheFormulaSays) { moves_what_the_formula_says(kPlain, every(5, some_cases())); }

TEST(Backward, RefusesBadInput) { refuses_bad_input(kPlain); }

TEST(Backward, LaunchesWhatItsNameSays) {
    if (not_run_on_gpu("it asks the CPU machine what was launched")) return;
    const auto kernels = [](torch::ScalarType dtype, DqGather gather) {
        AttentionCase problem{.query_length = 5, .key_length = 7, .head_dim = 16};
        problem.dtype = dtype;
        const BackwardInputs given = make_backward_inputs(problem, test_device());
        const simt::LaunchLog log;
        call(kPlain, given, gather);
        std::vector<std::string> names;
        for (const simt::LaunchRecord& record : log.records()) names.push_back(record.kernel);
        return names;
    };
    using Names = std::vector<std::string>;
    const Names two_passes{"backward_delta_kernel", "backward_dkdv_kernel", "backward_dq_kernel"};
    EXPECT_EQ(kernels(torch::kFloat32, DqGather::second_pass), two_passes);
    EXPECT_EQ(kernels(torch::kFloat16, DqGather::second_pass), two_passes);
    EXPECT_EQ(kernels(torch::kFloat32, DqGather::atomics), (Names{"backward_delta_kernel", "backward_dkdv_kernel"}));
    EXPECT_EQ(kernels(torch::kBFloat16, DqGather::atomics),
              (Names{"backward_delta_kernel", "backward_dkdv_kernel", "backward_round_kernel"}));
}

}  // namespace
}  // namespace ladder
