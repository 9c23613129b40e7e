#include "phase5_decoding/decode.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "common/attention/allocate.h"
#include "common/attention/machine.h"
#include "common/reference/checks.h"
#include "common/reference/test_device.h"
#include "common/reference/wide_device.h"
#include "common/simt/device.h"
#include "common/simt/launch_log.h"
#include "common/simt/occupancy.h"
#include "phase5_decoding/split_plan.h"

namespace ladder {
namespace {

using namespace reference;

constexpr float kInf = std::numeric_limits<float>::infinity(), kNaN = std::numeric_limits<float>::quiet_NaN();

const PoisonOutputs poison_outputs;  // an element that is never written stays NaN

/// The kernel of decode.cuh, which takes everything.
AttentionEntry decode_with(std::optional<int64_t> splits, std::optional<torch::Tensor> kv_lengths = {}) {
    return
        [=](const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v, const AttentionOptions& options) {
            return flash_decode_plain(q, k, v, {.attention = options, .kv_lengths = kv_lengths, .splits = splits});
        };
}

torch::Tensor lengths_tensor(const std::vector<int64_t>& lengths, torch::ScalarType dtype = torch::kInt32) {
    return torch::tensor(lengths, torch::kInt64).to(test_device(), dtype);
}

int64_t key_tiles(int64_t keys) { return (keys + kKeyTile - 1) / kKeyTile; }

/// The standard and the causal cases that this phase takes.
std::vector<AttentionCase> all_cases() {
    std::vector<AttentionCase> cases = standard_cases();
    for (AttentionCase& problem : causal_cases())
        if (problem.options.mask == Mask::causal_bottom_right) cases.push_back(std::move(problem));
    return cases;
}

class DecodeCases : public ::testing::TestWithParam<AttentionCase> {};

TEST_P(DecodeCases, MatchReference) { EXPECT_TRUE(matches_reference(decode_with({}), GetParam(), test_device())); }

INSTANTIATE_TEST_SUITE_P(Cases, DecodeCases, ::testing::ValuesIn(all_cases()), ByName{});

/// What decoding looks like: one or a few query tokens, grouped heads, caches of several tiles, sequences of their own
/// lengths.
struct DecodeCase {
    std::string name;
    AttentionCase problem;
    std::vector<int64_t> lengths;
};

std::ostream& operator<<(std::ostream& stream, const DecodeCase& c) { return stream << c.name; }

std::vector<DecodeCase> decode_cases() {
    std::vector<DecodeCase> cases;
    const auto add = [&](AttentionCase problem, std::vector<int64_t> lengths) {
        problem.batch = int64_t(lengths.size());
        problem.seed = cases.size() + 1;
        std::string name = describe(problem) + "_lengths";
        for (const int64_t length : lengths) name += "_" + std::to_string(length);
        cases.push_back({std::move(name), std::move(problem), std::move(lengths)});
    };
    const auto bottom_right = AttentionOptions{.scale = {}, .mask = Mask::causal_bottom_right};
    for (const auto dtype : {torch::kFloat32, torch::kFloat16, torch::kBFloat16}) {
        add({.query_heads = 4, .kv_heads = 2, .key_length = 600, .head_dim = 32, .dtype = dtype},
            {0, 1, 31, 127, 128, 129, 600});
        add({.query_heads = 6, .kv_heads = 2, .query_length = 3, .key_length = 400, .head_dim = 64, .dtype = dtype},
            {400, 0, 257});
        add({.query_heads = 6,
             .kv_heads = 2,
             .query_length = 3,
             .key_length = 300,
             .head_dim = 40,
             .dtype = dtype,
             .options = bottom_right},
            {300, 0, 1, 2, 3, 129, 131});
        add({.query_heads = 2,
             .kv_heads = 1,
             .query_length = 9,
             .key_length = 270,
             .head_dim = 136,
             .dtype = dtype,
             .options = bottom_right},
            {270, 5, 133});
        add({.query_heads = 5,
             .kv_heads = 1,
             .key_length = 390,
             .head_dim = 24,
             .dtype = dtype,
             .family = Family::rising_scores,
             .layout = Layout::padded_rows},
            {390, 200});
        add({.query_heads = 8,
             .kv_heads = 2,
             .query_length = 2,
             .key_length = 390,
             .head_dim = 256,
             .dtype = dtype,
             .layout = Layout::bshd},
            {100, 390});
    }
    return cases;
}

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

const simt::TensorTraffic& traffic_of(const simt::Counters& counters, const std::string& tensor) {
    return *std::ranges::find(counters.tensors, tensor, &simt::TensorTraffic::tensor);
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
    for (const AttentionCase& problem : all_cases())
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

// ---- The next step: decode_pipelined.cuh ---------------------------------------------------------------------------

/// The same entry on an imitated device whose shared memory suffices for blocks of 4 warps, but not of 8.
AttentionEntry on_narrow_device(AttentionEntry entry) {
    return [entry = std::move(entry)](const auto& q, const auto& k, const auto& v, const AttentionOptions& options) {
        const simt::ScopedCpuDevice imitated(
            simt::device_from(simt::device_profile(q.size(3) > 128 ? "a100" : "rtx4090")));
        return entry(q, k, v, options);
    };
}

/// The pipelined kernel, with each number of warps that a block may have; on a GPU, with the number that suits it.
std::vector<AttentionEntry> pipelined_entries(std::optional<int64_t> splits,
                                              std::optional<torch::Tensor> kv_lengths = {}) {
    const AttentionEntry entry = [=](const auto& q, const auto& k, const auto& v, const AttentionOptions& options) {
        return flash_decode_pipelined(q, k, v, {.attention = options, .kv_lengths = kv_lengths, .splits = splits});
    };
    if (test_device().is_cuda()) return {entry};
    return {on_narrow_device(entry), on_wide_device(entry)};
}

/// Whether the test device can run the kernel; the CPU machine imitates one that can.
bool pipelined_runs(int64_t head_dim) {
    if (!test_device().is_cuda()) return true;
    const simt::Device device = device_limits(test_device());
    constexpr int for_256 = 115456, for_128 = 95232;  // bytes of a block of 4 warps; README.md has the sum
    return device.has_compute_capability(8, 0) &&
           device.shared_bytes_per_block_optin >= (head_dim > 128 ? for_256 : for_128);
}

/// The case as the pipelined kernel takes it, if it does: 16 bits, aligned rows, every row sees all keys.
std::optional<AttentionCase> pipelined_case(AttentionCase problem, std::size_t number) {
    if (problem.layout == Layout::padded_rows || !pipelined_runs(problem.head_dim)) return {};
    problem.head_dim = (problem.head_dim + 7) / 8 * 8;
    if (problem.query_length > 1) problem.options.mask = Mask::none;
    if (problem.dtype == torch::kFloat32) problem.dtype = number % 2 ? torch::kFloat16 : torch::kBFloat16;
    // A scale of 1 / 8 keeps exact scores exact, as standard_cases() has it for 16 bits.
    if (problem.head_dim == 40 && problem.family != Family::normal) problem.head_dim = 64;
    problem.name = "case_" + std::to_string(number) + "_" + describe(problem);
    return problem;
}

std::vector<AttentionCase> pipelined_cases() {
    std::vector<AttentionCase> cases;
    for (const AttentionCase& problem : all_cases())
        if (const auto taken = pipelined_case(problem, cases.size())) cases.push_back(*taken);
    return cases;
}

class PipelinedCases : public ::testing::TestWithParam<AttentionCase> {};

TEST_P(PipelinedCases, MatchReference) {
    const std::vector<AttentionEntry> entries = pipelined_entries({});  // in turn; those with lengths go through each
    EXPECT_TRUE(matches_reference(entries[GetParam().seed % entries.size()], GetParam(), test_device()));
}

INSTANTIATE_TEST_SUITE_P(Cases, PipelinedCases, ::testing::ValuesIn(pipelined_cases()), ByName{});

/// Decoding with lengths; a few rows, 16 and more; every head dimension that the kernel is compiled for, and some
/// between.
std::vector<DecodeCase> pipelined_decode_cases() {
    std::vector<DecodeCase> cases;
    for (const DecodeCase& known : decode_cases())
        if (const auto taken = pipelined_case(known.problem, cases.size()))
            cases.push_back({taken->name, *taken, known.lengths});
    const auto add = [&](AttentionCase problem, std::vector<int64_t> lengths) {
        problem.batch = int64_t(lengths.size());
        problem.seed = 100 + cases.size();
        cases.push_back({"more_" + std::to_string(cases.size()), std::move(problem), std::move(lengths)});
    };
    if (!pipelined_runs(128)) return cases;
    const auto bf16 = torch::kBFloat16;
    const auto bottom_right = AttentionOptions{.scale = {}, .mask = Mask::causal_bottom_right};
    add({.query_heads = 3, .kv_heads = 3, .key_length = 2100, .head_dim = 8, .dtype = bf16, .options = bottom_right},
        {2100, 15, 16, 17, 2063});
    add({.query_heads = 16, .kv_heads = 1, .key_length = 700, .head_dim = 128, .dtype = bf16}, {700, 641});
    add({.query_heads = 34, .kv_heads = 2, .key_length = 300, .head_dim = 72, .dtype = torch::kFloat16}, {300, 129, 0});
    add({.query_heads = 4, .kv_heads = 2, .query_length = 9, .key_length = 333, .head_dim = 64, .dtype = bf16},
        {333, 1});
    add({.query_heads = 9,
         .kv_heads = 1,
         .key_length = 1000,
         .head_dim = 32,
         .dtype = torch::kFloat16,
         .family = Family::one_huge_logit,
         .layout = Layout::bshd},
        {1000, 500});
    return cases;
}

class PipelinedLengths : public ::testing::TestWithParam<DecodeCase> {};

TEST_P(PipelinedLengths, MatchReferenceWithAnySplits) {
    const torch::Tensor kv_lengths = lengths_tensor(GetParam().lengths);
    for (const int64_t splits : {int64_t{0}, int64_t{1}, int64_t{3}, key_tiles(GetParam().problem.key_length)})
        for (const AttentionEntry& entry : pipelined_entries(splits ? std::optional(splits) : std::nullopt, kv_lengths))
            EXPECT_TRUE(matches_reference(entry, GetParam().problem, test_device(), Lse::present, kv_lengths))
                << "splits " << splits;
}

INSTANTIATE_TEST_SUITE_P(Cases, PipelinedLengths, ::testing::ValuesIn(pipelined_decode_cases()), ByName{});

TEST(Pipelined, RunsRepeatBitwise) {
    for (const auto& [name, problem, lengths] : pipelined_decode_cases()) {
        const auto [q, k, v] = make_inputs(problem, test_device());
        for (const AttentionEntry& entry : pipelined_entries(3, lengths_tensor(lengths))) {
            const AttentionResult first = entry(q, k, v, problem.options), second = entry(q, k, v, problem.options);
            EXPECT_TRUE(first.out.equal(second.out) && first.lse.equal(second.lse)) << name;
        }
    }
}

TEST(Pipelined, NonFiniteInputsGiveWhatTheReferenceGives) {
    if (!pipelined_runs(16)) GTEST_SKIP() << "the device has no asynchronous copies or too little shared memory";
    for (const float poison : {kInf, -kInf, kNaN})
        for (const int argument : {0, 1, 2})
            for (const int64_t splits : {1, 3}) {
                const auto bf16 = torch::kBFloat16;
                const torch::Tensor on_device[] = {(torch::rand({1, 2, 5, 16}) + 0.5).to(bf16).to(test_device()),
                                                   (torch::rand({1, 2, 300, 16}) + 0.5).to(bf16).to(test_device()),
                                                   torch::rand({1, 2, 300, 16}).to(bf16).to(test_device())};
                on_device[argument][0][1][argument == 0 ? 3 : 299][7].fill_(poison);
                for (const AttentionEntry& entry : pipelined_entries(splits)) {
                    const AttentionResult result = entry(on_device[0], on_device[1], on_device[2], {});
                    const Comparison verdict = compare_attention(result, on_device[0], on_device[1], on_device[2]);
                    EXPECT_TRUE(verdict.passed)
                        << "argument " << argument << ", " << poison << ", splits " << splits << ": " << verdict.report;
                }
            }
}

TEST(Pipelined, RowOfNegativeInfinitiesIsNaN) {
    if (!pipelined_runs(16)) GTEST_SKIP() << "the device has no asynchronous copies or too little shared memory";
    const auto f16 = at::TensorOptions().dtype(torch::kFloat16).device(test_device());
    const torch::Tensor q = torch::ones({1, 1, 8, 16}, f16), k = torch::ones({1, 1, 270, 16}, f16);
    q[0][0][3].fill_(-kInf);
    for (const int64_t splits : {1, 2, 3})
        for (const AttentionEntry& entry : pipelined_entries(splits)) {
            const AttentionResult result = entry(q, k, k, {});
            EXPECT_TRUE(result.out[0][0][3].isnan().all().item<bool>()) << "splits " << splits;
            EXPECT_TRUE(result.out[0][0][4].isfinite().all().item<bool>()) << "splits " << splits;
            EXPECT_EQ(result.lse[0][0][3].item<float>(), -kInf) << "splits " << splits;
        }
}

TEST(Pipelined, MovesWhatTheFormulaSays) {
    if (not_run_without_counters()) return;
    const simt::ScopedCpuDevice imitated(wide_device());
    for (const auto& [name, problem, lengths] : pipelined_decode_cases())
        for (const int64_t splits : {int64_t{1}, key_tiles(problem.key_length)}) {
            const auto [q, k, v] = make_inputs(problem, torch::kCPU);
            for (const bool with_lengths : {false, true}) {
                DecodeOptions options{.attention = problem.options, .splits = splits};
                if (with_lengths) options.kv_lengths = lengths_tensor(lengths);
                const simt::LaunchLog log;
                flash_decode_pipelined(q, k, v, options);
                const GlobalBytes expected = flash_decode_pipelined_bytes(q, k, v, options);
                EXPECT_EQ(log.total().global_bytes_read(), expected.read) << name;
                EXPECT_EQ(log.total().global_bytes_written(), expected.written) << name;
            }
        }
}

TEST(Pipelined, RefusesWhatItCannotTake) {
    for (const BadInput& bad : bad_inputs(test_device()))
        EXPECT_TRUE(throws_mentioning([&] { flash_decode_pipelined(bad.q, bad.k, bad.v, {.attention = bad.options}); },
                                      bad.mentions))
            << bad.name;
    const auto refuses = [](const torch::Tensor& q, const torch::Tensor& k, const DecodeOptions& options,
                            const std::vector<std::string>& mentions) {
        return throws_mentioning([&] { flash_decode_pipelined(q, k, k, options); }, mentions);
    };
    const auto half = [](at::IntArrayRef sizes) {
        return torch::ones(sizes, at::TensorOptions().dtype(torch::kFloat16).device(test_device()));
    };
    EXPECT_TRUE(refuses(torch::ones({1, 1, 1, 64}, test_device()), torch::ones({1, 1, 9, 64}, test_device()), {},
                        {"flash_decode_pipelined", "Float", "float16"}));
    EXPECT_TRUE(refuses(half({1, 1, 1, 60}), half({1, 1, 9, 60}), {}, {"flash_decode_pipelined", "16 bytes"}));
    EXPECT_TRUE(refuses(half({1, 1, 1, 8}), half({1, 1, 1, 8}).expand({1, 1, (int64_t{1} << 30) + 1, 8}), {},
                        {"flash_decode_pipelined", "1073741825 keys", "1073741824"}));
    EXPECT_TRUE(refuses(half({1, 1, 1, 64}), half({1, 1, 9, 72}).slice(3, 4, 68), {}, {"16 bytes"}));
    EXPECT_TRUE(refuses(half({1, 1, 2, 64}), half({1, 1, 9, 64}),
                        {.attention = {.scale = {}, .mask = Mask::causal_bottom_right}}, {"mask", "query tokens"}));
    if (not_run_on_gpu("it imitates other devices")) return;
    const auto on = [&](const char* profile, const std::vector<std::string>& mentions) {
        const simt::ScopedCpuDevice imitated(simt::device_from(simt::device_profile(profile)));
        return refuses(half({1, 1, 1, 256}), half({1, 1, 9, 256}), {}, mentions);
    };
    EXPECT_TRUE(on("v100", {"flash_decode_pipelined", "8.0"}));
    EXPECT_TRUE(on("rtx4090", {"flash_decode_pipelined", "shared memory"}));
}

TEST(Decode, TakesThePipelinedKernelWhereItCan) {
    if (not_run_on_gpu("it imitates other devices")) return;
    const auto kernel_on = [](const char* profile, const torch::Tensor& q, const torch::Tensor& k,
                              const AttentionOptions& options = {}) {
        const simt::ScopedCpuDevice imitated(simt::device_from(simt::device_profile(profile)));
        const simt::LaunchLog log;
        flash_decode(q, k, k, {.attention = options});
        const simt::LaunchRecord record = log.records()[0];
        return record.kernel + " " + std::to_string(record.block[0]);
    };
    const torch::Tensor q = torch::randn({1, 4, 1, 128}).to(torch::kBFloat16),
                        k = torch::randn({1, 2, 300, 128}).to(torch::kBFloat16);
    const AttentionOptions bottom_right{.scale = {}, .mask = Mask::causal_bottom_right};
    EXPECT_EQ(kernel_on("h100", q, k), "decode_pipelined_kernel 256");
    EXPECT_EQ(kernel_on("h100", q, k, bottom_right), "decode_pipelined_kernel 256");
    EXPECT_EQ(kernel_on("rtx4090", q, k), "decode_pipelined_kernel 128");
    EXPECT_EQ(kernel_on("v100", q, k), "decode_split_kernel 128");
    EXPECT_EQ(kernel_on("h100", q.to(torch::kFloat32), k.to(torch::kFloat32)), "decode_split_kernel 128");
    EXPECT_EQ(kernel_on("h100", q.slice(3, 0, 60), k.slice(3, 0, 60)), "decode_split_kernel 128");
    EXPECT_EQ(kernel_on("h100", torch::cat({q, q}, 2), k, bottom_right), "decode_split_kernel 128");
    EXPECT_EQ(kernel_on("rtx4090", torch::cat({q, q}, 3), torch::cat({k, k}, 3)), "decode_split_kernel 128");
}

// The plan counts the blocks that a multiprocessor holds at once, before there is a launch to ask.
TEST(Decode, CountsThePipelinedBlocksThatAMultiprocessorHolds) {
    if (not_run_on_gpu("it imitates other devices")) return;
    for (const char* profile : {"h100", "a100", "rtx4090"})
        for (const int64_t head_dim : {32, 64, 128, 256}) {
            const simt::DeviceProfile device = simt::device_profile(profile);
            const simt::ScopedCpuDevice imitated(simt::device_from(device));
            const torch::Tensor q = torch::randn({1, 1, 1, head_dim}).to(torch::kBFloat16),
                                k = torch::randn({1, 1, 128 * 1000, head_dim}).to(torch::kBFloat16);
            const simt::LaunchLog log;
            flash_decode(q, k.slice(2, 0, 128), k.slice(2, 0, 128));
            const simt::LaunchRecord record = log.records()[0];
            if (record.kernel != "decode_pipelined_kernel") continue;
            const int resident = simt::occupancy(device, {.threads = int(record.block[0]),
                                                          .shared_bytes = record.shared_bytes_per_block})
                                     .resident_blocks;
            EXPECT_EQ(
                flash_decode_splits(q, k, k),
                choose_splits({1, 1000, resident, kPipelinedBlockOverhead, kPipelinedSpeedAlone}, simt::cpu_device()))
                << profile << ", head dimension " << head_dim;
        }
}

}  // namespace
}  // namespace ladder
