#include "phase5_decoding/decode.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "common/attention/machine.h"
#include "common/attention/outputs.h"
#include "common/reference/checks.h"
#include "common/reference/test_device.h"
#include "common/simt/device/device.h"
#include "common/simt/report/launch_log.h"
#include "phase5_decoding/decode_test_cases.h"

namespace ladder {
namespace {

using namespace reference;

const PoisonOutputs poison_outputs;  // an element that is never written stays NaN

/// The kernel of decode.cuh, which takes everything.
AttentionEntry decode_with(std::optional<int64_t> splits, std::optional<torch::Tensor> kv_lengths = {}) {
    return
        [=](const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v, const AttentionOptions& options) {
            return flash_decode_plain(q, k, v, {.attention = options, .kv_lengths = kv_lengths, .splits = splits});
        };
}

class DecodeCases : public ::testing::TestWithParam<AttentionCase> {};

TEST_P(DecodeCases, MatchReference) { EXPECT_TRUE(matches_reference(decode_with({}), GetParam(), test_device())); }

INSTANTIATE_TEST_SUITE_P(Cases, DecodeCases, ::testing::ValuesIn(all_cases()), ByName{});

class DecodeLengths : public ::testing::TestWithParam<DecodeCase> {};

// matches_reference sets all keys and values beyond a sequence's length to NaN.
TEST_P(DecodeLengths, MatchReferenceWithAnySplits) {
    const auto check = [](std::optional<int64_t> splits, torch::ScalarType dtype) {
        const torch::Tensor kv_lengths = lengths_tensor(GetParam().lengths, dtype);
        EXPECT_TRUE(matches_reference(decode_with(splits, kv_lengths), GetParam().problem, test_device(), Lse::present,
                                      kv_lengths))
            << "splits " << splits.value_or(0);
    };
    check({}, torch::kInt64);
    for (const int64_t splits : {int64_t{1}, int64_t{2}, key_tiles(GetParam().problem.key_length)})
        check(splits, torch::kInt32);
}

INSTANTIATE_TEST_SUITE_P(Cases, DecodeLengths, ::testing::ValuesIn(decode_cases()), ByName{});

// Found by ./ladder fuzz --device cpu --seed 20261210 --problem 70576, when a score was one sum over all columns.
TEST(Decode, LongSumsKeepToTheBound) {
    const AttentionCase problem{.query_length = 9,
                                .key_length = 24,
                                .head_dim = 256,
                                .family = Family::falling_scores,
                                .options = {.mask = Mask::causal_bottom_right},
                                .seed = 901375};
    const torch::Tensor lengths = lengths_tensor({2});
    EXPECT_TRUE(matches_reference(decode_with({}, lengths), problem, test_device(), Lse::present, lengths));
}

TEST(Decode, EmptySequencesGiveZeroAndMinusInfinity) {
    const torch::Tensor q = torch::randn({3, 4, 1, 32}, test_device()),
                        k = torch::randn({3, 2, 500, 32}, test_device());
    for (const int64_t splits : {1, 4}) {
        const AttentionResult result =
            flash_decode(q, k, k, {.kv_lengths = lengths_tensor({500, 0, 0}), .splits = splits});
        EXPECT_TRUE(result.out[0].isfinite().all().item<bool>());
        EXPECT_TRUE(result.out[0].ne(0).any().item<bool>());
        EXPECT_TRUE(result.out.slice(0, 1).eq(0).all().item<bool>()) << "splits " << splits;
        EXPECT_TRUE(result.lse.slice(0, 1).eq(-kInf).all().item<bool>()) << "splits " << splits;
    }
}

TEST(Decode, LengthsMayHaveAnyStride) {
    const torch::Tensor q = torch::randn({2, 2, 1, 16}, test_device()),
                        k = torch::randn({2, 2, 200, 16}, test_device());
    const torch::Tensor apart = lengths_tensor({150, 7, 13, 9}).slice(0, 0, 4, 2);
    const AttentionResult strided = flash_decode(q, k, k, {.kv_lengths = apart}),
                          plain = flash_decode(q, k, k, {.kv_lengths = lengths_tensor({150, 13})});
    EXPECT_TRUE(strided.out.equal(plain.out));
    EXPECT_TRUE(strided.lse.equal(plain.lse));
}

// 1000 keys are 8 tiles: 3 and 7 splits are of unequal size, 8 are one tile each, of 40 most are empty.
TEST(Decode, SplitCountDoesNotChangeTheAnswer) {
    for (const auto family : {Family::normal, Family::scores_near_minus_1000, Family::one_huge_logit,
                              Family::falling_scores, Family::rising_scores, Family::offset_values})
        for (const int64_t splits : {1, 2, 3, 7, 8, 40}) {
            const AttentionCase problem{
                .query_heads = 4, .kv_heads = 2, .key_length = 1000, .head_dim = 32, .family = family, .seed = 5};
            EXPECT_TRUE(matches_reference(decode_with(splits), problem, test_device())) << "splits " << splits;
        }
}

// Near -1000 a log-sum-exp in float32 is off by up to 3e-5, and so is the weight of a split. Where every score is
// exact, as here, that is all the error there is (see decode.h).
TEST(Decode, RoundingOfLargeLogSumsIsAllThatSplittingAdds) {
    const AttentionCase problem{.query_length = 2,
                                .key_length = 172,
                                .head_dim = 3,
                                .family = Family::scores_near_minus_1000,
                                .options = {.scale = 0.125}};
    EXPECT_TRUE(matches_reference(decode_with(1), problem, test_device()));
    const auto [q, k, v] = make_inputs(problem, test_device());
    const AttentionResult whole = flash_decode(q, k, v, {.attention = problem.options, .splits = 1}),
                          split = flash_decode(q, k, v, {.attention = problem.options, .splits = 2});
    const double of_a_weight = 1000 * std::numeric_limits<float>::epsilon() / 2,
                 largest_value = v.abs().max().item<double>();
    EXPECT_LE((whole.out - split.out).abs().max().item<double>(), 2 * of_a_weight * largest_value);
}

TEST(Decode, RunsRepeatBitwise) {
    for (const auto& [name, problem, lengths] : decode_cases()) {
        const auto [q, k, v] = make_inputs(problem, test_device());
        const DecodeOptions options{.attention = problem.options,
                                    .kv_lengths = lengths_tensor(lengths),
                                    .splits = key_tiles(problem.key_length)};
        const AttentionResult first = flash_decode(q, k, v, options), second = flash_decode(q, k, v, options);
        EXPECT_TRUE(first.out.equal(second.out) && first.lse.equal(second.lse)) << name;
    }
}

TEST(Decode, LongCacheWithFewHeadsUsesSeveralSplits) {
    const AttentionCase problem{.key_length = 8192, .head_dim = 32, .seed = 11};
    const auto [q, k, v] = make_inputs(problem, test_device());
    EXPECT_GT(flash_decode_splits(q, k, v), 4);
    EXPECT_EQ(flash_decode_splits(q, k, v, {.splits = 3}), 3);
    EXPECT_EQ(flash_decode_splits(q, k, v, {.kv_lengths = lengths_tensor({100})}), 1) << "one tile of keys";
    EXPECT_TRUE(matches_reference(decode_with({}), problem, test_device()));
}

TEST(Decode, KeysInAnotherOrderGiveTheSameAnswer) {
    const AttentionCase problem{.query_heads = 4, .kv_heads = 2, .key_length = 700, .head_dim = 32, .seed = 4};
    const auto [q, k, v] = make_inputs(problem, test_device());
    const torch::Tensor order = torch::randperm(700, torch::kInt64).to(test_device());
    const AttentionResult result = flash_decode(q, k.index_select(2, order), v.index_select(2, order), {.splits = 4});
    const Comparison verdict = compare_attention(result, q, k, v);
    EXPECT_TRUE(verdict.passed) << verdict.report;
}

TEST(Decode, NeighboursInTheBatchDoNotMatter) {
    const torch::Tensor q = torch::randn({3, 4, 2, 24}, test_device()),
                        k = torch::randn({3, 2, 300, 24}, test_device());
    const AttentionResult whole = flash_decode(q, k, k, {.kv_lengths = lengths_tensor({300, 170, 0}), .splits = 2});
    const AttentionResult alone = flash_decode(q.slice(0, 1, 2), k.slice(0, 1, 2), k.slice(0, 1, 2),
                                               {.kv_lengths = lengths_tensor({170}), .splits = 2});
    EXPECT_TRUE(whole.out.slice(0, 1, 2).equal(alone.out)) << "a neighbour in the batch changed the answer";
}

TEST(Decode, NonFiniteInputsGiveWhatTheReferenceGives) {
    for (const float poison : {kInf, -kInf, kNaN})
        for (const int argument : {0, 1, 2})
            for (const int64_t splits : {1, 3})
                for (const Mask mask : {Mask::none, Mask::causal_bottom_right}) {
                    const torch::Tensor q = torch::rand({1, 2, 5, 16}) + 0.5, k = torch::rand({1, 2, 300, 16}) + 0.5,
                                        v = torch::rand({1, 2, 300, 16});
                    const torch::Tensor on_device[] = {q.to(test_device()), k.to(test_device()), v.to(test_device())};
                    // With the mask, the last key is seen by the last query alone.
                    on_device[argument][0][1][argument == 0 ? 3 : 299][7].fill_(poison);
                    const AttentionOptions options{.scale = {}, .mask = mask};
                    const AttentionResult result = flash_decode(on_device[0], on_device[1], on_device[2],
                                                                {.attention = options, .splits = splits});
                    const Comparison verdict =
                        compare_attention(result, on_device[0], on_device[1], on_device[2], options);
                    EXPECT_TRUE(verdict.passed)
                        << "argument " << argument << ", " << poison << ", splits " << splits << ": " << verdict.report;
                }
}

// One score is +inf, all others are so low that their exponentials are 0 even without a maximum to subtract.
TEST(Decode, InfiniteScoreGivesAnInfiniteLogSum) {
    for (const int64_t key : {5, 290})
        for (const int64_t splits : {1, 3}) {
            const torch::Tensor q = torch::ones({1, 1, 2, 16}, test_device()),
                                k = torch::full({1, 1, 300, 16}, -70.0, test_device());
            k[0][0][key].fill_(kInf);
            const torch::Tensor v = torch::randn({1, 1, 300, 16}, test_device());
            const AttentionResult result = flash_decode(q, k, v, {.splits = splits});
            const Comparison verdict = compare_attention(result, q, k, v);
            EXPECT_TRUE(verdict.passed) << "key " << key << ", splits " << splits << ": " << verdict.report;
            EXPECT_TRUE(result.lse.eq(kInf).all().item<bool>()) << result.lse;
        }
}

// Every score of query row 3 is -inf: softmax has no answer, and neither may the kernels invent one.
TEST(Decode, RowOfNegativeInfinitiesIsNaN) {
    const torch::Tensor q = torch::ones({1, 1, 8, 16}, test_device()), k = torch::ones({1, 1, 270, 16}, test_device());
    q[0][0][3].fill_(-kInf);
    for (const int64_t splits : {1, 2, 3}) {
        const AttentionResult result = flash_decode(q, k, k, {.splits = splits});
        EXPECT_TRUE(result.out[0][0][3].isnan().all().item<bool>()) << "splits " << splits;
        EXPECT_TRUE(result.out[0][0][4].isfinite().all().item<bool>()) << "splits " << splits;
        EXPECT_EQ(result.lse[0][0][3].item<float>(), -kInf) << "splits " << splits;
    }
}

// All keys of the first split score -inf. Its O is 0 / 0, but the second split has the whole of the sum.
TEST(Decode, SplitOfNegativeInfinitiesCountsForNothing) {
    const torch::Tensor q = torch::ones({1, 1, 1, 16}, test_device()), k = torch::ones({1, 1, 256, 16}, test_device());
    k.slice(2, 0, kKeyTile).fill_(-kInf);
    const torch::Tensor v = torch::randn({1, 1, 256, 16}, test_device());
    for (const int64_t splits : {1, 2}) {
        const Comparison verdict = compare_attention(flash_decode(q, k, v, {.splits = splits}), q, k, v);
        EXPECT_TRUE(verdict.passed) << "splits " << splits << ": " << verdict.report;
    }
}

TEST(Decode, RefusesBadInput) {
    for (const BadInput& bad : bad_inputs(test_device()))
        EXPECT_TRUE(
            throws_mentioning([&] { flash_decode(bad.q, bad.k, bad.v, {.attention = bad.options}); }, bad.mentions))
            << bad.name;
}

TEST(Decode, RefusesBadOptions) {
    const torch::Tensor q = torch::ones({2, 4, 1, 32}, test_device()), k = torch::ones({2, 2, 300, 32}, test_device());
    const auto refuses = [&](const DecodeOptions& options, const std::vector<std::string>& mentions) {
        const simt::LaunchLog log;
        const auto verdict = throws_mentioning([&] { flash_decode(q, k, k, options); }, mentions);
        EXPECT_TRUE(log.records().empty()) << "something was launched";
        EXPECT_TRUE(throws_mentioning([&] { flash_decode_bytes(q, k, k, options); }, mentions));
        return verdict;
    };
    const auto lengths = [](torch::Tensor tensor) { return DecodeOptions{.kv_lengths = std::move(tensor)}; };
    EXPECT_TRUE(refuses({.attention = {.scale = {}, .mask = Mask::causal_top_left}}, {"mask:", "causal_top_left"}));
    EXPECT_TRUE(refuses({.splits = 0}, {"splits:", "0", "1024"}));
    EXPECT_TRUE(refuses({.splits = -1}, {"splits:", "-1"}));
    EXPECT_TRUE(refuses({.splits = 1025}, {"splits:", "1025", "1024"}));
    EXPECT_TRUE(refuses({.splits = int64_t{1} << 32}, {"splits:", "4294967296"}));
    EXPECT_TRUE(refuses(lengths(torch::Tensor()), {"kv_lengths:", "undefined"}));
    EXPECT_TRUE(refuses(lengths(lengths_tensor({1, 2, 3})), {"kv_lengths:", "[3]", "[2]"}));
    EXPECT_TRUE(refuses(lengths(lengths_tensor({1, 2}).unsqueeze(0)), {"kv_lengths:", "[1, 2]", "[2]"}));
    EXPECT_TRUE(refuses(lengths(lengths_tensor({5})[0]), {"kv_lengths:", "[]", "[2]"}));
    EXPECT_TRUE(refuses(lengths(lengths_tensor({1, 2}, torch::kFloat32)), {"kv_lengths:", "Float", "int32"}));
    EXPECT_TRUE(refuses(lengths(lengths_tensor({1, 2}, torch::kInt16)), {"kv_lengths:", "Short", "int64"}));
    EXPECT_TRUE(refuses(lengths(lengths_tensor({5, -1})), {"kv_lengths:", "sequence 1", "-1", "300"}));
    EXPECT_TRUE(refuses(lengths(lengths_tensor({301, 0})), {"kv_lengths:", "sequence 0", "301", "300"}));
    EXPECT_TRUE(refuses(lengths(lengths_tensor({int64_t{1} << 32, 0}, torch::kInt64)), {"kv_lengths:", "4294967296"}));
    EXPECT_TRUE(refuses(lengths(lengths_tensor({1, 2}).to_sparse()), {"kv_lengths:", "Sparse"}));
    EXPECT_TRUE(refuses(lengths(lengths_tensor({1, 2}).to(torch::kMeta)), {"kv_lengths:", "meta"}));
    if (test_device().is_cuda()) {
        EXPECT_TRUE(refuses(lengths(lengths_tensor({1, 2}).cpu()), {"kv_lengths:", "cpu", "cuda"}));
    }
}

TEST(Decode, NextCallWorksAfterAnError) {
    const AttentionCase fine = standard_cases().front();
    const auto [q, k, v] = make_inputs(fine, test_device());
    EXPECT_ANY_THROW(flash_decode(q, k.to(torch::kFloat64), v));
    EXPECT_ANY_THROW(flash_decode(q, k, v, {.splits = -99}));
    EXPECT_TRUE(matches_reference(decode_with({}), fine, test_device()));
}

TEST(Decode, DeviceWithTooLittleSharedMemoryIsNamed) {
    if (not_run_on_gpu("only the CPU machine can imitate such a device")) return;
    const torch::Tensor q = torch::ones({1, 1, 1, 64}), k = torch::ones({1, 1, 9, 64});
    {
        simt::Device small = simt::cpu_device();
        small.name = "a small device";
        small.shared_bytes_per_block = small.shared_bytes_per_block_optin = 8192;
        const simt::ScopedCpuDevice imitated(small);
        EXPECT_TRUE(
            throws_mentioning([&] { flash_decode(q, k, k); },
                              {"decode_split_kernel", "18736 bytes of shared memory", "8192", "a small device"}));
    }
    EXPECT_NO_THROW(flash_decode(q, k, k));
}

// The formula that the tour prints on the GPU is what the CPU machine counts.
TEST(Decode, MovesWhatTheFormulaSays) {
    if (not_run_without_counters()) return;
    const auto check = [](const AttentionCase& problem, const DecodeOptions& options) {
        const auto [q, k, v] = make_inputs(problem, torch::kCPU);
        const simt::LaunchLog log;
        flash_decode_plain(q, k, v, options);
        const GlobalBytes expected = flash_decode_plain_bytes(q, k, v, options);
        EXPECT_EQ(log.total().global_bytes_read(), expected.read) << problem.name;
        EXPECT_EQ(log.total().global_bytes_written(), expected.written) << problem.name;
    };
    for (const AttentionCase& problem : every(8, all_cases()))
        if (problem.family == Family::normal && problem.query_length <= 65)
            check(problem, {.attention = problem.options});
    for (const auto& [name, problem, lengths] : decode_cases())
        for (const int64_t splits : {int64_t{1}, key_tiles(problem.key_length)})
            check(problem, {.attention = problem.options, .kv_lengths = lengths_tensor(lengths), .splits = splits});
}

// K and V are read once for all query heads of a group and all query tokens, as long as the rows fit one tile.
TEST(Decode, GroupsShareOnePassOverTheirKeys) {
    if (not_run_without_counters()) return;
    const int64_t keys = 500, head_dim = 64;
    const torch::Tensor k = torch::randn({2, 2, keys, head_dim});
    for (const auto& [group, queries] : {std::pair<int64_t, int64_t>{1, 1}, {2, 1}, {4, 1}, {8, 1}, {4, 4}, {16, 1}})
        for (const int64_t splits : {1, 4}) {
            const simt::LaunchLog log;
            flash_decode(torch::randn({2, 2 * group, queries, head_dim}), k, k, {.splits = splits});
            const simt::Counters counted = log.total();
            for (const char* tensor : {"K", "V"})
                EXPECT_EQ(traffic_of(counted, tensor).bytes_read, std::uint64_t(2 * 2 * keys * head_dim * 4))
                    << "group " << group << ", queries " << queries << ", splits " << splits;
        }
}

TEST(Decode, ReadsNoKeyBeyondALength) {
    if (not_run_without_counters()) return;
    const torch::Tensor q = torch::randn({3, 4, 1, 32}), k = torch::randn({3, 2, 4000, 32});
    const simt::LaunchLog log;
    flash_decode(q, k, k, {.kv_lengths = lengths_tensor({10, 0, 300}), .splits = 3});
    EXPECT_EQ(traffic_of(log.total(), "K").bytes_read, std::uint64_t(310 * 2 * 32 * 4));
}

}  // namespace
}  // namespace ladder
