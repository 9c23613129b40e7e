// Blocks that do not come to an end: each must end in a diagnosis that says where its threads are; and those that only
// take long must be left alone.

#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>
#include <string>
#include <vector>

#include "common/simt/memory/sanitizers.h"
#include "tests/simt/faulty_kernels.h"

namespace simt::testing {
namespace {

/// Little enough for a test. On a machine that is busy too: it is the processor's time.
constexpr Budget kShort{.seconds = 0.1};
constexpr Budget kFewMeetings{.seconds = 0, .meetings = 5000};

/// What only a signal can end: under ThreadSanitizer none comes through.
class Endless : public ::testing::Test {
  protected:
    void SetUp() override {
        if (kHidesMachine) GTEST_SKIP() << "ThreadSanitizer keeps signals to itself";
    }
    ScopedBudget budget_{kShort};
};

/// What nothing but a signal that leaves the kernel can end.
class EndlessUnseen : public Endless {
  protected:
    void SetUp() override {
        if (kHasSanitizer) GTEST_SKIP() << "a sanitizer follows every switch of stacks, and none out of a signal";
    }
};

auto flag() { return SharedArena().tile<int, 1, 8>("flag"); }

TEST_F(Endless, BlocksThatWaitForEachOtherWithOneWorker) {
    const Workers one(1);
    Buffer<int> ready("ready", {2});
    const auto view = ready.view<1>();
    expect_fault({.grid = 2, .block = 1},
                 [view] {
                     view(blockIdx.x) = 1;
                     while (view(1 - blockIdx.x) == 0) {  // @waits for the other block
                     }
                 },
                 {.fault = Fault::endless,
                  .first = {0, "waits for the other block"},
                  .says = {"0.1 s of the processor's time", "thread 0 reads ready(1) over and over",
                           "belongs into a launch of its own", "LADDER_BLOCK_SECONDS"}});
}

TEST_F(Endless, TheLastBlockOfManyWaitsForAFlagThatNobodyWrites) {
    const Workers several(3);
    Buffer<int> ready("ready", {8});
    const auto view = ready.view<1>();
    expect_fault({.grid = 8, .block = 64},
                 [view] {
                     if (blockIdx.x < 7 || threadIdx.x < 40) return;
                     while (view(int(blockIdx.x)) == 0) {  // @waits for nobody
                     }
                 },
                 {.fault = Fault::endless,
                  .block = {7, 0, 0},
                  .first = {40, "waits for nobody"},
                  .says = {"ready(7)", "threads 0 to 39: returned", "threads 41 to 63: not begun"}});
}

TEST_F(Endless, LaneThatWaitsForALaterLaneOfItsWarp) {
    expect_fault(
        {.shared_bytes = kOneTile},
        [] {
            if (is_thread(0)) flag()(0, 3) = 0;
            __syncwarp();  // @before the wait
            if (is_thread(0)) {
                while (flag()(0, 3) == 0) {  // @spins
                }
            } else if (is_thread(1)) {
                flag()(0, 3) = 1;
            }
        },
        {.fault = Fault::endless,
         .first = {0, "spins"},
         .says = {"thread 0 reads flag(0, 3) over and over", "has no turn", "threads 1 to 30: ready to go on"}});
}

TEST_F(Endless, WarpThatWaitsForOneThatWaitsAtABarrier) {
    expect_fault({.block = 64, .shared_bytes = kOneTile},
                 [] {
                     if (is_thread(32)) flag()(0, 0) = 0;
                     if (threadIdx.x < 32) __syncthreads();  // @the other warp waits
                     if (is_thread(32))
                         while (flag()(0, 0) == 0) {  // @one warp spins
                         }
                     __syncthreads();
                 },
                 {.fault = Fault::endless,
                  .first = {32, "one warp spins"},
                  .second = {0, "the other warp waits"},
                  .says = {"flag(0, 0)", "threads 0 to 31: waiting at __syncthreads()"}});
}

TEST_F(Endless, LoopOverATensorThatNeverStops) {
    Buffer<int> list("list", {64});
    const auto next = list.view<1>();
    expect_fault({.block = 64},
                 [next] {
                     int at = int(threadIdx.x);
                     next(at) = at;
                     if (threadIdx.x < 10) return;
                     next(at) = at - 1;
                     for (int i = 0; i >= 0; i = (i + 1) % 64) next(at) += at;  // @a list without end
                 },
                 {.fault = Fault::endless,
                  .first = {10, "a list without end"},
                  .says = {"goes round a loop in which it meets nobody", "threads 0 to 9: returned"}});
}

TEST_F(Endless, LoopWithABarrierByTime) {
    const auto found = fault_of({.block = 64}, [] {
        for (;;) __syncthreads();  // @round and round
    });
    ASSERT_TRUE(found);
    const std::string loop = place("round and round");
    EXPECT_EQ(found->report().fault, Fault::endless) << found->what();
    EXPECT_EQ(found->report().first.site.text(), loop) << found->what();
    EXPECT_EQ(found->report().second.site.text(), loop) << found->what();
    EXPECT_NE(found->report().what.find("go round a loop and meet in it"), std::string::npos) << found->what();
    expect_machine_still_works();
}

TEST_F(EndlessUnseen, LoopThatTouchesNothing) {
    expect_fault({.block = 64},
                 [] {
                     if (threadIdx.x < 5) __syncthreads();  // @they wait
                     volatile int x = 0;
                     while (true) x = x + 1;
                 },
                 {.fault = Fault::endless,
                  .first = {5},
                  .second = {0, "they wait"},
                  .says = {"touches no tensor or tile and meets nobody", "threads 0 to 4: waiting at __syncthreads()",
                           "threads 6 to 63: not begun"}});
}

TEST_F(EndlessUnseen, LoopThatCallsALibrary) {
    expect_fault({.grid = 3, .block = 1},
                 [] {
                     volatile double x = 0.5;
                     while (blockIdx.x == 1) x = std::cos(x);
                 },
                 {.fault = Fault::endless, .block = {1, 0, 0}, .first = {0}, .says = {"meets nobody"}});
}

TEST_F(EndlessUnseen, EveryBlockOfSeveralWorkers) {
    const Workers several(4);
    for (int repeat = 0; repeat < 3; ++repeat) {
        const auto found = fault_of({.grid = 16, .block = 33}, [] {
            volatile int x = 0;
            while (blockIdx.x >= 2) x = x + 1;
        });
        ASSERT_TRUE(found);
        EXPECT_EQ(found->report().fault, Fault::endless) << found->what();
        EXPECT_EQ(found->report().block[0], 2u);
        EXPECT_FALSE(found->report().calls.empty());
    }
    expect_machine_still_works();
}

TEST_F(EndlessUnseen, WhileSomebodyCounts) {
    const LaunchLog log(LaunchLog::Detail::requests);
    const auto found = fault_of({.block = 64, .shared_bytes = kOneTile}, [] {
        K_j()(0, int(threadIdx.x % 8)) = 0.0f;
        volatile int x = 0;
        while (true) x = x + 1;
    });
    ASSERT_TRUE(found);
    EXPECT_EQ(found->report().fault, Fault::endless) << found->what();
}

/// By the number of meetings the end comes at the same place each time.
template <class Kernel>
void expect_same_end_twice(const Shape& shape, Kernel kernel, const Expected& expected) {
    const ScopedBudget budget(kFewMeetings);
    expect_fault(shape, kernel, expected);
    EXPECT_STREQ(fault_of(shape, kernel)->what(), fault_of(shape, kernel)->what());
}

TEST(EndlessMeetings, AtABarrier) {
    expect_same_end_twice({.block = 64, .shared_bytes = kOneTile},
                          [] {
                              for (;;) {
                                  K_j()(int(threadIdx.x) / 8 % 8, int(threadIdx.x) % 8) = 0.0f;
                                  __syncthreads();  // @meets
                              }
                          },
                          {.fault = Fault::endless,
                           .first = {1},
                           .second = {0, "meets"},
                           .says = {"5000 meetings", "LADDER_BLOCK_MEETINGS"}});
}

TEST(EndlessMeetings, InAWarpWhileTheOthersWait) {
    expect_same_end_twice({.block = 33},
                          [] {
                              if (threadIdx.x < 32) __syncthreads();  // @patience
                              for (;;) __syncwarp();                  // @turns
                          },
                          {.fault = Fault::endless,
                           .first = {32, "turns"},
                           .second = {0, "patience"},
                           .says = {"threads 0 to 31: waiting at __syncthreads()"}});
}

TEST(EndlessMeetings, InEveryCollective) {
    const ScopedBudget budget(kFewMeetings);
    for (int kind = 0; kind < 4; ++kind) {
        const auto found = fault_of({.block = 40}, [kind] {
            for (;;) switch (kind) {
                    case 0:
                        (void)__shfl_xor_sync(0xffffffffu, 1, threadIdx.x < 32 ? 1 : 0);
                        break;
                    case 1:
                        (void)__any_sync(0xffffffffu, 1);
                        break;
                    case 2:
                        (void)__ballot_sync(1u << threadIdx.x % 32, 1);
                        break;
                    case 3:
                        __syncwarp(1u << threadIdx.x % 32);
                        break;
                }
        });
        ASSERT_TRUE(found) << kind;
        EXPECT_EQ(found->report().fault, Fault::endless) << found->what();
    }
    expect_machine_still_works();
}

TEST(EndlessMeetings, MuchWorkIsNoLoopWithoutEnd) {
    const ScopedBudget budget(kFewMeetings);
    expect_clean({.grid = 10, .block = 64}, [] {
        for (int i = 0; i < 1500; ++i) {
            __syncthreads();
            __syncwarp();
        }
    });
}

TEST_F(Endless, TheTimeOfABlockAndNotOfItsLaunch) {
    volatile float sink = 0;
    expect_clean({.grid = 400, .block = 32}, [&sink] {
        for (int i = 0; i < 4000; ++i) sink = std::sqrt(sink + float(i));
    });
}

TEST_F(Endless, NoBudgetNoEnd) {
    const ScopedBudget none({.seconds = 0, .meetings = 0});
    expect_clean({.block = 32}, [] {
        for (int i = 0; i < 100'000; ++i) __syncwarp();
    });
}

TEST(BudgetOfABlock, MustBeANumberOfSeconds) {
    EXPECT_THROW(set_block_budget({.seconds = -1}), std::invalid_argument);
    EXPECT_THROW(set_block_budget({.seconds = std::nan("")}), std::invalid_argument);
}

}  // namespace
}  // namespace simt::testing
