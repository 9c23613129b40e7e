// Blocks that wait for each other, also for later ones: they run as on a GPU, where as many as fit are there at once;
// and those that can never go on are named.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "common/simt/device/device_profile.h"
#include "common/simt/machine/schedule.h"
#include "tests/simt/fault_checks.h"
#include "tests/simt/global_memory.h"

namespace simt::testing {
namespace {

constexpr int kBlocks = 12;

/// data(b) = 0 and flag(b) = 0 before each launch.
struct Memory {
    Buffer<float> data_buffer{"data", {64}};
    Buffer<int> flag_buffer{"flag", {64}};
    GlobalTensor<float, 1> data = data_buffer.view<1>();
    GlobalTensor<int, 1> flag = flag_buffer.view<1>();

    void clear() {
        for (int i = 0; i < 64; ++i) {
            data_buffer.base[i] = 0;
            flag_buffer.base[i] = 0;
        }
    }
};

/// Runs clean with 1 to 6 workers, and in several orders; then `holds` says whether memory is as it should be.
template <class Kernel, class Holds>
void expect_right(Memory& m, const Shape& shape, Kernel kernel, Holds holds) {
    for (int workers = 1; workers <= 6; ++workers) {
        const Workers so_many(workers);
        m.clear();
        expect_clean(shape, kernel);
        EXPECT_TRUE(holds()) << workers << " workers";
    }
    for (std::uint64_t seed = 1; seed <= 6; ++seed) {
        const ScopedOrder order(seed);
        m.clear();
        expect_clean(shape, kernel);
        EXPECT_TRUE(holds()) << "seed " << seed;
    }
}

void wait_for(const GlobalTensor<int, 1>& flag, int which, int value) {
    while (load_acquire(flag(which)) != value) {
    }
}

bool is_thread(unsigned n) { return threadIdx.x == n; }

TEST(WaitingBlocks, TakeOverFromTheLastOne) {
    Memory m;
    expect_right(
        m, {.grid = kBlocks, .block = 64},
        [data = m.data, flag = m.flag] {
            const int b = int(blockIdx.x);
            // Stream-K: who has the tile's first part waits for who has the next, up to the last.
            if (is_thread(0) && b + 1 < kBlocks) wait_for(flag, b + 1, 1);
            __syncthreads();
            if (is_thread(40)) data(b) = (b + 1 < kBlocks ? float(data(b + 1)) : 0.0f) + float(b);
            __syncthreads();
            if (is_thread(0)) store_release(flag(b), 1);
        },
        [&] { return m.data_buffer.base[0] == kBlocks * (kBlocks - 1) / 2; });
}

TEST(WaitingBlocks, ExchangeWithBothNeighboursInARing) {
    Memory m;
    expect_right(
        m, {.grid = kBlocks, .block = 32},
        [data = m.data, flag = m.flag] {
            const int b = int(blockIdx.x), left = (b + kBlocks - 1) % kBlocks, right = (b + 1) % kBlocks;
            for (int step = 1; step <= 3; ++step) {
                if (is_thread(0)) {
                    data(b) = step == 1 ? float(b) : float(data(b)) + 1;
                    store_release(flag(b), 2 * step - 1);
                    while (load_acquire(flag(left)) < 2 * step - 1 || load_acquire(flag(right)) < 2 * step - 1) {
                    }
                    EXPECT_EQ(float(data(left)), float(left + step - 1));
                    EXPECT_EQ(float(data(right)), float(right + step - 1));
                    store_release(flag(b), 2 * step);  // it has been read
                    while (load_acquire(flag(left)) < 2 * step || load_acquire(flag(right)) < 2 * step) {
                    }
                }
                __syncwarp();
            }
        },
        [&] { return m.data_buffer.base[5] == 7; });
}

TEST(WaitingBlocks, MeetAtABarrierOfTheGrid) {
    Memory m;
    expect_right(
        m, {.grid = kBlocks, .block = 96},
        [data = m.data, flag = m.flag] {
            for (int round = 1; round <= 3; ++round) {
                if (is_thread(70)) data(blockIdx.x) = float(int(blockIdx.x) + round);
                __syncthreads();
                if (is_thread(0)) {
                    atomic_add<Order::release>(flag(0), 1);
                    while (load_acquire(flag(0)) < (2 * round - 1) * kBlocks) {
                    }
                }
                __syncthreads();
                if (is_thread(1)) {
                    EXPECT_EQ(float(data(kBlocks - 1)), float(kBlocks - 1 + round));
                }
                __syncthreads();
                if (is_thread(0)) {
                    atomic_add<Order::release>(flag(0), 1);
                    while (load_acquire(flag(0)) < 2 * round * kBlocks) {
                    }
                }
                __syncthreads();
            }
        },
        [&] { return m.flag_buffer.base[0] == 6 * kBlocks; });
}

TEST(WaitingBlocks, HaveThreadsThatLookTogether) {
    Memory m;
    expect_right(
        m, {.grid = 3, .block = 64},
        [data = m.data, flag = m.flag] {
            if (blockIdx.x == 2) {
                if (is_thread(0)) {
                    data(0) = 5.0f;
                    store_release(flag(0), 1);
                }
                return;
            }
            // The loop has a barrier, and each of its turns one look.
            while (__syncthreads_or(is_thread(0) && load_acquire(flag(0)) == 1) == 0) {
            }
            if (is_thread(33)) {
                EXPECT_EQ(float(data(0)), 5.0f);
            }
        },
        [] { return true; });
}

TEST(WaitingBlocks, MayWaitForThreadsOfTheirOwn) {
    Memory m;
    expect_right(
        m, {.grid = 2, .block = 96},
        [data = m.data, flag = m.flag] {
            const int mine = int(blockIdx.x), other = 1 - mine;
            if (threadIdx.x < 32) {
                wait_for(flag, mine, 1);  // of a later warp
                EXPECT_EQ(float(data(mine)), 3.0f);
            } else if (is_thread(95)) {
                wait_for(flag, 2 + other, 1);  // of a later lane of the other block
                data(mine) = 3.0f;
                store_release(flag(mine), 1);
            } else if (is_thread(94)) {
                store_release(flag(2 + mine), 1);
            }
        },
        [] { return true; });
}

TEST(WaitingBlocks, HoldALockWhileTheyWait) {
    Memory m;
    expect_right(
        m, {.grid = kBlocks, .block = 2},
        [data = m.data, flag = m.flag] {
            if (blockIdx.x == kBlocks - 1 && is_thread(0)) store_release(flag(1), 1);
            while (atomic_compare_exchange<Order::acquire>(flag(0), 0, 1) != 0) {
            }
            data(0) = float(data(0)) + 1.0f;
            if (blockIdx.x == 0 && is_thread(0)) wait_for(flag, 1, 1);
            store_release(flag(0), 0);
        },
        [&] { return m.data_buffer.base[0] == 2 * kBlocks; });
}

TEST(WaitingBlocks, MayCountTheirTurns) {
    Memory m;
    expect_right(
        m, {.grid = 2, .block = 32},
        [data = m.data, flag = m.flag] {
            if (blockIdx.x == 1) {
                if (is_thread(0)) store_release(flag(0), 1);
                return;
            }
            if (is_thread(0))
                while (load_acquire(flag(0)) == 0) atomic_add(flag(1), 1);
        },
        [] { return true; });
}

/// One multiprocessor, of the size that an H100's have.
struct SmallDevice {
    SmallDevice() {
        Device device = device_from(device_profile("h100"));
        device.multiprocessors = 1;
        set_cpu_device(std::move(device));
    }
    ~SmallDevice() { set_cpu_device(before); }
    Device before = cpu_device();
};

TEST(WaitingBlocks, AsManyAsFit) {
    const SmallDevice small;
    Memory m;
    // 1024 threads each: two are there at once.
    expect_right(
        m, {.grid = 2, .block = 1024},
        [flag = m.flag] {
            if (!is_thread(0)) return;
            store_release(flag(blockIdx.x), 1);
            wait_for(flag, 1 - int(blockIdx.x), 1);
        },
        [] { return true; });
}

TEST(StuckBlocks, NeedOneThatHasNoRoom) {
    const SmallDevice small;
    for (const int workers : {1, 2, 6}) {
        const Workers so_many(workers);
        Memory m;
        m.clear();
        expect_fault({.grid = 4, .block = 1024},
                     [flag = m.flag] {
                         if (!is_thread(0)) return;
                         if (blockIdx.x == 3) store_release(flag(0), 1);
                         while (load_acquire(flag(0)) == 0) {  // @waits for the last
                         }
                     },
                     {.fault = Fault::deadlock,
                      .first = {0, "waits for the last", BlockIndex{0, 0, 0}},
                      .second = {0, "waits for the last", BlockIndex{1, 0, 0}},
                      .says = {"no block can go on: in block (0, 0, 0) thread 0 waits for another value of flag(0) at",
                               "in block (1, 0, 0) thread 0 waits for another value of flag(0) at",
                               "2 of 4 blocks have not begun: 2 are on the device at once, 2 on each multiprocessor",
                               "launch no more blocks than fit"}});
    }
}

TEST(StuckBlocks, EachWaitsBeforeItHandsOver) {
    for (const int workers : {1, 2, 3}) {
        const Workers so_many(workers);
        Memory m;
        m.clear();
        expect_fault({.grid = 2, .block = 40},
                     [flag = m.flag] {
                         if (is_thread(0) && blockIdx.x == 0) {
                             while (load_acquire(flag(1)) == 0) {  // @first waits
                             }
                             store_release(flag(0), 1);
                         }
                         if (is_thread(35) && blockIdx.x == 1) {
                             while (load_acquire(flag(0)) == 0) {  // @second waits
                             }
                             store_release(flag(1), 1);
                         }
                     },
                     {.fault = Fault::deadlock,
                      .first = {0, "first waits", BlockIndex{0, 0, 0}},
                      .second = {35, "second waits", BlockIndex{1, 0, 0}},
                      .says = {"waits for another value of flag(1)", "waits for another value of flag(0)",
                               "all blocks have begun"}});
    }
}

TEST(StuckBlocks, AFlagThatNobodyRaises) {
    const Workers several(3);
    Memory m;
    m.clear();
    expect_fault({.grid = 9, .block = 32},
                 [flag = m.flag] {
                     if (blockIdx.x == 4 && is_thread(7))
                         while (load_acquire(flag(4)) == 0) {  // @waits for nobody
                         }
                 },
                 {.fault = Fault::deadlock,
                  .block = {4, 0, 0},
                  .first = {7, "waits for nobody", BlockIndex{4, 0, 0}},
                  .says = {"in block (4, 0, 0) thread 7 waits for another value of flag(4) at", "nobody raises"}});
}

TEST(StuckBlocks, SomeWaitAtABarrierForTheOneThatLooks) {
    Memory m;
    m.clear();
    expect_fault({.grid = 2, .block = 64},
                 [flag = m.flag] {
                     if (is_thread(5))
                         while (load_acquire(flag(0)) != 3) {  // @looks
                         }
                     __syncthreads();
                     if (is_thread(5)) atomic_add(flag(0), 1);
                 },
                 {.fault = Fault::deadlock,
                  .first = {5, "looks", BlockIndex{0, 0, 0}},
                  .second = {5, "looks", BlockIndex{1, 0, 0}},
                  .says = {"waits for another value of flag(0)"}});
}

TEST(RacesOfWaitingBlocks, ALaterBlockReleasesNothing) {
    const Workers one(1);
    Memory m;
    m.clear();
    expect_fault({.grid = 2, .block = 1},
                 [data = m.data, flag = m.flag] {
                     if (blockIdx.x == 1) {
                         data(0) = 1.0f;  // @handed over
                         store_relaxed(flag(0), 1);
                     } else {
                         wait_for(flag, 0, 1);
                         EXPECT_EQ(float(data(0)), 1.0f);  // @taken over
                     }
                 },
                 {.fault = Fault::global_race,
                  .block = {1, 0, 0},
                  .first = {0, "handed over", BlockIndex{1, 0, 0}},
                  .second = {0, "taken over", BlockIndex{0, 0, 0}},
                  .says = {"releases nothing"}});
}

TEST(RacesOfWaitingBlocks, DataWrittenAgainBeforeItIsRead) {
    const Workers one(1);
    Memory m;
    m.clear();
    expect_fault({.grid = 2, .block = 1},
                 [data = m.data, flag = m.flag] {
                     if (blockIdx.x == 1) {
                         data(0) = 1.0f;
                         store_release(flag(0), 1);
                         data(0) = 2.0f;  // @again
                     } else {
                         wait_for(flag, 0, 1);
                         const float seen = data(0);  // @reads
                         EXPECT_NE(seen, 0.0f);
                     }
                 },
                 {.fault = Fault::global_race,
                  .block = {1, 0, 0},
                  .first = {0, "again", BlockIndex{1, 0, 0}},
                  .second = {0, "reads", BlockIndex{0, 0, 0}}});
}

}  // namespace
}  // namespace simt::testing
