// What a trace holds of a cluster: which block did what, and what one of them did in another.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "common/simt/device/device_profile.h"
#include "common/simt/report/trace.h"
#include "tests/simt/testing.h"

namespace simt::testing {
namespace {

using Kind = TracedEvent::Kind;

constexpr int kBytesSent = 64 * 64 * 2, kTilesSent = 3;
constexpr Shape kTwoPairs{.grid = 4, .block = 96, .shared_bytes = kBytesSent + 64, .cluster = 2};

class ClusterTrace : public ::testing::Test {
  protected:
    template <class Kernel>
    void trace(const Shape& shape, Kernel kernel) {
        const LaunchLog counted;
        const TraceLog log({});
        run(shape, kernel);
        launch_ = log.launches().front();
        ASSERT_EQ(launch_.blocks.size(), shape.grid.volume());
    }

    /// Events of a block, of one kind, at that barrier.
    std::vector<TracedEvent> events(int block, Kind kind, const std::string& barrier) const {
        std::vector<TracedEvent> found;
        for (const TracedMoment& moment : launch_.blocks.at(std::size_t(block)).moments)
            for (const TracedEvent& e : moment.events)
                if (e.kind == kind && e.barrier >= 0 && launch_.barriers.at(std::size_t(e.barrier)).name == barrier)
                    found.push_back(e);
        return found;
    }

    LaunchTrace launch_;

  private:
    const ScopedCpuDevice imitated_{device_from(device_profile("h100"))};
};

/// Each block brings half of K_j to both, and two warps of each read all of it.
class TraceOfMulticast : public ClusterTrace {
  protected:
    TraceOfMulticast() : keys_(64 * 64 * kTilesSent, f16(1.0f)) {
        const auto K_map = tile_map<const f16, 2, 32, 64, Swizzle::b128>({.name = "K",
                                                                          .data = keys_.data(),
                                                                          .type = ElementType::f16,
                                                                          .rank = 2,
                                                                          .extents = {64 * kTilesSent, 64},
                                                                          .strides = {64, 1}});
        trace(kTwoPairs, [K_map] {
            SharedArena arena;
            const auto K_j = arena.panels<f16, 64, 64, Swizzle::b128>("K_j");
            const auto full = arena.barriers<1>("full"), empty = arena.barriers<1>("empty");
            const int rank = cluster_rank();
            if (threadIdx.x == 0) {
                full[0].init(1);
                empty[0].init(2 * 64);
                publish_barriers();
            }
            cluster_sync();
            for (int j = 0; j < kTilesSent; ++j) {
                if (threadIdx.x == 0) {
                    empty[0].wait_in_cluster(unsigned(j + 1) % 2);
                    full[0].arrive_expecting(kBytesSent);
                    tma_load_for_cluster(K_j.rows_from<32>(32 * rank), K_map, {64 * j + 32 * rank, 0}, full[0], 0b11);
                } else if (threadIdx.x >= 32) {
                    full[0].wait(unsigned(j) % 2);
                    for (int r = 0; r < 64; ++r) (void)float(f16(K_j(r, int(threadIdx.x) - 32)));
                    for (int b = 0; b < 2; ++b) in_block(empty[0], b).arrive();
                }
            }
            cluster_sync();
        });
    }

  private:
    std::vector<f16> keys_;
};

TEST_F(TraceOfMulticast, KnowsItsClustersAndItsBlocksInTheirOrder) {
    EXPECT_EQ(launch_.cluster, (std::array<unsigned, 3>{2, 1, 1}));
    for (unsigned b = 0; b < 4; ++b) EXPECT_EQ(launch_.blocks[b].index, (std::array<unsigned, 3>{b, 0, 0}));
}

TEST_F(TraceOfMulticast, ACopyIsInTheBlockThatAsksAndInEachThatGetsIt) {
    for (int block = 0; block < 4; ++block) {
        const int rank = block % 2, other = 1 - rank;
        std::vector<TracedEvent> own, sent, got;
        for (const TracedEvent& e : events(block, Kind::copy, "full[0]"))
            (e.block == TracedEvent::kHere ? own : e.party == TracedEvent::kNobody ? got : sent).push_back(e);
        ASSERT_EQ(own.size(), std::size_t(kTilesSent));
        ASSERT_EQ(sent.size(), std::size_t(kTilesSent));
        ASSERT_EQ(got.size(), std::size_t(kTilesSent));
        for (int j = 0; j < kTilesSent; ++j) {
            const TracedEvent &mine = own[std::size_t(j)], &to = sent[std::size_t(j)], &from = got[std::size_t(j)];
            EXPECT_EQ(to.block, other);
            EXPECT_EQ(from.block, other);
            EXPECT_EQ(to.moment, mine.moment);
            EXPECT_EQ(from.bytes, std::uint64_t(kBytesSent) / 2);
            for (const auto& [event, half] : {std::pair(&mine, rank), {&to, rank}, {&from, other}}) {
                ASSERT_EQ(event->boxes.size(), 2u);
                EXPECT_EQ(event->boxes[0].memory, TracedAccess::Memory::global);
                EXPECT_EQ(event->boxes[0].first[0], 64 * j + 32 * half);
                EXPECT_TRUE(event->boxes[1].write);
                EXPECT_EQ(event->boxes[1].first[0], 32 * half);
            }
        }
    }
}

TEST_F(TraceOfMulticast, ATileIsFullWithTheBytesOfBoth) {
    for (int block = 0; block < 4; ++block) {
        const TracedBlock& of = launch_.blocks[std::size_t(block)];
        ASSERT_EQ(of.fills.size(), std::size_t(kTilesSent));
        const auto copies = events(block, Kind::copy, "full[0]");
        for (const TracedFill& fill : of.fills) {
            EXPECT_EQ(fill.bytes, std::uint64_t(kBytesSent));
            for (const TracedEvent& copy : copies)
                if (copy.number == fill.phase && (copy.block == TracedEvent::kHere || copy.party < 0)) {
                    EXPECT_LE(fill.asked, copy.moment);
                    EXPECT_LT(copy.moment, fill.full);
                }
            EXPECT_LT(fill.full, fill.first_read);
            EXPECT_EQ(launch_.barriers[std::size_t(fill.emptied_at)].name, "empty[0]");
            EXPECT_LE(fill.last_read, fill.released);
        }
    }
}

TEST_F(TraceOfMulticast, AnArrivalElsewhereIsInBothBlocks) {
    for (int block = 0; block < 4; ++block) {
        const int other_block = block ^ 1;
        int sent = 0, came = 0;
        for (const TracedEvent& e : events(block, Kind::arrive, "empty[0]"))
            if (e.block != TracedEvent::kHere && e.party >= 0) {
                EXPECT_EQ(e.block, other_block % 2);
                sent += e.times;
            }
        for (const TracedEvent& e : events(other_block, Kind::arrive, "empty[0]"))
            if (e.party == TracedEvent::kNobody) {
                EXPECT_EQ(e.block, block % 2);
                EXPECT_TRUE(e.site.known());
                came += e.times;
            }
        EXPECT_EQ(sent, 64 * kTilesSent);
        EXPECT_EQ(came, sent);
    }
}

TEST_F(TraceOfMulticast, TheClusterMeetsInOneMoment) {
    const char* const barrier = "the cluster's barrier";
    for (int pair = 0; pair < 4; pair += 2) {
        const auto one = events(pair, Kind::over, barrier), other = events(pair + 1, Kind::over, barrier);
        ASSERT_EQ(one.size(), 2u);
        ASSERT_EQ(other.size(), 2u);
        for (std::size_t i = 0; i < 2; ++i) EXPECT_EQ(one[i].moment, other[i].moment);
        for (const TracedEvent& wait : events(pair, Kind::wait, barrier)) {
            const TracedEvent& end = one[std::size_t(wait.number)];
            EXPECT_GT(wait.until, end.moment);
        }
    }
}

TEST_F(ClusterTrace, AWaitEndsAfterTheArrivalOfABlockThatIsLate) {
    trace({.grid = 2, .block = 32, .shared_bytes = 64, .cluster = 2}, [] {
        const auto done = SharedArena().barriers<1>("done");
        if (threadIdx.x == 0) {
            done[0].init(1);
            publish_barriers();
        }
        cluster_sync();
        if (cluster_rank() == 1) {
            for (int i = 0; i < 7; ++i) __syncwarp();
            if (threadIdx.x == 0) in_block(done[0], 0).arrive();
        } else {
            done[0].wait_in_cluster(0);
        }
        cluster_sync();
    });
    const auto late = events(1, Kind::arrive, "done[0]"), comes = events(0, Kind::arrive, "done[0]");
    ASSERT_EQ(late.size(), 1u);
    ASSERT_EQ(comes.size(), 1u);
    EXPECT_EQ(late[0].moment, comes[0].moment);
    const auto over = events(0, Kind::over, "done[0]"), waits = events(0, Kind::wait, "done[0]");
    ASSERT_EQ(over.size(), 1u);
    EXPECT_EQ(over[0].moment, late[0].moment);
    EXPECT_GE(late[0].moment, 7);
    for (const TracedEvent& wait : waits) EXPECT_EQ(wait.until, late[0].moment + 1);
}

TEST_F(ClusterTrace, ABlockThatIsNotRecordedLeavesTheOthersAlone) {
    const LaunchLog counted;
    const TraceLog log({.blocks = {1}});
    run({.grid = 2, .block = 32, .shared_bytes = 64, .cluster = 2}, [] {
        const auto done = SharedArena().barriers<1>("done");
        if (threadIdx.x == 0) {
            done[0].init(1);
            publish_barriers();
        }
        cluster_sync();
        if (threadIdx.x == 0) in_block(done[0], 1 - cluster_rank()).arrive();
        done[0].wait_in_cluster(0);
        cluster_sync();
    });
    launch_ = log.launches().front();
    EXPECT_FALSE(launch_.blocks.at(0).recorded);
    EXPECT_TRUE(launch_.blocks.at(1).recorded);
    EXPECT_EQ(events(1, Kind::arrive, "done[0]").size(), 1u);
    EXPECT_EQ(events(1, Kind::over, "done[0]").size(), 1u);
}

}  // namespace
}  // namespace simt::testing
