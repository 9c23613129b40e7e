// What the CPU machine says about copies by TMA to several blocks of a cluster at once.

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "common/simt/device/device_profile.h"
#include "common/simt/machine/schedule.h"
#include "tests/simt/fault_checks.h"
#include "tests/simt/global_memory.h"

namespace simt::testing {
namespace {

class Multicast : public ::testing::Test {
    const ScopedCpuDevice imitated_{device_from(device_profile("h200"))};
};
using WrongMulticast = Multicast;

constexpr int R = 16, C = 32, kBytes = R * C * int(sizeof(float)), kTiles = 6, kStages = 2;
constexpr Shape kPairOfReaders{.grid = 2, .block = 64, .shared_bytes = kStages * kBytes + 256, .cluster = 2};

/// [16 kTiles, 32], x(r, c) = 100 r + c
struct Numbers : Buffer<float> {
    explicit Numbers(const char* name) : Buffer(name, {R * kTiles, C}) {
        for (int i = 0; i < R * kTiles * C; ++i) base[i] = float(i / C * 100 + i % C);
    }
    TensorMap<const float, 2> map(int rows = R) {
        return tensor_map<const float, 2>(argument<2>(), {rows, C}, Swizzle::b128);
    }
};

/// A tile, and the barrier that its bytes report to.
struct OneTile {
    SharedArena arena{};
    PanelTile<float, R, C, Swizzle::b128> tile = arena.panels<float, R, C, Swizzle::b128>("K_j");
    SharedBarriers<1> full = arena.barriers<1>("full");

    /// Thread 0 makes the barrier; then the cluster meets.
    void meet(bool expects) const {
        if (threadIdx.x == 0) {
            full[0].init(1);
            publish_barriers();
            if (expects) full[0].arrive_expecting(kBytes);
        }
        cluster_sync();
    }
};

enum class Slip {
    none,
    own_consumers_only,     // they let their own producer know alone
    waits_without_cluster,  // wait() where wait_in_cluster() belongs
    other_expects_nothing,  // the second block's barrier is not told of the bytes
    other_expects_half,     // or of too few
    mask_too_large,         // names a block that is not there
    mask_empty,             // or none
    no_cluster_sync,        // before the first copy
    not_published,          // barriers
    no_last_sync,           // before the blocks end
};

/// The usual ring, for two blocks: block 0's thread 0 fetches even tiles for both, block 1's odd ones. A stage of each
/// block is free when the 64 consumers of both have said so to both producers.
auto ring_of_a_pair(Slip slip, TensorMap<const float, 2> map, GlobalTensor<float, 2> out) {
    return [=] {
        SharedArena arena;
        const auto ring = arena.panels<float, kStages * R, C, Swizzle::b128>("K_j");
        const auto full = arena.barriers<kStages>("full"), empty = arena.barriers<kStages>("empty");
        const int t = int(threadIdx.x), rank = cluster_rank();
        if (t == 0) {
            for (int s = 0; s < kStages; ++s) {
                full[s].init(1);  // @makes full
                empty[s].init(slip == Slip::own_consumers_only ? 32 : 64);
            }
            if (slip != Slip::not_published) publish_barriers();
        }
        if (slip == Slip::no_cluster_sync)
            __syncthreads();
        else
            cluster_sync();
        RingPosition<kStages> at;
        if (t == 0) {
            for (int j = 0; j < kTiles; ++j, at.next()) {
                if (slip == Slip::waits_without_cluster)
                    empty[at.stage].wait(at.parity ^ 1);
                else
                    empty[at.stage].wait_in_cluster(at.parity ^ 1);
                const int bytes = rank == 0                             ? kBytes
                                  : slip == Slip::other_expects_nothing ? 0
                                  : slip == Slip::other_expects_half    ? kBytes / 2
                                                                        : kBytes;
                full[at.stage].arrive_expecting(bytes);  // @expects
                const unsigned blocks = slip == Slip::mask_too_large ? 0b110 : slip == Slip::mask_empty ? 0 : 0b11;
                if (j % 2 != rank) continue;
                const auto stage = ring.rows_from<R>(at.stage * R);
                tma_load_for_cluster(stage, map, {j * R, 0}, full[at.stage], blocks);  // @load
            }
        } else if (t >= 32) {
            float sum = 0.0f;
            for (int j = 0; j < kTiles; ++j, at.next()) {
                full[at.stage].wait(at.parity);
                sum += float(ring(at.stage * R + 3, t - 32));  // @reads
                for (int b = 0; b < 2; ++b)
                    if (b == rank || slip != Slip::own_consumers_only) in_block(empty[at.stage], b).arrive();
            }
            out(int(blockIdx.x), t - 32) = sum;
        }
        if (slip != Slip::no_last_sync) cluster_sync();
    };
}

float sum_of_column(int c) {
    float sum = 0.0f;
    for (int j = 0; j < kTiles; ++j) sum += float((j * R + 3) * 100 + c);
    return sum;
}

TEST_F(Multicast, FillsTheRingsOfBothBlocks) {
    Numbers K("K");
    Buffer<float> sums("sums", {2, 32});
    const auto expect_sums = [&] {
        for (int b = 0; b < 2; ++b)
            for (int c = 0; c < 32; ++c) EXPECT_EQ(sums.base[32 * b + c], sum_of_column(c)) << b << ", " << c;
    };
    for (const int workers : {1, 2}) {
        const Workers so_many(workers);
        expect_clean(kPairOfReaders, ring_of_a_pair(Slip::none, K.map(), sums.view<2>()));
        expect_sums();
    }
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
        const ScopedOrder order(seed);
        expect_clean(kPairOfReaders, ring_of_a_pair(Slip::none, K.map(), sums.view<2>()));
        expect_sums();
    }
}

/// Each of four blocks fetches a quarter of the tile for all.
TEST_F(Multicast, EachBlockFetchesAPartForAll) {
    Numbers K("K");
    Buffer<float> sums("sums", {4, 32});
    const auto out = sums.view<2>();
    for (std::uint64_t seed = 0; seed <= 10; ++seed) {
        const ScopedOrder order(seed);
        expect_clean({.grid = 4, .block = 32, .shared_bytes = 4 * kBytes + 256, .cluster = 4}, [out, map = K.map()] {
            SharedArena arena;
            const auto tile = arena.panels<float, 4 * R, C, Swizzle::b128>("K_j");
            const auto full = arena.barriers<1>("full");
            const int t = int(threadIdx.x), rank = cluster_rank();
            if (t == 0) {
                full[0].init(1);
                publish_barriers();
                full[0].arrive_expecting(4 * kBytes);
            }
            cluster_sync();
            if (t == 0) tma_load_for_cluster(tile.rows_from<R>(rank * R), map, {rank * R, 0}, full[0], 0b1111);
            full[0].wait(0);
            float sum = 0.0f;
            for (int r = 0; r < 4 * R; ++r) sum += float(tile(r, t));
            out(rank, t) = sum;
            cluster_sync();
        });
        for (int b = 0; b < 4; ++b) EXPECT_EQ(sums.base[32 * b + 5], 64 * 63 / 2 * 100 + 64 * 5);
    }
}

TEST_F(Multicast, ToASingleOtherBlock) {
    Numbers K("K");
    Buffer<float> seen("seen", {32});
    const auto out = seen.view<1>();
    for (std::uint64_t seed = 0; seed <= 10; ++seed) {
        const ScopedOrder order(seed);
        expect_clean(kPairOfReaders, [out, map = K.map()] {
            const OneTile one;
            const int t = int(threadIdx.x);
            one.meet(false);
            if (cluster_rank() == 0) {
                if (t == 0) tma_load_for_cluster(one.tile, map, {R, 0}, one.full[0], 0b10);
            } else {
                if (t == 0) one.full[0].arrive_expecting(kBytes);
                one.full[0].wait(0);
                if (t < 32) out(t) = one.tile(2, t);
            }
            cluster_sync();
        });
        EXPECT_EQ(seen.base[7], 1807);
    }
}

// --- wrong kernels --------------------------------------------------------------------------------------------------

struct Wrong {
    Fault fault;
    std::vector<const char*> marks;
    std::vector<std::string> says;
};

/// `or_else`: what comes up first in other orders.
void expect_wrong(Slip slip, const Wrong& wrong, const std::vector<Fault>& or_else = {}) {
    Numbers K("K");
    Buffer<float> sums("sums", {2, 32});
    int found = 0;
    for (std::uint64_t seed = 0; seed < 12; ++seed) {
        const ScopedOrder order(seed);
        const auto error = fault_of(kPairOfReaders, ring_of_a_pair(slip, K.map(), sums.view<2>()));
        ASSERT_TRUE(error) << "seed " << seed;
        const std::string what = error->what() + std::string("\n");
        if (std::ranges::find(or_else, error->report().fault) != or_else.end()) continue;
        ++found;
        EXPECT_EQ(error->report().fault, wrong.fault) << what;
        for (const char* const mark : wrong.marks)
            EXPECT_NE(what.find(" at " + place(mark)), std::string::npos) << mark << "\n" << what;
        for (const std::string& words : wrong.says)
            EXPECT_NE(what.find(words), std::string::npos) << words << "\nis not in\n" << what;
    }
    EXPECT_GT(found, 0);
}

TEST_F(WrongMulticast, StageRefilledWhileTheOtherBlockReadsIt) {
    expect_wrong(Slip::own_consumers_only,
                 {.fault = Fault::race, .marks = {"load", "reads"}, .says = {"nothing in the cluster orders the two"}},
                 {Fault::copy_in_flight});  // two copies at once into the slower block
}

TEST_F(WrongMulticast, ProducerWaitsWithoutTheCluster) {
    expect_wrong(Slip::waits_without_cluster, {.fault = Fault::race,
                                               .marks = {"load", "reads"},
                                               .says = {"nothing in the cluster orders the two", "wait_in_cluster()"}});
}

TEST_F(WrongMulticast, TheOtherBlockExpectsNothing) {
    expect_wrong(Slip::other_expects_nothing,
                 {.fault = Fault::barrier_misuse,
                  .marks = {"load"},
                  .says = {"phase 0 of full[0]", "tma_load_for_cluster of K to K_j(0, 0) of block (1, 0, 0)"}},
                 {Fault::uninitialised_read});
}

TEST_F(WrongMulticast, TheOtherBlockExpectsTooFewBytes) {
    expect_wrong(Slip::other_expects_half,
                 {.fault = Fault::barrier_misuse,
                  .marks = {"load"},
                  .says = {"phase 0 of full[0] is told to wait for 1024 bytes, and with tma_load_for_cluster of K to "
                           "K_j(0, 0) of block (1, 0, 0) 2048 have come"}});
}

TEST_F(WrongMulticast, ForABlockOutsideOfTheCluster) {
    expect_wrong(Slip::mask_too_large,
                 {.fault = Fault::cluster_misuse,
                  .marks = {"load"},
                  .says = {"tma_load_for_cluster of K to K_j(", "for the blocks of mask 6, in a cluster of 2",
                           "bit r of the mask stands for the block of rank r: 1 to 3 here"}});
}

TEST_F(WrongMulticast, ForNobody) {
    expect_wrong(
        Slip::mask_empty,
        {.fault = Fault::cluster_misuse, .marks = {"load"}, .says = {"for the blocks of mask 0, in a cluster of 2"}});
}

TEST_F(WrongMulticast, BeforeTheClusterHasMet) {
    expect_wrong(Slip::no_cluster_sync, {.fault = Fault::cluster_misuse,
                                         .marks = {},
                                         .says = {"which may not have begun yet", "no cluster_sync() lies between"}});
}

TEST_F(WrongMulticast, BarriersThatNobodyPublished) {
    expect_wrong(Slip::not_published, {.fault = Fault::barrier_misuse, .marks = {"makes full"}, .says = {"full["}});
}

TEST_F(WrongMulticast, ArrivalsUnderWayWhenTheBlockEnds) {
    expect_wrong(Slip::no_last_sync, {.fault = Fault::cluster_misuse, .marks = {}, .says = {"block ("}});
}

TEST_F(WrongMulticast, OverwritesWhatTheOtherBlockStoredAndDidNotShow) {
    Numbers K("K");
    expect_fault(kPairOfReaders,
                 [map = K.map()] {
                     const OneTile one;
                     const int t = int(threadIdx.x);
                     if (cluster_rank() == 1 && t == 9) one.tile(1, 8) = 1.0f;  // @stored there
                     one.meet(true);
                     if (t == 0 && cluster_rank() == 0)
                         tma_load_for_cluster(one.tile, map, {0, 0}, one.full[0], 0b11);  // @over it
                     one.full[0].wait(0);
                     cluster_sync();
                 },
                 {.fault = Fault::unseen_by_agent,
                  .first = {0, "over it", BlockIndex{0, 0, 0}},
                  .second = {9, "stored there", BlockIndex{1, 0, 0}},
                  .says = {"what thread 0 of block (0, 0, 0) sets off overwrites K_j(1, 8) of block (1, 0, 0), which "
                           "thread 9 of that block stored in the ordinary way"}});
}

TEST_F(WrongMulticast, ReadBeforeItHasCome) {
    Numbers K("K");
    expect_fault(
        kPairOfReaders,
        [map = K.map()] {
            const OneTile one;
            const int t = int(threadIdx.x);
            one.meet(true);
            if (t == 0 && cluster_rank() == 0)
                tma_load_for_cluster(one.tile, map, {0, 0}, one.full[0], 0b11);  // @under way
            cluster_sync();                                                      // says nothing of the copy
            if (cluster_rank() == 1 && t == 3) {
                const float x = one.tile(0, 3);  // @too soon
                EXPECT_EQ(x, x);
            }
            one.full[0].wait(0);
            cluster_sync();
        },
        {.fault = Fault::copy_in_flight,
         .block = {1, 0, 0},
         .first = {3, "too soon"},
         .second = {0, "under way", BlockIndex{0, 0, 0}},
         .says = {"thread 3 reads K_j(0, 3), which tma_load_for_cluster of K to K_j(0, 0) of block (1, 0, 0) is "
                  "still filling"}});
}

TEST_F(WrongMulticast, NobodyWaitsInTheOtherBlock) {
    Numbers K("K");
    expect_fault(
        kPairOfReaders,
        [map = K.map()] {
            const OneTile one;
            const int t = int(threadIdx.x);
            one.meet(true);
            if (t == 0 && cluster_rank() == 0)
                tma_load_for_cluster(one.tile, map, {0, 0}, one.full[0], 0b11);  // @for both
            if (cluster_rank() == 0) one.full[0].wait(0);
            cluster_sync();
        },
        {.fault = Fault::copy_not_awaited,
         .block = {1, 0, 0},
         .first = {0, "for both", BlockIndex{0, 0, 0}},
         .says = {"the block ends while tma_load_for_cluster of K to K_j(0, 0) of block (1, 0, 0) of 2048 bytes "
                  "is under way to phase 0 of full[0]"}});
}

}  // namespace
}  // namespace simt::testing
