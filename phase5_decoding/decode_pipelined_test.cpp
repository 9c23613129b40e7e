#include <gtest/gtest.h>

#include "common/attention/machine.h"
#include "common/attention/outputs.h"
#include "common/reference/checks.h"
#include "common/reference/large_device.h"
#include "common/reference/test_device.h"
#include "common/simt/device/device.h"
#include "common/simt/device/occupancy.h"
#include "common/simt/report/launch_log.h"
#include "phase5_decoding/decode.h"
#include "phase5_decoding/decode_test_cases.h"
#include "phase5_decoding/split_plan.h"

namespace ladder {
namespace {

using namespace reference;

const PoisonOutputs poison_outputs;  // an element that is never written stays NaN

/// The same entry on an imitated device whose shared memory, for D > 64, suffices for blocks of 4 warps but not of 8.
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
    return {on_narrow_device(entry), on_large_device(entry)};
}

/// Whether the test device can run the kernel; the CPU machine imitates one that can.
bool pipelined_runs(int64_t head_dim) {
    if (!test_device().is_cuda()) return true;
    const simt::Device device = device_limits(test_device());
    constexpr int for_256 = 115456, for_128 = 80000;  // bytes of a block of 4 warps; 8 need less than that for D <= 64
    return device.has_feature(simt::Feature::cp_async) && device.has_feature(simt::Feature::mma) &&
           device.shared_bytes_per_block_optin >= (head_dim > 128 ? for_256 : for_128);
}

/// For a test of nothing but the pipelined kernel: true on a GPU that cannot run it, and the test is listed as not run.
bool not_run_without_the_kernel() {
    return !pipelined_runs(16) &&
           not_run_on_gpu(
               "the device has no asynchronous copies, or too little shared memory for the pipelined kernel");
}

/// Of which a thread merges one column at a time, two or four.
std::vector<int64_t> pipelined_head_dims() {
    std::vector<int64_t> head_dims{16, 64, 128, 256};
    std::erase_if(head_dims, [](int64_t head_dim) { return !pipelined_runs(head_dim); });
    return head_dims;
}

/// The case as the pipelined kernel takes it, if it does: 16 bits, aligned rows, every row sees all keys.
std::optional<AttentionCase> pipelined_case(AttentionCase problem, std::size_t number) {
    if (!pipelined_runs(problem.head_dim)) return {};
    auto& [q, k, v] = problem.layouts;
    for (Layout* layout : {&q, &k, &v})
        if (!aligns_rows(*layout)) *layout = Layout::sliced_offset;
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
         .layouts = {.q = Layout::bshd, .k = Layout::bshd, .v = Layout::packed_qkv}},
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
    if (not_run_without_the_kernel()) return;
    for (const auto& [name, problem, lengths] : pipelined_decode_cases()) {
        const auto [q, k, v] = make_inputs(problem, test_device());
        for (const AttentionEntry& entry : pipelined_entries(3, lengths_tensor(lengths))) {
            const AttentionResult first = entry(q, k, v, problem.options), second = entry(q, k, v, problem.options);
            EXPECT_TRUE(first.out.equal(second.out) && first.lse.equal(second.lse)) << name;
        }
    }
}

TEST(Pipelined, NonFiniteInputsGiveWhatTheReferenceGives) {
    if (not_run_without_the_kernel()) return;
    for (const int64_t head_dim : pipelined_head_dims())
        for (const float poison : {kInf, -kInf, kNaN})
            for (const int argument : {0, 1, 2})
                for (const int64_t splits : {1, 3}) {
                    const auto positive = [&](int64_t rows, double least) {
                        return (torch::rand({1, 2, rows, head_dim}) + least).to(torch::kBFloat16).to(test_device());
                    };
                    const torch::Tensor inputs[] = {positive(5, 0.5), positive(300, 0.5), positive(300, 0.0)};
                    inputs[argument][0][1][argument == 0 ? 3 : 299][7].fill_(poison);
                    for (const AttentionEntry& entry : pipelined_entries(splits)) {
                        const AttentionResult result = entry(inputs[0], inputs[1], inputs[2], {});
                        const Comparison verdict = compare_attention(result, inputs[0], inputs[1], inputs[2]);
                        EXPECT_TRUE(verdict.passed) << "D " << head_dim << ", argument " << argument << ", " << poison
                                                    << ", splits " << splits << ": " << verdict.report;
                    }
                }
}

TEST(Pipelined, RowOfNegativeInfinitiesIsNaN) {
    if (not_run_without_the_kernel()) return;
    const auto f16 = at::TensorOptions().dtype(torch::kFloat16).device(test_device());
    for (const int64_t head_dim : pipelined_head_dims()) {
        const torch::Tensor q = torch::ones({1, 1, 8, head_dim}, f16), k = torch::ones({1, 1, 270, head_dim}, f16);
        q[0][0][3].fill_(-kInf);
        for (const int64_t splits : {1, 2, 3})
            for (const AttentionEntry& entry : pipelined_entries(splits)) {
                const AttentionResult result = entry(q, k, k, {});
                EXPECT_TRUE(result.out[0][0][3].isnan().all().item<bool>())
                    << "D " << head_dim << ", splits " << splits;
                EXPECT_TRUE(result.out[0][0][4].isfinite().all().item<bool>())
                    << "D " << head_dim << ", splits " << splits;
                EXPECT_EQ(result.lse[0][0][3].item<float>(), -kInf) << "D " << head_dim << ", splits " << splits;
            }
    }
}

TEST(Pipelined, MovesWhatTheFormulaSays) {
    if (not_run_without_counters()) return;
    const simt::ScopedCpuDevice imitated(large_device());
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
    EXPECT_TRUE(on("v100", {"flash_decode_pipelined", "cp.async"}));
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
    EXPECT_EQ(kernel_on("h100", torch::concat({q, q}, 2), k, bottom_right), "decode_split_kernel 128");
    EXPECT_EQ(kernel_on("rtx4090", torch::concat({q, q}, 3), torch::concat({k, k}, 3)), "decode_split_kernel 128");
}

// One block of 8 warps on each multiprocessor, or two of 4 where so many fit and come in full waves.
TEST(Decode, BlocksOfFourWarpsComeTwoByTwo) {
    if (not_run_on_gpu("it imitates other devices")) return;
    const auto launch_on = [](const char* profile, int64_t blocks, int64_t head_dim, bool parts = false) {
        const simt::DeviceProfile device = simt::device_profile(profile);
        const simt::ScopedCpuDevice imitated(simt::device_from(device));
        const torch::Tensor x = torch::randn({1, 1, 1, head_dim}).to(torch::kBFloat16).expand({blocks, 1, 1, head_dim});
        const torch::Tensor lengths = torch::ones({blocks}, torch::kInt32);
        const DecodeOptions options{.attention = {}, .kv_lengths = lengths, .splits = {}};
        const simt::LaunchLog log;
        if (parts)
            flash_decode_parts(x, x, x, options);
        else
            flash_decode(x, x, x, options);
        const simt::LaunchRecord record = log.records()[0];
        if (!parts) {
            EXPECT_EQ(record.counters.global_bytes_read(), flash_decode_bytes(x, x, x, options).read) << profile;
        }
        return std::pair(record.block[0], simt::occupancy(device, {.threads = int(record.block[0]),
                                                                   .shared_bytes = record.shared_bytes_per_block})
                                              .resident_blocks);
    };
    const auto large = std::pair(256u, 1), small = std::pair(128u, 2);
    EXPECT_EQ(launch_on("h200", 132, 128), large);
    EXPECT_EQ(launch_on("h200", 264, 128), small);
    EXPECT_EQ(launch_on("h200", 264, 256), small);
    EXPECT_EQ(launch_on("h200", 132, 128, true), small) << "in two parts";
    EXPECT_EQ(launch_on("a100", 216, 128), small);
    EXPECT_EQ(launch_on("a100", 216, 64), large) << "for D = 64 there are no small blocks";
    EXPECT_EQ(launch_on("rtx4090", 256, 128), std::pair(128u, 1)) << "8 warps do not fit, nor do two blocks";
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
