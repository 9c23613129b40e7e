// What the CPU machine says about wrong uses of atomics, and right ones about which it says nothing.

#include <gtest/gtest.h>

#include <set>

#include "common/simt/machine/drawn_order.h"
#include "common/simt/machine/schedule.h"
#include "tests/simt/global_memory.h"

namespace simt::testing {
namespace {

const FaultChecks checks("atomics_model_test.cpp");

constexpr Shape kTwoBlocks{.grid = 2};

/// What kernels here work on.
struct Memory {
    mutable Buffer<float> data_buffer{"data", {64}};
    mutable Buffer<int> flag_buffer{"flag", {4}};
    GlobalTensor<float, 1> data = data_buffer.view<1>();
    GlobalTensor<int, 1> flag = flag_buffer.view<1>();
};

// --- wrong: no atomic where there should be one
// ------------------------------------------------------------------------

TEST(WrongAtomics, AHistogramInSharedMemoryWithoutThem) {
    checks.expect({.block = 64, .shared_bytes = 64},
                  [] {
                      const auto bins = SharedArena().tile<int, 1, 16>("bins");
                      if (threadIdx.x < 16) bins(0, threadIdx.x) = 0;
                      __syncthreads();
                      if (threadIdx.x < 32) bins(0, threadIdx.x % 5) += 1;  // @plain histogram
                  },
                  {.fault = Fault::race,
                   .first = {5, "plain histogram"},
                   .second = {0, "plain histogram"},
                   .says = {"thread 5 reads bins(0, 0), which thread 0 wrote", "simt::atomic_add()"}});
}

TEST(WrongAtomics, AHistogramInGlobalMemoryWithoutThem) {
    Memory m;
    checks.expect({.block = 64}, [data = m.data] { data(threadIdx.x % 5) += 1.0f; },  // @plain global histogram
                  {.fault = Fault::global_race,
                   .first = {5, "plain global histogram"},
                   .second = {0, "plain global histogram"},
                   .says = {"simt::atomic_add()"}});
}

TEST(WrongAtomics, BlocksThatAddWithoutThem) {
    Memory m;
    checks.expect({.grid = 2, .block = 1}, [data = m.data] { data(0) += 1.0f; },  // @blocks add plainly
                  {.fault = Fault::global_race,
                   .block = {1, 0, 0},
                   .first = {0, "blocks add plainly", BlockIndex{1, 0, 0}},
                   .second = {0, "blocks add plainly", BlockIndex{0, 0, 0}},
                   .says = {"simt::atomic_add()"}});
}

// --- wrong: atomics beside other accesses
// ------------------------------------------------------------------------------

TEST(WrongAtomics, BinsEmptiedWithoutABarrier) {
    checks.expect({.block = 64, .shared_bytes = 64},
                  [] {
                      const auto bins = SharedArena().tile<int, 1, 16>("bins");
                      if (threadIdx.x < 16) bins(0, threadIdx.x) = 0;  // @bins emptied
                      atomic_add(bins(0, threadIdx.x / 4), 1);         // @bins counted
                  },
                  {.fault = Fault::race,
                   .first = {1, "bins counted"},
                   .second = {0, "bins emptied"},
                   .says = {"thread 1 writes atomically bins(0, 0), which thread 0 wrote", "__syncthreads()"}});
}

TEST(WrongAtomics, BinsReadWithoutABarrier) {
    checks.expect({.block = 64, .shared_bytes = 64},
                  [] {
                      const auto bins = SharedArena().tile<int, 1, 16>("bins");
                      if (threadIdx.x < 16) bins(0, threadIdx.x) = 0;
                      __syncthreads();
                      atomic_add(bins(0, threadIdx.x % 2), 1);                    // @bins counted in time
                      const int early = threadIdx.x == 31 ? int(bins(0, 0)) : 0;  // @bins read early
                      EXPECT_GE(early, 0);
                  },
                  {.fault = Fault::race,
                   .first = {31, "bins read early"},
                   .second = {32, "bins counted in time"},
                   .says = {"thread 31 reads bins(0, 0), which thread 32 wrote atomically", "simt::load_relaxed()"}});
}

TEST(WrongAtomics, BinsEmptiedAfterABarrierOfTheWarpAlone) {
    checks.expect({.block = 64, .shared_bytes = 64},
                  [] {
                      const auto bins = SharedArena().tile<int, 1, 16>("bins");
                      if (threadIdx.x < 16) bins(0, threadIdx.x) = 0;
                      __syncthreads();
                      if (threadIdx.x >= 32) atomic_add(bins(0, 0), 1);  // @counted by another warp
                      __syncwarp();
                      if (threadIdx.x == 5) bins(0, 0) = 0;  // @emptied by one
                  },
                  {.fault = Fault::race,
                   .first = {5, "emptied by one"},
                   .second = {32, "counted by another warp"},
                   .says = {"thread 5 writes bins(0, 0), which thread 32 wrote atomically"}});
}

TEST(WrongAtomics, WrittenWhereAnotherLooksAtomically) {
    checks.expect({.block = 64, .shared_bytes = 64},
                  [] {
                      const auto flag = SharedArena().tile<int, 1, 1>("flag");
                      if (threadIdx.x == 0) flag(0, 0) = 0;
                      __syncthreads();
                      if (threadIdx.x == 1) load_acquire(flag(0, 0));  // @looked at
                      if (threadIdx.x == 2) flag(0, 0) = 1;            // @raised
                  },
                  {.fault = Fault::race,
                   .first = {2, "raised"},
                   .second = {1, "looked at"},
                   .says = {"thread 2 writes flag(0, 0), which thread 1 read atomically"}});
}

TEST(WrongAtomics, AnElementOfAVectorThatIsCountedIn) {
    checks.expect({.block = 64, .shared_bytes = 64},
                  [] {
                      const auto bins = SharedArena().tile<int, 1, 16>("bins");
                      if (threadIdx.x < 4) bins.vec<Vector<int, 4>>(0, 4 * int(threadIdx.x)) = {};
                      __syncthreads();
                      if (threadIdx.x == 40) atomic_add(bins(0, 6), 1);  // @counted in a vector
                      if (threadIdx.x == 7) {
                          const Vector<int, 4> four = bins.vec<Vector<int, 4>>(0, 4);  // @read as a vector
                          EXPECT_EQ(four.element[0], 0);
                      }
                  },
                  {.fault = Fault::race,
                   .first = {7, "read as a vector"},
                   .second = {40, "counted in a vector"},
                   .says = {"thread 7 reads bins(0, 6), which thread 40 wrote atomically"}});
}

TEST(WrongAtomics, GlobalBinsReadWithoutABarrier) {
    const Memory m;
    checks.expect({.block = 64},
                  [data = m.data] {
                      atomic_add(data(3), 1.0f);                                    // @added
                      const float sum = threadIdx.x == 40 ? float(data(3)) : 0.0f;  // @read beside it
                      EXPECT_GE(sum, 0.0f);
                  },
                  {.fault = Fault::global_race,
                   .first = {41, "added"},
                   .second = {40, "read beside it"},
                   .says = {"thread 41 writes atomically data(3), which thread 40 read"}});
    checks.expect({.block = 64},
                  [data = m.data] {
                      if (threadIdx.x != 50) atomic_add(data(3), 1.0f);             // @added by others
                      const float sum = threadIdx.x == 50 ? float(data(3)) : 0.0f;  // @read by one who did not
                      EXPECT_GE(sum, 0.0f);
                  },
                  {.fault = Fault::global_race,
                   .first = {50, "read by one who did not"},
                   .second = {0, "added by others"},
                   .says = {"reads data(3), which thread 0 wrote atomically"}});
}

TEST(WrongAtomics, ABlockReadsWhatOthersAddTo) {
    const Memory m;
    checks.expect({.grid = 3, .block = 1},
                  [data = m.data] {
                      if (blockIdx.x < 2) atomic_add(data(0), 1.0f);              // @added by a block
                      const float sum = blockIdx.x == 2 ? float(data(0)) : 0.0f;  // @read by a block
                      EXPECT_GE(sum, 0.0f);
                  },
                  {.fault = Fault::global_race,
                   .block = {2, 0, 0},
                   .first = {0, "read by a block", BlockIndex{2, 0, 0}},
                   .second = {0, "added by a block", BlockIndex{0, 0, 0}},
                   .says = {"block (2, 0, 0) reads data(0), which block (0, 0, 0) writes atomically in the same launch",
                            "atomic accesses may meet each other"}});
}

TEST(WrongAtomics, ABlockEmptiesWhatOthersAddTo) {
    Memory m;
    checks.expect({.grid = 3, .block = 1},
                  [=, data = m.data] {
                      if (blockIdx.x == 0) data(0) = 0.0f;            // @emptied by one block
                      if (blockIdx.x > 0) atomic_add(data(0), 1.0f);  // @added by the others
                  },
                  {.fault = Fault::global_race,
                   .block = {1, 0, 0},
                   .first = {0, "added by the others", BlockIndex{1, 0, 0}},
                   .second = {0, "emptied by one block", BlockIndex{0, 0, 0}},
                   .says = {"writes atomically data(0), which block (0, 0, 0) writes in"}});
}

TEST(WrongAtomics, ACounterThatNobodySetToZero) {
    FreshBuffer<int> counter_buffer("counter", {1});
    const auto counter = counter_buffer.view<1>();
    checks.expect({.grid = 2}, [=] { atomic_add(counter(0), 1); },  // @counter of garbage
                  {.fault = Fault::unwritten_read,
                   .first = {0, "counter of garbage"},
                   .says = {"reads counter(0), which neither an earlier launch nor this block has written"}});
}

TEST(WrongAtomics, ACounterInSharedMemoryThatNobodySetToZero) {
    checks.expect({.shared_bytes = 16},
                  [] { atomic_add(SharedArena().tile<int, 1, 1>("counter")(0, 0), 1); },  // @shared counter of garbage
                  {.fault = Fault::uninitialised_read, .first = {0, "shared counter of garbage"}});
}

TEST(WrongAtomics, AFlagSetByAPlainStore) {
    const Memory m;
    const Workers one(1);
    checks.expect({.grid = 2, .block = 1},
                  [data = m.data, flag = m.flag] {
                      if (blockIdx.x == 0) {
                          data(0) = 1.0f;
                          fence();
                          flag(0) = 1;  // @plain flag
                      } else {
                          load_acquire(flag(0));  // @asked for
                      }
                  },
                  {.fault = Fault::global_race,
                   .block = {1, 0, 0},
                   .first = {0, "asked for", BlockIndex{1, 0, 0}},
                   .second = {0, "plain flag", BlockIndex{0, 0, 0}},
                   .says = {"reads atomically flag(0), which block (0, 0, 0) writes in", "simt::store_release()"}});
}

// --- wrong: something lacks in a hand-over
// -----------------------------------------------------------------------------

/// Block 0 writes data(0) and raises a flag; block 1 sees it, and reads.
template <class Raise, class Look>
auto hand_over(const Memory& m, Raise raise, Look look) {
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

void expect_hand_over_fails(const Memory& m, auto raise, auto look, std::vector<std::string> says) {
    const Workers one(1);
    m.flag_buffer.base[0] = 0;
    checks.expect({.grid = 2, .block = 1}, hand_over(m, raise, look),
                  {.fault = Fault::global_race,
                   .block = {1, 0, 0},
                   .first = {0, "taken over", BlockIndex{1, 0, 0}},
                   .second = {0, "handed over", BlockIndex{0, 0, 0}},
                   .says = std::move(says)});
}

TEST(WrongHandOver, NothingIsReleased) {
    const Memory m;
    expect_hand_over_fails(m, [](const auto& flag) { store_relaxed(flag(0), 1); }, kWaits,
                           {"block (1, 0, 0) reads data(0), which block (0, 0, 0) writes",
                            "the write of flag(0) (thread 0 of block (0, 0, 0) at simt/atomics_model_test.cpp:",
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
    const Memory m;
    const auto release = [](const auto& flag) { store_release(flag(0), 1); };
    expect_hand_over_fails(m, release,
                           [](const auto& flag) {
                               while (load_relaxed(flag(0)) == 0) {
                               }
                           },
                           {"the read of flag(0) (thread 0 of block (1, 0, 0) at simt/atomics_model_test.cpp:",
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
    const Memory m;
    expect_hand_over_fails(
        m, [](const auto& flag) { store_relaxed(flag(0), 1); }, [](const auto& flag) { load_relaxed(flag(0)); },
        {"releases nothing", "; and the read of flag(0)", "acquires nothing"});
}

TEST(WrongHandOver, ByAnotherFlag) {
    const Memory m;
    expect_hand_over_fails(
        m, [](const auto& flag) { store_release(flag(1), 1); }, [](const auto& flag) { load_acquire(flag(0)); },
        {"blocks run at the same time"});
}

// The value that was released has been overwritten by a third block, with nothing of its own.
TEST(WrongHandOver, TheFlagIsOverwritten) {
    const Memory m;
    const Workers one(1);
    checks.expect({.grid = 3, .block = 1},
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
    const Memory m;
    const Workers one(1);
    checks.expect(kTwoBlocks,
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
    const Memory m;
    const Workers one(1);
    checks.expect(kTwoBlocks,
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
    const Memory m;
    const Workers one(1);
    for (const unsigned threads : {1, 64})
        checks.expect({.grid = 2, .block = threads},
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
    const Memory m;
    const Workers one(1);
    checks.expect({.grid = 2, .block = 1},
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
    const Memory m;
    const Workers one(1);
    checks.expect({.grid = 3, .block = 1},
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
    const Memory m;
    checks.expect({.grid = 2, .block = 1},
                  [partial, flag = m.flag] {
                      if (blockIdx.x == 0) partial(0) = 1.0f;
                      if (atomic_add<Order::acq_rel>(flag(0), 1) == 0) return;
                      EXPECT_EQ(float(partial(0)), 1.0f);
                      EXPECT_GE(float(partial(1)), 0.0f);  // @summed
                  },
                  {.fault = Fault::unwritten_read, .block = {1, 0, 0}, .first = {0, "summed"}, .says = {"partial(1)"}});
}

// --- right
// -------------------------------------------------------------------------------------------------------------

/// Runs a kernel several times, with flags at 0, by one worker and by several: nothing may be said.
template <class Kernel>
void expect_right(const Memory& m, const Shape& shape, Kernel kernel) {
    for (const int count : {1, 4}) {
        const Workers workers(count);
        for (int run = 0; run < 5; ++run) {
            for (int i = 0; i < 4; ++i) m.flag_buffer.base[i] = 0;
            expect_clean(shape, kernel);
        }
    }
}

TEST(RightAtomics, OfManyThreadsAndBlocksOnOneElement) {
    const Memory m;
    m.data_buffer.base[0] = 0.0f;
    expect_right(m, {.grid = 8, .block = 96}, [data = m.data, flag = m.flag] {
        atomic_add(flag(0), 1);
        reduce_add(flag(1), -1);
        atomic_max(flag(2), int(threadIdx.x));
        atomic_exchange(flag(3), int(blockIdx.x));
        atomic_compare_exchange(flag(3), 1, 2);
        atomic_add(data(0), 1.0f);
        load_relaxed(flag(0));
        store_relaxed(flag(3), 1);
    });
    EXPECT_EQ(m.flag_buffer.base[0], 8 * 96);
    EXPECT_EQ(m.flag_buffer.base[1], -8 * 96);
    EXPECT_EQ(m.flag_buffer.base[2], 95);
    EXPECT_EQ(m.data_buffer.base[0], 10 * 8 * 96.0f);
}

TEST(RightAtomics, BarriersOrderThemAndOtherAccesses) {
    expect_clean({.grid = 3, .block = 64, .shared_bytes = 64}, [] {
        const auto bins = SharedArena().tile<int, 1, 16>("bins");
        for (int round = 0; round < 3; ++round) {
            if (threadIdx.x < 16) bins(0, threadIdx.x) = 0;
            __syncthreads();
            atomic_add(bins(0, threadIdx.x % 3), 1);
            load_relaxed(bins(0, 0));
            __syncthreads();
            const Vector<int, 4> first = bins.vec<Vector<int, 4>>(0, 0);
            EXPECT_EQ(first.element[0] + first.element[1] + first.element[2], 64);
            EXPECT_EQ(int(bins(0, 0)), 22);
            __syncthreads();
        }
        bins.vec<Vector<int, 4>>(0, 4 * int(threadIdx.x % 4 == 0 && threadIdx.x < 16 ? threadIdx.x / 4 : 0));
        if (threadIdx.x < 32) {
            atomic_add(bins(0, 5), 1);
            __syncwarp();
            if (threadIdx.x == 7) bins(0, 5) = 0;
        }
    });
}

TEST(RightAtomics, ThreadsOfABlockHandOverThroughSharedMemory) {
    expect_clean({.block = 64, .shared_bytes = 1024}, [] {
        SharedArena arena;
        const auto part = arena.tile<float, 1, 64>("part");
        const auto ticket = arena.tile<int, 1, 1>("ticket");
        if (threadIdx.x == 0) ticket(0, 0) = 0;
        __syncthreads();
        part(0, threadIdx.x) = 1.0f;
        if (atomic_add<Order::acq_rel>(ticket(0, 0), 1) != 63) return;
        float sum = 0.0f;
        for (int i = 0; i < 64; ++i) sum += part(0, i);
        EXPECT_EQ(sum, 64.0f);
        ticket(0, 0) = 0;
    });
    // And without the order, it is a race.
    const auto error = fault_of({.block = 64, .shared_bytes = 1024}, [] {
        SharedArena arena;
        const auto part = arena.tile<float, 1, 64>("part");
        const auto ticket = arena.tile<int, 1, 1>("ticket");
        if (threadIdx.x == 0) ticket(0, 0) = 0;
        __syncthreads();
        part(0, threadIdx.x) = 1.0f;
        const bool is_last = atomic_add<Order::release>(ticket(0, 0), 1) == 63;
        EXPECT_EQ(is_last ? float(part(0, 40)) : 1.0f, 1.0f);
    });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->report().fault, Fault::race);
}

TEST(RightAtomics, TheLastOneSetsTheCounterBack) {
    const Memory m;
    expect_right(m, {.grid = 6, .block = 1}, [flag = m.flag] {
        if (atomic_add(flag(0), 1) == 5) flag(0) = 0;
    });
    expect_right(m, {.grid = 1, .block = 50}, [flag = m.flag] {
        if (atomic_add(flag(0), 1) == 49) flag(0) = 0;
    });
}

TEST(RightHandOver, InTheOldIdiomEveryThreadFences) {
    const Memory m;
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
    const Memory m;
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
    const Memory m;
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
    const Memory m;
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
    const Memory m;
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
    const Memory m;
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
    const Memory m;
    expect_right(m, {.grid = 2, .block = 1},
                 hand_over(
                     m, [](const auto& flag) { store_release(flag(0), 1); }, kWaits));
    expect_machine_still_works();
    EXPECT_TRUE(fault_of({.grid = 2, .block = 1}, [data = m.data] { data(0) = 1.0f; }));
}

// --- orders
// ------------------------------------------------------------------------------------------------------------

TEST(DrawnOrder, EachNumberComesOnce) {
    for (const std::uint64_t count : {1, 2, 3, 5, 16, 17, 1000})
        for (const std::uint64_t seed : {1, 2, 77}) {
            const DrawnOrder order(count, seed);
            std::set<std::uint64_t> seen;
            for (std::uint64_t turn = 0; turn < count; ++turn) seen.insert(order.at(turn));
            EXPECT_EQ(seen.size(), count);
            EXPECT_EQ(*seen.rbegin(), count - 1);
        }
}

TEST(ScopedOrders, ASumOfFloatsDependsOnTheOrderAndOneOfIntegersDoesNot) {
    const Memory m;
    std::set<float> floats;
    std::set<int> integers;
    for (std::uint64_t seed = 0; seed < 12; ++seed) {
        const ScopedOrder order(seed);
        float sum = 0;
        for (int again = 0; again < 3; ++again) {
            m.data_buffer.base[0] = 0.0f;
            m.flag_buffer.base[0] = 0;
            expect_clean({.grid = 20, .block = 1}, [data = m.data, flag = m.flag] {
                atomic_add(data(0), 1.0f / float(blockIdx.x * 7 + 3));
                atomic_add(flag(0), int(blockIdx.x));
            });
            EXPECT_TRUE(again == 0 || m.data_buffer.base[0] == sum) << "a seed gives one order";
            sum = m.data_buffer.base[0];
        }
        floats.insert(sum);
        integers.insert(m.flag_buffer.base[0]);
    }
    EXPECT_GT(floats.size(), 1u);
    EXPECT_EQ(integers.size(), 1u);
}

TEST(ScopedOrders, ARaceIsFoundInAnyOrder) {
    const Memory m;
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
        const ScopedOrder order(seed);
        m.flag_buffer.base[0] = 0;
        EXPECT_TRUE(fault_of({.grid = 4, .block = 1}, [data = m.data, flag = m.flag] {
            data(blockIdx.x) = 1.0f;
            if (atomic_add(flag(0), 1) != 3) return;
            for (int b = 0; b < 4; ++b) EXPECT_EQ(float(data(b)), 1.0f);
        })) << seed;
    }
}

}  // namespace
}  // namespace simt::testing
