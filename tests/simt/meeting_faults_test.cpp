// Barriers and warp collectives that not everyone reaches: what the CPU machine must find, and what it must say about
// it.

#include <gtest/gtest.h>

#include "common/simt/device/device_profile.h"
#include "tests/simt/faulty_kernels.h"

namespace simt::testing {
namespace {

TEST(Barrier, TwoLinesAreTwoBarriers) {
    expect_fault({.block = 64},
                 [] {
                     if (threadIdx.x < 40)
                         __syncthreads();  // @first barrier
                     else
                         __syncthreads();  // @other barrier
                 },
                 {.fault = Fault::barrier_divergence,
                  .first = {40, "other barrier"},
                  .second = {0, "first barrier"},
                  .says = {"every thread of a block"}});
}

TEST(Barrier, ThreadReturnedBeforeTheOthersWait) {
    expect_fault({.block = 64},
                 [] {
                     if (is_thread(0)) return;
                     __syncthreads();  // @barrier without thread 0
                 },
                 {.fault = Fault::barrier_divergence,
                  .first = {1, "barrier without thread 0"},
                  .says = {"1 threads of the block have already returned"}});
}

TEST(Barrier, ThreadReturnsWhileTheOthersWait) {
    expect_fault({.block = 64},
                 [] {
                     if (is_thread(63)) return;
                     __syncthreads();  // @barrier without thread 63
                 },
                 {.fault = Fault::barrier_divergence,
                  .first = {0, "barrier without thread 63"},
                  .says = {"thread 63 has returned", "thread 0 waits"}});
}

TEST(Barrier, UnequalTripCounts) {
    const auto found = fault_of({.block = 64}, [] {
        for (unsigned i = 0; i < 1 + threadIdx.x / 32; ++i) __syncthreads();
    });
    ASSERT_TRUE(found);
    EXPECT_EQ(found->report().fault, Fault::barrier_divergence);
}

TEST(Barrier, EarlyReturnsAreFineWithoutABarrierAfterThem) {
    int arrived = 0;
    expect_clean({.block = 100}, [&arrived] {
        __syncthreads();
        if (threadIdx.x % 3) return;
        ++arrived;
    });
    EXPECT_EQ(arrived, 34);
}

TEST(Collective, DivergedByKind) {
    expect_fault({},
                 [] {
                     if (threadIdx.x < 16)
                         __shfl_xor_sync(0xffffffffu, 1, 1);  // @half shuffles
                     else
                         __ballot_sync(0xffffffffu, 1);  // @half votes
                 },
                 {.fault = Fault::collective_divergence,
                  .first = {16, "half votes"},
                  .second = {0, "half shuffles"},
                  .says = {"__ballot_sync", "__shfl_xor_sync", "0xffffffff"}});
}

TEST(Collective, DivergedByMask) {
    expect_fault({.block = 64},
                 [] {
                     if (threadIdx.x < 32) return;
                     // Lanes 0 to 7 wait for 16 lanes, lane 8 for 9 of them.
                     const unsigned mask = threadIdx.x % 32 < 8 ? 0xffffu : 0x1ffu;
                     if (threadIdx.x % 32 < 9) __syncwarp(mask);  // @masks differ
                 },
                 {.fault = Fault::collective_divergence,
                  .first = {40, "masks differ"},
                  .second = {32, "masks differ"},
                  .says = {"0x000001ff", "0x0000ffff"}});
}

TEST(Collective, DivergedByLine) {
    expect_fault({},
                 [] {
                     if (threadIdx.x < 16)
                         __any_sync(0xffffffffu, 1);  // @one line
                     else
                         __any_sync(0xffffffffu, 1);  // @another line
                 },
                 {.fault = Fault::collective_divergence,
                  .first = {16, "another line"},
                  .second = {0, "one line"},
                  .says = {"on another line"}});
}

// __syncwarp() asks for a barrier with the same mask, not for the same instruction (PTX ISA, bar.warp.sync), wherever
// lanes can wait apart from each other.

TEST(Syncwarp, FromTwoLinesNeedsLanesThatAreIndependent) {
    const ScopedCpuDevice pascal(device_from(device_profile("gtx1080")));
    expect_fault({},
                 [] {
                     if (threadIdx.x < 16)
                         __syncwarp();  // @half of a warp waits
                     else
                         __syncwarp();  // @the other half waits
                 },
                 {.fault = Fault::collective_divergence,
                  .first = {16, "the other half waits"},
                  .second = {0, "half of a warp waits"},
                  .says = {"on another line"}});
}

TEST(Syncwarp, FromTwoLinesOrdersMemory) {
    expect_clean({.shared_bytes = kOneTile}, [] {
        const auto tile = K_j();
        const int lane = int(threadIdx.x), from = 31 - lane;
        tile(lane / 8, lane % 8) = float(lane);
        if (lane < 16)
            __syncwarp();
        else
            __syncwarp();
        EXPECT_EQ(float(tile(from / 8, from % 8)), float(from));
    });
}

TEST(Syncwarp, FromAHelperAndFromTheKernelOrdersMemory) {
    const auto helper = [] { __syncwarp(); };
    expect_clean({.block = 64, .shared_bytes = kOneTile}, [=] {
        const auto tile = K_j();
        const int lane = int(threadIdx.x), from = lane ^ 1;
        for (int i = 0; i < 3; ++i) {
            tile(lane / 8, lane % 8) = float(lane + i);
            if (lane % 3 == 0)
                helper();
            else if (lane % 3 == 1)
                helper();
            else
                __syncwarp();
            EXPECT_EQ(float(tile(from / 8, from % 8)), float(from + i));
            __syncwarp();
        }
    });
}

TEST(Syncwarp, FromTwoLinesWithTheMaskOfAHalf) {
    expect_clean({}, [] {
        if (threadIdx.x % 2) return;
        if (threadIdx.x < 16)
            __syncwarp(0x55555555u);
        else
            __syncwarp(0x55555555u);
    });
}

TEST(Syncwarp, InOneBranchOnlyIsADeadlock) {
    const auto found = fault_of({}, [] {
        if (threadIdx.x < 16)
            __syncwarp();
        else
            __syncthreads();
    });
    ASSERT_TRUE(found);
    EXPECT_EQ(found->report().fault, Fault::deadlock) << found->what();
}

TEST(Syncwarp, AgainstAnotherCollectiveIsStillAFault) {
    expect_fault({},
                 [] {
                     if (threadIdx.x < 16)
                         __syncwarp();  // @waits for a barrier
                     else
                         __any_sync(0xffffffffu, 1);  // @waits for votes
                 },
                 {.fault = Fault::collective_divergence,
                  .first = {16, "waits for votes"},
                  .second = {0, "waits for a barrier"}});
}

TEST(Syncwarp, WhatLiesBetweenTwoPairsIsStillARace) {
    expect_fault({.shared_bytes = kOneTile},
                 [] {
                     const auto tile = K_j();
                     const int lane = int(threadIdx.x);
                     if (lane < 16) {
                         __syncwarp();
                         tile(0, 0) = 1.0f;  // @after the barrier
                     } else {
                         __syncwarp();
                         tile(0, 0) = 2.0f;  // @after the barrier too
                     }
                 },
                 {.fault = Fault::race, .first = {0, "after the barrier"}, .second = {31, "after the barrier too"}});
}

TEST(Collective, OverlappingMasksOneAfterTheOtherAreFine) {
    // Either half, or both, may come to the collective of the whole warp while the other is still busy with its own.
    for (const unsigned busy : {0x0000ffffu, 0xffff0000u, 0x55555555u, 0xaaaaaaaau})
        expect_clean({}, [=] {
            int x = int(threadIdx.x);
            if (busy >> threadIdx.x & 1)
                for (int i = 0; i < 3; ++i) x = __shfl_sync(busy, x, std::countr_zero(busy));
            __syncwarp();
            EXPECT_EQ(x, busy >> threadIdx.x & 1 ? std::countr_zero(busy) : int(threadIdx.x));
            EXPECT_EQ(__ballot_sync(0xffffffffu, 1), 0xffffffffu);
        });
}

TEST(Collective, CircleOfThreeMasks) {
    // Lane 0 waits for 1, 1 for 2, 2 for 0: no two wait for each other, and yet nobody can go on.
    const auto found = fault_of({.block = 3}, [] {
        const unsigned next = (threadIdx.x + 1) % 3;
        __syncwarp(1u << threadIdx.x | 1u << next);
    });
    ASSERT_TRUE(found);
    EXPECT_EQ(found->report().fault, Fault::deadlock) << found->what();
}

TEST(Collective, MaskWithoutTheCaller) {
    expect_fault({.block = 64},
                 [] {
                     if (threadIdx.x < 32) return;
                     __shfl_sync(0x0000fff7u, 1, 0);  // @lane 3 is not in the mask
                 },
                 {.fault = Fault::invalid_collective,
                  .first = {35, "lane 3 is not in the mask"},
                  .says = {"__shfl_sync", "0x0000fff7", "lane 3"}});
}

TEST(Collective, ShuffleFromALaneThatTakesNoPart) {
    expect_fault({.block = 64},
                 [] {
                     if (threadIdx.x < 48) return;
                     __shfl_xor_sync(0xffff0000u, 1, 16);  // @across the mask
                 },
                 {.fault = Fault::invalid_collective,
                  .first = {48, "across the mask"},
                  .says = {"lane 16 reads lane 0, which the mask 0xffff0000 does not name"}});
}

TEST(Collective, ShuffleFromALaneThatHasReturned) {
    // The last lane to arrive is lane 15; lanes 16 and up are gone.
    const auto found = fault_of({}, [] {
        if (threadIdx.x >= 16) return;
        __shfl_down_sync(0xffffffffu, 1, 1);
    });
    ASSERT_TRUE(found);
    EXPECT_EQ(found->report().fault, Fault::invalid_collective);
    EXPECT_EQ(found->report().first.thread, 15);
    EXPECT_NE(
        found->report().what.find("lane 15 reads lane 16, which the mask 0xffffffff names, but which has returned"),
        std::string::npos)
        << found->what();
}

TEST(Collective, ShuffleFromALaneThatNeverWas) {
    const auto found = fault_of({.block = 48}, [] { __shfl_xor_sync(0xffffffffu, 1, 16); });
    ASSERT_TRUE(found) << "the second warp has 16 lanes";
    EXPECT_EQ(found->report().fault, Fault::invalid_collective);
    EXPECT_EQ(found->report().first.thread, 32);
    EXPECT_NE(
        found->report().what.find("lane 0 reads lane 16, which the mask 0xffffffff names, but the block has no such"),
        std::string::npos)
        << found->what();
}

TEST(Collective, WidthThatIsNoPowerOfTwo) {
    for (const int width : {0, -1, 3, 24, 33, 64})
        expect_fault({},
                     [=] {
                         __shfl_down_sync(0xffffffffu, 1, 1, width);  // @odd width
                     },
                     {.fault = Fault::invalid_collective,
                      .first = {0, "odd width"},
                      .says = {"__shfl_down_sync", "width " + std::to_string(width)}});
}

TEST(Deadlock, CollectiveAgainstBarrier) {
    expect_fault({.block = 64},
                 [] {
                     if (threadIdx.x < 32 || threadIdx.x >= 40)
                         __syncthreads();  // @waits for all
                     else
                         __syncwarp();  // @waits for its warp
                 },
                 {.fault = Fault::deadlock,
                  .first = {32, "waits for its warp"},
                  .second = {40, "waits for all"},
                  .says = {"__syncwarp", "0xffffff00", "56 of 64 threads wait at __syncthreads()"}});
}

TEST(Deadlock, CollectiveThatALaneNeverReaches) {
    expect_fault({},
                 [] {
                     if (threadIdx.x == 31)
                         __syncthreads();  // @the barrier of lane 31
                     else
                         __all_sync(0xffffffffu, 1);  // @the vote of the others
                     __syncthreads();
                 },
                 {.fault = Fault::deadlock,
                  .first = {0, "the vote of the others"},
                  .second = {31, "the barrier of lane 31"},
                  .says = {"__all_sync", "0x80000000"}});
}

}  // namespace
}  // namespace simt::testing
