// What the CPU machine says where something lacks when blocks hand over to each other through a flag, and of right
// ways of doing that, about which it says nothing.

#include <gtest/gtest.h>

#include "common/simt/machine/schedule.h"
#include "tests/simt/data_and_flags.h"

namespace simt::testing {
namespace {

constexpr Shape kTwoBlocks{.grid = 2};

/// Block 0 writes data(0) and raises a flag; block 1 sees it, and reads.
template <class Raise, class Look>
auto hand_over(const DataAndFlags& m, Raise raise, Look look) {
    return [data = m.data, flag = m.flag, raise, look] {
        if (blockIdx.x == 0) {
            data(0) = 1.0f;  // @handed over
            raise(flag);
        } else {
            look(flag);
            EXPECT_EQ(float(data(0)), 1.0f);  // @taken over
        }
    };
}

constexpr auto kWaits = [](const auto& flag) {
    while (load_acquire(flag(0)) == 0) {
    }
};

void expect_hand_over_fails(const DataAndFlags& m, auto raise, auto look, std::vector<std::string> says) {
    const Workers one(1);
    m.flag_buffer.base[0] = 0;
    expect_fault({.grid = 2, .block = 1}, hand_over(m, raise, look),
                 {.fault = Fault::global_race,
                  .block = {1, 0, 0},
                  .first = {0, "taken over", BlockIndex{1, 0, 0}},
                  .second = {0, "handed over", BlockIndex{0, 0, 0}},
                  .says = std::move(says)});
}

TEST(WrongHandOver, NothingIsReleased) {
    const DataAndFlags m;
    expect_hand_over_fails(m, [](const auto& flag) { store_relaxed(flag(0), 1); }, kWaits,
                           {"block (1, 0, 0) reads data(0), which block (0, 0, 0) writes",
                            "the write of flag(0) (thread 0 of block (0, 0, 0) at simt/hand_over_model_test.cpp:",
                            "releases nothing: let a simt::fence() stand before it"});
    expect_hand_over_fails(m, [](const auto& flag) { atomic_add<Order::acquire>(flag(0), 1); }, kWaits,
                           {"the write of flag(0)", "releases nothing"});
    // A fence too late.
    expect_hand_over_fails(m,
                           [](const auto& flag) {
                               store_relaxed(flag(0), 1);
                               fence();
                           },
                           kWaits, {"releases nothing"});
}

TEST(WrongHandOver, NothingIsAcquired) {
    const DataAndFlags m;
    const auto release = [](const auto& flag) { store_release(flag(0), 1); };
    expect_hand_over_fails(m, release,
                           [](const auto& flag) {
                               while (load_relaxed(flag(0)) == 0) {
                               }
                           },
                           {"the read of flag(0) (thread 0 of block (1, 0, 0) at simt/hand_over_model_test.cpp:",
                            "acquires nothing: let a simt::fence() stand behind it"});
    expect_hand_over_fails(m, release, [](const auto& flag) { atomic_add<Order::release>(flag(0), 1); },
                           {"the read of flag(0)", "acquires nothing"});
    // A fence too early.
    expect_hand_over_fails(m, release,
                           [](const auto& flag) {
                               fence();
                               atomic_add(flag(0), 1);
                           },
                           {"acquires nothing"});
}

TEST(WrongHandOver, NeitherIsThere) {
    const DataAndFlags m;
    expect_hand_over_fails(
        m, [](const auto& flag) { store_relaxed(flag(0), 1); }, [](const auto& flag) { load_relaxed(flag(0)); },
        {"releases nothing", "; and the read of flag(0)", "acquires nothing"});
}

TEST(WrongHandOver, ByAnotherFlag) {
    const DataAndFlags m;
    expect_hand_over_fails(
        m, [](const auto& flag) { store_release(flag(1), 1); }, [](const auto& flag) { load_acquire(flag(0)); },
        {"blocks run at the same time"});
}

// The value that was released has been overwritten by a third block, with nothing of its own.
TEST(WrongHandOver, TheFlagIsOverwritten) {
    const DataAndFlags m;
    const Workers one(1);
    expect_fault({.grid = 3, .block = 1},
                 [data = m.data, flag = m.flag] {
                     if (blockIdx.x == 0) {
                         data(0) = 1.0f;  // @released in vain
                         store_release(flag(0), 1);
                     } else if (blockIdx.x == 1) {
                         store_relaxed(flag(0), 2);
                     } else if (load_acquire(flag(0)) == 2) {
                         EXPECT_EQ(float(data(0)), 1.0f);  // @acquired in vain
                     }
                 },
                 {.fault = Fault::global_race,
                  .block = {2, 0, 0},
                  .first = {0, "acquired in vain", BlockIndex{2, 0, 0}},
                  .second = {0, "released in vain", BlockIndex{0, 0, 0}}});
}

TEST(WrongHandOver, ThreadsWriteWithoutABarrierBeforeTheRelease) {
    const DataAndFlags m;
    const Workers one(1);
    expect_fault(kTwoBlocks,
                 [data = m.data, flag = m.flag] {
                     if (blockIdx.x == 0) {
                         data(threadIdx.x) = 1.0f;  // @written by each
                         if (threadIdx.x == 0) store_release(flag(0), 1);
                     } else {
                         if (threadIdx.x == 0) kWaits(flag);
                         __syncthreads();
                         EXPECT_EQ(float(data(threadIdx.x)), 1.0f);  // @read by each
                     }
                 },
                 {.fault = Fault::global_race,
                  .block = {1, 0, 0},
                  .first = {1, "read by each", BlockIndex{1, 0, 0}},
                  .second = {1, "written by each", BlockIndex{0, 0, 0}},
                  .says = {"does not lie before its release", "then a __syncthreads()"}});
}

TEST(WrongHandOver, ThreadsReadWithoutABarrierAfterTheAcquire) {
    const DataAndFlags m;
    const Workers one(1);
    expect_fault(kTwoBlocks,
                 [data = m.data, flag = m.flag] {
                     if (blockIdx.x == 0) {
                         data(threadIdx.x) = 1.0f;  // @written in time
                         __syncthreads();
                         if (threadIdx.x == 0) store_release(flag(0), 1);
                     } else {
                         if (threadIdx.x == 0) kWaits(flag);
                         EXPECT_EQ(float(data(threadIdx.x)), 1.0f);  // @read at once
                     }
                 },
                 {.fault = Fault::global_race,
                  .block = {1, 0, 0},
                  .first = {1, "read at once", BlockIndex{1, 0, 0}},
                  .second = {1, "written in time", BlockIndex{0, 0, 0}},
                  .says = {"does not lie behind the acquire", "then a __syncthreads()"}});
}

TEST(WrongHandOver, WrittenAgainAfterTheRelease) {
    const DataAndFlags m;
    const Workers one(1);
    for (const unsigned threads : {1, 64})
        expect_fault({.grid = 2, .block = threads},
                     [data = m.data, flag = m.flag] {
                         if (threadIdx.x > 0) return;
                         if (blockIdx.x == 0) {
                             data(0) = 1.0f;
                             store_release(flag(0), 1);
                             data(0) = 2.0f;  // @written too late
                         } else {
                             kWaits(flag);
                             EXPECT_GE(float(data(0)), 1.0f);  // @read meanwhile
                         }
                     },
                     {.fault = Fault::global_race,
                      .block = {1, 0, 0},
                      .first = {0, "read meanwhile", BlockIndex{1, 0, 0}},
                      .second = {0, "written too late", BlockIndex{0, 0, 0}},
                      .says = {"nobody touches the element after that"}});
}

TEST(WrongHandOver, ReadBeforeTheAcquireToo) {
    const DataAndFlags m;
    const Workers one(1);
    expect_fault({.grid = 2, .block = 1},
                 [data = m.data, flag = m.flag] {
                     if (blockIdx.x == 0) {
                         data(0) = 1.0f;  // @written once
                         store_release(flag(0), 1);
                     } else {
                         const float before = data(0);  // @read too early
                         kWaits(flag);
                         EXPECT_EQ(float(data(0)), before);
                     }
                 },
                 {.fault = Fault::global_race,
                  .block = {1, 0, 0},
                  .first = {0, "read too early", BlockIndex{1, 0, 0}},
                  .second = {0, "written once", BlockIndex{0, 0, 0}},
                  .says = {"does not lie behind the acquire"}});
}

// The reader must have finished before the next round writes: a second flag the other way.
TEST(WrongHandOver, ABufferRefilledBeforeItWasRead) {
    const DataAndFlags m;
    const Workers one(1);
    expect_fault({.grid = 3, .block = 1},
                 [data = m.data, flag = m.flag] {
                     if (blockIdx.x == 0) {
                         data(0) = 1.0f;
                         store_release(flag(0), 1);
                     } else if (blockIdx.x == 1) {
                         kWaits(flag);
                         EXPECT_EQ(float(data(0)), 1.0f);  // @read in the first round
                     } else {
                         kWaits(flag);
                         data(0) = 2.0f;  // @refilled
                     }
                 },
                 {.fault = Fault::global_race,
                  .block = {2, 0, 0},
                  .first = {0, "refilled", BlockIndex{2, 0, 0}},
                  .second = {0, "read in the first round", BlockIndex{1, 0, 0}}});
}

TEST(WrongHandOver, TheLastBlockReadsAPartThatNobodyWrote) {
    FreshBuffer<float> partial_buffer("partial", {2});
    const auto partial = partial_buffer.view<1>();
    const DataAndFlags m;
    expect_fault({.grid = 2, .block = 1},
                 [partial, flag = m.flag] {
                     if (blockIdx.x == 0) partial(0) = 1.0f;
                     if (atomic_add<Order::acq_rel>(flag(0), 1) == 0) return;
                     EXPECT_EQ(float(partial(0)), 1.0f);
                     EXPECT_GE(float(partial(1)), 0.0f);  // @summed
                 },
                 {.fault = Fault::unwritten_read, .block = {1, 0, 0}, .first = {0, "summed"}, .says = {"partial(1)"}});
}

// --- right ---------------------------------------------------------------------------------------------------------

TEST(RightHandOver, InTheOldIdiomEveryThreadFences) {
    const DataAndFlags m;
    expect_right(m, {.grid = 4, .block = 16}, [data = m.data, flag = m.flag] {
        data(blockIdx.x * 16 + threadIdx.x) = 1.0f;
        fence();
        __syncthreads();
        int ticket = 0;
        if (threadIdx.x == 0) ticket = atomic_add(flag(0), 1);
        if (!__syncthreads_or(ticket == 3)) return;
        fence();
        for (int b = 0; b < 4; ++b) EXPECT_EQ(float(data(b * 16 + 15 - threadIdx.x)), 1.0f);
    });
}

TEST(RightHandOver, IsPassedOnFromBlockToBlock) {
    const DataAndFlags m;
    const Workers one(1);
    expect_right(m, {.grid = 3, .block = 1}, [data = m.data, flag = m.flag] {
        if (blockIdx.x == 0) {
            data(0) = 1.0f;
            store_release(flag(0), 1);
        } else if (blockIdx.x == 1) {
            kWaits(flag);
            store_release(flag(1), 1);
        } else {
            while (load_acquire(flag(1)) == 0) {
            }
            EXPECT_EQ(float(data(0)), 1.0f);
            data(0) = 2.0f;
        }
    });
}

TEST(RightHandOver, GoesOnThroughReadsAndWritesInOne) {
    const DataAndFlags m;
    expect_right(m, {.grid = 3, .block = 1}, [data = m.data, flag = m.flag] {
        if (blockIdx.x == 0) {
            data(0) = 1.0f;
            store_release(flag(0), 1);
            store_relaxed(flag(0), 2);  // of the same thread: it goes on with what it released
        } else if (blockIdx.x == 1) {
            while (load_relaxed(flag(0)) != 2) {
            }
            atomic_add(flag(0), 1);
        } else {
            while (load_acquire(flag(0)) != 3) {
            }
            EXPECT_EQ(float(data(0)), 1.0f);
        }
    });
}

TEST(RightHandOver, ThereAndBackAgain) {
    const DataAndFlags m;
    expect_right(m, {.grid = 3, .block = 1}, [data = m.data, flag = m.flag] {
        if (blockIdx.x == 0) {
            data(0) = 1.0f;
            store_release(flag(0), 1);
        } else if (blockIdx.x == 1) {
            kWaits(flag);
            EXPECT_EQ(float(data(0)), 1.0f);
            store_release(flag(1), 1);
        } else {
            while (load_acquire(flag(1)) == 0) {
            }
            data(0) = 2.0f;
        }
    });
}

// What a thread has come by before a barrier is known to all behind it; what another comes by there is something else.
TEST(RightHandOver, ByOneThreadBeforeABarrierAndByAnotherBehindIt) {
    const DataAndFlags m;
    expect_right(m, {.grid = 2, .block = 32}, [data = m.data, flag = m.flag] {
        const auto wait = [&](int n) {
            while (load_acquire(flag(n)) == 0) {
            }
        };
        if (blockIdx.x == 0) {
            if (threadIdx.x != 0) return;
            data(0) = 1.0f;
            store_release(flag(0), 1);
            data(1) = 2.0f;
            store_release(flag(1), 1);
            return;
        }
        if (threadIdx.x == 0) {
            wait(0);
            EXPECT_EQ(float(data(0)), 1.0f);
        }
        __syncthreads();
        if (threadIdx.x == 1) wait(1);
        __syncwarp();
        if (threadIdx.x == 0) EXPECT_EQ(float(data(1)), 2.0f);
    });
}

TEST(RightHandOver, OfAWorkspaceThatHeldGarbage) {
    const DataAndFlags m;
    FreshBuffer<float> partial_buffer("partial", {8}), sum_buffer("sum", {1});
    const auto partial = partial_buffer.view<1>(), sum = sum_buffer.view<1>();
    m.flag_buffer.base[0] = 0;
    expect_clean({.grid = 8, .block = 1}, [=, flag = m.flag] {
        partial(blockIdx.x) = 1.0f;
        if (atomic_add<Order::acq_rel>(flag(0), 1) != 7) return;
        float total = 0.0f;
        for (int b = 0; b < 8; ++b) total += partial(b);
        sum(0) = total;
    });
    EXPECT_EQ(sum_buffer.base[0], 8.0f);
    EXPECT_EQ(written_elements(partial_buffer.base, 8 * sizeof(float), sizeof(float)), std::vector<bool>(8, true));
    EXPECT_EQ(written_elements(sum_buffer.base, sizeof(float), sizeof(float)), std::vector<bool>(1, true));
}

TEST(RightHandOver, AfterwardsTheMachineIsAsBefore) {
    const DataAndFlags m;
    expect_right(m, {.grid = 2, .block = 1},
                 hand_over(
                     m, [](const auto& flag) { store_release(flag(0), 1); }, kWaits));
    expect_machine_still_works();
    EXPECT_TRUE(fault_of({.grid = 2, .block = 1}, [data = m.data] { data(0) = 1.0f; }));
}

}  // namespace
}  // namespace simt::testing
