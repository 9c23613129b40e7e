// mbarriers: what they order, and what the machine says of their misuse. What copies bring to them is in
// tma_load_model_test.cpp.

#include <gtest/gtest.h>

#include <cstdint>

#include "common/simt/device/device_profile.h"
#include "common/simt/machine/budget.h"
#include "common/simt/machine/schedule.h"
#include "tests/simt/faulty_kernels.h"

namespace simt::testing {
namespace {

class MbarrierModel : public ::testing::Test {
  private:
    const ScopedCpuDevice imitated_{device_from(device_profile("h100"))};
};

constexpr std::size_t kTileBytes = 64 * sizeof(float), kRingBytes = kTileBytes + 64;

/// Thread 0 of a block makes barriers of so many arrivals each.
template <int Count>
void make(const SharedBarriers<Count>& barriers, int arrivals) {
    if (is_thread(0)) {
        for (int i = 0; i < Count; ++i) barriers[i].init(arrivals);
        publish_barriers();
    }
}

/// The second warp hands 32 numbers a turn to the first, through so many stages; each stage is filled when the first
/// has let go of it.
template <int Stages, int Turns>
void ring(std::int64_t* sum) {
    SharedArena arena;
    const auto tile = arena.tile<float, Stages, 32>("stages");
    const auto full = arena.barriers<Stages>("full"), empty = arena.barriers<Stages>("empty");
    make(full, 32);
    make(empty, 32);
    __syncthreads();
    const int lane = int(threadIdx.x % 32);
    RingPosition<Stages> at;
    for (int turn = 0; turn < Turns; ++turn, at.next()) {
        if (threadIdx.x >= 32) {
            empty[at.stage].wait(at.parity ^ 1);
            tile(at.stage, lane) = float(turn * 32 + lane);
            full[at.stage].arrive();
        } else {
            full[at.stage].wait(at.parity);
            *sum += std::int64_t(float(tile(at.stage, 31 - lane)));
            empty[at.stage].arrive();
        }
    }
}

TEST_F(MbarrierModel, LetStagesGoRoundInAnyOrder) {
    for (const std::uint64_t seed : {0, 1, 2, 3, 4, 5, 6, 7}) {
        const ScopedOrder order(seed);
        std::int64_t sum = 0;
        run({.block = 64, .shared_bytes = 3 * 128 + 64}, [&] { ring<3, 10>(&sum); });
        EXPECT_EQ(sum, 319 * 320 / 2) << "seed " << seed;
        sum = 0;
        run({.block = 64, .shared_bytes = 128 + 64}, [&] { ring<1, 5>(&sum); });
        EXPECT_EQ(sum, 159 * 160 / 2) << "seed " << seed;
    }
}

TEST_F(MbarrierModel, PassOnWhatTheArrivingKnowFromOthers) {
    // Thread 0 writes, tells thread 32, who tells thread 64, who reads.
    expect_clean({.block = 96, .shared_bytes = kRingBytes}, [] {
        SharedArena arena;
        const auto tile = arena.tile<float, 1, 64>("tile");
        const auto told = arena.barriers<2>("told");
        make(told, 1);
        __syncthreads();
        if (is_thread(0)) {
            tile(0, 5) = 1;
            told[0].arrive();
        }
        if (is_thread(32)) {
            told[0].wait(0);
            told[1].arrive();
        }
        if (is_thread(64)) {
            told[1].wait(0);
            (void)float(tile(0, 5));
        }
    });
}

TEST_F(MbarrierModel, PublishTheWholeWarpAfterASyncwarp) {
    expect_clean({.block = 64, .shared_bytes = kRingBytes}, [] {
        SharedArena arena;
        const auto tile = arena.tile<float, 1, 64>("tile");
        const auto full = arena.barriers<1>("full");
        make(full, 1);
        __syncthreads();
        if (threadIdx.x < 32) {
            tile(0, int(threadIdx.x)) = 1;
            __syncwarp();
            if (is_thread(0)) full[0].arrive();
        } else {
            full[0].wait(0);
            (void)float(tile(0, int(threadIdx.x) - 32));
        }
    });
}

TEST_F(MbarrierModel, AnElectedLaneDoesNotSpeakForItsWarp) {
    expect_fault({.block = 64, .shared_bytes = kRingBytes},
                 [] {
                     SharedArena arena;
                     const auto tile = arena.tile<float, 1, 64>("tile");
                     const auto full = arena.barriers<1>("full");
                     make(full, 1);
                     __syncthreads();
                     if (threadIdx.x < 32) {
                         tile(0, int(threadIdx.x)) = 1;  // @unpublished write
                         if (is_thread(31)) full[0].arrive();
                     } else {
                         full[0].wait(0);
                         (void)float(tile(0, int(threadIdx.x) - 32));  // @read of the unpublished
                     }
                 },
                 {.fault = Fault::race, .first = {32, "read of the unpublished"}, .second = {0, "unpublished write"}});
}

TEST_F(MbarrierModel, WhoDoesNotWaitKnowsNothing) {
    expect_fault(
        {.block = 64, .shared_bytes = kRingBytes},
        [] {
            SharedArena arena;
            const auto tile = arena.tile<float, 1, 64>("tile");
            const auto full = arena.barriers<1>("full");
            make(full, 1);
            __syncthreads();
            if (is_thread(40)) {
                tile(0, 3) = 1;  // @write before the arrival
                full[0].arrive();
            }
            if (is_thread(0)) (void)float(tile(0, 3));  // @read without a wait
        },
        {.fault = Fault::race, .first = {0, "read without a wait"}, .second = {40, "write before the arrival"}});
}

TEST_F(MbarrierModel, WhatIsWrittenAfterTheArrivalIsNotPassedOn) {
    expect_fault(
        {.block = 64, .shared_bytes = kRingBytes},
        [] {
            SharedArena arena;
            const auto tile = arena.tile<float, 1, 64>("tile");
            const auto full = arena.barriers<1>("full");
            make(full, 1);
            __syncthreads();
            if (is_thread(0)) {
                full[0].arrive();
                tile(0, 3) = 1;  // @write after the arrival
            }
            if (is_thread(40)) {
                full[0].wait(0);
                (void)float(tile(0, 3));  // @read of what came later
            }
        },
        {.fault = Fault::race, .first = {40, "read of what came later"}, .second = {0, "write after the arrival"}});
}

/// A consumer that reads a stage, and a producer that fills it again.
void refill(bool waits_for_empty, unsigned producer_parity) {
    SharedArena arena;
    const auto tile = arena.tile<float, 1, 64>("tile");
    const auto full = arena.barriers<1>("full"), empty = arena.barriers<1>("empty");
    make(full, 1);
    make(empty, 1);
    __syncthreads();
    if (is_thread(0)) {
        tile(0, 3) = 1;
        full[0].arrive();
        if (waits_for_empty) empty[0].wait(producer_parity);
        tile(0, 3) = 2;  // @refill
    }
    if (is_thread(40)) {
        full[0].wait(0);
        (void)float(tile(0, 3));  // @consumer's read
        empty[0].arrive();
    }
}

TEST_F(MbarrierModel, AStageRefilledBeforeItIsReleasedIsARace) {
    expect_clean({.block = 64, .shared_bytes = kRingBytes}, [] { refill(true, 0); });
    // The order of the machine's turns decides which of the two is the one that finds out.
    const auto no_wait = fault_of({.block = 64, .shared_bytes = kRingBytes}, [] { refill(false, 0); });
    ASSERT_TRUE(no_wait);
    EXPECT_EQ(no_wait->report().fault, Fault::race) << no_wait->what();
    const auto wrong_parity = fault_of({.block = 64, .shared_bytes = kRingBytes}, [] { refill(true, 1); });
    ASSERT_TRUE(wrong_parity);
    EXPECT_EQ(wrong_parity->report().fault, Fault::race) << wrong_parity->what();
}

TEST_F(MbarrierModel, MustBeInitialised) {
    expect_fault({.block = 32, .shared_bytes = 64},
                 [] {
                     const auto full = SharedArena().barriers<2>("full");
                     if (is_thread(3)) full[1].arrive();  // @arrival at nothing
                 },
                 {.fault = Fault::barrier_misuse,
                  .first = {3, "arrival at nothing"},
                  .says = {"thread 3 arrives at full(0, 1), a barrier that nobody has initialised"}});
}

TEST_F(MbarrierModel, MustBeKnownToBeInitialised) {
    expect_fault({.block = 64, .shared_bytes = 64},
                 [] {
                     const auto full = SharedArena().barriers<2>("full");
                     if (is_thread(0)) full[1].init(1);    // @init
                     if (is_thread(33)) full[1].arrive();  // @arrival without a barrier
                 },
                 {.fault = Fault::barrier_misuse,
                  .first = {33, "arrival without a barrier"},
                  .second = {0, "init"},
                  .says = {"thread 33 arrives at full[1], which thread 0 has initialised; no barrier lies between"}});
}

TEST_F(MbarrierModel, AreInitialisedOnce) {
    expect_fault({.block = 32, .shared_bytes = 64},
                 [] {
                     const auto full = SharedArena().barriers<1>("full");
                     if (is_thread(0)) full[0].init(1);  // @first init
                     if (is_thread(1)) full[0].init(1);  // @second init
                 },
                 {.fault = Fault::barrier_misuse, .first = {1, "second init"}, .second = {0, "first init"}});
    expect_clean({.block = 32, .shared_bytes = 64}, [] {
        const auto full = SharedArena().barriers<1>("full");
        if (!is_thread(0)) return;
        full[0].init(1);
        full[0].arrive();
        full[0].wait(0);
        full[0].invalidate();
        full[0].init(2);
        full[0].arrive();
        full[0].arrive();
        full[0].wait(0);
    });
}

TEST_F(MbarrierModel, TakeACountThatFits) {
    expect_fault({.block = 32, .shared_bytes = 64},
                 [] {
                     const auto full = SharedArena().barriers<1>("full");
                     if (is_thread(0)) full[0].init(0);  // @no arrivals
                 },
                 {.fault = Fault::barrier_misuse, .first = {0, "no arrivals"}, .says = {"init(0) of full[0]"}});
}

TEST_F(MbarrierModel, TakeNoMoreArrivalsThanTheyCount) {
    // Bytes are still to come, so the phase is not over when the second arrival comes.
    expect_fault({.block = 32, .shared_bytes = 64},
                 [] {
                     const auto full = SharedArena().barriers<1>("full");
                     make(full, 1);
                     __syncthreads();
                     if (is_thread(0)) full[0].arrive_expecting(16);  // @the one arrival
                     if (is_thread(1)) full[0].arrive();              // @one too many
                 },
                 {.fault = Fault::barrier_misuse,
                  .first = {1, "one too many"},
                  .second = {0, "the one arrival"},
                  .says = {"thread 1 arrives at phase 0 of full[0], to which all 1 arrivals have come"}});
}

TEST_F(MbarrierModel, WaitsThatNobodyEndsAreADeadlock) {
    expect_fault({.block = 64, .shared_bytes = 64},
                 [] {
                     const auto full = SharedArena().barriers<2>("K full");
                     make(full, 2);
                     __syncthreads();
                     if (is_thread(0)) full[1].arrive();
                     if (threadIdx.x >= 32) full[1].wait(0);  // @waits for ever
                 },
                 {.fault = Fault::deadlock,
                  .first = {32, "waits for ever"},
                  .says = {"threads 32 to 63 wait for phase 0 of K full[1] (1 of 2 arrivals so far) at"}});
}

TEST_F(MbarrierModel, AWaitForTheNextPhaseIsADeadlock) {
    expect_fault({.block = 64, .shared_bytes = 64},
                 [] {
                     const auto full = SharedArena().barriers<1>("full");
                     make(full, 1);
                     __syncthreads();
                     if (is_thread(0)) full[0].arrive();
                     __syncthreads();
                     if (is_thread(32)) full[0].wait(1);  // @parity of the next phase
                 },
                 {.fault = Fault::deadlock,
                  .first = {32, "parity of the next phase"},
                  .says = {"thread 32 waits for phase 1 of full[0] (0 of 1 arrival so far)"}});
}

TEST_F(MbarrierModel, BytesThatNobodyBringsAreADeadlock) {
    expect_fault({.block = 32, .shared_bytes = 64},
                 [] {
                     const auto full = SharedArena().barriers<1>("full");
                     make(full, 1);
                     __syncthreads();
                     if (is_thread(0)) full[0].arrive_expecting(256);
                     if (is_thread(1)) full[0].wait(0);  // @waits for bytes
                 },
                 {.fault = Fault::deadlock,
                  .first = {1, "waits for bytes"},
                  .says = {"(1 of 1 arrival, 0 of 256 bytes so far)"}});
}

TEST_F(MbarrierModel, NobodyMayFallTwoPhasesBehind) {
    // Thread 0 lets two phases pass while thread 32 sleeps; it would look, and see the parity that it began with.
    expect_fault({.block = 64, .shared_bytes = 64},
                 [] {
                     const auto full = SharedArena().barriers<1>("full");
                     make(full, 1);
                     __syncthreads();
                     if (is_thread(32)) full[0].wait(0);  // @left behind
                     if (threadIdx.x == 33) {
                         full[0].arrive();
                         full[0].arrive();  // @second phase
                     }
                 },
                 {.fault = Fault::barrier_misuse,
                  .first = {32, "left behind"},
                  .second = {33, "second phase"},
                  .says = {"thread 32 waits for phase 0 of full[0], which is 2 phases on"}});
}

TEST_F(MbarrierModel, APeekThatFailsLetsOthersGoOn) {
    expect_clean({.block = 64, .shared_bytes = 64}, [] {
        const auto full = SharedArena().barriers<1>("full");
        make(full, 1);
        __syncthreads();
        if (is_thread(0))
            while (!full[0].is_over(0)) {
            }
        if (is_thread(32)) full[0].arrive();
    });
}

TEST_F(MbarrierModel, APeekThatNothingEndsIsEndless) {
    const ScopedBudget few_meetings({.seconds = 0, .meetings = 5000});
    const auto error = fault_of({.block = 64, .shared_bytes = 64}, [] {
        const auto full = SharedArena().barriers<1>("full");
        make(full, 1);
        __syncthreads();
        if (is_thread(0))
            while (!full[0].is_over(0)) {
            }
    });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->report().fault, Fault::endless) << error->what();
}

TEST_F(MbarrierModel, AreNotOnEveryDevice) {
    const ScopedCpuDevice older(device_from(device_profile("t4")));
    expect_fault({.block = 32, .shared_bytes = 64},
                 [] {
                     const auto full = SharedArena().barriers<1>("full");
                     if (is_thread(0)) full[0].init(1);  // @without the feature
                 },
                 {.fault = Fault::unsupported,
                  .first = {0, "without the feature"},
                  .says = {"barriers in shared memory (mbarrier), which NVIDIA T4 does not have"}});
}

TEST_F(MbarrierModel, CountNoBytesBeforeHopper) {
    const ScopedCpuDevice older(device_from(device_profile("a100")));
    const auto arrive = [](bool with_bytes) {
        const auto full = SharedArena().barriers<1>("full");
        if (is_thread(0)) full[0].init(1);
        __syncthreads();
        if (is_thread(1) && with_bytes) full[0].arrive_expecting(16);  // @announces bytes
        if (is_thread(1) && !with_bytes) full[0].arrive();
        full[0].wait(0);
    };
    expect_clean({.block = 64, .shared_bytes = 64}, [&] { arrive(false); });
    expect_fault({.block = 64, .shared_bytes = 64}, [&] { arrive(true); },
                 {.fault = Fault::unsupported, .first = {1, "announces bytes"}});
}

}  // namespace
}  // namespace simt::testing
