// Atomics do the same on both machines: the kernels of atomics.cuh.

#include "tests/simt/atomics.h"

#include <gtest/gtest.h>

#include "tests/simt/on_device.h"

namespace ladder {

// atomics.cuh, compiled once per machine.
namespace cpu {
void launch_histogram(const AtomicTrial&);
void launch_sum_and_max(const AtomicTrial&);
void launch_last_block(const AtomicTrial&);
void launch_tile_counter(const AtomicTrial&);
void launch_chain(const AtomicTrial&);
void launch_claim(const AtomicTrial&);
void launch_wide(const AtomicTrial&);
void launch_wide_exchange(const AtomicTrial&);
void launch_scopes(const AtomicTrial&);
}  // namespace cpu
namespace cuda {
[[gnu::weak]] void launch_histogram(const AtomicTrial&);
[[gnu::weak]] void launch_sum_and_max(const AtomicTrial&);
[[gnu::weak]] void launch_last_block(const AtomicTrial&);
[[gnu::weak]] void launch_tile_counter(const AtomicTrial&);
[[gnu::weak]] void launch_chain(const AtomicTrial&);
[[gnu::weak]] void launch_claim(const AtomicTrial&);
[[gnu::weak]] void launch_wide(const AtomicTrial&);
[[gnu::weak]] void launch_wide_exchange(const AtomicTrial&);
[[gnu::weak]] void launch_scopes(const AtomicTrial&);
}  // namespace cuda

namespace {

/// Whole numbers, so that their sum is the same in every order.
torch::Tensor whole_floats(int64_t n) { return torch::randint(-50, 50, {n}).to(torch::kFloat32); }

torch::Tensor zeros(int64_t n, torch::ScalarType type, torch::Device device) {
    return torch::zeros({n}, torch::TensorOptions(type).device(device));
}

TEST(Atomics, AHistogramCountsEveryElement) {
    for (const int n : {1, 31, 500, 3000})
        for (const int blocks : {1, 2, 7})
            for (const torch::Device device : machines()) {
                SCOPED_TRACE(device.str() + ": " + std::to_string(n) + " elements, " + std::to_string(blocks) +
                             " blocks");
                const torch::Tensor numbers = torch::randint(0, kBins, {n}, torch::kInt32);
                const torch::Tensor in = numbers.to(device), out = zeros(kBins, torch::kInt32, device);
                run_on(device, cpu::launch_histogram, cuda::launch_histogram,
                       AtomicTrial{.in = raw_argument("in", in), .out = raw_argument("out", out), .blocks = blocks});
                torch::Tensor expected = torch::zeros({kBins}, torch::kInt32);
                for (int i = 0; i < n; ++i) ++expected.data_ptr<int>()[numbers.data_ptr<int>()[i]];
                ASSERT_TRUE(same_bits(out, expected));
            }
}

TEST(Atomics, SumsAndMaximaOfAllThreads) {
    for (const int blocks : {1, 5}) {
        const torch::Tensor numbers = whole_floats(blocks * kAtomicThreads - 3);
        for (const torch::Device device : machines()) {
            SCOPED_TRACE(device.str());
            const torch::Tensor in = numbers.to(device), out = zeros(1, torch::kFloat32, device);
            const torch::Tensor counter = zeros(2, torch::kInt32, device);
            counter[0] = -1000;
            run_on(device, cpu::launch_sum_and_max, cuda::launch_sum_and_max,
                   AtomicTrial{.in = raw_argument("in", in),
                               .out = raw_argument("out", out),
                               .counter = raw_argument("counter", counter),
                               .blocks = blocks});
            EXPECT_EQ(out.item<float>(), numbers.sum().item<float>());
            EXPECT_EQ(counter[0].item<int>(), int(numbers.max().item<float>()));
            EXPECT_EQ(counter[1].item<int>(), blocks * kAtomicThreads);
        }
    }
}

TEST(Atomics, TheLastBlockAddsUpWhatTheOthersLeft) {
    for (const bool with_fences : {false, true})
        for (const int blocks : {1, 2, 9, 100}) {
            const torch::Tensor numbers = whole_floats(1000);
            for (const torch::Device device : machines()) {
                SCOPED_TRACE(device.str() + ": " + std::to_string(blocks) + " blocks");
                const torch::Tensor in = numbers.to(device), out = zeros(1, torch::kFloat32, device);
                const torch::Tensor partial = torch::full({blocks}, NAN, in.options());
                const torch::Tensor counter = zeros(2, torch::kInt32, device);
                for (int launch = 0; launch < 3; ++launch) {  // the counter is set back each time
                    run_on(device, cpu::launch_last_block, cuda::launch_last_block,
                           AtomicTrial{.in = raw_argument("in", in),
                                       .out = raw_argument("out", out),
                                       .partial = raw_argument("partial", partial),
                                       .counter = raw_argument("counter", counter),
                                       .blocks = blocks,
                                       .with_fences = with_fences});
                    ASSERT_EQ(out.item<float>(), numbers.sum().item<float>());
                }
            }
        }
}

TEST(Atomics, BlocksDrawTilesFromACounter) {
    for (const int n : {1, 64, 65, 1000})
        for (const int blocks : {1, 3, 20})
            for (const torch::Device device : machines()) {
                SCOPED_TRACE(device.str() + ": " + std::to_string(n) + " elements, " + std::to_string(blocks) +
                             " blocks");
                const torch::Tensor in = torch::randint(0, 1000, {n}, torch::kInt32).to(device);
                const torch::Tensor out = torch::full_like(in, -1), counter = zeros(2, torch::kInt32, device);
                run_on(device, cpu::launch_tile_counter, cuda::launch_tile_counter,
                       AtomicTrial{.in = raw_argument("in", in),
                                   .out = raw_argument("out", out),
                                   .counter = raw_argument("counter", counter),
                                   .blocks = blocks});
                ASSERT_TRUE(same_bits(out, in + 1));
                EXPECT_EQ(counter[0].item<int>(), (n + kTileElements - 1) / kTileElements + blocks);
            }
}

TEST(Atomics, BlocksHandASumFromOneToTheNext) {
    for (const bool backwards : {false, true})  // then each waits for a block that begins after it
        for (const int blocks : {1, 2, 12, 40}) {
            const bool with_fences = blocks % 4 == 0;
            const torch::Tensor numbers = torch::randn({blocks});
            torch::Tensor expected = numbers[0].clone();
            for (int b = 1; b < blocks; ++b) expected += numbers[b];  // in this order, bit for bit
            for (const torch::Device device : machines()) {
                SCOPED_TRACE(device.str() + ": " + std::to_string(blocks) + " blocks");
                const torch::Tensor in = numbers.to(device), out = zeros(1, torch::kFloat32, device);
                const torch::Tensor partial = torch::full({blocks}, NAN, in.options());
                const torch::Tensor counter = zeros(2, torch::kInt32, device);
                run_on(device, cpu::launch_chain, cuda::launch_chain,
                       AtomicTrial{.in = raw_argument("in", in),
                                   .out = raw_argument("out", out),
                                   .partial = raw_argument("partial", partial),
                                   .counter = raw_argument("counter", counter),
                                   .blocks = blocks,
                                   .with_fences = with_fences,
                                   .backwards = backwards});
                EXPECT_EQ(out.item<float>(), expected.item<float>());
            }
        }
}

TEST(Atomics, OneClaimsAndExchangesLoseNothing) {
    for (const int blocks : {1, 6})
        for (const torch::Device device : machines()) {
            SCOPED_TRACE(device.str());
            const torch::Tensor out = zeros(2, torch::kInt32, device), counter = zeros(2, torch::kInt32, device);
            run_on(device, cpu::launch_claim, cuda::launch_claim,
                   AtomicTrial{
                       .out = raw_argument("out", out), .counter = raw_argument("counter", counter), .blocks = blocks});
            const int n = blocks * kAtomicThreads;
            EXPECT_EQ(out[0].item<int>(), 1);
            EXPECT_GT(counter[0].item<int>(), 0);
            // Each number went in once, and came out once or is still there.
            EXPECT_EQ(out[1].item<int>() + counter[1].item<int>(), n * (n + 1) / 2);
        }
}

TEST(Atomics, Of64Bits) {
    struct Way {
        bool with_fences, backwards;
    };
    for (const Way way : {Way{true, false}, Way{false, true}, Way{false, false}})
        for (const int blocks : {1, 4}) {
            const int n = blocks * kAtomicThreads - 5;
            const torch::Tensor numbers = torch::randint(int64_t{1} << 33, int64_t{1} << 50, {n}, torch::kInt64);
            const int64_t sum = numbers.sum().item<int64_t>();
            for (const torch::Device device : machines()) {
                SCOPED_TRACE(device.str() + ": " + std::to_string(blocks) + " blocks");
                const torch::Tensor in = numbers.to(device), out = zeros(6, torch::kInt64, device);
                out[2] = INT64_MAX;
                const AtomicTrial trial{.in = raw_argument("in", in),
                                        .out = raw_argument("out", out),
                                        .blocks = blocks,
                                        .with_fences = way.with_fences,
                                        .backwards = way.backwards};
                run_on(device, cpu::launch_wide, cuda::launch_wide, trial);
                run_on(device, cpu::launch_wide_exchange, cuda::launch_wide_exchange, trial);
                EXPECT_EQ(out[0].item<int64_t>(), sum);
                EXPECT_EQ(out[1].item<int64_t>(), numbers.max().item<int64_t>());
                EXPECT_EQ(out[2].item<int64_t>(), numbers.min().item<int64_t>());
                EXPECT_EQ(out[3].item<int64_t>(), sum);
                EXPECT_EQ(out[4].item<int64_t>() + out[5].item<int64_t>(), sum);
            }
        }
}

TEST(Atomics, FencesOfABlockAndOfTheSystem) {
    for (const int blocks : {1, 3, 20}) {
        const torch::Tensor numbers = torch::randn({blocks});
        torch::Tensor expected = numbers[0].clone();
        for (int b = 1; b < blocks; ++b) expected += numbers[b];  // in this order, bit for bit
        for (const torch::Device device : machines()) {
            SCOPED_TRACE(device.str() + ": " + std::to_string(blocks) + " blocks");
            const torch::Tensor in = numbers.to(device), out = zeros(1, torch::kFloat32, device);
            const torch::Tensor partial = torch::full({blocks}, NAN, in.options());
            const torch::Tensor counter = zeros(2, torch::kInt64, device);
            run_on(device, cpu::launch_scopes, cuda::launch_scopes,
                   AtomicTrial{.in = raw_argument("in", in),
                               .out = raw_argument("out", out),
                               .partial = raw_argument("partial", partial),
                               .counter = raw_argument("counter", counter),
                               .blocks = blocks});
            EXPECT_EQ(out.item<float>(), expected.item<float>());
        }
    }
}

}  // namespace
}  // namespace ladder
