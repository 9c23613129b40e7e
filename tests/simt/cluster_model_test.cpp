// What the CPU machine says about clusters: blocks that meet, that reach each other's shared memory, and that arrive at
// each other's barriers. Copies to several blocks at once are in multicast_model_test.cpp.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "common/simt/device/device_profile.h"
#include "common/simt/machine/schedule.h"
#include "tests/simt/fault_checks.h"
#include "tests/simt/global_memory.h"

namespace simt::testing {
namespace {

class Clusters : public ::testing::Test {
    const ScopedCpuDevice imitated_{device_from(device_profile("h200"))};
};
using RightClusters = Clusters;
using WrongClusters = Clusters;
using WrongBarriers = Clusters;
using ClusterLaunches = Clusters;

constexpr Shape kPair{.grid = 2, .block = 64, .shared_bytes = 4096, .cluster = 2};
const BlockIndex kFirst{0, 0, 0}, kSecond{1, 0, 0};

bool is_thread(unsigned n) { return threadIdx.x == n; }

auto tile_of(SharedArena& arena) { return arena.tile<float, 1, 64>("part"); }

/// Runs clean in the usual order and in several drawn ones, with one and more workers.
template <class Kernel, class Holds>
void expect_right(const Shape& shape, Kernel kernel, Holds holds) {
    for (const int workers : {1, 2, 3}) {
        const Workers so_many(workers);
        expect_clean(shape, kernel);
        EXPECT_TRUE(holds()) << workers << " workers";
    }
    for (std::uint64_t seed = 1; seed <= 12; ++seed) {
        const ScopedOrder order(seed);
        expect_clean(shape, kernel);
        EXPECT_TRUE(holds()) << "seed " << seed;
    }
}

// --- right kernels -------------------------------------------------------------------------------------------------

TEST_F(RightClusters, SumUpByReadingEachOther) {
    Buffer<float> sums("sums", {8});
    const auto out = sums.view<1>();
    expect_right(
        {.grid = 8, .block = 64, .shared_bytes = 4096, .cluster = 4},
        [out] {
            SharedArena arena;
            const auto part = tile_of(arena);
            const int rank = cluster_rank(), t = int(threadIdx.x);
            part(0, t) = float(int(blockIdx.x) * 100 + t);
            cluster_sync();
            float sum = 0.0f;
            for (int b = 0; b < cluster_size(); ++b) sum += float(in_block(part, b)(0, 63 - t));
            if (t == rank) out(blockIdx.x) = sum;
            cluster_sync();
        },
        [&] { return sums.base[1] == 600 + 4 * 62 && sums.base[6] == 4 * 550 + 4 * 61; });
}

TEST_F(RightClusters, WriteIntoEachOther) {
    Buffer<float> seen("seen", {2});
    const auto out = seen.view<1>();
    expect_right(
        kPair,
        [out] {
            SharedArena arena;
            const auto part = tile_of(arena);
            const int t = int(threadIdx.x), other = cluster_rank() ^ 1;
            cluster_sync();  // the other has begun
            in_block(part, other)(0, t) = float(100 * cluster_rank() + t);
            cluster_sync();
            float sum = 0.0f;
            for (int i = 0; i < 64; ++i) sum += float(part(0, i));
            cluster_sync();  // all have read
            if (t < 16) in_block(part, other).vec<float4>(0, 4 * t) = make_float4(1.0f, 2.0f, 3.0f, 4.0f);
            cluster_sync();
            sum += float(part(0, 63 - t));
            if (t == 0) out(blockIdx.x) = sum;
        },
        [&] { return seen.base[0] == 6400 + 63 * 32 + 4 && seen.base[1] == 63 * 32 + 4; });
}

TEST_F(RightClusters, MeetInTwoHalves) {
    Buffer<float> seen("seen", {2});
    const auto out = seen.view<1>();
    expect_right(
        kPair,
        [out] {
            SharedArena arena;
            const auto part = tile_of(arena);
            const int t = int(threadIdx.x), other = cluster_rank() ^ 1;
            part(0, t) = float(t);
            cluster_arrive();
            float mine = 0.0f;  // work that needs nobody
            for (int i = 0; i < 10; ++i) mine += float(i);
            cluster_wait();
            const float theirs = in_block(part, other)(0, (t + 1) % 64);
            cluster_arrive();
            if (t == 9) out(blockIdx.x) = mine + theirs;
            cluster_wait();
        },
        [&] { return seen.base[0] == 55 && seen.base[1] == 55; });
}

TEST_F(RightClusters, HandOverThroughGlobalMemory) {
    Buffer<float> data("data", {16}), sums("sums", {4});
    const auto x = data.view<1>(), out = sums.view<1>();
    expect_right(
        {.grid = 4, .block = 64, .shared_bytes = 4096, .cluster = 2},
        [x, out] {
            if (is_thread(7)) x(blockIdx.x) = float(blockIdx.x + 1);
            cluster_sync();
            const int first = int(blockIdx.x) / 2 * 2;
            if (is_thread(40)) out(blockIdx.x) = float(x(first)) + float(x(first + 1));
        },
        [&] { return sums.base[0] == 3 && sums.base[3] == 7; });
}

/// A ring of two stages between blocks: block 0 fills tiles in block 1, which tells it when a stage is free.
template <bool WaitsInCluster, bool ReleasesAfterReading = true, bool MeetsAtEnd = true>
auto stages_in_the_other_block(GlobalTensor<float, 1> out) {
    return [out] {
        SharedArena arena;
        const auto ring = arena.tile<float, 2, 64>("ring");
        const auto full = arena.barriers<2>("full"), empty = arena.barriers<2>("empty");
        const int t = int(threadIdx.x), rank = cluster_rank();
        if (t == 0) {
            for (int s = 0; s < 2; ++s) {
                full[s].init(64);
                empty[s].init(64);
            }
            publish_barriers();
        }
        cluster_sync();
        float sum = 0.0f;
        RingPosition<2> at;
        for (int j = 0; j < 6; ++j, at.next()) {
            if (rank == 0) {
                if constexpr (WaitsInCluster)
                    empty[at.stage].wait_in_cluster(at.parity ^ 1);
                else
                    empty[at.stage].wait(at.parity ^ 1);
                in_block(ring, 1)(at.stage, t) = float(10 * j + t);  // @fills
                in_block(full[at.stage], 1).arrive();
            } else {
                full[at.stage].wait_in_cluster(at.parity);
                if constexpr (!ReleasesAfterReading) in_block(empty[at.stage], 0).arrive();
                sum += float(ring(at.stage, 63 - t));                                       // @takes
                if constexpr (ReleasesAfterReading) in_block(empty[at.stage], 0).arrive();  // @releases
            }
        }
        if (rank == 1 && t == 3) out(0) = sum;
        if constexpr (MeetsAtEnd) cluster_sync();  // arrivals are on the way to block 0
    };
}

TEST_F(RightClusters, ReleaseStagesByArrivalsInTheOtherBlock) {
    Buffer<float> sums("sums", {1});
    expect_right({.grid = 2, .block = 64, .shared_bytes = 4096, .cluster = 2},
                 stages_in_the_other_block<true>(sums.view<1>()), [&] { return sums.base[0] == 10 * 15 + 6 * 60; });
}

TEST_F(RightClusters, OfEightInThreeDimensions) {
    Buffer<float> sums("sums", {32});
    const auto out = sums.view<1>();
    expect_right(
        {.grid = {4, 4, 2}, .block = 32, .shared_bytes = 4096, .cluster = {2, 2, 2}},
        [out] {
            SharedArena arena;
            const auto part = tile_of(arena);
            const int rank = cluster_rank();
            if (is_thread(0)) part(0, 0) = float(blockIdx.x + 4 * (blockIdx.y + 4 * blockIdx.z));
            cluster_sync();
            if (is_thread(31)) {
                float sum = 0.0f;
                for (int b = 0; b < cluster_size(); ++b) sum += float(in_block(part, (rank + b) % 8)(0, 0));
                out(blockIdx.x + 4 * (blockIdx.y + 4 * blockIdx.z)) = sum;
            }
            cluster_sync();
        },
        [&] { return sums.base[0] == 0 + 1 + 4 + 5 + 16 + 17 + 20 + 21 && sums.base[31] == sums.base[26]; });
}

TEST_F(RightClusters, WaitForALaterCluster) {
    Buffer<float> data("data", {8});
    Buffer<int> flags("flag", {1});
    const auto x = data.view<1>();
    const auto flag = flags.view<1>();
    for (const int workers : {1, 2, 3}) {
        const Workers so_many(workers);
        flags.base[0] = 0;
        expect_clean({.grid = 8, .block = 32, .shared_bytes = 4096, .cluster = 2}, [=] {
            if (is_thread(0) && blockIdx.x == 7) {
                x(0) = 4.0f;
                store_release(flag(0), 1);
            }
            if (is_thread(0) && blockIdx.x == 0)
                while (load_acquire(flag(0)) == 0) {
                }
            cluster_sync();
            if (is_thread(9) && blockIdx.x == 1) {
                EXPECT_EQ(float(x(0)), 4.0f);
            }
        });
    }
}

TEST_F(RightClusters, SomeThreadsReturnEarly) {
    expect_right(
        kPair,
        [] {
            if (threadIdx.x >= 32 && cluster_rank() == 1) return;
            cluster_sync();
            cluster_sync();
        },
        [] { return true; });
}

// --- wrong kernels -------------------------------------------------------------------------------------------------

TEST_F(WrongClusters, ReadBeforeTheOtherHasBegun) {
    expect_fault(kPair,
                 [] {
                     SharedArena arena;
                     const auto part = tile_of(arena);
                     part(0, int(threadIdx.x)) = 1.0f;
                     __syncthreads();
                     if (is_thread(0)) {
                         const float x = in_block(part, cluster_rank() ^ 1)(0, 5);  // @too early
                         EXPECT_EQ(x, x);
                     }
                     cluster_sync();
                 },
                 {.fault = Fault::cluster_misuse,
                  .first = {0, "too early"},
                  .says = {"thread 0 reaches for part(0, 5) of block (1, 0, 0), which may not have begun yet",
                           "no cluster_sync() lies between"}});
}

TEST_F(WrongClusters, ReadWhatNobodyWrote) {
    expect_fault(kPair,
                 [] {
                     SharedArena arena;
                     const auto part = tile_of(arena);
                     if (cluster_rank() == 0) part(0, int(threadIdx.x)) = 1.0f;
                     cluster_sync();
                     const float x = in_block(part, cluster_rank() ^ 1)(0, 5);  // @unwritten
                     EXPECT_EQ(x, x);
                     cluster_sync();
                 },
                 {.fault = Fault::uninitialised_read,
                  .first = {0, "unwritten", kFirst},
                  .says = {"thread 0 of block (0, 0, 0) reads part(0, 5) of block (1, 0, 0), which nobody has written "
                           "yet in that block"}});
}

/// Which of two that race comes second depends on the order: both lines are named in each.
template <class Kernel>
void expect_race(const Shape& shape, Kernel kernel, const std::string& one, const std::string& other) {
    for (std::uint64_t seed = 0; seed < 8; ++seed) {
        const ScopedOrder order(seed);
        const auto error = fault_of(shape, kernel);
        ASSERT_TRUE(error) << seed;
        const std::string what = error->what() + std::string("\n");
        EXPECT_EQ(error->report().fault, Fault::race) << what;
        EXPECT_NE(what.find(" at " + place(one) + "\n"), std::string::npos) << what;
        EXPECT_NE(what.find(" at " + place(other) + "\n"), std::string::npos) << what;
        EXPECT_TRUE(error->report().first.block && error->report().second.block) << what;
        EXPECT_NE(what.find("nothing in the cluster orders the two"), std::string::npos) << what;
    }
}

TEST_F(WrongClusters, ReadWhatIsWrittenAfterTheyMet) {
    expect_race(
        kPair,
        [] {
            SharedArena arena;
            const auto part = tile_of(arena);
            part(0, int(threadIdx.x)) = 1.0f;
            cluster_sync();
            if (is_thread(1) && cluster_rank() == 1) part(0, 5) = 2.0f;  // @writes late
            if (is_thread(2) && cluster_rank() == 0) {
                const float x = in_block(part, 1)(0, 5);  // @looks at it
                EXPECT_EQ(x, x);
            }
            cluster_sync();
        },
        "writes late", "looks at it");
}

TEST_F(WrongClusters, TwoBlocksWriteOneElement) {
    expect_race(
        {.grid = 3, .block = 32, .shared_bytes = 4096, .cluster = 3},
        [] {
            SharedArena arena;
            const auto part = tile_of(arena);
            cluster_sync();
            if (is_thread(3) && cluster_rank() == 1) in_block(part, 0)(0, 7) = 1.0f;  // @one writes
            if (is_thread(3) && cluster_rank() == 2) in_block(part, 0)(0, 7) = 2.0f;  // @another writes
            cluster_sync();
        },
        "one writes", "another writes");
}

TEST_F(WrongClusters, ABarrierOfTheBlockOrdersNoOtherBlock) {
    expect_race(
        kPair,
        [] {
            SharedArena arena;
            const auto part = tile_of(arena);
            part(0, int(threadIdx.x)) = 0.0f;
            cluster_sync();
            if (is_thread(0)) in_block(part, cluster_rank() ^ 1)(0, 5) = 1.0f;  // @writes there
            __syncthreads();
            const float x = part(0, 5);  // @reads here
            EXPECT_EQ(x, x);
            cluster_sync();
        },
        "writes there", "reads here");
}

TEST_F(WrongClusters, WriteWhatTheOtherStillReads) {
    expect_race(
        kPair,
        [] {
            SharedArena arena;
            const auto part = tile_of(arena);
            part(0, int(threadIdx.x)) = 1.0f;
            cluster_sync();
            const float x = in_block(part, cluster_rank() ^ 1)(0, int(threadIdx.x));  // @still reads
            __syncthreads();
            part(0, int(threadIdx.x)) = x + 1.0f;  // @writes
            cluster_sync();
        },
        "still reads", "writes");
}

TEST_F(WrongClusters, ArriveWithoutWaiting) {
    expect_fault(kPair,
                 [] {
                     cluster_arrive();  // @once
                     cluster_arrive();  // @twice
                     cluster_wait();
                 },
                 {.fault = Fault::cluster_misuse,
                  .first = {0, "twice"},
                  .second = {0, "once"},
                  .says = {"thread 0 arrives at the cluster's barrier again, and has not waited since it did"}});
}

TEST_F(WrongClusters, WaitWithoutArriving) {
    expect_fault(kPair,
                 [] {
                     cluster_wait();  // @waits
                 },
                 {.fault = Fault::cluster_misuse,
                  .first = {0, "waits"},
                  .says = {"thread 0 waits at the cluster's barrier without having arrived there"}});
}

TEST_F(WrongClusters, ReadBetweenArrivalAndWait) {
    expect_fault(
        kPair,
        [] {
            SharedArena arena;
            const auto part = tile_of(arena);
            part(0, int(threadIdx.x)) = 1.0f;
            cluster_arrive();
            const float x = in_block(part, cluster_rank() ^ 1)(0, 5);  // @not met yet
            EXPECT_EQ(x, x);
            cluster_wait();
            cluster_sync();
        },
        {.fault = Fault::cluster_misuse, .first = {0, "not met yet"}, .says = {"which may not have begun yet"}});
}

TEST_F(WrongClusters, NamesABlockThatIsNotThere) {
    expect_fault(kPair,
                 [] {
                     SharedArena arena;
                     const auto part = tile_of(arena);
                     cluster_sync();
                     if (is_thread(5)) in_block(part, 2 * int(blockIdx.x))(0, 3) = 1.0f;  // @by its number
                     cluster_sync();
                 },
                 {.fault = Fault::cluster_misuse,
                  .block = {1, 0, 0},
                  .first = {5, "by its number"},
                  .says = {"thread 5 reaches for part(0, 3) of block 2 of a cluster of 2", "ranks count from 0"}});
}

TEST_F(WrongClusters, EndWhileOthersRead) {
    for (const std::uint64_t seed : {0, 1, 2, 3, 4, 5, 6, 7}) {
        const ScopedOrder order(seed);
        const auto error = fault_of(kPair, [] {
            SharedArena arena;
            const auto part = tile_of(arena);
            part(0, int(threadIdx.x)) = 1.0f;
            cluster_sync();
            if (cluster_rank() == 1 && is_thread(4)) {
                const float x = in_block(part, 0)(0, 5);  // @may be late
                EXPECT_EQ(x, x);
            }
        });
        ASSERT_TRUE(error) << seed;
        const std::string what = error->what();
        EXPECT_EQ(error->report().fault, Fault::cluster_misuse) << what;
        EXPECT_EQ(error->report().first.thread, 4) << what;
        EXPECT_NE(what.find(place("may be late")), std::string::npos) << what;
        const bool after =
            what.find("thread 4 reaches for part(0, 5) of block (0, 0, 0), which has ended") != what.npos;
        const bool before = what.find(
                                "block (0, 0, 0) ends while thread 4 of block (1, 0, 0) may still read part(0, 5) "
                                "of its shared memory") != what.npos;
        EXPECT_TRUE(after || before) << what;
    }
}

TEST_F(WrongClusters, SomeDoNotMeetTheOthers) {
    expect_fault(kPair,
                 [] {
                     SharedArena arena;
                     const auto gate = arena.barriers<1>("gate");
                     if (is_thread(0)) {
                         gate[0].init(1);
                         publish_barriers();
                     }
                     __syncthreads();
                     if (cluster_rank() == 0 || threadIdx.x < 32)
                         cluster_sync();  // @they wait
                     else
                         gate[0].wait(0);  // @nobody comes
                 },
                 {.fault = Fault::deadlock,
                  .first = {0, "they wait", kFirst},
                  .second = {0, "they wait", kSecond},
                  .says = {"no block can go on: in block (0, 0, 0) no thread can go on",
                           "the cluster's barrier (96 of 128 arrivals so far: 64 of block 0, 32 of block 1)",
                           "threads 32 to 63 wait for phase 0 of gate[0]"}});
}

TEST_F(WrongClusters, LaunchedWithout) {
    expect_fault({.grid = 2},
                 [] {
                     cluster_sync();  // @no clusters
                 },
                 {.fault = Fault::cluster_misuse,
                  .first = {0, "no clusters"},
                  .says = {"thread 0 calls cluster_sync() in a launch that has no clusters", "cluster_dimension()"}});
}

TEST_F(WrongClusters, RaceThroughGlobalMemory) {
    Buffer<float> data("data", {4});
    const auto x = data.view<1>();
    const Workers one(1);
    expect_fault(kPair,
                 [x] {
                     cluster_sync();
                     if (is_thread(7) && cluster_rank() == 0) x(0) = 1.0f;  // @no one waits
                     cluster_arrive();
                     if (is_thread(8) && cluster_rank() == 1) {
                         const float seen = x(0);  // @looks too soon
                         EXPECT_EQ(seen, seen);
                     }
                     cluster_wait();
                 },
                 {.fault = Fault::global_race,
                  .block = {1, 0, 0},
                  .first = {8, "looks too soon", kSecond},
                  .second = {7, "no one waits", kFirst}});
}

// --- barriers of another block -------------------------------------------------------------------------------------

TEST_F(WrongBarriers, WaitedForWithoutTheCluster) {
    Buffer<float> sums("sums", {1});
    expect_fault({.grid = 2, .block = 64, .shared_bytes = 4096, .cluster = 2},
                 stages_in_the_other_block<false>(sums.view<1>()),
                 {.fault = Fault::race,
                  .first = {0, "fills", kFirst},
                  .second = {63, "takes", kSecond},
                  .says = {"thread 0 of block (0, 0, 0) writes ring(0, 0) of block (1, 0, 0), which thread 63 of block "
                           "(1, 0, 0) read",
                           "wait_in_cluster()"}});
}

TEST_F(WrongBarriers, ReleasedBeforeReading) {
    Buffer<float> sums("sums", {1});
    const auto error = fault_of({.grid = 2, .block = 64, .shared_bytes = 4096, .cluster = 2},
                                stages_in_the_other_block<true, false>(sums.view<1>()));
    ASSERT_TRUE(error);
    const std::string what = error->what();
    EXPECT_EQ(error->report().fault, Fault::race) << what;
    EXPECT_NE(what.find(place("fills")), std::string::npos) << what;
    EXPECT_NE(what.find(place("takes")), std::string::npos) << what;
}

TEST_F(WrongBarriers, ArrivalsAtABlockThatEnds) {
    Buffer<float> sums("sums", {1});
    const auto error = fault_of({.grid = 2, .block = 64, .shared_bytes = 4096, .cluster = 2},
                                stages_in_the_other_block<true, true, false>(sums.view<1>()));
    ASSERT_TRUE(error);
    const std::string what = error->what();
    EXPECT_EQ(error->report().fault, Fault::cluster_misuse) << what;
    EXPECT_NE(what.find(place("releases")), std::string::npos) << what;
}

/// Block 1 arrives at a barrier of block 0, which waits.
template <bool Meets, bool Publishes, bool Makes = true>
auto arrive_there() {
    return [] {
        SharedArena arena;
        const auto gate = arena.barriers<1>("gate");
        cluster_sync();
        if (is_thread(0) && Makes) {
            gate[0].init(1);  // @made
            if (Publishes) publish_barriers();
        }
        if (Meets)
            cluster_sync();
        else
            __syncthreads();
        if (cluster_rank() == 1 && is_thread(6)) in_block(gate[0], 0).arrive();  // @arrives
        if (cluster_rank() == 0) gate[0].wait_in_cluster(0);
        cluster_sync();
    };
}

TEST_F(WrongBarriers, UsedBeforeTheClusterMet) {
    int after_it_was_made = 0;
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
        const ScopedOrder order(seed);
        const auto error = fault_of(kPair, arrive_there<false, true>());
        ASSERT_TRUE(error);
        const std::string what = error->what();
        EXPECT_EQ(error->report().fault, Fault::barrier_misuse) << what;
        EXPECT_NE(what.find("thread 6 of block (1, 0, 0) at " + place("arrives")), std::string::npos) << what;
        if (what.find("a barrier that nobody has initialised") != what.npos) continue;
        ++after_it_was_made;
        EXPECT_NE(what.find("thread 6 arrives at gate[0] of block (0, 0, 0), which thread 0 there has initialised; the "
                            "cluster has not met since"),
                  std::string::npos)
            << what;
        EXPECT_NE(what.find("thread 0 of block (0, 0, 0) at " + place("made")), std::string::npos) << what;
    }
    EXPECT_GT(after_it_was_made, 0);
}

TEST_F(WrongBarriers, NotPublished) {
    expect_fault(kPair, arrive_there<true, false>(),
                 {.fault = Fault::barrier_misuse,
                  .block = {1, 0, 0},
                  .first = {6, "arrives", kSecond},
                  .second = {0, "made", kFirst},
                  .says = {"which the cluster has not been told of", "publish_barriers()"}});
}

TEST_F(WrongBarriers, NeverMade) {
    const auto error = fault_of(kPair, arrive_there<true, true, false>());
    ASSERT_TRUE(error);
    EXPECT_EQ(error->report().fault, Fault::barrier_misuse);
    EXPECT_NE(std::string(error->what()).find("a barrier that nobody has initialised"), std::string::npos)
        << error->what();
}

TEST_F(WrongBarriers, OneArrivalIsMissing) {
    expect_fault(kPair,
                 [] {
                     SharedArena arena;
                     const auto gate = arena.barriers<1>("gate");
                     if (is_thread(0)) {
                         gate[0].init(33);
                         publish_barriers();
                     }
                     cluster_sync();
                     if (threadIdx.x >= 32) in_block(gate[0], cluster_rank() ^ 1).arrive();
                     gate[0].wait_in_cluster(0);  // @one is missing
                     cluster_sync();
                 },
                 {.fault = Fault::deadlock,
                  .first = {0, "one is missing", kFirst},
                  .second = {0, "one is missing", kSecond},
                  .says = {"in block (0, 0, 0) no thread can go on; threads 0 to 63 wait for phase 0 of gate[0] (32 of "
                           "33 arrivals so far)"}});
}

// --- launches ------------------------------------------------------------------------------------------------------

std::string refusal_of(const Shape& shape) {
    try {
        run(shape, [] {});
    } catch (const LaunchError& error) {
        return error.what();
    }
    return "";
}

TEST_F(ClusterLaunches, AreRefusedWithAReason) {
    EXPECT_EQ(refusal_of(kPair), "");
    EXPECT_NE(refusal_of({.grid = 3, .cluster = 2}).find("the grid (3, 1, 1) is no multiple of the cluster (2, 1, 1)"),
              std::string::npos);
    EXPECT_NE(refusal_of({.grid = 16, .cluster = 16}).find("a cluster (16, 1, 1) has 16 blocks; 1 to 8 are allowed"),
              std::string::npos);
    const ScopedCpuDevice older(device_from(device_profile("a100")));
    EXPECT_NE(refusal_of(kPair).find("cudaErrorNotSupported"), std::string::npos);
    EXPECT_NE(refusal_of(kPair).find("asks for clusters of (2, 1, 1) blocks, and the device has none"),
              std::string::npos);
}

}  // namespace
}  // namespace simt::testing
