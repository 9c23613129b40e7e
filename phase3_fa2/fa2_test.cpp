#include "phase3_fa2/fa2.h"

#include <gtest/gtest.h>

#include "common/attention/outputs.h"
#include "common/reference/entry_checks.h"
#include "common/reference/register_tile_cases.h"
#include "common/reference/register_tile_checks.h"
#include "common/reference/test_device.h"
#include "common/simt/device/device.h"
#include "common/simt/report/launch_log.h"

namespace ladder {
namespace {

using namespace reference;

const PoisonOutputs poison_outputs;  // an element that is never written stays NaN

class Fa2Standard : public ::testing::TestWithParam<AttentionCase> {};

TEST_P(Fa2Standard, MatchesReference) { EXPECT_TRUE(matches_reference(fa2_plain_forward, GetParam(), test_device())); }

INSTANTIATE_TEST_SUITE_P(Cases, Fa2Standard, ::testing::ValuesIn(standard_cases()), ByName{});

TEST(Fa2, RefusesBadInput) {
    EXPECT_TRUE(refuses_bad_input(fa2_forward));
    EXPECT_TRUE(refuses_bad_input(fa2_forward_bytes));
}

TEST(Fa2, WorksAfterAnError) { EXPECT_TRUE(works_after_an_error(fa2_forward, standard_cases().front())); }

TEST(Fa2, RepeatsBitwise) { EXPECT_TRUE(repeats_bitwise(fa2_plain_forward, every(4, standard_cases()))); }

TEST(Fa2, AgreesOnNonFiniteInput) { EXPECT_TRUE(agrees_on_non_finite_input(fa2_plain_forward)); }

TEST(Fa2, RowOfNegativeInfinitiesIsNaN) { EXPECT_TRUE(row_of_negative_infinities_is_nan(fa2_plain_forward)); }

TEST(Fa2, IgnoresBatchNeighbours) { EXPECT_TRUE(ignores_batch_neighbours(fa2_plain_forward)); }

TEST(Fa2, IgnoresKeyOrder) { EXPECT_TRUE(ignores_key_order(fa2_plain_forward)); }

TEST(Fa2, MovesWhatTheFormulaSays) {
    EXPECT_TRUE(moves_what_the_formula_says(fa2_plain_forward, fa2_plain_bytes, every(8, standard_cases())));
}

// ---- The next step: fa2_tiled.cuh ---------------------------------------------------------------------------------

AttentionResult call_tiled(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                           const AttentionOptions& options) {
    return fa2_tiled_forward(q, k, v, options);
}

const AttentionEntry tiled = on_large_device(call_tiled);
const AttentionEntry large_tiles = on_one_multiprocessor(call_tiled);  // on a GPU the same

class Fa2TiledStandard : public ::testing::TestWithParam<AttentionCase> {};

TEST_P(Fa2TiledStandard, MatchesReference) {
    EXPECT_TRUE(matches_reference(tiled, GetParam(), test_device()));
    EXPECT_TRUE(matches_reference(large_tiles, GetParam(), test_device()));
}

INSTANTIATE_TEST_SUITE_P(Cases, Fa2TiledStandard, ::testing::ValuesIn(register_tile_cases(standard_cases())), ByName{});

TEST(Fa2Tiled, RepeatsBitwise) { EXPECT_TRUE(repeats_bitwise(tiled, register_tile_cases(every(4, standard_cases())))); }

TEST(Fa2Tiled, IgnoresBatchNeighbours) { EXPECT_TRUE(ignores_batch_neighbours(tiled)); }

TEST(Fa2Tiled, AgreesOnNonFiniteInput) {
    EXPECT_TRUE(agrees_on_non_finite_input(tiled, {.head_dims = register_tile_head_dims()}));
}

TEST(Fa2Tiled, RowOfNegativeInfinitiesIsNaN) {
    EXPECT_TRUE(row_of_negative_infinities_is_nan(tiled, {.head_dims = register_tile_head_dims()}));
}

TEST(Fa2Tiled, LargeScoresStayRight) {
    for (const int64_t head_dim : {64, 128})
        EXPECT_TRUE(large_scores_stay_right(tiled, head_dim, Mask::none, test_device()));
}

TEST(Fa2Tiled, OutliersSpareTheirNeighbours) {
    for (const int64_t head_dim : register_tile_head_dims())
        EXPECT_TRUE(outliers_spare_their_neighbours(tiled, head_dim, test_device()));
}

// Found by ./ladder fuzz --device cuda, seed 20261135, problem 1521, and seed 20261148, problem 2992.
TEST(Fa2Tiled, LongSumsKeepToTheBound) {
    const AttentionCase of_128{.batch = 2,
                               .query_length = 8,
                               .key_length = 95,
                               .head_dim = 128,
                               .family = Family::rising_scores,
                               .options = {.scale = 0.5},
                               .seed = 612055};
    const AttentionCase of_64{.batch = 3, .key_length = 387, .options = {.scale = 1.0}, .seed = 566956};
    for (const AttentionCase& problem : register_tile_cases({of_128, of_64}))
        EXPECT_TRUE(matches_reference(tiled, problem, test_device()));
}

TEST(Fa2Tiled, MovesWhatTheFormulaSays) {
    EXPECT_TRUE(moves_what_the_formula_says(tiled, fa2_tiled_bytes, register_tile_cases(every(8, standard_cases()))));
}

TEST(Fa2Tiled, RefusesWhatItCannotTake) {
    EXPECT_TRUE(refuses_bad_input(tiled));
    const auto message = [](const torch::Tensor& q) {
        try {
            tiled(q, q, q, {});
        } catch (const std::invalid_argument& error) {
            return std::string(error.what());
        }
        return std::string("nothing was thrown");
    };
    EXPECT_EQ(message(torch::ones({1, 1, 2, 64}).to(torch::kFloat16).to(test_device())),
              "fa2_tiled_forward: q is Half; accepts float32");
}

/// What a call of fa2_forward launches on an imitated device.
simt::LaunchRecord launch_on(const char* profile, int multiprocessors, const torch::Tensor& q) {
    simt::Device device = simt::device_from(simt::device_profile(profile));
    device.multiprocessors = multiprocessors;
    const simt::ScopedCpuDevice imitated(device);
    const simt::LaunchLog log;
    fa2_forward(q, q, q);
    return log.records()[0];
}

std::string kernel_on(const char* profile, int multiprocessors, const torch::Tensor& q) {
    return launch_on(profile, multiprocessors, q).kernel;
}

TEST(Fa2, TakesTheTiledKernelWhereItCan) {
    if (not_run_on_gpu("it imitates other devices")) return;
    const torch::Tensor q = torch::randn({1, 2, 129, 64});
    EXPECT_EQ(kernel_on("h100", 4, q), "fa2_tiled_kernel");
    EXPECT_EQ(kernel_on("rtx4090", 4, q), "fa2_tiled_kernel");
    EXPECT_EQ(kernel_on("rtx4090", 4, torch::randn({1, 2, 129, 128})),
              "fa2_forward_kernel");                           // too little shared memory
    EXPECT_EQ(kernel_on("v100", 4, q), "fa2_forward_kernel");  // no asynchronous copies
    EXPECT_EQ(kernel_on("h100", 4, q.to(torch::kFloat16)), "fa2_forward_kernel");
    EXPECT_EQ(kernel_on("h100", 4, torch::randn({1, 2, 129, 256})), "fa2_tiled_kernel");
}

TEST(Fa2Tiled, TakesLargeTilesWhereTheyKeepTheDeviceBusy) {
    if (not_run_on_gpu("it imitates other devices")) return;
    const auto rows_on = [](int multiprocessors, int64_t head_dim) {
        return 256 / int(launch_on("h100", multiprocessors, torch::randn({1, 3, 256, head_dim})).grid[0]);
    };
    for (const int64_t head_dim : {32, 64, 96, 128, 256}) {
        EXPECT_EQ(rows_on(6, head_dim), 128);  // two tiles of three heads
        EXPECT_EQ(rows_on(7, head_dim), 64);
    }
}

}  // namespace
}  // namespace ladder
