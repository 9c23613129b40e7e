#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <string>

#include "common/attention/outputs.h"
#include "common/reference/checks.h"
#include "common/reference/gradient_cases.h"
#include "common/reference/test_device.h"
#include "common/simt/device/device.h"
#include "common/simt/device/device_profile.h"
#include "common/simt/report/launch_log.h"
#include "phase8_backward/backward.h"
#include "phase8_backward/backward_checks.h"

// What tiled_backward() promises. On a GPU without room for its tiles there is nothing to run.

namespace ladder {
namespace {

using namespace reference;
using namespace backward_checks;

const PoisonOutputs poison_outputs;  // an element that is never written stays NaN

/// The entry, on an H100 where the CPU machine imitates something smaller.
const Entry kTiled{.call =
                       [](const auto&... argument) {
                           const simt::ScopedCpuDevice h100(simt::device_from(simt::device_profile("h100")));
                           return tiled_backward(argument...);
                       },
                   .bytes = tiled_backward_bytes,
                   .dtypes = {torch::kFloat32},
                   .head_dims = {32, 50, 64}};

/// The cases in float32, with as many columns as the kernel takes; each once.
std::vector<AttentionCase> that_fit(const std::vector<AttentionCase>& cases) {
    std::set<std::string> known;
    std::vector<AttentionCase> fitting;
    for (AttentionCase problem : cases) {
        problem.dtype = torch::kFloat32;
        problem.head_dim = std::min(problem.head_dim, kWidestTiledBackward);
        problem.name = describe(problem);
        if (known.insert(problem.name).second) fitting.push_back(problem);
    }
    return fitting;
}

class TiledBackwardStandard : public ::testing::TestWithParam<AttentionCase> {};

TEST_P(TiledBackwardStandard, MatchesOracle) {
    matches_oracle(kTiled, GetParam(), /*with_dlse=*/std::hash<std::string>()(GetParam().name) % 2);
}

INSTANTIATE_TEST_SUITE_P(Unmasked, TiledBackwardStandard, ::testing::ValuesIn(that_fit(every(3, standard_cases()))),
                         ByName{});
INSTANTIATE_TEST_SUITE_P(Causal, TiledBackwardStandard, ::testing::ValuesIn(that_fit(every(3, causal_cases()))),
                         ByName{});

// Three tiles of queries and of keys, the last of which are not full.
TEST(TiledBackward, ManyTilesOfEverySizeMatchOracle) { many_tiles_of_every_size_match_oracle(kTiled, 300, 333); }

TEST(TiledBackward, GradientsWithStridesOfTheirOwnMatchOracle) {
    gradients_with_strides_of_their_own_match_oracle(kTiled);
}

TEST(TiledBackward, RepeatsBitwise) { repeats_bitwise(kTiled, that_fit(some_cases())); }

TEST(TiledBackward, RowsThatSeeNothingGetZero) { rows_that_see_nothing_get_zero(kTiled); }

TEST(TiledBackward, OneRowAloneReachesItsOwnDqOnly) { one_row_alone_reaches_its_own_dq_only(kTiled); }

// A block of such keys makes no step, and so waits for no copies on the way.
TEST(TiledBackward, KeysThatNobodySeesGetZero) {
    const AttentionCase problem{.query_length = 1, .key_length = 129, .options = {.mask = Mask::causal_top_left}};
    matches_oracle(kTiled, problem, /*with_dlse=*/true);
}

TEST(TiledBackward, HiddenRowsReachNobody) { hidden_rows_reach_nobody(kTiled); }

TEST(TiledBackward, KeysOfNoWeightReachOnlyWhoSeesThem) { keys_of_no_weight_reach_only_who_sees_them(kTiled); }

TEST(TiledBackward, LargeScoresDoNotOverflow) { large_scores_do_not_overflow(kTiled); }

TEST(TiledBackward, MovesWhatTheFormulaSays) { moves_what_the_formula_says(kTiled, every(5, that_fit(some_cases()))); }

TEST(TiledBackward, RefusesBadInput) { refuses_bad_input(kTiled); }

TEST(TiledBackward, RefusesWhatItIsNotFor) {
    const auto refused = [](torch::ScalarType dtype, int64_t head_dim, const std::vector<std::string>& mentions) {
        const BackwardInputs given = make_backward_inputs(
            {.query_length = 5, .key_length = 7, .head_dim = head_dim, .dtype = dtype}, test_device());
        const simt::LaunchLog log;
        EXPECT_TRUE(throws_mentioning([&] { call(kTiled, given, DqGather::atomics); }, mentions));
        EXPECT_TRUE(log.records().empty());
    };
    refused(torch::kFloat16, 64, {"tiled_backward", "q is Half", "accepts float32"});
    refused(torch::kFloat32, 65, {"tiled_backward", "head dimension is 65", "accepts up to 64"});
}

TEST(TiledBackward, RefusesADeviceWithoutRoomForItsTiles) {
    if (not_run_on_gpu("it imitates other devices")) return;
    const BackwardInputs given =
        make_backward_inputs({.query_length = 5, .key_length = 7, .head_dim = 64}, test_device());
    const simt::ScopedCpuDevice a100(simt::device_from(simt::device_profile("a100")));
    const simt::LaunchLog log;
    EXPECT_TRUE(throws_mentioning(
        [&] { tiled_backward(given.dout, given.q, given.k, given.v, given.out, given.lse, given.options); },
        {"tiled_backward", "207872 bytes", "a smaller head dimension needs less"}));
    EXPECT_TRUE(log.records().empty());
}

TEST(TiledBackward, LaunchesWhatItsNameSays) {
    if (not_run_on_gpu("it asks the CPU machine what was launched")) return;
    const auto kernels = [](DqGather gather) {
        const BackwardInputs given =
            make_backward_inputs({.query_length = 5, .key_length = 7, .head_dim = 16}, test_device());
        const simt::LaunchLog log;
        call(kTiled, given, gather);
        std::vector<std::string> names;
        for (const simt::LaunchRecord& record : log.records()) names.push_back(record.kernel);
        return names;
    };
    using Names = std::vector<std::string>;
    EXPECT_EQ(kernels(DqGather::second_pass),
              (Names{"backward_delta_kernel", "backward_dkdv_tiled_kernel", "backward_dq_kernel"}));
    EXPECT_EQ(kernels(DqGather::atomics), (Names{"backward_delta_kernel", "backward_dkdv_tiled_kernel"}));
}

}  // namespace
}  // namespace ladder
