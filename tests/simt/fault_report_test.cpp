// Which of several faults is reported, and that the machine is sound afterwards.

#include <gtest/gtest.h>

#include "tests/simt/faulty_kernels.h"

namespace simt::testing {
namespace {

TEST(Fault, TheLowestFailingBlockIsReported) {
    // Block 3 fails soon; the blocks that other workers run meanwhile fail later.
    const int workers = cpu_workers();
    set_cpu_workers(4);
    for (int repeat = 0; repeat < 20; ++repeat) {
        const auto found = fault_of({.grid = 64, .shared_bytes = kOneTile}, [] {
            for (int i = 0; i < (blockIdx.x == 3 ? 100 : 3000); ++i) __syncthreads();
            if (blockIdx.x >= 3) K_j()(8, int(blockIdx.x)) = 0.0f;
        });
        ASSERT_TRUE(found);
        EXPECT_EQ(found->report().block[0], 3u);
    }
    set_cpu_workers(workers);
}

TEST(Fault, MessagesAreTheSameOnEveryRun) {
    const auto kernel = [] { K_j()(3, 5) = float(threadIdx.x); };
    const std::string first = fault_of(kTwoWarps, kernel)->what();
    for (int repeat = 0; repeat < 5; ++repeat) EXPECT_EQ(first, fault_of(kTwoWarps, kernel)->what());
}

TEST(Fault, ManyInARowLeaveTheMachineSound) {
    for (int repeat = 0; repeat < 200; ++repeat) {
        EXPECT_TRUE(fault_of({.grid = 4, .block = 512, .shared_bytes = kOneTile}, [] { __syncwarp(1u); }));
    }
    expect_machine_still_works();
}

}  // namespace
}  // namespace simt::testing
