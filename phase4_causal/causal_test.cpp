#include "phase4_causal/causal.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <gtest/gtest.h>

#include <iterator>
#include <limits>

#include "common/attention/check.h"
#include "common/attention/key_tiles.cuh"
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

constexpr Mask kMasks[] = {Mask::none, Mask::causal_bottom_right, Mask::causal_top_left};
constexpr Mask kCausalMasks[] = {Mask::causal_bottom_right, Mask::causal_top_left};
const EntryTraits kTraits{.masks = {std::begin(kMasks), std::end(kMasks)}};
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

/// The definition of the masks, as Mask has it.
bool sees(Mask mask, int64_t i, int64_t j, int64_t queries, int64_t keys) {
    return mask == Mask::none || (mask == Mask::causal_top_left ? j <= i : j <= i + keys - queries);
}

std::vector<AttentionCase> all_cases() {
    std::vector<AttentionCase> cases = standard_cases();
    for (AttentionCase& problem : causal_cases()) cases.push_back(std::move(problem));
    return cases;
}

AttentionOptions masked(Mask mask) { return {.scale = {}, .mask = mask}; }

torch::Tensor random(at::IntArrayRef sizes) { return torch::randn(sizes).to(test_device()); }

bool same_bits(const AttentionResult& a, const AttentionResult& b) { return a.out.equal(b.out) && a.lse.equal(b.lse); }

/// Rows [first, last) of a result.
AttentionResult rows(const AttentionResult& result, int64_t first, int64_t last) {
    return {result.out.slice(2, first, last), result.lse.slice(2, first, last)};
}

// ---- The stages, on their own -------------------------------------------------------------------------------------

struct StageProblem {
    Mask mask;
    int queries, keys, B_r, B_c;
};

/// Holds the boundaries for every query tile of a problem against looking at each (query, key) pair.
void check_stages(const StageProblem& p) {
    const auto [mask, queries, keys, B_r, B_c] = p;
    for (int first_query = 0; first_query < queries; first_query += B_r) {
        const cpu::KeyTiles tiles = cpu::key_tiles(mask, first_query, B_r, B_c, queries, keys);
        for (int tile = 0; tile * B_c < keys + 2 * B_c; ++tile) {
            int visible = 0, existing_rows = 0;
            for (int i = first_query; i < std::min(first_query + B_r, queries); ++i) {
                ++existing_rows;
                for (int j = tile * B_c; j < std::min((tile + 1) * B_c, keys); ++j)
                    visible += sees(mask, i, j, queries, keys);
            }
            const bool full = visible == existing_rows * B_c, empty = visible == 0;
            ASSERT_EQ(tile < tiles.full, full)
                << "mask " << int(mask) << " Sq " << queries << " Sk " << keys << " B_r " << B_r << " B_c " << B_c
                << " first query " << first_query << " key tile " << tile;
            ASSERT_EQ(tile >= tiles.visited, empty)
                << "mask " << int(mask) << " Sq " << queries << " Sk " << keys << " B_r " << B_r << " B_c " << B_c
                << " first query " << first_query << " key tile " << tile;
        }
    }
}

TEST(CausalStages, AgreeWithEveryPairOfQueryAndKey) {
    for (const Mask mask : kMasks)
        for (int queries = 1; queries <= 12; ++queries)
            for (int keys = 1; keys <= 12; ++keys)
                for (int B_r = 1; B_r <= 5; ++B_r)
                    for (int B_c = 1; B_c <= 5; ++B_c) check_stages({mask, queries, keys, B_r, B_c});
}

TEST(CausalStages, VisibleKeysAreAPrefix) {
    for (const Mask mask : kMasks)
        for (int queries = 1; queries <= 12; ++queries)
            for (int keys = 1; keys <= 12; ++keys)
                for (int i = 0; i < queries; ++i)
                    for (int j = 0; j < keys; ++j)
                        ASSERT_EQ(j < cpu::visible_keys(mask, i, queries, keys), sees(mask, i, j, queries, keys))
                            << "mask " << int(mask) << " Sq " << queries << " Sk " << keys << " i " << i << " j " << j;
}

TEST(CausalStages, LongestLengthsDoNotOverflow) {
    constexpr int longest = int(kMaxLength), B_r = 64, B_c = 64, tiles = (longest + B_c - 1) / B_c;
    constexpr int last = (longest - 1) / B_r * B_r;
    for (const Mask mask : kMasks) {
        EXPECT_EQ(cpu::key_tiles(mask, last, B_r, B_c, longest, longest).visited, tiles);
        EXPECT_EQ(cpu::visible_keys(mask, last + B_r - 1, longest, longest), longest);  // a row beyond the end
    }
    EXPECT_EQ(cpu::visible_keys(Mask::causal_bottom_right, 0, 1, longest), longest);
    EXPECT_EQ(cpu::visible_keys(Mask::causal_bottom_right, B_r - 1, 1, longest), longest);
    EXPECT_EQ(cpu::visible_keys(Mask::causal_bottom_right, 0, longest, 1), 0);
    EXPECT_EQ(cpu::visible_keys(Mask::causal_bottom_right, longest - 1, longest, 1), 1);
    EXPECT_EQ(cpu::visible_keys(Mask::causal_top_left, longest - 1, longest, 1), 1);
}

// ---- The kernel against the reference -----------------------------------------------------------------------------

class CausalCases : public ::testing::TestWithParam<AttentionCase> {};

TEST_P(CausalCases, MatchesReference) {
    EXPECT_TRUE(matches_reference(causal_plain_forward, GetParam(), test_device()));
}

INSTANTIATE_TEST_SUITE_P(Unmasked, CausalCases, ::testing::ValuesIn(standard_cases()), ByName{});
INSTANTIATE_TEST_SUITE_P(Masked, CausalCases, ::testing::ValuesIn(causal_cases()), ByName{});

// Scaling by a negative number turns the order of the scores round: the maximum must be taken afterwards.
TEST(Causal, AnyScaleUnderAnyMask) {
    for (const Mask mask : kMasks)
        for (const double scale : {-2.0, -0.25, 0.0, 1e-3, 3.0})
            for (const Family family : {Family::normal, Family::one_huge_logit, Family::rising_scores})
                EXPECT_TRUE(matches_reference(causal_plain_forward,
                                              {.query_length = 70,
                                               .key_length = 75,
                                               .head_dim = 16,
                                               .family = family,
                                               .options = {.scale = scale, .mask = mask},
                                               .seed = 7},
                                              test_device()))
                    << "scale " << scale;
}

// ---- What a mask means --------------------------------------------------------------------------------------------

TEST(Causal, AlignmentsAgreeExactlyWhenLengthsAreEqual) {
    for (const int64_t queries : {1, 2, 64, 65, 90})
        for (const int64_t keys : {1, 2, 64, 65, 90}) {
            const torch::Tensor q = random({1, 2, queries, 32}), k = random({1, 2, keys, 32}),
                                v = random({1, 2, keys, 32});
            const AttentionResult bottom_right = causal_plain_forward(q, k, v, masked(Mask::causal_bottom_right)),
                                  top_left = causal_plain_forward(q, k, v, masked(Mask::causal_top_left));
            EXPECT_EQ(same_bits(bottom_right, top_left), queries == keys) << "Sq " << queries << ", Sk " << keys;
        }
}

TEST(Causal, RowEqualsUnmaskedAttentionOverThePrefixThatItSees) {
    for (const Mask mask : kCausalMasks)
        for (const auto& [queries, keys] : {std::pair<int64_t, int64_t>{70, 70}, {40, 100}, {100, 40}}) {
            const torch::Tensor q = random({1, 1, queries, 64}), k = random({1, 1, keys, 64}),
                                v = random({1, 1, keys, 64});
            const AttentionResult whole = causal_plain_forward(q, k, v, masked(mask));
            for (int64_t i = 0; i < queries; ++i) {
                int64_t prefix = 0;
                while (prefix < keys && sees(mask, i, prefix, queries, keys)) ++prefix;
                if (prefix == 0) continue;  // see RowsThatSeeNoKey…
                const AttentionResult alone =
                    causal_plain_forward(q.slice(2, i, i + 1), k.slice(2, 0, prefix), v.slice(2, 0, prefix));
                const AttentionResult row = rows(whole, i, i + 1);
                EXPECT_TRUE(row.out.allclose(alone.out, 1e-5, 1e-6) && row.lse.allclose(alone.lse, 1e-5, 1e-6))
                    << "mask " << int(mask) << ", row " << i << " of " << queries << ", " << keys << " keys";
            }
        }
}

// Bottom-right with more queries than keys: the first Sq - Sk rows, whole query tiles among them, see nothing.
TEST(Causal, RowsThatSeeNoKeyAreZeroWithLogSumExpMinusInfinity) {
    for (const float fill : {1.0f, kInfinity, kNaN})
        for (const int64_t head_dim : {16, 128, 200}) {
            const torch::Tensor q = random({2, 2, 200, head_dim});
            const torch::Tensor k = torch::full({2, 1, 10, head_dim}, fill, q.options());
            const AttentionResult result = causal_plain_forward(q, k, k, masked(Mask::causal_bottom_right));
            EXPECT_TRUE(rows(result, 0, 190).out.eq(0.0).all().item<bool>()) << fill;
            EXPECT_TRUE(rows(result, 0, 190).lse.eq(-kInfinity).all().item<bool>()) << fill;
            EXPECT_EQ(rows(result, 190, 200).out.isfinite().all().item<bool>(), fill == 1.0f) << fill;
        }
}

/// A key that a row does not see has no influence on any bit of it, whatever it holds: not even 0 * NaN, nor 0 * inf.
/// Each problem has a third of all the ways to try it, such that every mask, length and head dimension has each of
/// them.
void what_a_row_may_not_see_never_reaches_it(const AttentionEntry& entry, const std::vector<int64_t>& head_dims) {
    int row = 0;
    for (const Mask mask : kCausalMasks)
        for (const auto& [queries, keys] : {std::pair<int64_t, int64_t>{70, 70}, {70, 90}, {90, 70}}) {
            int turn = row++;
            for (const int64_t head_dim : head_dims) {
                int tries = turn++;
                const torch::Tensor q = random({1, 1, queries, head_dim}), k = random({1, 1, keys, head_dim}),
                                    v = random({1, 1, keys, head_dim});
                const AttentionResult clean = entry(q, k, v, masked(mask));
                for (const float poison : {kNaN, kInfinity, -kInfinity})
                    for (const int64_t key : {int64_t{0}, int64_t{1}, int64_t{33}, int64_t{64}, keys - 1})
                        for (const bool in_values : {false, true}) {
                            if (tries++ % 3 != 0) continue;
                            torch::Tensor k_bad = k.clone(), v_bad = v.clone();
                            const torch::Tensor row = (in_values ? v_bad : k_bad)[0][0][key];
                            (tries % 2 ? row : row.narrow(0, tries % head_dim, 1)).fill_(poison);
                            const AttentionResult result = entry(q, k_bad, v_bad, masked(mask));
                            int64_t blind = 0;
                            while (blind < queries && !sees(mask, blind, key, queries, keys)) ++blind;
                            EXPECT_TRUE(same_bits(rows(result, 0, blind), rows(clean, 0, blind)))
                                << poison << (in_values ? " in value " : " in key ") << key << " reached one of the "
                                << blind << " rows that do not see it";
                            const Comparison verdict = compare_attention(result, q, k_bad, v_bad, masked(mask));
                            EXPECT_TRUE(verdict.passed) << poison << " at " << key << ": " << verdict.report;
                        }
            }
        }
}

TEST(Causal, WhatARowMayNotSeeNeverReachesIt) {
    what_a_row_may_not_see_never_reaches_it(causal_plain_forward, {16, 64});
}

// Top-left with more keys than queries: the last keys exist for nobody.
TEST(Causal, KeysThatNobodySeesChangeNothing) {
    const torch::Tensor q = random({1, 2, 45, 32}), k = random({1, 2, 300, 32}), v = random({1, 2, 300, 32});
    const AttentionOptions options = masked(Mask::causal_top_left);
    EXPECT_TRUE(same_bits(causal_plain_forward(q, k, v, options),
                          causal_plain_forward(q, k.slice(2, 0, 45), v.slice(2, 0, 45), options)));
}

// ---- What every entry promises ------------------------------------------------------------------------------------

TEST(Causal, RefusesBadInput) {
    EXPECT_TRUE(refuses_bad_input(causal_forward, kTraits));
    EXPECT_TRUE(refuses_bad_input(causal_forward_bytes, kTraits));
}

TEST(Causal, WorksAfterAnError) { EXPECT_TRUE(works_after_an_error(causal_forward, causal_cases().back())); }

TEST(Causal, RepeatsBitwise) { EXPECT_TRUE(repeats_bitwise(causal_plain_forward, every(4, all_cases()))); }

TEST(Causal, AgreesOnNonFiniteInput) { EXPECT_TRUE(agrees_on_non_finite_input(causal_plain_forward, kTraits)); }

TEST(Causal, RowOfNegativeInfinitiesIsNaN) {
    EXPECT_TRUE(row_of_negative_infinities_is_nan(causal_plain_forward, kTraits));
}

TEST(Causal, IgnoresBatchNeighbours) { EXPECT_TRUE(ignores_batch_neighbours(causal_plain_forward, kTraits)); }

TEST(Causal, IgnoresKeyOrder) { EXPECT_TRUE(ignores_key_order(causal_plain_forward, kTraits)); }

// The device at hand could run this; one with a byte less of shared memory could not.
TEST(Causal, SaysHowMuchSharedMemoryIsMissing) {
    const torch::Tensor q = torch::randn({1, 1, 8, 256});
    std::size_t required = 0;
    {
        const simt::LaunchLog log;
        causal_plain_forward(q, q, q);
        required = log.records().front().shared_bytes_per_block;
    }
    simt::Device device = simt::cpu_device();
    device.shared_bytes_per_block_optin = int(required);
    {
        const simt::ScopedCpuDevice enough(device);
        EXPECT_NO_THROW(causal_plain_forward(q, q, q));
    }
    device.shared_bytes_per_block_optin = int(required) - 1;
    {
        const simt::ScopedCpuDevice too_little(device);
        EXPECT_TRUE(throws_mentioning([&] { causal_plain_forward(q, q, q); },
                                      {"causal_forward", "required " + std::to_string(required),
                                       "limit " + std::to_string(required - 1), device.name}));
    }
    EXPECT_NO_THROW(causal_plain_forward(q, q, q));
}

// ---- Traffic ------------------------------------------------------------------------------------------------------

TEST(Causal, MovesWhatTheFormulaSays) {
    EXPECT_TRUE(moves_what_the_formula_says(causal_plain_forward, causal_plain_bytes, every(8, all_cases())));
}

std::uint64_t key_value_bytes_read(const torch::Tensor& q, Mask mask) {
    const simt::LaunchLog log;
    causal_plain_forward(q, q, q, masked(mask));
    std::uint64_t bytes = 0;
    for (const simt::TensorTraffic& tensor : log.total().tensors)
        if (tensor.tensor == "K" || tensor.tensor == "V") bytes += tensor.bytes_read;
    return bytes;
}

TEST(Causal, ReadsAboutHalfOfKeysAndValues) {
    if (not_run_without_counters()) return;
    const torch::Tensor q = torch::randn({1, 1, 1024, 32});
    const double unmasked = double(key_value_bytes_read(q, Mask::none));
    EXPECT_EQ(unmasked, 2.0 * 1024 * 32 * 4 * (1024 / 64));  // once per query tile
    for (const Mask mask : kCausalMasks) {
        const double ratio = double(key_value_bytes_read(q, mask)) / unmasked;
        EXPECT_GT(ratio, 0.5) << int(mask);
        EXPECT_LT(ratio, 0.6) << int(mask);
    }
}

// ---- The operator that Python sees --------------------------------------------------------------------------------

class CausalOperator : public ::testing::Test {
  protected:
    AttentionResult call(const std::string& mask) const {
        torch::jit::Stack stack{q, k, k, mask, c10::IValue()};
        op.callBoxed(&stack);
        return {stack[0].toTensor(), stack[1].toTensor()};
    }

    c10::OperatorHandle op = c10::Dispatcher::singleton().findSchemaOrThrow("flash_ladder::causal_forward", "");
    torch::Tensor q = random({1, 2, 20, 16}), k = random({1, 2, 33, 16});
};

TEST_F(CausalOperator, KnowsEveryMaskByName) {
    EXPECT_TRUE(same_bits(call("none"), causal_forward(q, k, k, masked(Mask::none))));
    EXPECT_TRUE(same_bits(call("causal_bottom_right"), causal_forward(q, k, k, masked(Mask::causal_bottom_right))));
    EXPECT_TRUE(same_bits(call("causal_top_left"), causal_forward(q, k, k, masked(Mask::causal_top_left))));
}

TEST_F(CausalOperator, MasksBottomRightByDefault) {
    const c10::Argument& mask = op.schema().arguments().at(3);
    EXPECT_EQ(mask.name(), "mask");
    ASSERT_TRUE(mask.default_value().has_value());
    EXPECT_EQ(mask.default_value()->toStringRef(), "causal_bottom_right");
}

TEST_F(CausalOperator, RefusesUnknownMaskNames) {
    for (const std::string name : {"", "causal", "Causal_top_left"})
        EXPECT_TRUE(throws_mentioning([&] { call(name); },
                                      {"mask:", '"' + name + '"', "none", "causal_bottom_right", "causal_top_left"}));
}

// ---- The next step: causal_tiled.cuh ------------------------------------------------------------------------------

AttentionResult call_tiled(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                           const AttentionOptions& options) {
    return causal_tiled_forward(q, k, v, options);
}

const AttentionEntry tiled = on_large_device(call_tiled);
const AttentionEntry large_tiles = on_one_multiprocessor(call_tiled);  // on a GPU the same

class CausalTiledStandard : public ::testing::TestWithParam<AttentionCase> {};

TEST_P(CausalTiledStandard, MatchesReference) {
    EXPECT_TRUE(matches_reference(tiled, GetParam(), test_device()));
    EXPECT_TRUE(matches_reference(large_tiles, GetParam(), test_device()));
}

INSTANTIATE_TEST_SUITE_P(Cases, CausalTiledStandard, ::testing::ValuesIn(register_tile_cases(all_cases())), ByName{});

// At 96 and 256 columns, short sequences under a mask have small tiles, so no standard case reaches large ones.
TEST(CausalTiled, LargeTilesOfManyKeys) {
    const int64_t heads = test_device().is_cpu() ? 1 : 200;  // enough blocks for a GPU of 400 multiprocessors
    for (const int64_t head_dim : {96, 256})
        for (const Mask mask : {Mask::causal_bottom_right, Mask::causal_top_left}) {
            const AttentionCase problem{.query_heads = heads,
                                        .kv_heads = heads,
                                        .query_length = 170,
                                        .key_length = 1030,
                                        .head_dim = head_dim,
                                        .options = {.mask = mask}};
            for (const AttentionCase& taken : register_tile_cases({problem}))
                EXPECT_TRUE(matches_reference(large_tiles, taken, test_device()));
        }
}

TEST(CausalTiled, RepeatsBitwise) {
    EXPECT_TRUE(repeats_bitwise(tiled, register_tile_cases(every(4, causal_cases()))));
}

TEST(CausalTiled, IgnoresBatchNeighbours) { EXPECT_TRUE(ignores_batch_neighbours(tiled, kTraits)); }

EntryTraits tiled_traits() { return {.masks = kTraits.masks, .head_dims = register_tile_head_dims()}; }

TEST(CausalTiled, AgreesOnNonFiniteInput) { EXPECT_TRUE(agrees_on_non_finite_input(tiled, tiled_traits())); }

TEST(CausalTiled, RowOfNegativeInfinitiesIsNaN) {
    EXPECT_TRUE(row_of_negative_infinities_is_nan(tiled, tiled_traits()));
}

TEST(CausalTiled, MovesWhatTheFormulaSays) {
    EXPECT_TRUE(moves_what_the_formula_says(tiled, causal_tiled_bytes, register_tile_cases(every(8, all_cases()))));
}

TEST(CausalTiled, WhatARowMayNotSeeNeverReachesIt) {
    what_a_row_may_not_see_never_reaches_it(tiled, register_tile_head_dims());
}

TEST(CausalTiled, LargeScoresStayRight) {
    for (const int64_t head_dim : {64, 128})
        EXPECT_TRUE(large_scores_stay_right(tiled, head_dim, Mask::causal_bottom_right, test_device()));
}

TEST(CausalTiled, HiddenKeysChangeNothing) {
    for (const int64_t head_dim : register_tile_head_dims())
        EXPECT_TRUE(hidden_keys_change_nothing(tiled, head_dim, test_device()));
}

TEST(CausalTiled, OutliersSpareTheirNeighbours) {
    for (const int64_t head_dim : register_tile_head_dims())
        EXPECT_TRUE(outliers_spare_their_neighbours(tiled, head_dim, test_device()));
}

// Found by ./ladder fuzz --device cuda --seed 20261147 --problem 3604.
TEST(CausalTiled, HiddenOutliersDoNotCount) {
    const AttentionCase found{
        .key_length = 17, .head_dim = 91, .family = Family::one_huge_logit, .options = {.mask = Mask::causal_top_left}};
    for (const AttentionCase& problem : register_tile_cases({found}))
        EXPECT_TRUE(matches_reference(tiled, problem, test_device()));
}

// Found by ./ladder fuzz --device cpu --seed 20261150 --problem 67001.
TEST(CausalTiled, ScoresFarBelowZeroKeepToTheBound) {
    const AttentionCase found{
        .query_length = 6, .key_length = 2, .head_dim = 45, .family = Family::scores_near_minus_1000, .seed = 4787};
    for (const AttentionCase& problem : register_tile_cases({found}))
        EXPECT_TRUE(matches_reference(tiled, problem, test_device()));
}

TEST(CausalTiled, RefusesBadInput) { EXPECT_TRUE(refuses_bad_input(tiled, kTraits)); }

TEST(Causal, TakesTheTiledKernelWhereItCan) {
    if (not_run_on_gpu("it imitates other devices")) return;
    const auto kernel_on = [](const char* profile, const torch::Tensor& q) {
        const simt::ScopedCpuDevice imitated(simt::device_from(simt::device_profile(profile)));
        const simt::LaunchLog log;
        causal_forward(q, q, q, masked(Mask::causal_bottom_right));
        return log.records()[0].kernel;
    };
    const torch::Tensor q = torch::randn({1, 2, 129, 64});
    EXPECT_EQ(kernel_on("h100", q), "causal_tiled_kernel");
    EXPECT_EQ(kernel_on("v100", q), "causal_forward_kernel");  // no asynchronous copies
    EXPECT_EQ(kernel_on("h100", q.to(torch::kFloat16)), "causal_forward_kernel");
}

}  // namespace
}  // namespace ladder
