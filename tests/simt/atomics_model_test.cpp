// What the CPU machine says about wrong uses of atomics, and right ones about which it says nothing.

#include <gtest/gtest.h>

#include <set>

#include "common/simt/machine/drawn_order.h"
#include "common/simt/machine/schedule.h"
#include "tests/simt/data_and_flags.h"

namespace simt::testing {
namespace {

// --- wrong: no atomic where there should be one --------------------------------------------------------------------

TEST(WrongAtomics, AHistogramInSharedMemoryWithoutThem) {
    expect_fault({.block = 64, .shared_bytes = 64},
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
    DataAndFlags m;
    expect_fault({.block = 64}, [data = m.data] { data(threadIdx.x % 5) += 1.0f; },  // @plain global histogram
                 {.fault = Fault::global_race,
                  .first = {5, "plain global histogram"},
                  .second = {0, "plain global histogram"},
                  .says = {"simt::atomic_add()"}});
}

TEST(WrongAtomics, BlocksThatAddWithoutThem) {
    DataAndFlags m;
    expect_fault({.grid = 2, .block = 1}, [data = m.data] { data(0) += 1.0f; },  // @blocks add plainly
                 {.fault = Fault::global_race,
                  .block = {1, 0, 0},
                  .first = {0, "blocks add plainly", BlockIndex{1, 0, 0}},
                  .second = {0, "blocks add plainly", BlockIndex{0, 0, 0}},
                  .says = {"simt::atomic_add()"}});
}

// --- wrong: atomics beside other accesses --------------------------------------------------------------------------

TEST(WrongAtomics, BinsEmptiedWithoutABarrier) {
    expect_fault({.block = 64, .shared_bytes = 64},
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
    expect_fault({.block = 64, .shared_bytes = 64},
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
    expect_fault({.block = 64, .shared_bytes = 64},
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
    expect_fault({.block = 64, .shared_bytes = 64},
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
    expect_fault({.block = 64, .shared_bytes = 64},
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
    const DataAndFlags m;
    expect_fault({.block = 64},
                 [data = m.data] {
                     atomic_add(data(3), 1.0f);                                    // @added
                     const float sum = threadIdx.x == 40 ? float(data(3)) : 0.0f;  // @read beside it
                     EXPECT_GE(sum, 0.0f);
                 },
                 {.fault = Fault::global_race,
                  .first = {41, "added"},
                  .second = {40, "read beside it"},
                  .says = {"thread 41 writes atomically data(3), which thread 40 read"}});
    expect_fault({.block = 64},
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
    const DataAndFlags m;
    expect_fault({.grid = 3, .block = 1},
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
    DataAndFlags m;
    expect_fault({.grid = 3, .block = 1},
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
    expect_fault({.grid = 2}, [=] { atomic_add(counter(0), 1); },  // @counter of garbage
                 {.fault = Fault::unwritten_read,
                  .first = {0, "counter of garbage"},
                  .says = {"reads counter(0), which neither an earlier launch nor this block has written"}});
}

TEST(WrongAtomics, ACounterInSharedMemoryThatNobodySetToZero) {
    expect_fault({.shared_bytes = 16},
                 [] { atomic_add(SharedArena().tile<int, 1, 1>("counter")(0, 0), 1); },  // @shared counter of garbage
                 {.fault = Fault::uninitialised_read, .first = {0, "shared counter of garbage"}});
}

TEST(WrongAtomics, AFlagSetByAPlainStore) {
    const DataAndFlags m;
    const Workers one(1);
    expect_fault({.grid = 2, .block = 1},
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

// --- right ---------------------------------------------------------------------------------------------------------

TEST(RightAtomics, OfManyThreadsAndBlocksOnOneElement) {
    const DataAndFlags m;
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
    const DataAndFlags m;
    expect_right(m, {.grid = 6, .block = 1}, [flag = m.flag] {
        if (atomic_add(flag(0), 1) == 5) flag(0) = 0;
    });
    expect_right(m, {.grid = 1, .block = 50}, [flag = m.flag] {
        if (atomic_add(flag(0), 1) == 49) flag(0) = 0;
    });
}

// --- orders --------------------------------------------------------------------------------------------------------

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
    const DataAndFlags m;
    std::set<float> floats;
    std::set<int> integers;
    for (std::uint64_t seed = 1; seed <= 12; ++seed) {  // 0 draws none: several workers add as they come
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
    const DataAndFlags m;
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
