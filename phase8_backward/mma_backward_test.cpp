#include "phase8_backward/mma_backward.h"

#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <string>

#include "common/attention/outputs.h"
#include "common/reference/checks.h"
#include "common/reference/gradient_cases.h"
#include "common/reference/test_device.h"
#include "common/simt/device/device.h"
#include "common/simt/report/launch_log.h"
#include "phase8_backward/backward_checks.h"

namespace ladder {
namespace {

using namespace reference;
using namespace backward_checks;

const PoisonOutputs poison_outputs;  // an element that is never written stays NaN

const Entry kMma{.call = mma_backward,
                 .bytes = mma_backward_bytes,
                 .dtypes = {torch::kFloat16, torch::kBFloat16},
                 .head_dims = {32, 64, 96, 128, 192, 250}};

/// A device for each budget of shared memory: 99, 163 and 227 KiB a block.
constexpr const char* kProfiles[] = {"rtx4090", "a100", "h100"};

/// The entry, where the CPU machine imitates that device; on a GPU the entry as it is.
Entry on_profile(const char* profile) {
    Entry entry = kMma;
    if (!test_device().is_cpu()) return entry;
    entry.call = [=](const auto&... argument) {
        const simt::ScopedCpuDevice imitated(simt::device_from(simt::device_profile(profile)));
        return mma_backward(argument...);
    };
    entry.bytes = [=](const auto&... argument) {
        const simt::ScopedCpuDevice imitated(simt::device_from(simt::device_profile(profile)));
        return mma_backward_bytes(argument...);
    };
    return entry;
}

/// The cases with 16-bit elements: float32 becomes one type and the other in turn, unless that is a case already.
std::vector<AttentionCase> in_16_bits(const std::vector<AttentionCase>& cases) {
    std::set<std::string> known;
    for (const AttentionCase& problem : cases) known.insert(problem.name);
    std::vector<AttentionCase> converted;
    std::size_t n = 0;
    for (AttentionCase problem : cases) {
        if (problem.dtype == torch::kFloat32) {
            problem.dtype = n++ % 2 == 0 ? torch::kFloat16 : torch::kBFloat16;
            problem.name = describe(problem);
            if (!known.insert(problem.name).second) continue;
        }
        converted.push_back(problem);
    }
    return converted;
}

class MmaBackwardStandard : public ::testing::TestWithParam<AttentionCase> {};

TEST_P(MmaBackwardStandard, MatchesOracle) {
    const std::size_t n = std::hash<std::string>()(GetParam().name);
    matches_oracle(on_profile(kProfiles[n / 2 % std::size(kProfiles)]), GetParam(), /*with_dlse=*/n % 2);
}

INSTANTIATE_TEST_SUITE_P(Unmasked, MmaBackwardStandard, ::testing::ValuesIn(in_16_bits(every(3, standard_cases()))),
                         ByName{});
INSTANTIATE_TEST_SUITE_P(Causal, MmaBackwardStandard, ::testing::ValuesIn(in_16_bits(every(3, causal_cases()))),
                         ByName{});

// Three steps and more of the loop over the queries, so that both stages are used again; and of that over the keys.
TEST(MmaBackward, ManyTilesOfEverySizeMatchOracle) {
    for (const char* profile : kProfiles) {
        SCOPED_TRACE(profile);
        many_tiles_of_every_size_match_oracle(on_profile(profile), 150, 165);
    }
}

TEST(MmaBackward, GradientsWithStridesOfTheirOwnMatchOracle) { gradients_with_strides_of_their_own_match_oracle(kMma); }

TEST(MmaBackward, RepeatsBitwise) { repeats_bitwise(kMma, in_16_bits(some_cases())); }

TEST(MmaBackward, RowsThatSeeNothingGetZero) { rows_that_see_nothing_get_zero(kMma); }

TEST(MmaBackward, OneRowAloneReachesItsOwnDqOnly) { one_row_alone_reaches_its_own_dq_only(kMma); }

TEST(MmaBackward, HiddenRowsReachNobody) {
    for (const char* profile : kProfiles) {
        SCOPED_TRACE(profile);
        hidden_rows_reach_nobody(on_profile(profile));
    }
}

TEST(MmaBackward, KeysOfNoWeightReachOnlyWhoSeesThem) { keys_of_no_weight_reach_only_who_sees_them(kMma); }

TEST(MmaBackward, LargeScoresDoNotOverflow) { large_scores_do_not_overflow(kMma); }

TEST(MmaBackward, MovesWhatTheFormulaSays) {
    for (const char* profile : kProfiles)
        moves_what_the_formula_says(on_profile(profile), every(5, in_16_bits(some_cases())));
}

TEST(MmaBackward, RefusesBadInput) { refuses_bad_input(kMma); }

TEST(MmaBackward, RefusesFloat32AndNamesWhatTakesIt) {
    const torch::Tensor x = torch::randn({1, 1, 8, 16}).to(test_device()), lse = x.select(3, 0).contiguous();
    const simt::LaunchLog log;
    EXPECT_TRUE(throws_mentioning([&] { mma_backward(x, x, x, x, x, lse); },
                                  {"mma_backward", "q is Float", "float16 and bfloat16", "plain_backward"}));
    EXPECT_TRUE(log.records().empty());
}

TEST(MmaBackward, LaunchesWhatItsNameSays) {
    if (not_run_on_gpu("it asks the CPU machine what was launched")) return;
    const auto kernels = [](DqGather gather) {
        const BackwardInputs given = make_backward_inputs(
            {.query_length = 5, .key_length = 7, .head_dim = 16, .dtype = torch::kFloat16}, test_device());
        const simt::LaunchLog log;
        call(kMma, given, gather);
        std::vector<std::string> names;
        for (const simt::LaunchRecord& record : log.records()) names.push_back(record.kernel);
        return names;
    };
    using Names = std::vector<std::string>;
    EXPECT_EQ(kernels(DqGather::second_pass), (Names{"mma_delta_kernel", "mma_dkdv_kernel", "mma_dq_kernel"}));
    EXPECT_EQ(kernels(DqGather::atomics), (Names{"mma_delta_kernel", "mma_dkdv_kernel", "mma_round_kernel"}));
}

TEST(MmaBackward, TakesTheTilesThatTheDeviceHasRoomFor) {
    if (not_run_on_gpu("it imitates other devices")) return;
    const auto shared_on = [](const char* profile, int64_t head_dim) {
        const BackwardInputs given = make_backward_inputs(
            {.query_length = 5, .key_length = 7, .head_dim = head_dim, .dtype = torch::kFloat16}, test_device());
        const simt::LaunchLog log;
        call(on_profile(profile), given, DqGather::second_pass);
        return log.records()[1].shared_bytes_per_block;
    };
    EXPECT_EQ(shared_on("rtx4090", 64), 97 * 1024u);
    EXPECT_EQ(shared_on("a100", 64), 162 * 1024u);
    EXPECT_EQ(shared_on("rtx4090", 128), 72 * 1024u + 512);
    EXPECT_EQ(shared_on("a100", 128), 161 * 1024u);
    EXPECT_EQ(shared_on("h100", 128), 177 * 1024u);
    EXPECT_EQ(shared_on("a100", 256), 136 * 1024u + 512);
    EXPECT_EQ(shared_on("h100", 256), 217 * 1024u);
}

// The eight rows that an ldmatrix reads at once, and what a warp stores at once, lie in different banks.
TEST(MmaBackward, TilesHaveNoBankConflicts) {
    if (not_run_on_gpu("the CPU machine counts wavefronts")) return;
    for (const char* profile : kProfiles)
        for (const int64_t head_dim : {32, 64, 96, 128, 192, 256}) {
            const BackwardInputs given = make_backward_inputs(
                {.query_length = 64, .key_length = 64, .head_dim = head_dim, .dtype = torch::kBFloat16}, test_device());
            for (const DqGather gather : kGathers) {
                const simt::LaunchLog log;
                call(on_profile(profile), given, gather);
                const simt::Counters counted = log.total();
                EXPECT_EQ(counted.shared_wavefronts, counted.shared_wavefronts_ideal)
                    << profile << ", head dimension " << head_dim << ", gather " << int(gather);
            }
        }
}

}  // namespace
}  // namespace ladder
