// Named barriers: what they order, and what the machine says of their misuse.

#include <gtest/gtest.h>

#include <cstdint>

#include "common/simt/device/device_profile.h"
#include "common/simt/machine/schedule.h"
#include "tests/simt/faulty_kernels.h"

namespace simt::testing {
namespace {

class NamedBarrierModel : public ::testing::Test {
  private:
    const ScopedCpuDevice imitated_{device_from(device_profile("h100"))};
};

constexpr std::size_t kTileBytes = 64 * sizeof(float);

/// Two warps take turns to add to one number.
void turns(int rounds, bool hands_over) {
    const auto tile = SharedArena().tile<float, 1, 64>("tile");
    const int warp = int(threadIdx.x / 32);
    if (is_thread(0)) tile(0, 0) = 0;
    __syncthreads();
    if (warp == 1) arrive_threads(1, 64);
    for (int i = 0; i < rounds; ++i) {
        sync_threads(1 + warp, 64);
        if (threadIdx.x % 32 == 0) tile(0, 0) += 1;
        if (hands_over && i + warp < rounds) arrive_threads(1 + (warp ^ 1), 64);
        if (!hands_over) arrive_threads(1 + warp, 64);
    }
}

TEST_F(NamedBarrierModel, LetWarpsTakeTurns) {
    for (const std::uint64_t seed : {0, 1, 2, 3, 4, 5}) {
        const ScopedOrder order(seed);
        expect_clean({.block = 64, .shared_bytes = kTileBytes}, [] { turns(6, true); });
    }
}

TEST_F(NamedBarrierModel, OrderOnlyThoseWhoCome) {
    expect_fault({.block = 96, .shared_bytes = kTileBytes},
                 [] {
                     const auto tile = SharedArena().tile<float, 1, 64>("tile");
                     if (threadIdx.x < 32) {
                         if (is_thread(0)) tile(0, 7) = 1;  // @write of warp 0
                         sync_threads(3, 64);
                     } else if (threadIdx.x < 64) {
                         sync_threads(3, 64);
                         (void)float(tile(0, 7));
                     } else {
                         (void)float(tile(0, 7));  // @read of warp 2
                     }
                 },
                 {.fault = Fault::race, .first = {64, "read of warp 2"}, .second = {0, "write of warp 0"}});
}

TEST_F(NamedBarrierModel, WhoArrivesLearnsNothing) {
    expect_fault({.block = 64, .shared_bytes = kTileBytes},
                 [] {
                     const auto tile = SharedArena().tile<float, 1, 64>("tile");
                     if (threadIdx.x < 32) {
                         if (is_thread(0)) tile(0, 7) = 1;  // @write of who waits
                         sync_threads(3, 64);
                     } else {
                         arrive_threads(3, 64);
                         (void)float(tile(0, 7));  // @read of who arrived
                     }
                 },
                 {.fault = Fault::race, .first = {32, "read of who arrived"}, .second = {0, "write of who waits"}});
}

TEST_F(NamedBarrierModel, AreForOneNumberOfThreads) {
    expect_fault({.block = 96, .shared_bytes = 0},
                 [] {
                     if (threadIdx.x < 32) sync_threads(3, 64);   // @for two warps
                     if (threadIdx.x >= 64) sync_threads(3, 96);  // @for three
                 },
                 {.fault = Fault::barrier_misuse,
                  .first = {64, "for three"},
                  .second = {0, "for two warps"},
                  .says = {"thread 64 calls sync_threads(3, 96), while barrier 3 waits for 64 threads"}});
}

TEST_F(NamedBarrierModel, AreComeToOnce) {
    expect_fault({.block = 64, .shared_bytes = 0},
                 [] {
                     if (threadIdx.x >= 32) return;
                     arrive_threads(2, 64);  // @arrives
                     arrive_threads(2, 64);  // @arrives again
                 },
                 {.fault = Fault::barrier_misuse,
                  .first = {0, "arrives again"},
                  .second = {0, "arrives"},
                  .says = {"has come to barrier 2 already since it opened last; 1 of 64 threads"}});
}

TEST_F(NamedBarrierModel, HaveNumbersAndWholeWarps) {
    expect_fault({.block = 64}, [] { sync_threads(0, 64); },
                 {.fault = Fault::barrier_misuse, .first = {0}, .says = {"number 0 is __syncthreads()'s"}});
    expect_fault({.block = 64}, [] { sync_threads(16, 64); },
                 {.fault = Fault::barrier_misuse, .first = {0}, .says = {"named barriers 1 to 15"}});
    expect_fault({.block = 64}, [] { sync_threads(1, 48); },
                 {.fault = Fault::barrier_misuse, .first = {0}, .says = {"a multiple of 32 threads"}});
    expect_fault({.block = 64}, [] { sync_threads(1, 96); },
                 {.fault = Fault::barrier_misuse, .first = {0}, .says = {"no more than the block's 64"}});
}

TEST_F(NamedBarrierModel, WaitForAllWhoAreToCome) {
    expect_fault({.block = 96},
                 [] {
                     if (threadIdx.x < 64) sync_threads(5, 96);  // @two of three warps
                 },
                 {.fault = Fault::deadlock,
                  .first = {0, "two of three warps"},
                  .says = {"threads 0 to 63 wait for barrier 5 (64 of 96 threads so far)"}});
    // A warp that comes in part.
    expect_fault({.block = 64},
                 [] {
                     if (!is_thread(5)) sync_threads(5, 64);  // @all but one
                 },
                 {.fault = Fault::deadlock, .first = {0, "all but one"}, .says = {"(63 of 64 threads so far)"}});
}

// --- half full at the end --------------------------------------------------------------------------------------------

TEST_F(NamedBarrierModel, NobodyEverWaits) {
    expect_fault(
        {.block = 96},
        [] {
            if (threadIdx.x >= 32) arrive_threads(3, 96);  // @for nobody
        },
        {.fault = Fault::barrier_misuse,
         .first = {32, "for nobody"},
         .says = {"the block ends while barrier 3 is half full: threads 32 to 95 called arrive_threads(3, 96), "
                  "32 more are missing, and in the whole launch nobody ever waits there",
                  "let them call sync_threads(3, 96)"}});
}

TEST_F(NamedBarrierModel, TheWaitIsAtAnotherBarrier) {
    expect_fault({.block = 64},
                 [] {
                     if (threadIdx.x < 32)
                         sync_threads(2, 32);
                     else
                         arrive_threads(3, 64);  // @at barrier 3
                 },
                 {.fault = Fault::barrier_misuse,
                  .first = {32, "at barrier 3"},
                  .says = {"barrier 3", "threads 32 to 63", "32 more"}});
}

TEST_F(NamedBarrierModel, TwoComeAndTheThirdIsMissing) {
    expect_fault({.block = 128},
                 [] {
                     if (threadIdx.x < 32) arrive_threads(3, 96);   // @the first
                     if (threadIdx.x >= 96) arrive_threads(3, 96);  // @the second
                 },
                 {.fault = Fault::barrier_misuse,
                  .first = {0, "the first"},
                  .second = {127, "the second"},
                  .says = {"threads 0 to 31, 96 to 127 called arrive_threads(3, 96), 32 more are missing"}});
}

TEST_F(NamedBarrierModel, TheLowestOfTheBlocksThatNobodyWaitsIn) {
    for (const int workers : {1, 3}) {
        const Workers some(workers);
        expect_fault({.grid = 6, .block = 64},
                     [] {
                         if (blockIdx.x >= 2 && threadIdx.x < 32) arrive_threads(3, 64);  // @from block 2 on
                     },
                     {.fault = Fault::barrier_misuse, .block = {2, 0, 0}, .first = {0, "from block 2 on"}});
    }
}

TEST_F(NamedBarrierModel, OneLaneArrivesForItsWarp) {
    expect_fault(
        {.block = 64},
        [] {
            sync_threads(3, 64);
            if (is_thread(39)) arrive_threads(3, 64);  // @a lane alone
        },
        {.fault = Fault::barrier_misuse,
         .first = {39, "a lane alone"},
         .says = {"thread 39 called arrive_threads(3, 64), 63 more are missing; of warp 1 some lanes came, and "
                  "others did not",
                  "elect_one()"}});
}

/// `warps` warps in turns, of which each lets all others know, as the warpgroups of FlashAttention-3 do: the last
/// arrivals are for nobody.
void turns_without_an_end(int warps, int rounds) {
    const auto tile = SharedArena().tile<float, 1, 64>("tile");
    const int me = int(threadIdx.x / 32), threads = 32 * warps;
    if (is_thread(0)) tile(0, 0) = 0;
    __syncthreads();
    for (int other = 0; other < me; ++other) arrive_threads(1 + other, threads);
    for (int i = 0; i < rounds; ++i) {
        sync_threads(1 + me, threads);
        if (threadIdx.x % 32 == 0) tile(0, 0) += 1;
        for (int other = 1; other < warps; ++other) arrive_threads(1 + (me + other) % warps, threads);
    }
}

TEST_F(NamedBarrierModel, MayHandOnATurnThatNobodyTakes) {
    for (const std::uint64_t seed : {0, 1, 2, 3}) {
        const ScopedOrder order(seed);
        for (const int rounds : {1, 2, 5}) {
            expect_clean({.block = 64, .shared_bytes = kTileBytes}, [rounds] { turns_without_an_end(2, rounds); });
            expect_clean({.block = 96, .shared_bytes = kTileBytes}, [rounds] { turns_without_an_end(3, rounds); });
        }
    }
}

TEST_F(NamedBarrierModel, NeedNoWaitInABlockWithoutWork) {
    for (const int workers : {1, 3}) {
        const Workers some(workers);
        expect_clean({.grid = 4, .block = 64, .shared_bytes = kTileBytes},
                     [] { turns_without_an_end(2, int(blockIdx.x)); });
    }
}

TEST_F(NamedBarrierModel, LetABufferGoOnceMoreThanItIsFilled) {
    expect_clean({.block = 64, .shared_bytes = kTileBytes}, [] {
        const auto tile = SharedArena().tile<float, 1, 64>("tile");
        const int lane = int(threadIdx.x % 32);
        if (threadIdx.x >= 32) arrive_threads(1, 64);  // it is empty
        for (int i = 0; i < 3; ++i) {
            if (threadIdx.x < 32) {
                sync_threads(1, 64);
                tile(0, lane) = float(i);
                arrive_threads(2, 64);
            } else {
                sync_threads(2, 64);
                (void)float(tile(0, 31 - lane));
                arrive_threads(1, 64);
            }
        }
    });
}

TEST_F(NamedBarrierModel, AndMbarriersNameEachOtherInADeadlock) {
    expect_fault({.block = 64, .shared_bytes = 64},
                 [] {
                     const auto full = SharedArena().barriers<1>("full");
                     if (is_thread(0)) full[0].init(32);
                     __syncthreads();
                     if (threadIdx.x < 32) {
                         sync_threads(1, 64);  // @waits for the others
                         full[0].arrive();
                     } else {
                         full[0].wait(0);  // @who wait for it
                         sync_threads(1, 64);
                     }
                 },
                 {.fault = Fault::deadlock,
                  .first = {0, "waits for the others"},
                  .second = {32, "who wait for it"},
                  .says = {"threads 0 to 31 wait for barrier 1 (32 of 64 threads so far)",
                           "threads 32 to 63 wait for phase 0 of full[0] (0 of 32 arrivals so far)"}});
}

}  // namespace
}  // namespace simt::testing
