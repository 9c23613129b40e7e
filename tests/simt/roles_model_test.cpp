// What the CPU machine says about wrong uses of setmaxnreg, elect.sync and stmatrix.

#include <gtest/gtest.h>

#include "tests/simt/product_kernels.h"

namespace simt::testing {
namespace {

using RegisterPool = OnHopper;
using Election = OnHopper;
using Stmatrix = OnHopper;
using WholeWarp = OnHopper;

constexpr Shape kThreeGroups{.block = 384};
constexpr Shape kOneWarp{.block = 32, .shared_bytes = 32 * 16};

// --- setmaxnreg -----------------------------------------------------------------------------------------------------

TEST_F(RegisterPool, RegistersGoRound) {
    expect_clean(kThreeGroups, [] {
        if (warpgroup() == 0)
            release_registers<24>();
        else
            claim_registers<240>();
    });
    expect_clean({.block = 512}, [] {
        if (warpgroup() == 3)
            release_registers<32>();
        else
            claim_registers<160>();
    });
    expect_clean(kTwoGroups, [] {  // 256 each at first
        if (warpgroup() == 1)
            release_registers<56>();
        else
            claim_registers<256>();
    });
}

TEST_F(RegisterPool, AClaimWaitsForTheRelease) {
    expect_clean(kThreeGroups, [] {
        if (warpgroup() != 2) {
            claim_registers<240>();
        } else {
            for (int i = 0; i < 3; ++i) __syncwarp();
            release_registers<24>();
        }
    });
}

TEST_F(RegisterPool, MoreThanThereAre) {
    const auto kernel = [] {
        if (warpgroup() == 0)
            release_registers<40>();
        else
            claim_registers<240>();  // @too many
    };
    expect_fault(
        kThreeGroups, kernel,
        {.fault = Fault::deadlock,
         .first = {256, "too many"},
         .says = {"warpgroup 2 claims 240 per thread and has 168",
                  "40, 240, 240 registers per thread of the warpgroups make 66560, of 64512 that the block has"}});
}

TEST_F(RegisterPool, OneWarpgroupAfterTheOther) {
    expect_clean(kTwoGroups, [] {
        if (warpgroup() == 0) {
            release_registers<24>();
            claim_registers<240>();  // once the other has given back what it had meanwhile
        } else {
            release_registers<240>();
            claim_registers<256>();
            release_registers<40>();
        }
    });
}

TEST_F(RegisterPool, NobodyReleases) {
    const auto kernel = [] {
        if (warpgroup() == 1) claim_registers<240>();  // @alone
    };
    expect_fault(
        kThreeGroups, kernel,
        {.fault = Fault::deadlock,
         .first = {128, "alone"},
         .says = {"threads 128 to 255 wait for registers: warpgroup 1 claims 240 per thread and has 168; 0 are free"}});
}

TEST_F(RegisterPool, AReleaseThatRaises) {
    const auto kernel = [] { release_registers<200>(); };  // @raises
    expect_fault(kThreeGroups, kernel,
                 {.fault = Fault::bad_registers,
                  .first = {0, "raises"},
                  .says = {"release_registers<200>() of warpgroup 0, whose threads have 168 registers each, the equal "
                           "share of a block of 384 threads",
                           "claim_registers() raises it"}});
}

TEST_F(RegisterPool, AClaimThatLowers) {
    const auto kernel = [] {
        if (warpgroup() == 0) {
            release_registers<64>();  // @lowered
            claim_registers<32>();    // @lowers
        }
    };
    expect_fault(kThreeGroups, kernel,
                 {.fault = Fault::bad_registers,
                  .first = {0, "lowers"},
                  .second = {0, "lowered"},
                  .says = {"claim_registers<32>() of warpgroup 0, whose threads have 64 registers each"}});
}

TEST_F(RegisterPool, OneWarpOfFour) {
    const auto kernel = [] {
        if (warp() == 4) release_registers<24>();  // @one warp
        __syncthreads();
    };
    expect_fault_by_some(kThreeGroups, kernel,
                         {.fault = Fault::deadlock,
                          .first = {kSome, "one warp"},
                          .says = {"setmaxnreg.dec, for warps 5, 6, 7 of their warpgroup"}});
}

TEST_F(RegisterPool, TheRolesPartInsideOfAWarpgroup) {
    const auto kernel = [] {
        if (warp() == 0)
            release_registers<24>();  // @producer warp
        else
            claim_registers<240>();  // @the rest
    };
    expect_fault({.block = 256}, kernel,
                 {.fault = Fault::collective_divergence,
                  .first = {32, "the rest"},
                  .second = {0, "producer warp"},
                  .says = {"warp 1 calls setmaxnreg.inc while warp 0 of its warpgroup waits in setmaxnreg.dec"}});
}

// --- elect.sync -----------------------------------------------------------------------------------------------------

TEST_F(Election, NamesOneLaneOfAWarp) {
    int elected = 0;
    run({.block = 96}, [&elected] {
        if (elect_one()) ++elected;
    });
    EXPECT_EQ(elected, 3);
}

TEST_F(Election, InHalfAWarp) {
    const auto kernel = [] {
        if (lane() < 16) elect_one();  // @half
        __syncwarp();                  // @whole
    };
    expect_fault(
        kOneWarp, kernel,
        {.fault = Fault::collective_divergence, .first = {16, "whole"}, .second = {0, "half"}, .says = {"elect.sync"}});
}

// --- values of a warp -----------------------------------------------------------------------------------------------

TEST_F(WholeWarp, HasOneValue) {
    int right = 0;
    run({.block = 96}, [&right] { right += same_in_warp(warp()) == int(threadIdx.x) / 32; });
    EXPECT_EQ(right, 96);
    const auto kernel = [] { same_in_warp(int(threadIdx.x) / 48); };  // @two values
    expect_fault({.block = 96}, kernel,
                 {.fault = Fault::invalid_collective,
                  .first = {48, "two values"},
                  .second = {32, "two values"},
                  .says = {"same_in_warp() of thread 48 with 1, but thread 32 of its warp has 0"}});
}

// --- stmatrix -------------------------------------------------------------------------------------------------------

auto K_j() { return SharedArena().tile<f16, 32, 8>("K_j"); }

TEST_F(Stmatrix, NeedsABarrierBeforeOthersRead) {
    const auto kernel = [](bool barrier) {
        return [=] {
            stmatrix(K_j().vec<Wide>(lane(), 0), 0u, 0u, 0u, 0u);  // @matrix store
            if (barrier) __syncwarp();
            const auto x = float(K_j()(31 - lane(), 0));  // @matrix read
            static_cast<void>(x);
        };
    };
    expect_clean(kOneWarp, kernel(true));
    expect_fault(kOneWarp, kernel(false),
                 {.fault = Fault::race,
                  .first = {31, "matrix read"},
                  .second = {0, "matrix store"},
                  .says = {"thread 31 reads K_j(0, 0), which thread 0 wrote"}});
}

TEST_F(Stmatrix, TwoRowsInOnePlace) {
    const auto kernel = [] {
        stmatrix(K_j().vec<Wide>(lane() / 2, 0), 0u, 0u);  // @twice
    };
    expect_fault(kOneWarp, kernel,
                 {.fault = Fault::race,
                  .first = {1, "twice"},
                  .second = {0, "twice"},
                  .says = {"thread 1 writes K_j(0, 0), which thread 0 wrote"}});
}

TEST_F(Stmatrix, DoesNotWriteTheRowsOfUnusedLanes) {
    const auto kernel = [] {
        stmatrix(K_j().vec<Wide>(lane(), 0), 0u);
        __syncwarp();
        const auto x = float(K_j()(8, 0));  // @unused row
        static_cast<void>(x);
    };
    expect_fault_by_some(
        kOneWarp, kernel,
        {.fault = Fault::uninitialised_read, .first = {kSome, "unused row"}, .says = {"reads K_j(8, 0)"}});
}

TEST_F(Stmatrix, RowsLieAtMultiplesOf16Bytes) {
    const auto kernel = [] {
        const auto tile = SharedArena().tile<f16, 8, 8, 12>("V_j");
        stmatrix(tile.vec<Wide>(lane() % 8, 0), 0u);  // @crooked
    };
    expect_fault(kOneWarp, kernel, {.fault = Fault::misaligned, .first = {1, "crooked"}, .says = {"V_j(1, 0)"}});
}

TEST_F(Stmatrix, LanesThatStayAway) {
    const auto kernel = [] {
        if (lane() >= 30) return;
        stmatrix_trans(K_j().vec<Wide>(lane(), 0), 0u);  // @deserted
    };
    expect_fault_by_some(kOneWarp, kernel,
                         {.fault = Fault::invalid_collective,
                          .first = {kSome, "deserted"},
                          .says = {"stmatrix of warp 0 without lanes 0xc0000000"}});
}

TEST_F(Stmatrix, IsCountedAsWrites) {
    const LaunchLog log;
    run(kOneWarp, [] { stmatrix(K_j().vec<Wide>(lane(), 0), 0u, 0u, 0u, 0u); });
    EXPECT_EQ(log.total().shared_bytes_written, 4u * 8 * 16);
    EXPECT_EQ(log.total().shared_wavefronts, 4u);
}

TEST_F(Stmatrix, OtherDevicesHaveNone) {
    const ScopedCpuDevice device(device_from(device_profile("a100")));
    const auto kernel = [] {
        stmatrix(K_j().vec<Wide>(lane(), 0), 0u);  // @old
    };
    expect_fault_by_some(kOneWarp, kernel, {.fault = Fault::unsupported, .first = {kSome, "old"}});
}

}  // namespace
}  // namespace simt::testing
