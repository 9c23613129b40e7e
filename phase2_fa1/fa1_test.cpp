#include "phase2_fa1/fa1.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <limits>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/attention/machine.h"
#include "common/attention/outputs.h"
#include "common/reference/entry_checks.h"
#include "common/reference/register_tile_cases.h"
#include "common/reference/register_tile_checks.h"
#include "common/reference/test_device.h"
#include "common/simt/device/device_profile.h"
#include "common/simt/report/launch_log.h"

namespace ladder {
namespace {

using namespace reference;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr std::array kElementTypes{simt::ElementType::f32, simt::ElementType::f16, simt::ElementType::bf16};
constexpr std::array<int, 8> kHeadDims{1, 20, 32, 33, 64, 100, 128, 256};

const PoisonOutputs poison_outputs;  // an element that is never written stays NaN, and a step that reads it spreads it

int compiled_head_dim(int64_t head_dim) {
    return head_dim <= 32 ? 32 : head_dim <= 64 ? 64 : head_dim <= 128 ? 128 : 256;
}

/// Imitates the current device with another limit of shared memory per block.
simt::Device device_with_shared_memory(std::size_t bytes) {
    simt::Device device = simt::cpu_device();
    device.name = "device with " + std::to_string(bytes) + " bytes";
    device.shared_bytes_per_block = std::min(device.shared_bytes_per_block, int(bytes));
    device.shared_bytes_per_block_optin = int(bytes);
    return device;
}

/// What the smallest tiles need, eight rows and eight keys.
std::size_t least_shared_bytes(const torch::Tensor& q) {
    return fa1_shared_bytes(8, 8, compiled_head_dim(q.size(3)), int(q.element_size()));
}

/// Runs `function`, an entry or its formula, on a CPU machine that has room for the smallest tiles only.
template <class Function>
auto with_smallest_tiles(Function function) {
    return [function](const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                      const AttentionOptions& options) {
        const simt::ScopedCpuDevice device(device_with_shared_memory(least_shared_bytes(q)));
        return function(q, k, v, options);
    };
}

Fa1Tiles tiles_on_test_device(torch::ScalarType dtype, int64_t head_dim) {
    const torch::Tensor q = torch::empty({1, 1, 1, head_dim}, torch::TensorOptions().dtype(dtype));
    return fa1_tiles(device_limits(test_device()), tensor_argument("q", q).type, head_dim);
}

/// As many keys as make several steps, some of them past a step's boundary.
int64_t several_tiles(int64_t head_dim) { return 3 * tiles_on_test_device(torch::kFloat32, head_dim).B_c - 4; }

/// The device decides how many keys take several steps.
EntryTraits traits() { return {.key_lengths = {40, several_tiles(24)}}; }

class Fa1Standard : public ::testing::TestWithParam<AttentionCase> {};

TEST_P(Fa1Standard, MatchesReference) { EXPECT_TRUE(matches_reference(fa1_plain_forward, GetParam(), test_device())); }

// On a usual device most of these cases fit one key tile. Here every one of them takes a step for each eight keys, so
// O, l and m travel to global memory and back up to 32 times.
TEST_P(Fa1Standard, MatchesReferenceWithTheSmallestTiles) {
    if (not_run_on_gpu("a GPU's shared memory cannot be made smaller")) return;
    EXPECT_TRUE(matches_reference(with_smallest_tiles(fa1_plain_forward), GetParam(), torch::kCPU));
}

INSTANTIATE_TEST_SUITE_P(Cases, Fa1Standard, ::testing::ValuesIn(standard_cases()), ByName{});

// Several outer and inner steps with the tiles of the device at hand, a GPU's too; the last of each is ragged. At D 128
// a query tile may have more rows than the block's warps take at once.
TEST(Fa1, TakesMoreQueriesAndKeysThanATileHolds) {
    for (const auto dtype : {torch::kFloat32, torch::kFloat16, torch::kBFloat16})
        for (const Family family : {Family::normal, Family::rising_scores, Family::offset_values})
            for (const int64_t head_dim : {64, 128}) {
                const Fa1Tiles tiles = tiles_on_test_device(dtype, head_dim);
                const AttentionCase problem{.query_length = tiles.B_r + 5,
                                            .key_length = 2 * tiles.B_c + 3,
                                            .head_dim = head_dim,
                                            .dtype = dtype,
                                            .family = family};
                EXPECT_TRUE(matches_reference(fa1_plain_forward, problem, test_device()));
            }
}

TEST(Fa1Tiles, FollowAlgorithm1AndFitEveryDevice) {
    for (const simt::DeviceProfile& profile : simt::device_profiles())
        for (const simt::ElementType type : kElementTypes)
            for (const int head_dim : kHeadDims) {
                SCOPED_TRACE(testing::Message() << profile.name << ", " << int(simt::element_bytes(type))
                                                << "-byte elements, D " << head_dim);
                const Fa1Tiles tiles = fa1_tiles(device_from(profile), type, head_dim);
                const int d = compiled_head_dim(head_dim),
                          M = profile.shared_bytes_per_block_optin / int(simt::element_bytes(type));
                const int published = (M + 4 * d - 1) / (4 * d);
                EXPECT_LE(tiles.shared_bytes, std::size_t(profile.shared_bytes_per_block_optin));
                EXPECT_EQ(tiles.shared_bytes,
                          fa1_shared_bytes(tiles.B_r, tiles.B_c, d, int(simt::element_bytes(type))));
                EXPECT_EQ(tiles.B_r, std::min(tiles.B_c, d));
                EXPECT_EQ(tiles.B_c % 8, 0);
                EXPECT_GE(tiles.B_c, 8);
                EXPECT_LE(tiles.B_c, published);
                const int next = tiles.B_c + 8;
                EXPECT_TRUE(next > published ||
                            fa1_shared_bytes(std::min(next, d), next, d, int(simt::element_bytes(type))) >
                                std::size_t(profile.shared_bytes_per_block_optin))
                    << "a larger B_c would have fitted";
            }
}

TEST(Fa1Tiles, GrowWithSharedMemory) {
    std::vector<simt::Device> devices;
    for (const simt::DeviceProfile& profile : simt::device_profiles()) devices.push_back(device_from(profile));
    std::ranges::stable_sort(devices, {}, &simt::Device::shared_bytes_per_block_optin);
    for (const simt::ElementType type : kElementTypes)
        for (const int head_dim : kHeadDims) {
            for (std::size_t i = 1; i < devices.size(); ++i)
                EXPECT_LE(fa1_tiles(devices[i - 1], type, head_dim).B_c, fa1_tiles(devices[i], type, head_dim).B_c)
                    << devices[i - 1].name << " against " << devices[i].name << ", D " << head_dim;
            EXPECT_LT(3 * fa1_tiles(devices.front(), type, head_dim).B_c,
                      fa1_tiles(devices.back(), type, head_dim).B_c);
        }
}

TEST(Fa1Tiles, StaySaneAtTheExtremes) {
    const Fa1Tiles least = fa1_tiles(device_with_shared_memory(16), simt::ElementType::f32, 256);
    EXPECT_EQ(least.B_r, 8);
    EXPECT_EQ(least.B_c, 8);
    EXPECT_GT(least.shared_bytes, 16u);
    const Fa1Tiles most = fa1_tiles(device_with_shared_memory(64 << 20), simt::ElementType::f16, 32);
    EXPECT_EQ(most.B_r, 32);
    EXPECT_EQ(most.B_c, kFa1LargestB_c);
}

TEST(Fa1Tiles, OtherDevicesTakeOtherTilesAndGiveTheSameAnswer) {
    if (not_run_on_gpu("a GPU is only itself")) return;
    std::set<int> seen;
    for (const char* profile : {"gtx1080", "t4", "a100", "h100"}) {
        const simt::ScopedCpuDevice device(device_from(simt::device_profile(profile)));
        seen.insert(tiles_on_test_device(torch::kFloat32, 64).B_c);
        for (const auto dtype : {torch::kFloat32, torch::kFloat16, torch::kBFloat16})
            for (const int64_t head_dim : {32, 64, 128, 256}) {
                const AttentionCase problem{.query_heads = 2,
                                            .query_length = 37,
                                            .key_length = 131,
                                            .head_dim = head_dim,
                                            .dtype = dtype,
                                            .seed = uint64_t(head_dim)};
                EXPECT_TRUE(matches_reference(fa1_plain_forward, problem, torch::kCPU)) << profile;
            }
    }
    EXPECT_EQ(seen.size(), 4u) << "the devices did not differ in B_c";
}

TEST(Fa1, RefusesBadInput) {
    EXPECT_TRUE(refuses_bad_input(fa1_plain_forward));
    EXPECT_TRUE(refuses_bad_input(fa1_plain_bytes));
}

TEST(Fa1, WorksAfterAnError) { EXPECT_TRUE(works_after_an_error(fa1_plain_forward, standard_cases().front())); }

// One byte decides: at what the smallest tiles need the kernel runs, below that it is refused before any launch.
TEST(Fa1, RefusesADeviceWithTooLittleSharedMemory) {
    if (not_run_on_gpu("every GPU has enough for the smallest tiles")) return;
    for (const auto dtype : {torch::kFloat32, torch::kFloat16})
        for (const int64_t head_dim : {16, 64, 256}) {
            const AttentionCase problem{.query_length = 20, .key_length = 30, .head_dim = head_dim, .dtype = dtype};
            const auto [q, k, v] = make_inputs(problem, torch::kCPU);
            const std::size_t enough = least_shared_bytes(q);
            {
                const simt::ScopedCpuDevice device(device_with_shared_memory(enough - 1));
                const simt::LaunchLog log;
                EXPECT_TRUE(throws_mentioning([&, &q = q, &k = k, &v = v] { fa1_plain_forward(q, k, v); },
                                              {"required " + std::to_string(enough),
                                               "limit " + std::to_string(enough - 1), simt::cpu_device().name}));
                EXPECT_TRUE(log.records().empty());
            }
            const simt::ScopedCpuDevice device(device_with_shared_memory(enough));
            EXPECT_TRUE(matches_reference(fa1_plain_forward, problem, torch::kCPU));
        }
}

TEST(Fa1, RepeatsBitwise) { EXPECT_TRUE(repeats_bitwise(fa1_plain_forward, every(4, standard_cases()))); }

TEST(Fa1, IgnoresKeyOrder) { EXPECT_TRUE(ignores_key_order(fa1_plain_forward, traits())); }

TEST(Fa1, IgnoresBatchNeighbours) { EXPECT_TRUE(ignores_batch_neighbours(fa1_plain_forward, traits())); }

// Equal scores, so O is a running mean of V: 1 for the first 64 steps, a little less for the 64 that follow. Each of
// these moves the mean by less than half a unit in the last place of 16 bits. Rounded at each step, O would stay at 1.
TEST(Fa1, OutputWaitsInFloat32BetweenSteps) {
    if (not_run_on_gpu("needs small tiles")) return;
    for (const auto& [dtype, epsilon] : {std::pair{torch::kFloat16, 0x1p-10}, {torch::kBFloat16, 0x1p-7}}) {
        const auto options = torch::TensorOptions().dtype(dtype);
        const torch::Tensor q = torch::zeros({1, 1, 3, 32}, options), k = torch::ones({1, 1, 1024, 32}, options),
                            v = torch::ones({1, 1, 1024, 32}, options);
        v.slice(2, 512).fill_(1 - 12 * epsilon);
        const simt::ScopedCpuDevice device(device_with_shared_memory(least_shared_bytes(q)));
        const Comparison verdict = compare_attention(fa1_plain_forward(q, k, v), q, k, v);
        EXPECT_TRUE(verdict.passed) << verdict.report;
    }
}

TEST(Fa1, AgreesOnNonFiniteInput) { EXPECT_TRUE(agrees_on_non_finite_input(fa1_plain_forward, traits())); }

TEST(Fa1, RowOfNegativeInfinitiesIsNaN) { EXPECT_TRUE(row_of_negative_infinities_is_nan(fa1_plain_forward, traits())); }

// A row whose first tiles hold only scores of -inf has l_i = 0 there. To normalise by that would make it NaN for good,
// though the keys that follow give it a proper answer.
TEST(Fa1, TilesOfNegativeInfinitiesAreForgotten) {
    const int64_t keys = several_tiles(16), tile = tiles_on_test_device(torch::kFloat32, 16).B_c;
    for (const auto& [first, last] : {std::pair<int64_t, int64_t>{0, tile}, {0, 2 * tile}, {tile, 2 * tile}}) {
        const torch::Tensor q = torch::rand({1, 1, 9, 16}, test_device()) + 0.5,
                            k = torch::rand({1, 1, keys, 16}, test_device()) + 0.5,
                            v = torch::randn({1, 1, keys, 16}, test_device());
        k.slice(2, first, last).fill_(-kInfinity);
        const AttentionResult result = fa1_plain_forward(q, k, v);
        EXPECT_TRUE(result.out.isfinite().all().item<bool>()) << "keys " << first << " to " << last;
        const Comparison verdict = compare_attention(result, q, k, v);
        EXPECT_TRUE(verdict.passed) << "keys " << first << " to " << last << ": " << verdict.report;
    }
}

// For any tile sizes.
TEST(Fa1, MovesWhatTheFormulaSays) {
    EXPECT_TRUE(moves_what_the_formula_says(fa1_plain_forward, fa1_plain_bytes, every(8, standard_cases())));
    EXPECT_TRUE(moves_what_the_formula_says(with_smallest_tiles(fa1_plain_forward),
                                            with_smallest_tiles(fa1_plain_bytes), every(8, standard_cases())));
}

// What makes this Algorithm 1 and not FlashAttention-2: one block a head whatever the length, K and V read once, and
// O, l and m of every row carried through global memory between steps.
TEST(Fa1, LoopsOverKeysOutsideAndQueriesInside) {
    if (not_run_without_counters()) return;
    constexpr int64_t kQueries = 100, kKeys = 70, kHeadDim = 32, kBatch = 2, kHeads = 3, kSteps = (kKeys + 7) / 8;
    const AttentionCase problem{.batch = kBatch,
                                .query_heads = kHeads,
                                .kv_heads = kHeads,
                                .query_length = kQueries,
                                .key_length = kKeys,
                                .head_dim = kHeadDim,
                                .dtype = torch::kFloat16};
    const auto [q, k, v] = make_inputs(problem, torch::kCPU);
    const simt::ScopedCpuDevice device(device_with_shared_memory(least_shared_bytes(q)));
    const simt::LaunchLog log;
    fa1_plain_forward(q, k, v);
    ASSERT_EQ(log.records().size(), 1u);
    EXPECT_EQ(log.records()[0].grid, (std::array<unsigned, 3>{kHeads, kBatch, 1}));

    constexpr uint64_t kRows = kBatch * kHeads * kQueries;
    const simt::Counters counters = log.total();
    const auto expect_traffic = [&](const std::string& name, uint64_t read, uint64_t written) {
        const auto traffic = std::ranges::find(counters.tensors, name, &simt::TensorTraffic::tensor);
        ASSERT_NE(traffic, counters.tensors.end()) << name;
        EXPECT_EQ(traffic->bytes_read, read) << name;
        EXPECT_EQ(traffic->bytes_written, written) << name;
    };
    expect_traffic("K", kBatch * kHeads * kKeys * kHeadDim * 2, 0);
    expect_traffic("V", kBatch * kHeads * kKeys * kHeadDim * 2, 0);
    expect_traffic("Q", kSteps * kRows * kHeadDim * 2, 0);
    expect_traffic("O (float32)", (kSteps - 1) * kRows * kHeadDim * 4, (kSteps - 1) * kRows * kHeadDim * 4);
    expect_traffic("l", (kSteps - 1) * kRows * 4, (kSteps - 1) * kRows * 4);
    expect_traffic("m", (kSteps - 1) * kRows * 4, (kSteps - 1) * kRows * 4);
    expect_traffic("O", 0, kRows * kHeadDim * 2);
    expect_traffic("LSE", 0, kRows * 4);
}

// Theorem 2 of the paper: traffic grows as N^2 d^2 / M. The constant in front of it: per outer step a row of Q is read,
// a row of O is read and written.
TEST(Fa1, TrafficFallsAsSharedMemoryGrows) {
    if (not_run_on_gpu("a GPU has one size of shared memory")) return;
    constexpr int64_t kLength = 8192, kHeadDim = 64;
    const torch::Tensor rows = torch::empty({1, 1, kLength, kHeadDim});
    const auto bytes_on = [&](const char* profile) {
        const simt::ScopedCpuDevice device(device_from(simt::device_profile(profile)));
        const GlobalBytes bytes = fa1_plain_bytes(rows, rows, rows);
        const double scores = double(kLength) * kLength, B_c = tiles_on_test_device(torch::kFloat32, kHeadDim).B_c;
        EXPECT_NEAR(double(bytes.read + bytes.written) / (3 * scores * kHeadDim / B_c * sizeof(float)), 1, 0.05);
        return double(bytes.read + bytes.written);
    };
    const double small = bytes_on("gtx1080"), middle = bytes_on("v100"), large = bytes_on("h100");
    EXPECT_NEAR(small / middle, 96.0 / 48, 0.05);
    EXPECT_NEAR(middle / large, 227.0 / 96, 0.1);
    const double scores_and_probabilities_there_and_back = 4.0 * kLength * kLength * sizeof(float);
    EXPECT_LT(large, scores_and_probabilities_there_and_back / 4);
}

// ---- The next step: fa1_tiled.cuh ---------------------------------------------------------------------------------

constexpr std::size_t kTiledBytes = 173056;  // of a block, for D = 64

const AttentionEntry tiled = on_large_device([](const auto& q, const auto& k, const auto& v, const auto& options) {
    return fa1_tiled_forward(q, k, v, options);
});

/// A key tile of 64, whatever the device.
EntryTraits tiled_traits() {
    return {.key_lengths = {40, 3 * 64 - 4}, .head_dims = register_tile_head_dims(128, kTiledBytes)};
}

class Fa1TiledStandard : public ::testing::TestWithParam<AttentionCase> {};

TEST_P(Fa1TiledStandard, MatchesReference) { EXPECT_TRUE(matches_reference(tiled, GetParam(), test_device())); }

INSTANTIATE_TEST_SUITE_P(Cases, Fa1TiledStandard,
                         ::testing::ValuesIn(register_tile_cases(standard_cases(), 128, kTiledBytes)), ByName{});

// Several outer and inner steps, the last of each ragged; the last query tile has rows for some warps only.
TEST(Fa1Tiled, TakesMoreQueriesAndKeysThanATileHolds) {
    for (const Family family : {Family::normal, Family::rising_scores, Family::offset_values})
        for (const int64_t head_dim : {24, 64, 128}) {
            const AttentionCase problem{.query_length = head_dim > 64 ? 128 + 21 : 256 + 37,
                                        .key_length = 2 * 64 + 3,
                                        .head_dim = head_dim,
                                        .family = family};
            EXPECT_TRUE(matches_reference(tiled, problem, test_device())) << head_dim;
        }
}

TEST(Fa1Tiled, RepeatsBitwise) {
    EXPECT_TRUE(repeats_bitwise(tiled, register_tile_cases(every(4, standard_cases()), 128, kTiledBytes)));
}

TEST(Fa1Tiled, IgnoresKeyOrder) {
    EXPECT_TRUE(ignores_key_order(on_large_device([](const auto& q, const auto& k, const auto& v, const auto& options) {
                                      return fa1_forward(q, k, v, options);
                                  }),
                                  tiled_traits()));
}

TEST(Fa1Tiled, IgnoresBatchNeighbours) { EXPECT_TRUE(ignores_batch_neighbours(tiled, tiled_traits())); }

// Found by ./ladder fuzz --device cuda, seed 20261171, problem 2315, seed 20261173, problem 5779, seed 20261174,
// problem 9823, and --device cpu, seed 20261170, problem 59540.
TEST(Fa1Tiled, WeightsOfAllStepsAgree) {
    const AttentionCase found[] = {
        {.query_heads = 2, .kv_heads = 2, .query_length = 38, .key_length = 138, .head_dim = 16, .seed = 236603},
        {.query_length = 26, .key_length = 133, .seed = 892216},
        {.query_heads = 2, .query_length = 36, .key_length = 133, .head_dim = 16, .seed = 753281},
        {.query_length = 4, .key_length = 385, .head_dim = 2, .options = {.scale = 0.0625}, .seed = 690339}};
    for (AttentionCase problem : found) {
        problem.family = Family::scores_near_minus_1000;
        for (const AttentionCase& taken : register_tile_cases({problem}, 128, kTiledBytes))
            EXPECT_TRUE(matches_reference(tiled, taken, test_device()));
    }
}

TEST(Fa1Tiled, LargeScoresStayRight) {
    for (const int64_t head_dim : register_tile_head_dims(128, kTiledBytes))
        EXPECT_TRUE(large_scores_stay_right(tiled, head_dim, Mask::none, test_device()));
}

TEST(Fa1Tiled, OutliersSpareTheirNeighbours) {
    for (const int64_t head_dim : register_tile_head_dims(128, kTiledBytes))
        EXPECT_TRUE(outliers_spare_their_neighbours(tiled, head_dim, test_device()));
}

TEST(Fa1Tiled, AgreesOnNonFiniteInput) { EXPECT_TRUE(agrees_on_non_finite_input(tiled, tiled_traits())); }

TEST(Fa1Tiled, RowOfNegativeInfinitiesIsNaN) { EXPECT_TRUE(row_of_negative_infinities_is_nan(tiled, tiled_traits())); }

// As for the plain kernel: nothing to normalise by is not yet NaN.
TEST(Fa1Tiled, TilesOfNegativeInfinitiesAreForgotten) {
    for (const auto& [first, last] : {std::pair<int64_t, int64_t>{0, 64}, {0, 128}, {64, 128}}) {
        const torch::Tensor q = torch::rand({1, 1, 9, 16}, test_device()) + 0.5,
                            k = torch::rand({1, 1, 150, 16}, test_device()) + 0.5,
                            v = torch::randn({1, 1, 150, 16}, test_device());
        k.slice(2, first, last).fill_(-kInfinity);
        const AttentionResult result = tiled(q, k, v, {});
        EXPECT_TRUE(result.out.isfinite().all().item<bool>()) << "keys " << first << " to " << last;
        const Comparison verdict = compare_attention(result, q, k, v);
        EXPECT_TRUE(verdict.passed) << "keys " << first << " to " << last << ": " << verdict.report;
    }
}

TEST(Fa1Tiled, MovesWhatTheFormulaSays) {
    EXPECT_TRUE(moves_what_the_formula_says(tiled, fa1_tiled_bytes,
                                            register_tile_cases(every(8, standard_cases()), 128, kTiledBytes)));
}

// The same order of loops as fa1.cuh: one block a head, K and V once, O, l and m through global memory between steps.
TEST(Fa1Tiled, LoopsOverKeysOutsideAndQueriesInside) {
    if (not_run_without_counters()) return;
    constexpr int64_t kQueries = 300, kKeys = 150, kHeadDim = 32, kBatch = 2, kHeads = 3, kSteps = (kKeys + 63) / 64;
    const AttentionCase problem{.batch = kBatch,
                                .query_heads = kHeads,
                                .kv_heads = kHeads,
                                .query_length = kQueries,
                                .key_length = kKeys,
                                .head_dim = kHeadDim};
    const auto [q, k, v] = make_inputs(problem, torch::kCPU);
    const simt::LaunchLog log;
    tiled(q, k, v, {});
    ASSERT_EQ(log.records().size(), 1u);
    EXPECT_EQ(log.records()[0].grid, (std::array<unsigned, 3>{kHeads, kBatch, 1}));
    EXPECT_EQ(log.records()[0].counters.block_barriers, uint64_t(2 * kSteps * kHeads * kBatch));

    constexpr uint64_t kRows = kBatch * kHeads * kQueries;
    const simt::Counters counters = log.total();
    const auto expect_traffic = [&](const std::string& name, uint64_t read, uint64_t written) {
        const auto traffic = std::ranges::find(counters.tensors, name, &simt::TensorTraffic::tensor);
        ASSERT_NE(traffic, counters.tensors.end()) << name;
        EXPECT_EQ(traffic->bytes_read, read) << name;
        EXPECT_EQ(traffic->bytes_written, written) << name;
    };
    expect_traffic("K", kBatch * kHeads * kKeys * kHeadDim * 4, 0);
    expect_traffic("V", kBatch * kHeads * kKeys * kHeadDim * 4, 0);
    expect_traffic("Q", kSteps * kRows * kHeadDim * 4, 0);
    expect_traffic("O", (kSteps - 1) * kRows * kHeadDim * 4, kSteps * kRows * kHeadDim * 4);
    expect_traffic("l", (kSteps - 1) * kRows * 4, (kSteps - 1) * kRows * 4);
    expect_traffic("m", (kSteps - 1) * kRows * 4, (kSteps - 1) * kRows * 4);
    expect_traffic("LSE", 0, kRows * 4);
}

TEST(Fa1Tiled, RefusesWhatItCannotTake) {
    EXPECT_TRUE(refuses_bad_input(tiled));
    EXPECT_TRUE(refuses_bad_input(fa1_tiled_bytes));
    const auto message = [](const torch::Tensor& q) {
        try {
            tiled(q, q, q, {});
        } catch (const std::invalid_argument& error) {
            return std::string(error.what());
        }
        return std::string("nothing was thrown");
    };
    EXPECT_EQ(message(torch::ones({1, 1, 2, 64}).to(torch::kFloat16).to(test_device())),
              "fa1_tiled_forward: q is Half; accepts float32");
    EXPECT_EQ(message(torch::ones({1, 1, 2, 129}).to(test_device())),
              "fa1_tiled_forward: the head dimension is 129; accepts up to 128");
}

TEST(Fa1, TakesTheTiledKernelWhereItCan) {
    EXPECT_TRUE(refuses_bad_input(fa1_forward));
    EXPECT_TRUE(refuses_bad_input(fa1_forward_bytes));
    if (not_run_on_gpu("it imitates other devices")) return;
    const auto kernel_on = [](const char* profile, const torch::Tensor& q) {
        const simt::ScopedCpuDevice imitated(simt::device_from(simt::device_profile(profile)));
        const simt::LaunchLog log;
        EXPECT_TRUE(compare_attention(fa1_forward(q, q, q), q, q, q).passed) << profile;
        EXPECT_EQ(log.total().global_bytes_read(), log.records()[0].counted ? fa1_forward_bytes(q, q, q).read : 0);
        return log.records()[0].kernel;
    };
    const torch::Tensor q = torch::randn({1, 2, 33, 64});
    EXPECT_EQ(kernel_on("h100", q), "fa1_tiled_kernel");
    EXPECT_EQ(kernel_on("rtx4090", q), "fa1_forward_kernel");  // too little shared memory
    EXPECT_EQ(kernel_on("v100", q), "fa1_forward_kernel");     // no asynchronous copies
    EXPECT_EQ(kernel_on("h100", q.to(torch::kFloat16)), "fa1_forward_kernel");
    EXPECT_EQ(kernel_on("h100", torch::randn({1, 2, 33, 130})), "fa1_forward_kernel");
    EXPECT_EQ(kernel_on("a100", torch::randn({1, 2, 33, 32})), "fa1_tiled_kernel");
    EXPECT_EQ(kernel_on("a100", q), "fa1_forward_kernel");  // 166912 bytes are not enough at D = 64
}

}  // namespace
}  // namespace ladder
