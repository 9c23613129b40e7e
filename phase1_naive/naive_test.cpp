#include "phase1_naive/naive.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "common/attention/machine.h"
#include "common/attention/outputs.h"
#include "common/reference/entry_checks.h"
#include "common/reference/test_device.h"
#include "common/simt/report/launch_log.h"
#include "common/simt/report/machine_error.h"

namespace ladder {
namespace {

using namespace reference;

const PoisonOutputs poison_outputs;  // an element that is never written stays NaN

using BlockedEntry = AttentionResult (*)(const torch::Tensor&, const torch::Tensor&, const torch::Tensor&,
                                         const AttentionOptions&, int64_t);

using BlockedBytes = GlobalBytes (*)(const torch::Tensor&, const torch::Tensor&, const torch::Tensor&,
                                     const AttentionOptions&, int64_t);

struct BlockedScheme {
    std::string name;
    Scheme scheme;
    BlockedEntry entry;
    BlockedBytes bytes;
};

const BlockedScheme kSchemes[] = {{"q_blocked_attention", Scheme::q_blocked, q_blocked_attention, q_blocked_bytes},
                                  {"qv_blocked_attention", Scheme::qv_blocked, qv_blocked_attention, qv_blocked_bytes}};

/// A scheme's entry or its formula, with the rows of a block fixed.
template <class Function>
auto with_rows(Function function, int64_t block_rows) {
    return [=](const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
               const AttentionOptions& options) { return function(q, k, v, options, block_rows); };
}

struct NamedEntry {
    std::string name;
    AttentionEntry entry;
    AttentionBytes bytes;
};

/// All entries of this phase as one list, for what must hold for each.
std::vector<NamedEntry> all_entries() {
    std::vector<NamedEntry> entries{{"standard_attention", standard_attention, standard_attention_bytes}};
    for (const BlockedScheme& scheme : kSchemes)
        entries.push_back(
            {scheme.name, with_rows(scheme.entry, kDefaultBlockRows), with_rows(scheme.bytes, kDefaultBlockRows)});
    return entries;
}

/// The blocked schemes hold whole rows of scores: 75 keys still fit the 48 KiB of the smallest device.
const EntryTraits kTraits{.key_lengths = {40, 75}};

simt::ElementType element_type(torch::ScalarType type) {
    return type == torch::kFloat32   ? simt::ElementType::f32
           : type == torch::kFloat16 ? simt::ElementType::f16
                                     : simt::ElementType::bf16;
}

BlockedShape shape_of(const AttentionCase& problem, Scheme scheme, int64_t block_rows) {
    return {
        .scheme = scheme, .type = element_type(problem.dtype), .head_dim = problem.head_dim, .block_rows = block_rows};
}

std::size_t optin_limit() { return std::size_t(device_limits(test_device()).shared_bytes_per_block_optin); }

/// A case that fits must match; one that does not must be refused, with all the numbers.
::testing::AssertionResult matches_or_is_refused(const BlockedScheme& scheme, const AttentionCase& problem,
                                                 int64_t block_rows) {
    const auto required = shared_need(shape_of(problem, scheme.scheme, block_rows), problem.key_length).total();
    const AttentionEntry entry = with_rows(scheme.entry, block_rows);
    if (required <= optin_limit()) return matches_reference(entry, problem, test_device());
    const auto [q, k, v] = make_inputs(problem, test_device());
    return throws_mentioning([&, &q = q, &k = k, &v = v] { entry(q, k, v, problem.options); },
                             {scheme.name, "required " + std::to_string(required),
                              "limit " + std::to_string(optin_limit()), device_limits(test_device()).name});
}

class NaiveStandard : public ::testing::TestWithParam<AttentionCase> {};

TEST_P(NaiveStandard, StandardMatchesReference) {
    EXPECT_TRUE(matches_reference(standard_attention, GetParam(), test_device()));
}

TEST_P(NaiveStandard, QBlockedMatchesReferenceOrIsRefused) {
    EXPECT_TRUE(matches_or_is_refused(kSchemes[0], GetParam(), kDefaultBlockRows));
}

TEST_P(NaiveStandard, QvBlockedMatchesReferenceOrIsRefused) {
    EXPECT_TRUE(matches_or_is_refused(kSchemes[1], GetParam(), kDefaultBlockRows));
}

TEST_P(NaiveStandard, FewerRowsABlockFitMoreCases) {
    for (const BlockedScheme& scheme : kSchemes) EXPECT_TRUE(matches_or_is_refused(scheme, GetParam(), 16));
}

INSTANTIATE_TEST_SUITE_P(Cases, NaiveStandard, ::testing::ValuesIn(standard_cases()), ByName{});

// If nearly everything were refused, the tests above would prove nothing.
TEST(Naive, NearlyAllStandardCasesFitTheSmallestModernDevice) {
    for (const BlockedScheme& scheme : kSchemes) {
        int refused = 0;
        for (const AttentionCase& problem : standard_cases())
            refused += shared_need(shape_of(problem, scheme.scheme, 16), problem.key_length).total() > 101376;
        EXPECT_LE(20 * refused, int(standard_cases().size())) << scheme.name;
    }
}

// With sums over all columns, or all keys, in one go (or two at a time) these were 1.16 and 1.13 times as far off as
// allowed, on a GPU. The CPU machine stayed within the bound.
// Found by ./ladder fuzz --seed 20261125 --problem 8752, and --seed 20261126 --problem 1279.
TEST(Naive, LongSumsAreTakenInParts) {
    EXPECT_TRUE(matches_reference(
        standard_attention,
        {.query_heads = 3, .key_length = 283, .head_dim = 248, .options = {.scale = -0.5}, .seed = 954438},
        test_device()));
    for (const BlockedScheme& scheme : kSchemes)
        EXPECT_TRUE(matches_or_is_refused(scheme,
                                          {.query_length = 3,
                                           .key_length = 245,
                                           .head_dim = 1,
                                           .family = Family::offset_values,
                                           .options = {.scale = 1e-6}},
                                          kDefaultBlockRows))
            << scheme.name;
}

// Scores are rounded to 16 bits. Were they sums in an order that depends on the key, equal keys would not all be
// rounded to the same side. Found by ./ladder fuzz --seed 20261127 --problem 3212.
TEST(Naive, EqualKeysGetEqualScores) {
    for (const BlockedScheme& scheme : kSchemes)
        EXPECT_TRUE(matches_or_is_refused(scheme,
                                          {.query_heads = 4,
                                           .kv_heads = 2,
                                           .query_length = 117,
                                           .key_length = 5,
                                           .head_dim = 191,
                                           .dtype = torch::kFloat16,
                                           .family = Family::equal_scores,
                                           .options = {.scale = -0.5},
                                           .seed = 357617},
                                          kDefaultBlockRows))
            << scheme.name;
}

// 512 threads are too few for all patches of O_i here, so that scheme B takes several passes over V.
TEST(Naive, AnyNumberOfRowsABlock) {
    for (const BlockedScheme& scheme : kSchemes)
        for (const auto& [block_rows, head_dim] :
             {std::pair{1, 33}, {3, 8}, {7, 20}, {130, 128}, {144, 127}, {1024, 8}}) {
            const AttentionCase problem{.name = scheme.name,
                                        .batch = 2,
                                        .query_heads = 2,
                                        .query_length = 150,
                                        .key_length = 34,
                                        .head_dim = head_dim,
                                        .dtype = torch::kFloat16};
            EXPECT_TRUE(matches_or_is_refused(scheme, problem, block_rows)) << block_rows << " rows";
            EXPECT_LE(shared_need(shape_of(problem, scheme.scheme, block_rows), 34).total(), optin_limit())
                << "this was meant to run";
        }
}

TEST(Naive, BlockRowsDoNotChangeTheAnswer) {
    const torch::Tensor q = torch::randn({1, 2, 70, 24}, test_device());
    for (const BlockedScheme& scheme : kSchemes) {
        const AttentionResult expected = scheme.entry(q, q, q, {}, 64);
        for (const int64_t block_rows : {8, 70, 100}) {
            const AttentionResult result = scheme.entry(q, q, q, {}, block_rows);
            EXPECT_TRUE(torch::allclose(result.out, expected.out, 1e-5, 1e-6)) << scheme.name << ", " << block_rows;
            EXPECT_TRUE(torch::allclose(result.lse, expected.lse, 1e-5, 1e-6)) << scheme.name << ", " << block_rows;
        }
    }
}

TEST(Naive, RefusesBadInput) {
    for (const auto& [name, entry, bytes] : all_entries()) {
        EXPECT_TRUE(refuses_bad_input(entry)) << name;
        EXPECT_TRUE(refuses_bad_input(bytes)) << name;
    }
}

TEST(Naive, RefusalOfMasksNamesThePhaseThatTakesThem) {
    const torch::Tensor q = torch::randn({1, 1, 4, 8}, test_device());
    for (const auto& [name, entry, bytes] : all_entries())
        EXPECT_TRUE(
            throws_mentioning([&, &entry = entry] { entry(q, q, q, {.scale = {}, .mask = Mask::causal_bottom_right}); },
                              {"mask", "causal_bottom_right", "phase 4"}))
            << name;
}

TEST(Naive, RefusesBadBlockRows) {
    const torch::Tensor q = torch::randn({1, 1, 4, 8}, test_device());
    const int64_t wraps_to_64 = (int64_t{1} << 32) + 64;
    for (const BlockedScheme& scheme : kSchemes)
        for (const int64_t rows : {int64_t{0}, int64_t{-1}, int64_t{1025}, wraps_to_64})
            EXPECT_TRUE(throws_mentioning([&] { scheme.entry(q, q, q, {}, rows); },
                                          {"block_rows", std::to_string(rows), "1 to 1024"}))
                << scheme.name;
    EXPECT_TRUE(throws_mentioning([&] { q_blocked_bytes(q, q, q, {}, 0); }, {"block_rows", "0"}));
    EXPECT_TRUE(throws_mentioning([&] { qv_blocked_bytes(q, q, q, {}, 0); }, {"block_rows", "0"}));
}

// 2^31 - 1024 rows of stride 0 take no memory themselves, but S would take 2^53 bytes.
TEST(Naive, SaysThatScoresDoNotFitMemory) {
    const torch::Tensor row = torch::randn({1, 1, 1, 1}, test_device()).to(torch::kFloat16);
    const torch::Tensor q = row.expand({1, 1, 1 << 21, 1}), k = row.expand({1, 1, (int64_t{1} << 31) - 1024, 1});
    EXPECT_TRUE(throws_mentioning([&] { standard_attention(q, k, k); },
                                  {"S and P", "2097152 x 2147482624", "no memory", "fa2_forward"}));
}

TEST(Naive, WorksAfterAnError) {
    for (const auto& [name, entry, bytes] : all_entries())
        EXPECT_TRUE(works_after_an_error(entry, standard_cases().front())) << name;
}

TEST(Naive, RepeatsBitwise) {
    std::vector<AttentionCase> cases = every(4, standard_cases());
    std::erase_if(cases, [](const AttentionCase& c) {
        return c.head_dim > 64 || c.key_length > 131 || work(c) > 300'000;  // what is left fits, and is quick
    });
    for (const auto& [name, entry, bytes] : all_entries()) EXPECT_TRUE(repeats_bitwise(entry, cases)) << name;
}

TEST(Naive, AgreesOnNonFiniteInput) {
    for (const auto& [name, entry, bytes] : all_entries())
        EXPECT_TRUE(agrees_on_non_finite_input(entry, kTraits)) << name;
}

TEST(Naive, RowOfNegativeInfinitiesIsNaN) {
    for (const auto& [name, entry, bytes] : all_entries())
        EXPECT_TRUE(row_of_negative_infinities_is_nan(entry, kTraits)) << name;
}

TEST(Naive, IgnoresBatchNeighbours) {
    for (const auto& [name, entry, bytes] : all_entries())
        EXPECT_TRUE(ignores_batch_neighbours(entry, kTraits)) << name;
}

TEST(Naive, IgnoresKeyOrder) {
    for (const auto& [name, entry, bytes] : all_entries()) EXPECT_TRUE(ignores_key_order(entry, kTraits)) << name;
}

TEST(Naive, SharedMemoryErrorSaysWhatWouldFit) {
    const simt::ScopedCpuDevice device(simt::device_from(simt::device_profile("rtx5060ti")));
    const torch::Tensor q = torch::zeros({1, 1, 256, 128}, torch::kFloat16);
    EXPECT_TRUE(throws_mentioning([&] { q_blocked_attention(q, q, q); },
                                  {"q_blocked_attention", "required 180224", "limit 101376", "RTX 5060 Ti",
                                   "block_rows = 64 fits N <= 132 keys", "N = 256 fits no block_rows"}));
    EXPECT_TRUE(
        throws_mentioning([&] { qv_blocked_attention(q, q, q); },
                          {"qv_blocked_attention", "required 122880", "limit 101376", "RTX 5060 Ti",
                           "block_rows = 64 fits N <= 200 keys", "N = 256 fits block_rows <= 36", "fa2_forward"}));
    // The advice is exact.
    EXPECT_NO_THROW(qv_blocked_attention(q, q, q, {}, 36));
    EXPECT_ANY_THROW(qv_blocked_attention(q, q, q, {}, 37));
    const torch::Tensor k = q.slice(2, 0, 132), one_more = q.slice(2, 0, 133);
    EXPECT_NO_THROW(q_blocked_attention(k, k, k));
    EXPECT_ANY_THROW(q_blocked_attention(one_more, one_more, one_more));
}

TEST(Naive, MovesWhatTheFormulasSay) {
    std::vector<AttentionCase> cases = every(8, standard_cases());
    std::erase_if(cases, [](const AttentionCase& c) {
        return c.family != Family::normal;  // the same shapes again: bytes do not depend on numbers
    });
    const AttentionCase several_passes{.query_heads = 2,
                                       .kv_heads = 2,
                                       .query_length = 150,
                                       .key_length = 34,
                                       .head_dim = 128,
                                       .dtype = torch::kFloat16};

    std::vector<AttentionCase> cases_and_several_passes = cases;
    cases_and_several_passes.push_back(several_passes);
    EXPECT_TRUE(moves_what_the_formula_says(standard_attention, standard_attention_bytes, cases_and_several_passes));
    for (const BlockedScheme& scheme : kSchemes) {
        const auto check = [&](std::vector<AttentionCase> problems, int64_t rows) {
            std::erase_if(problems, [&](const AttentionCase& c) {
                return shared_need(shape_of(c, scheme.scheme, rows), c.key_length).total() > optin_limit();
            });
            EXPECT_TRUE(
                moves_what_the_formula_says(with_rows(scheme.entry, rows), with_rows(scheme.bytes, rows), problems))
                << scheme.name << ", " << rows << " rows a block";
        };
        check(cases, 20);
        check({several_passes}, 140);
    }
}

simt::TensorTraffic traffic_of(const simt::LaunchLog& log, const std::string& tensor) {
    for (const simt::TensorTraffic& traffic : log.total().tensors)
        if (traffic.tensor == tensor) return traffic;
    return {};
}

// Standard attention writes and reads two N x N matrices; the blocked schemes never do.
TEST(Naive, TrafficOfScoresGrowsWithTheSquareOfTheLength) {
    if (not_run_without_counters()) return;
    const auto scores = [](int64_t length) {
        const torch::Tensor q = torch::randn({1, 1, length, 32});
        const simt::LaunchLog log;
        standard_attention(q, q, q);
        return std::pair(traffic_of(log, "S"), traffic_of(log, "P"));
    };
    const auto [s, p] = scores(96);
    EXPECT_EQ(s.bytes_written, 96u * 96 * 4);
    EXPECT_EQ(s.bytes_read, 3u * 96 * 96 * 4);
    EXPECT_EQ(p.bytes_written, 96u * 96 * 4);
    EXPECT_EQ(p.bytes_read, 96u * 96 * 4);
    const auto [s_twice, p_twice] = scores(192);
    EXPECT_EQ(s_twice.bytes_written, 4 * s.bytes_written);
    EXPECT_EQ(s_twice.bytes_read, 4 * s.bytes_read);
    EXPECT_EQ(p_twice.bytes_written, 4 * p.bytes_written);
    EXPECT_EQ(p_twice.bytes_read, 4 * p.bytes_read);

    const torch::Tensor q = torch::randn({1, 1, 96, 32});
    for (const BlockedScheme& scheme : kSchemes) {
        const simt::LaunchLog log;
        scheme.entry(q, q, q, {}, 64);
        EXPECT_EQ(log.total().tensors.size(), 5u) << scheme.name << ": Q, K, V, O and LSE, no S and no P";
    }
}

// However long the rows of K are: lanes that read one column of neighbouring keys do not wait for each other.
TEST(Naive, NeighbouringKeysLieInDifferentBanks) {
    if (not_run_without_counters()) return;
    for (const auto dtype : {torch::kFloat32, torch::kFloat16})
        for (const int64_t head_dim : {61, 62, 63, 64, 96, 128}) {
            const torch::Tensor q = torch::randn({1, 1, 64, head_dim}).to(dtype);
            const simt::LaunchLog log;
            q_blocked_attention(q, q, q, {}, 32);
            const simt::Counters counted = log.total();
            EXPECT_LT(double(counted.shared_wavefronts), 1.6 * double(counted.shared_wavefronts_ideal))
                << dtype << ", D " << head_dim;
        }
}

}  // namespace
}  // namespace ladder
