#include "phase6_tensor_cores/mma.h"

#include <gtest/gtest.h>

#include <iterator>
#include <limits>
#include <set>
#include <string>
#include <tuple>

#include "common/attention/outputs.h"
#include "common/reference/entry_checks.h"
#include "common/reference/test_device.h"
#include "common/simt/device/device.h"
#include "common/simt/report/launch_log.h"

namespace ladder {
namespace {

using namespace reference;

const PoisonOutputs poison_outputs;  // an element that is never written stays NaN

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

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

std::vector<AttentionCase> all_cases() {
    std::vector<AttentionCase> cases = in_16_bits(standard_cases());
    for (AttentionCase& problem : in_16_bits(causal_cases())) cases.push_back(std::move(problem));
    return cases;
}

constexpr Mask kMasks[] = {Mask::none, Mask::causal_bottom_right, Mask::causal_top_left};
const EntryTraits kTraits{.masks = {std::begin(kMasks), std::end(kMasks)},
                          .dtypes = {torch::kFloat16, torch::kBFloat16},
                          .key_lengths = {40, 75, 140},
                          .head_dims = {16, 64, 96}};

/// A device for each budget of shared memory: 99, 163 and 227 KiB a block.
constexpr const char* kProfiles[] = {"rtx4090", "a100", "h100"};

AttentionEntry on_profile(const char* profile) {
    return
        [=](const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v, const AttentionOptions& options) {
            const simt::ScopedCpuDevice imitated(simt::device_from(simt::device_profile(profile)));
            return mma_forward(q, k, v, options);
        };
}

class MmaCases : public ::testing::TestWithParam<AttentionCase> {};

TEST_P(MmaCases, PlainMatchesReference) {
    EXPECT_TRUE(matches_reference(mma_plain_forward, GetParam(), test_device()));
}

TEST_P(MmaCases, MatchesReference) {
    if (test_device().is_cuda()) {
        EXPECT_TRUE(matches_reference(mma_forward, GetParam(), test_device()));
        return;
    }
    for (const char* profile : kProfiles)
        EXPECT_TRUE(matches_reference(on_profile(profile), GetParam(), test_device())) << profile;
}

INSTANTIATE_TEST_SUITE_P(Unmasked, MmaCases, ::testing::ValuesIn(in_16_bits(standard_cases())), ByName{});
INSTANTIATE_TEST_SUITE_P(Masked, MmaCases, ::testing::ValuesIn(in_16_bits(causal_cases())), ByName{});

TEST(Mma, RepeatsBitwise) {
    EXPECT_TRUE(repeats_bitwise(mma_forward, every(4, all_cases())));
    EXPECT_TRUE(repeats_bitwise(mma_plain_forward, every(16, all_cases())));
}

TEST(Mma, MovesWhatTheFormulaSays) {
    EXPECT_TRUE(moves_what_the_formula_says(mma_forward, mma_forward_bytes, every(8, all_cases())));
    EXPECT_TRUE(moves_what_the_formula_says(mma_plain_forward, mma_plain_bytes, every(8, all_cases())));
}

TEST(Mma, RefusesBadInput) {
    EXPECT_TRUE(refuses_bad_input(mma_forward, kTraits));
    EXPECT_TRUE(refuses_bad_input(mma_forward_bytes, kTraits));
    EXPECT_TRUE(refuses_bad_input(mma_plain_forward, kTraits));
}

TEST(Mma, WorksAfterAnError) { EXPECT_TRUE(works_after_an_error(mma_forward, all_cases().back())); }

TEST(Mma, AgreesOnNonFiniteInput) {
    EXPECT_TRUE(agrees_on_non_finite_input(mma_forward, kTraits));
    EXPECT_TRUE(agrees_on_non_finite_input(mma_plain_forward, kTraits));
}

TEST(Mma, RowOfNegativeInfinitiesIsNaN) {
    EXPECT_TRUE(row_of_negative_infinities_is_nan(mma_forward, kTraits));
    EXPECT_TRUE(row_of_negative_infinities_is_nan(mma_plain_forward, kTraits));
}

TEST(Mma, IgnoresBatchNeighbours) {
    EXPECT_TRUE(ignores_batch_neighbours(mma_forward, kTraits));
    EXPECT_TRUE(ignores_batch_neighbours(mma_plain_forward, kTraits));
}

TEST(Mma, IgnoresKeyOrder) {
    EXPECT_TRUE(ignores_key_order(mma_forward, kTraits));
    EXPECT_TRUE(ignores_key_order(mma_plain_forward, kTraits));
}

// Scaling by a negative number turns the order of the scores round: the maximum must be taken afterwards. With 3 keys
// for 130 queries there are query tiles that see none, and whose rows of Q_i are multiplied and overwritten all the
// same.
TEST(Mma, AnyScaleUnderAnyMask) {
    for (const AttentionEntry& entry : {AttentionEntry(mma_forward), AttentionEntry(mma_plain_forward)})
        for (const Mask mask : kMasks)
            for (const double scale : {-2.0, -0.25, 0.0, 1e-3, 3.0})
                for (const auto& [queries, keys, family] : {std::tuple(70, 75, Family::normal),
                                                            {70, 75, Family::one_huge_logit},
                                                            {70, 75, Family::rising_scores},
                                                            {130, 3, Family::normal}})
                    EXPECT_TRUE(matches_reference(entry,
                                                  {.query_length = queries,
                                                   .key_length = keys,
                                                   .head_dim = 16,
                                                   .dtype = torch::kBFloat16,
                                                   .family = family,
                                                   .options = {.scale = scale, .mask = mask},
                                                   .seed = 7},
                                                  test_device()))
                        << "scale " << scale;
}

TEST(Mma, RefusesFloat32AndNamesWhatTakesIt) {
    const torch::Tensor q = torch::randn({1, 1, 8, 16}).to(test_device());
    EXPECT_TRUE(throws_mentioning([&] { mma_forward(q, q, q); }, {"mma_forward", "q is Float", "float16 and bfloat16",
                                                                  "fa2_forward", "causal_forward"}));
}

bool sees(Mask mask, int64_t i, int64_t j, int64_t queries, int64_t keys) {
    return mask == Mask::none || (mask == Mask::causal_top_left ? j <= i : j <= i + keys - queries);
}

// A key that a row does not see has no influence on any bit of it, whatever it holds: not even 0 * NaN, nor 0 * inf.
// Each problem has a third of all the ways to try it, such that every mask, length and head dimension has each of them.
TEST(Mma, WhatARowMayNotSeeNeverReachesIt) {
    for (const AttentionEntry& entry : {AttentionEntry(mma_forward), AttentionEntry(mma_plain_forward)}) {
        int row = 0;
        for (const Mask mask : {Mask::causal_bottom_right, Mask::causal_top_left})
            for (const auto& [queries, keys] : {std::pair<int64_t, int64_t>{70, 70}, {70, 90}, {90, 70}}) {
                int turn = row++;
                for (const auto& [head_dim, dtype] :
                     {std::pair{16, torch::kFloat16}, {64, torch::kBFloat16}, {96, torch::kFloat16}}) {
                    int tries = turn++;
                    const auto random = [&, dtype = dtype, head_dim = head_dim](int64_t length) {
                        return torch::randn({1, 1, length, head_dim}).to(dtype).to(test_device());
                    };
                    const AttentionOptions options{.scale = {}, .mask = mask};
                    const torch::Tensor q = random(queries), k = random(keys), v = random(keys);
                    const AttentionResult clean = entry(q, k, v, options);
                    for (const float poison : {kNaN, kInfinity, -kInfinity})
                        for (const int64_t key : {int64_t{0}, int64_t{1}, int64_t{33}, int64_t{64}, keys - 1})
                            for (const bool in_values : {false, true}) {
                                if (tries++ % 3 != 0) continue;
                                torch::Tensor k_bad = k.clone(), v_bad = v.clone();
                                (in_values ? v_bad : k_bad)[0][0][key].fill_(poison);
                                const AttentionResult result = entry(q, k_bad, v_bad, options);
                                int64_t blind = 0;
                                while (blind < queries && !sees(mask, blind, key, queries, keys)) ++blind;
                                EXPECT_TRUE(result.out.slice(2, 0, blind).equal(clean.out.slice(2, 0, blind)) &&
                                            result.lse.slice(2, 0, blind).equal(clean.lse.slice(2, 0, blind)))
                                    << poison << (in_values ? " in value " : " in key ") << key
                                    << " reached one of the " << blind << " rows that do not see it";
                                const Comparison verdict = compare_attention(result, q, k_bad, v_bad, options);
                                EXPECT_TRUE(verdict.passed) << poison << " at " << key << ": " << verdict.report;
                            }
                }
            }
    }
}

TEST(Mma, TakesTheTilesThatTheDeviceHasRoomFor) {
    if (not_run_on_gpu("it imitates other devices")) return;
    const auto shared_on = [](const char* profile, int64_t head_dim) {
        const torch::Tensor q = torch::randn({1, 1, 8, head_dim}).to(torch::kFloat16);
        const simt::ScopedCpuDevice imitated(simt::device_from(simt::device_profile(profile)));
        const simt::LaunchLog log;
        mma_forward(q, q, q);
        return log.records()[0].shared_bytes_per_block;
    };
    EXPECT_EQ(shared_on("rtx4090", 64), 48 * 1024u);
    EXPECT_EQ(shared_on("h100", 64), 80 * 1024u);
    EXPECT_EQ(shared_on("rtx4090", 128), 64 * 1024u);
    EXPECT_EQ(shared_on("a100", 128), 64 * 1024u);
    EXPECT_EQ(shared_on("h100", 128), 96 * 1024u);
    EXPECT_EQ(shared_on("rtx4090", 256), 96 * 1024u);
    EXPECT_EQ(shared_on("a100", 256), 160 * 1024u);
    EXPECT_EQ(shared_on("h100", 256), 192 * 1024u);
}

// Tiles behind which another full one comes are copied in another way: at each compiled head dimension, and where rows
// are narrower or not aligned, with a whole tile at the end and without.
TEST(Mma, ManyFullTiles) {
    for (const int64_t head_dim : {32, 64, 80, 96, 128, 192, 256})
        for (const auto& [key_length, mask] :
             {std::pair<int64_t, Mask>{384, Mask::none}, {397, Mask::none}, {390, Mask::causal_bottom_right}})
            for (const Layout layout : {Layout::contiguous, Layout::shifted}) {
                if (layout == Layout::shifted && (head_dim > 64 || mask != Mask::none)) continue;
                const AttentionCase problem{.query_length = 33,
                                            .key_length = key_length,
                                            .head_dim = head_dim,
                                            .dtype = head_dim % 64 ? torch::kBFloat16 : torch::kFloat16,
                                            .layouts = {Layout::contiguous, layout, layout},
                                            .options = {.scale = {}, .mask = mask},
                                            .seed = 21};
                const auto holds = [&](const AttentionEntry& entry, const char* where) {
                    EXPECT_TRUE(matches_reference(entry, problem, test_device()))
                        << where << ", head dimension " << head_dim << ", " << key_length << " keys";
                };
                if (test_device().is_cuda())
                    holds(mma_forward, "on the GPU");
                else
                    for (const char* profile : kProfiles) holds(on_profile(profile), profile);
            }
}

// The eight rows that an ldmatrix reads at once, and those that a store writes, lie in different banks.
TEST(Mma, SwizzledTilesHaveNoBankConflicts) {
    if (not_run_on_gpu("the CPU machine counts wavefronts")) return;
    for (const int64_t head_dim : {32, 64, 96, 128, 192, 256}) {
        const torch::Tensor q = torch::ones({1, 1, 64, head_dim}).to(torch::kFloat16);
        const auto counters_of = [&](const auto& entry) {
            const simt::LaunchLog log;
            entry(q, q, q, AttentionOptions{});
            return log.total();
        };
        const simt::Counters fast = counters_of(mma_forward), plain = counters_of(mma_plain_forward);
        EXPECT_EQ(fast.shared_wavefronts, fast.shared_wavefronts_ideal) << "head dimension " << head_dim;
        EXPECT_GT(plain.shared_wavefronts, plain.shared_wavefronts_ideal) << "head dimension " << head_dim;
    }
}

// So many keys that the heads do not all walk side by side; under this mask a single query sees only the first of them.
TEST(Mma, MoreHeadsThanL2Holds) {
    for (const int64_t heads : {3, 4, 5})
        EXPECT_TRUE(matches_reference(mma_forward,
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

}  // namespace
}  // namespace ladder
