// Faults that come to light when the thread that they are about does not run: while the last one of a block finishes,
// or another one goes to sleep. They must name who did it, and must not lend it the calls of who happens to run.

#include <gtest/gtest.h>

#include "common/simt/device/device_profile.h"
#include "tests/simt/fault_checks.h"

namespace simt::testing {
namespace {

class LastThread : public ::testing::Test {
    const ScopedCpuDevice imitated_{device_from(device_profile("h200"))};

  protected:
    mutable Buffer<float> buffer_{"x", {64}};
    GlobalTensor<float, 1> x_ = buffer_.view<1>();
};

constexpr Shape kShape{.block = 64, .shared_bytes = 1024};
constexpr int kBytes = 64 * int(sizeof(float));

bool is_thread(unsigned n) { return threadIdx.x == n; }

struct Tiles {
    SharedArena arena{};
    SharedTile<float, 2, 64> tile = arena.tile<float, 2, 64>("tile");
    SharedBarriers<1> full = arena.barriers<1>("full");

    Tiles() {
        if (is_thread(0)) {
            full[0].init(1);
            publish_barriers();
        }
        __syncthreads();
    }
};

/// Keeps a frame of its own.
[[gnu::noinline]] void wait_in_a_helper(Mbarrier barrier) {
    barrier.wait(0);  // @wait
    asm volatile("");
}

[[gnu::noinline]] void write_in_a_helper(const Tiles& t) {
    t.tile(0, 3) = 1.0f;  // @write
    asm volatile("");
}

/// Every other thread is over when the phase comes to its end.
TEST_F(LastThread, IsNotBlamedForACopyThatNobodyHasAnnounced) {
    expect_fault(kShape,
                 [x = x_] {
                     const Tiles t;
                     if (!is_thread(5)) return;
                     t.full[0].arrive_expecting(kBytes);
                     bulk_load(t.tile(0, 0), x(0), kBytes, t.full[0]);  // @announced
                     bulk_load(t.tile(1, 0), x(0), kBytes, t.full[0]);  // @not announced
                     t.full[0].wait(0);
                 },
                 {.fault = Fault::barrier_misuse,
                  .first = {5, "announced"},
                  .second = {5, "not announced"},
                  .says = {"phase 0 of full[0] is over after 256 bytes, while bulk_load of x to tile(1, 0)"}});
}

TEST_F(LastThread, LendsItsCallsToNobody) {
    const auto waits_for_ever = fault_of(kShape, [] {
        const Tiles t;
        if (is_thread(5)) wait_in_a_helper(t.full[0]);
    });
    ASSERT_TRUE(waits_for_ever);
    EXPECT_EQ(waits_for_ever->report().fault, Fault::deadlock);
    EXPECT_EQ(waits_for_ever->report().first.thread, 5);
    EXPECT_EQ(waits_for_ever->report().first.site.text(), place("wait"));
    EXPECT_TRUE(waits_for_ever->report().calls.empty());

    const auto left_under_way = fault_of(kShape, [x = x_] {
        const Tiles t;
        if (!is_thread(63)) return;
        t.full[0].arrive_expecting(kBytes);
        bulk_load(t.tile(0, 0), x(0), kBytes, t.full[0]);  // @left
    });
    ASSERT_TRUE(left_under_way);
    EXPECT_EQ(left_under_way->report().fault, Fault::copy_not_awaited);
    EXPECT_EQ(left_under_way->report().first.site.text(), place("left"));
    EXPECT_TRUE(left_under_way->report().calls.empty());
}

/// Thread 40 sleeps in a helper, and thread 0's copy brings more than was announced.
TEST_F(LastThread, ToSleepDoesNotEither) {
    const auto error = fault_of(kShape, [x = x_] {
        const Tiles t;
        if (is_thread(0)) {
            t.full[0].arrive_expecting(kBytes / 2);
            bulk_load(t.tile(0, 0), x(0), kBytes, t.full[0]);  // @too much
        }
        if (is_thread(40)) wait_in_a_helper(t.full[0]);
    });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->report().fault, Fault::barrier_misuse);
    EXPECT_EQ(error->report().first.thread, 0);
    EXPECT_EQ(error->report().first.site.text(), place("too much"));
    EXPECT_TRUE(error->report().calls.empty());
}

[[gnu::noinline]] float neighbour_in_a_helper(float x) {
    const float other = __shfl_xor_sync(0xffffffff, x, 1);  // @shuffle
    asm volatile("");
    return other;
}

/// The last lane to arrive finds out that another one reads a lane that has returned.
TEST_F(LastThread, TellsThePathThatLanesOfACollectiveHaveCome) {
    const auto error = fault_of(kShape, [x = x_] {
        if (is_thread(7)) return;
        x(threadIdx.x) = neighbour_in_a_helper(1.0f);
    });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->report().fault, Fault::invalid_collective);
    EXPECT_EQ(error->report().first.thread, 6);
    EXPECT_EQ(error->report().first.site.text(), place("shuffle"));
    EXPECT_GE(error->report().calls.size(), 2u);
}

/// Who runs when he is found out has his calls told.
TEST_F(LastThread, AThreadThatRunsTellsItsCalls) {
    const auto error = fault_of(kShape, [] {
        const Tiles t;
        if (is_thread(40) || is_thread(3)) write_in_a_helper(t);
    });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->report().fault, Fault::race);
    EXPECT_FALSE(error->report().calls.empty());
}

}  // namespace
}  // namespace simt::testing
