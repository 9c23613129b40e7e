#include "phase1_naive/overflow.h"

#include <gtest/gtest.h>

#include <tuple>

#include "common/attention/machine.h"
#include "common/attention/outputs.h"
#include "common/reference/checks.h"
#include "common/reference/test_device.h"
#include "common/simt/report/launch_log.h"
#include "common/simt/simt.h"
#include "phase1_naive/naive.h"

namespace ladder {
namespace {

using namespace reference;

const PoisonOutputs poison_outputs;

constexpr Scheme kSchemes[] = {Scheme::q_blocked, Scheme::qv_blocked};

simt::Device profile(std::string_view name) { return simt::device_from(simt::device_profile(name)); }

/// The RTX 5060 Ti, but for the most shared memory that a block may have.
simt::Device with_limit(std::size_t bytes) {
    simt::Device device = profile("rtx5060ti");
    device.shared_bytes_per_block_optin = int(bytes);
    device.shared_bytes_per_block = std::min(device.shared_bytes_per_block, int(bytes));
    return device;
}

const OverflowRow& row_of(const OverflowAnswer& answer, int64_t key_length) {
    for (const OverflowRow& row : answer.rows)
        if (row.key_length == key_length) return row;
    throw std::out_of_range("no row for N = " + std::to_string(key_length));
}

void expect_right(const OverflowRun& run) {
    const Comparison verdict = compare_attention(run.result, run.q, run.k, run.v);
    EXPECT_TRUE(verdict.passed) << verdict.report;
}

void expect_refused_for_memory(const OverflowAnswer& answer) {
    const simt::LaunchError& refusal = answer.refusal;
    EXPECT_EQ(refusal.call, "cudaFuncSetAttribute");
    EXPECT_EQ(refusal.code, 1);
    EXPECT_EQ(refusal.code_name, "cudaErrorInvalidValue");
    EXPECT_EQ(refusal.required_shared_bytes, shared_need(answer.shape, answer.largest_key_length + 1).total());
    EXPECT_EQ(refusal.shared_bytes_limit, std::size_t(answer.limits.shared_bytes_per_block_optin));
    EXPECT_GT(refusal.required_shared_bytes, refusal.shared_bytes_limit);
    EXPECT_EQ(refusal.device, answer.limits.name);
}

TEST(Overflow, TableOfTheRtx5060Ti) {
    const simt::ScopedCpuDevice device(profile("rtx5060ti"));
    const OverflowAnswer answer = overflow({});
    EXPECT_EQ(answer.limits.shared_bytes_per_block, 49152);
    EXPECT_EQ(answer.limits.shared_bytes_per_block_optin, 101376);

    const OverflowRow& fits = row_of(answer, 128);
    EXPECT_EQ(fits.need.q, 16384u);
    EXPECT_EQ(fits.need.k, 32768u);
    EXPECT_EQ(fits.need.v, 32768u);
    EXPECT_EQ(fits.need.s, 16384u);
    EXPECT_EQ(fits.need.total(), 98304u);
    EXPECT_TRUE(fits.fits && !fits.fits_without_asking);
    EXPECT_TRUE(row_of(answer, 32).fits_without_asking);
    EXPECT_EQ(row_of(answer, 256).need.total(), 180224u);
    EXPECT_FALSE(row_of(answer, 256).fits);

    std::vector<int64_t> lengths;
    for (const OverflowRow& row : answer.rows) lengths.push_back(row.key_length);
    EXPECT_EQ(lengths, (std::vector<int64_t>{32, 64, 128, 132, 133, 256, 512}));

    EXPECT_EQ(answer.largest_key_length, 132);
    ASSERT_TRUE(answer.run);
    EXPECT_EQ(answer.run->shared_bytes_per_block, 100864u);
    expect_right(*answer.run);
    expect_refused_for_memory(answer);
    EXPECT_EQ(answer.refusal.kernel, "q_blocked_kernel");
}

TEST(Overflow, OneHundredAndTwentyEightRunTwoHundredAndFiftySixDoNot) {
    const simt::ScopedCpuDevice device(profile("rtx5060ti"));
    for (const int64_t length : {128, 256}) {
        const torch::Tensor q = torch::randn({1, 1, length, 128}).to(torch::kFloat16);
        if (length == 128) {
            const Comparison verdict = compare_attention(q_blocked_attention(q, q, q), q, q, q);
            EXPECT_TRUE(verdict.passed) << verdict.report;
        } else {
            EXPECT_TRUE(throws_mentioning([&] { q_blocked_attention(q, q, q); }, {"180224", "101376", "RTX 5060 Ti"}));
        }
    }
}

// The largest N by formula runs, and one key more is refused, by the device and not by arithmetic.
TEST(Overflow, LargestRunsAndTheNextDoesNotOnEveryProfile) {
    for (const simt::DeviceProfile& device_profile : simt::device_profiles())
        for (const Scheme scheme : kSchemes)
            for (const simt::ElementType type : {simt::ElementType::f16, simt::ElementType::f32}) {
                SCOPED_TRACE(std::string(device_profile.name) + ", scheme " +
                             (scheme == Scheme::q_blocked ? "A" : "B") +
                             (type == simt::ElementType::f16 ? ", f16" : ", f32"));
                const simt::ScopedCpuDevice device(simt::device_from(device_profile));
                const OverflowAnswer answer =
                    overflow({.device = torch::kCPU,
                              .shape = {.scheme = scheme, .type = type, .head_dim = 128, .block_rows = 64}});
                expect_refused_for_memory(answer);
                EXPECT_EQ(answer.largest_key_length > 0, answer.run.has_value());
                if (!answer.run) continue;
                EXPECT_EQ(answer.run->k.size(2), answer.largest_key_length);
                expect_right(*answer.run);
            }
}

TEST(Overflow, OnTheDeviceAtHand) {
    for (const Scheme scheme : kSchemes)
        for (const auto& [head_dim, block_rows] : {std::pair{128, 64}, {1, 17}, {37, 21}, {256, 96}}) {
            SCOPED_TRACE("D " + std::to_string(head_dim) + ", B_r " + std::to_string(block_rows));
            const OverflowAnswer answer = overflow({.device = test_device(),
                                                    .shape = {.scheme = scheme,
                                                              .type = simt::ElementType::bf16,
                                                              .head_dim = head_dim,
                                                              .block_rows = block_rows}});
            EXPECT_EQ(answer.limits.name, device_limits(test_device()).name);
            expect_refused_for_memory(answer);
            ASSERT_TRUE(answer.run);
            expect_right(*answer.run);
        }
}

TEST(Overflow, NotOneKeyFits) {
    const simt::ScopedCpuDevice device(profile("gtx1080"));
    const OverflowAnswer answer = overflow(
        {.device = torch::kCPU,
         .shape = {.scheme = Scheme::q_blocked, .type = simt::ElementType::f32, .head_dim = 256, .block_rows = 64}});
    EXPECT_EQ(answer.largest_key_length, 0);
    EXPECT_FALSE(answer.run);
    EXPECT_EQ(answer.rows.front().key_length, 1);
    expect_refused_for_memory(answer);
    const torch::Tensor q = torch::zeros({1, 1, 1, 256});
    EXPECT_TRUE(
        throws_mentioning([&] { q_blocked_attention(q, q, q); }, {"not even one key", "N = 1 fits block_rows <= 45"}));
}

TEST(Overflow, TheNextCallWorksAfterAnOverflow) {
    overflow({.device = test_device(), .shape = {}});
    EXPECT_TRUE(matches_reference(standard_attention, standard_cases().front(), test_device()));
    const torch::Tensor q = torch::randn({1, 1, 33, 32}, test_device());
    EXPECT_TRUE(compare_attention(q_blocked_attention(q, q, q), q, q, q).passed);
    EXPECT_TRUE(compare_attention(qv_blocked_attention(q, q, q), q, q, q).passed);
}

TEST(Overflow, RefusesShapesThatNoKernelTakes) {
    const auto ask = [](int64_t head_dim, int64_t block_rows) {
        overflow({.device = test_device(),
                  .shape = {.scheme = Scheme::q_blocked,
                            .type = simt::ElementType::f16,
                            .head_dim = head_dim,
                            .block_rows = block_rows}});
    };
    EXPECT_TRUE(throws_mentioning([&] { ask(0, 64); }, {"head_dim", "0", "1 to 256"}));
    EXPECT_TRUE(throws_mentioning([&] { ask(257, 64); }, {"head_dim", "257", "1 to 256"}));
    EXPECT_TRUE(throws_mentioning([&] { ask(128, 0); }, {"block_rows", "0", "1 to 1024"}));
    EXPECT_TRUE(throws_mentioning([&] { ask(128, 1025); }, {"block_rows", "1025", "1 to 1024"}));
}

// The formulas against a search that knows nothing of them, over shapes whose matrices are rounded up to 16 bytes.
TEST(Overflow, LargestIsExact) {
    for (const Scheme scheme : kSchemes)
        for (const simt::ElementType type : {simt::ElementType::f16, simt::ElementType::f32})
            for (const int64_t head_dim : {1, 3, 37, 128})
                for (const int64_t block_rows : {1, 5, 64}) {
                    const BlockedShape shape{scheme, type, head_dim, block_rows};
                    for (std::size_t limit = 1; limit < 30'000; limit += 997) {
                        const auto fits = [&](BlockedShape s, int64_t n) { return shared_need(s, n).total() <= limit; };
                        int64_t keys = 0;
                        while (fits(shape, keys + 1)) ++keys;
                        EXPECT_EQ(largest_key_length(shape, limit), keys) << limit;

                        BlockedShape more = shape;
                        more.block_rows = 0;
                        while (more.block_rows < kMaxBlockRows &&
                               fits({scheme, type, head_dim, more.block_rows + 1}, 40))
                            ++more.block_rows;
                        EXPECT_EQ(largest_block_rows(shape, 40, limit), more.block_rows) << limit;
                    }
                }
}

// One byte under, at and over what the kernel needs.
TEST(Overflow, TheLimitIsExactToTheByte) {
    const torch::Tensor q = torch::randn({1, 1, 100, 128}).to(torch::kFloat16);
    for (const Scheme scheme : kSchemes) {
        const auto entry = scheme == Scheme::q_blocked ? q_blocked_attention : qv_blocked_attention;
        const std::size_t required = shared_need({.scheme = scheme}, 100).total();
        {
            const simt::ScopedCpuDevice device(with_limit(required - 1));
            EXPECT_TRUE(throws_mentioning([&] { entry(q, q, q, {}, 64); },
                                          {std::to_string(required), std::to_string(required - 1)}));
            EXPECT_EQ(overflow({.device = torch::kCPU, .shape = {.scheme = scheme}}).largest_key_length, 99);
        }
        for (const std::size_t limit : {required, required + 1}) {
            const simt::ScopedCpuDevice device(with_limit(limit));
            const simt::LaunchLog log;
            EXPECT_TRUE(compare_attention(entry(q, q, q, {}, 64), q, q, q).passed) << limit;
            ASSERT_EQ(log.records().size(), 1u);
            EXPECT_EQ(log.records()[0].shared_bytes_per_block, required);
            EXPECT_EQ(overflow({.device = torch::kCPU, .shape = {.scheme = scheme}}).largest_key_length, 100);
        }
    }
}

// A shape that needs every last byte of the device: found by search, since which it is depends on the device.
TEST(Overflow, ABlockMayTakeAllThereIs) {
    const auto limit = std::size_t(device_limits(test_device()).shared_bytes_per_block_optin);
    for (const Scheme scheme : kSchemes) {
        int64_t block_rows = 0, keys = 0;
        for (int64_t rows = 1; rows <= 64 && !keys; ++rows) {
            const BlockedShape shape{scheme, simt::ElementType::f16, 64, rows};
            const int64_t most = largest_key_length(shape, limit);
            if (shared_need(shape, most).total() == limit) block_rows = rows, keys = most;
        }
        ASSERT_GT(keys, 0) << "no shape needs exactly " << limit << " bytes";
        const auto options = torch::TensorOptions().device(test_device()).dtype(torch::kFloat16);
        const torch::Tensor q = torch::randn({1, 1, 64, 64}).to(options),
                            k = torch::randn({1, 1, keys, 64}).to(options);
        const auto entry = scheme == Scheme::q_blocked ? q_blocked_attention : qv_blocked_attention;
        const simt::LaunchLog log;
        const Comparison verdict = compare_attention(entry(q, k, k, {}, block_rows), q, k, k);
        EXPECT_TRUE(verdict.passed) << verdict.report;
        ASSERT_EQ(log.records().size(), 1u);
        EXPECT_EQ(log.records()[0].shared_bytes_per_block, limit);
    }
}

void touch_last_byte(int bytes) {
    simt::SharedArena arena;
    const auto memory = arena.matrix<simt::f16>("memory", 1, bytes / 2);
    memory(0, bytes / 2 - 1) = simt::f16(1.0f);
}

// The machine's own wall, without any attention: what every launch of the demo meets in the end.
TEST(Overflow, TheMachineRefusesOneByteTooMany) {
    const simt::ScopedCpuDevice device(profile("rtx5060ti"));
    const auto launch = [](std::size_t bytes) {
        cudaLaunchConfig_t config{};
        config.blockDim = dim3(32);
        config.dynamicSmemBytes = bytes;
        simt::launch(
            "nothing", config, +[](int) {}, int(bytes));
    };
    EXPECT_NO_THROW(launch(101375));
    EXPECT_NO_THROW(launch(101376));
    try {
        launch(101377);
        FAIL() << "the launch went through";
    } catch (const simt::LaunchError& refused) {
        EXPECT_EQ(refused.call, "cudaFuncSetAttribute");
        EXPECT_EQ(refused.code_name, "cudaErrorInvalidValue");
        EXPECT_EQ(refused.required_shared_bytes, 101377u);
        EXPECT_EQ(refused.shared_bytes_limit, 101376u);
    }
    EXPECT_NO_THROW(launch(101376));

    cudaLaunchConfig_t config{};
    config.dynamicSmemBytes = 101376;
    EXPECT_NO_THROW(simt::launch("touch_last_byte", config, touch_last_byte, 101376));
    EXPECT_TRUE(throws_mentioning([&] { simt::launch("touch_last_byte", config, touch_last_byte, 101392); },
                                  {"touch_last_byte", "memory"}))
        << "the kernel carved more than the launch asked for";

    // Without cudaFuncSetAttribute the smaller limit holds.
    config.dynamicSmemBytes = 49152;
    EXPECT_EQ(cudaLaunchKernelEx(
                  &config, +[](long) {}, 0L),
              cudaSuccess);
    config.dynamicSmemBytes = 49153;
    EXPECT_EQ(cudaLaunchKernelEx(
                  &config, +[](long) {}, 0L),
              cudaErrorInvalidValue);
}

}  // namespace
}  // namespace ladder
