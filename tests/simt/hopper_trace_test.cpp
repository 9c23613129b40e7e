// What a trace holds of Hopper's kernels: who issues and who waits, stages that fill and drain, products and stores
// under way.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <vector>

#include "common/simt/device/device_profile.h"
#include "common/simt/report/trace.h"
#include "tests/simt/testing.h"

namespace simt::testing {
namespace {

using Kind = TracedEvent::Kind;

constexpr const char* kFile = "hopper_trace_test.cpp";

/// A matrix of 16-bit numbers on the host, as tensor maps want it.
class Matrix {
  public:
    Matrix(const char* name, int rows, int columns)
        : name_(name), rows_(rows), columns_(columns), data_(std::size_t(rows * columns), f16(1.0f)) {}

    TensorArgument argument() {
        return {.name = name_,
                .data = data_.data(),
                .type = ElementType::f16,
                .rank = 2,
                .extents = {rows_, columns_},
                .strides = {columns_, 1}};
    }

  private:
    const char* name_;
    std::int64_t rows_, columns_;
    std::vector<f16> data_;
};

class HopperTrace : public ::testing::Test {
  protected:
    template <class Kernel>
    LaunchTrace trace_of(const Shape& shape, Kernel kernel) {
        const LaunchLog counted;
        const TraceLog log({});
        run(shape, kernel);
        return log.launches().front();
    }

  protected:
    const Device cpu_device_before_ = cpu_device();

  private:
    const ScopedCpuDevice imitated_{device_from(device_profile("h100"))};
};

struct Found {
    int moment;
    const TracedEvent* event;
};

/// The events of one kind, at that barrier if one is named, in order; of block 0 unless another one is named.
std::vector<Found> events(const LaunchTrace& launch, Kind kind, const std::string& barrier = "",
                          std::size_t block = 0) {
    std::vector<Found> found;
    const std::vector<TracedMoment>& moments = launch.blocks.at(block).moments;
    for (int m = 0; m < int(moments.size()); ++m)
        for (const TracedEvent& e : moments[std::size_t(m)].events) {
            EXPECT_EQ(e.moment, m);
            if (e.kind == kind && (barrier.empty() || launch.barriers.at(std::size_t(e.barrier)).name == barrier))
                found.push_back({m, &e});
        }
    return found;
}

std::string party(const LaunchTrace& launch, int number) {
    return launch.blocks.at(0).parties.at(std::size_t(number)).name;
}

std::vector<std::int64_t> box(const TracedAccess& a) {
    std::vector<std::int64_t> numbers;
    for (int d = 0; d < a.rank; ++d) numbers.insert(numbers.end(), {a.first[std::size_t(d)], a.last[std::size_t(d)]});
    return numbers;
}

constexpr int kTiles = 4, kStages = 2, kTileBytes = 64 * 64 * 2;
using KeyMap = TensorMap<const f16, 2>;

/// A warp brings tiles of 64 keys through a ring of two stages, a warpgroup adds up their columns.
void ring(const KeyMap& K_map, const GlobalTensor<float, 1>& y) {
    SharedArena arena;
    const auto K_ring = arena.panels<f16, 64 * kStages, 64, Swizzle::b128>("K_j");
    const auto full = arena.barriers<kStages>("full"), empty = arena.barriers<kStages>("empty");
    if (threadIdx.x == 0) {
        for (int s = 0; s < kStages; ++s) {
            full[s].init(1);
            empty[s].init(4);
        }
        publish_barriers();
    }
    __syncthreads();
    RingPosition<kStages> at;
    if (threadIdx.x >= 128) {
        if (elect_one())
            for (int j = 0; j < kTiles; ++j, at.next()) {
                empty[at.stage].wait(at.parity ^ 1);                                                // @wait_empty
                full[at.stage].arrive_expecting(kTileBytes);                                        // @announce
                tma_load(K_ring.rows_from<64>(64 * at.stage), K_map, {64 * j, 0}, full[at.stage]);  // @load
            }
        return;
    }
    float sum = 0.0f;
    for (int j = 0; j < kTiles; ++j, at.next()) {
        full[at.stage].wait(at.parity);  // @wait_full
        const auto K_j = K_ring.rows_from<64>(64 * at.stage);
        for (int r = 0; r < 64; ++r) sum += float(f16(K_j(r, int(threadIdx.x) % 64)));  // @read
        __syncwarp();
        if (elect_one()) empty[at.stage].arrive();  // @release
    }
    y(int(threadIdx.x)) = sum;
}

class TraceOfRing : public HopperTrace {
  protected:
    TraceOfRing() {
        Matrix K("K", 64 * kTiles, 64);
        std::vector<float> out(128);
        const auto K_map = tile_map<const f16, 2, 64, 64, Swizzle::b128>(K.argument());
        const auto y =
            global_tensor<float, 1>({.name = "y", .data = out.data(), .rank = 1, .extents = {128}, .strides = {1}});
        launch_ = trace_of({.block = 160, .shared_bytes = 64 * kStages * 128 + 64}, [=] { ring(K_map, y); });
    }
    const TracedBlock& block() const { return launch_.blocks.at(0); }

    LaunchTrace launch_;
};

TEST_F(TraceOfRing, NamesItsPartiesByWhatTheyDo) {
    ASSERT_EQ(block().parties.size(), 5u);  // no warpgroup multiplies, so each warp is one
    EXPECT_EQ(block().parties[0].name, "warp 0 of warpgroup 0");
    EXPECT_EQ(block().parties[0].role, "");
    EXPECT_EQ(block().parties[4].name, "warp 4");
    EXPECT_EQ(block().parties[4].role, "issues copies");
    EXPECT_EQ(block().parties[4].first_thread, 128);
    EXPECT_EQ(block().parties[4].threads, 32);
}

TEST_F(TraceOfRing, KnowsTheDeviceThatWasImitated) {
    EXPECT_EQ(launch_.device.name, device_from(device_profile("h100")).name);
    EXPECT_NE(launch_.device.name, cpu_device_before_.name);
}

TEST_F(TraceOfRing, ListsItsBarriers) {
    std::map<std::string, int> arrivals;
    for (const TracedBarrier& b : launch_.barriers) {
        EXPECT_FALSE(b.is_numbered);
        arrivals[b.name] = b.arrivals;
    }
    EXPECT_EQ(arrivals, (std::map<std::string, int>{{"empty[0]", 4}, {"empty[1]", 4}, {"full[0]", 1}, {"full[1]", 1}}));
    EXPECT_EQ(events(launch_, Kind::init).size(), 4u);
    EXPECT_EQ(events(launch_, Kind::init, "empty[1]").at(0).event->number, 4);
}

TEST_F(TraceOfRing, ACopyHasItsBoxesItsBytesAndItsPhase) {
    const auto copies = events(launch_, Kind::copy);
    ASSERT_EQ(copies.size(), std::size_t(kTiles));
    for (int j = 0; j < kTiles; ++j) {
        const TracedEvent& copy = *copies[std::size_t(j)].event;
        EXPECT_EQ(copy.party, 4);
        EXPECT_EQ(launch_.barriers.at(std::size_t(copy.barrier)).name, "full[" + std::to_string(j % 2) + "]");
        EXPECT_EQ(copy.number, j / 2);
        EXPECT_EQ(copy.bytes, unsigned(kTileBytes));
        EXPECT_EQ(copy.site.line(), line_of(kFile, "load"));
        ASSERT_EQ(copy.boxes.size(), 2u);
        EXPECT_EQ(launch_.tensors.at(std::size_t(copy.boxes[0].object)).name, "K");
        EXPECT_EQ(box(copy.boxes[0]), (std::vector<std::int64_t>{64 * j, 64 * j + 63, 0, 63}));
        EXPECT_EQ(launch_.tiles.at(std::size_t(copy.boxes[1].object)).name, "K_j");
        EXPECT_TRUE(copy.boxes[1].write);
        EXPECT_EQ(box(copy.boxes[1]), (std::vector<std::int64_t>{64 * (j % 2), 64 * (j % 2) + 63, 0, 63}));
    }
}

TEST_F(TraceOfRing, ItsAccessesAreThoseOfAnAgent) {
    std::uint64_t by_copies = 0, by_threads = 0;
    for (const TracedMoment& m : block().moments)
        for (const TracedAccess& a : m.accesses) {
            const bool is_shared = a.memory == TracedAccess::Memory::shared;
            if (is_shared && launch_.tiles.at(std::size_t(a.object)).name != "K_j") continue;  // but a barrier
            const bool reads_K = a.memory == TracedAccess::Memory::global && !a.write;
            if (a.agent == TracedAccess::Agent::copies) {
                EXPECT_EQ(a.party, 4);
                by_copies += reads_K ? a.bytes : 0;
            } else if (is_shared) {
                EXPECT_EQ(a.site.line(), line_of(kFile, "read"));
                EXPECT_LT(a.party, 4);
                by_threads += a.bytes;
            } else {
                EXPECT_FALSE(reads_K);
            }
        }
    EXPECT_EQ(by_copies, std::uint64_t(kTiles * kTileBytes));
    EXPECT_EQ(by_threads, std::uint64_t(kTiles * kTileBytes * 2));  // by each half of the warpgroup
    EXPECT_EQ(block().counters.global_bytes_read(), by_copies);
}

TEST_F(TraceOfRing, AStageFillsIsReadAndIsReleasedInThisOrder) {
    ASSERT_EQ(block().fills.size(), std::size_t(kTiles));
    for (int j = 0; j < kTiles; ++j) {
        const TracedFill& fill = block().fills[std::size_t(j)];
        const std::string stage = "[" + std::to_string(j % 2) + "]";
        EXPECT_EQ(launch_.barriers.at(std::size_t(fill.barrier)).name, "full" + stage);
        EXPECT_EQ(fill.phase, j / 2);
        EXPECT_EQ(fill.bytes, unsigned(kTileBytes));
        ASSERT_NE(fill.emptied_at, TracedEvent::kNone);
        EXPECT_EQ(launch_.barriers.at(std::size_t(fill.emptied_at)).name, "empty" + stage);
        EXPECT_LT(fill.asked, fill.full);
        EXPECT_LT(fill.full, fill.first_read);
        EXPECT_LE(fill.first_read, fill.last_read);
        EXPECT_LE(fill.last_read, fill.released);
        if (j < kStages) continue;
        EXPECT_LT(block().fills[std::size_t(j - kStages)].released, fill.asked);
    }
    EXPECT_EQ(block().fills[0].asked, block().fills[1].asked);  // both places are free
}

TEST_F(TraceOfRing, APhaseIsOverWithItsBytesAndItsArrivals) {
    const auto landed = events(launch_, Kind::land, "full[1]");
    ASSERT_EQ(landed.size(), 2u);
    EXPECT_EQ(landed[0].event->bytes, unsigned(kTileBytes));
    EXPECT_EQ(landed[0].moment, events(launch_, Kind::copy, "full[1]").at(0).moment + 1);
    EXPECT_EQ(events(launch_, Kind::over, "full[1]").at(0).moment, landed[0].moment);

    const auto announced = events(launch_, Kind::arrive, "full[0]");
    ASSERT_EQ(announced.size(), 2u);
    EXPECT_EQ(announced[1].event->bytes, unsigned(kTileBytes));
    EXPECT_EQ(announced[1].event->times, 1);
    EXPECT_EQ(announced[1].event->number, 1);
    EXPECT_EQ(announced[1].event->site.line(), line_of(kFile, "announce"));

    int arrivals = 0;
    for (const Found& f : events(launch_, Kind::arrive, "empty[0]")) {
        EXPECT_EQ(f.event->site.line(), line_of(kFile, "release"));
        arrivals += f.event->number == 0 ? f.event->times : 0;
    }
    EXPECT_EQ(arrivals, 4);
    EXPECT_EQ(events(launch_, Kind::over, "empty[0]").size(), 2u);
}

TEST_F(TraceOfRing, AWaitSaysForWhatAndUntilWhen) {
    const auto waits = events(launch_, Kind::wait, "empty[0]");
    ASSERT_EQ(waits.size(), 2u);
    EXPECT_EQ(waits[0].event->number, -1);  // nothing was there to be emptied
    EXPECT_EQ(waits[0].event->until, waits[0].moment);
    EXPECT_EQ(waits[1].event->number, 0);
    EXPECT_EQ(party(launch_, waits[1].event->party), "warp 4");
    EXPECT_EQ(waits[1].event->site.line(), line_of(kFile, "wait_empty"));
    EXPECT_EQ(waits[1].event->until, events(launch_, Kind::over, "empty[0]").at(0).moment + 1);

    int threads = 0;
    for (const Found& f : events(launch_, Kind::wait, "full[0]")) {
        if (f.event->number != 0) continue;
        EXPECT_EQ(f.event->site.line(), line_of(kFile, "wait_full"));
        EXPECT_EQ(f.event->until, events(launch_, Kind::over, "full[0]").at(0).moment + 1);
        threads += f.event->times;
    }
    EXPECT_EQ(threads, 128);
}

TEST_F(TraceOfRing, TilesKeepTheirPanelsAndSwizzle) {
    const auto tile = std::ranges::find(launch_.tiles, std::string("K_j"), &TracedTile::name);
    ASSERT_NE(tile, launch_.tiles.end());
    EXPECT_EQ(tile->panel_columns, 64);
    EXPECT_EQ(tile->swizzle_bits, 7u << 4);
}

/// One warpgroup has two groups of products under way at once.
void products(const KeyMap& Q_map, const KeyMap& K_map) {
    SharedArena arena;
    const auto Q_i = arena.panels<f16, 64, 64, Swizzle::b128>("Q_i");
    const auto K_j = arena.panels<f16, 64, 64, Swizzle::b128>("K_j");
    const auto full = arena.barriers<1>("full");
    if (threadIdx.x == 0) {
        full[0].init(1);
        publish_barriers();
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        full[0].arrive_expecting(2 * kTileBytes);
        tma_load(Q_i, Q_map, {0, 0}, full[0]);
        tma_load(K_j, K_map, {0, 0}, full[0]);
    }
    full[0].wait(0);
    Accumulator<64> S, T;
    begin_products(S, T);
    for (int k = 0; k < 64; k += 16) multiply(S, k_major(Q_i, 0, k), k_major(K_j, 0, k), k > 0);  // @first
    commit_products();                                                                            // @commit
    multiply(T, k_major(Q_i, 0, 0), k_major(Q_i, 0, 0), false);                                   // @second
    commit_products();
    wait_products<1>(S);     // @wait_first
    wait_products<0>(S, T);  // @wait_second
}

class TraceOfProducts : public HopperTrace {
  protected:
    TraceOfProducts() {
        Matrix Q("Q", 64, 64), K("K", 64, 64);
        const auto Q_map = tile_map<const f16, 2, 64, 64, Swizzle::b128>(Q.argument());
        const auto K_map = tile_map<const f16, 2, 64, 64, Swizzle::b128>(K.argument());
        launch_ = trace_of({.block = 128, .shared_bytes = 2 * kTileBytes + 64}, [=] { products(Q_map, K_map); });
    }
    const TracedBlock& block() const { return launch_.blocks.at(0); }
    std::vector<std::string> tiles_of(const TracedGroup& group) const {
        std::vector<std::string> names;
        for (const TracedAccess& a : group.reads) names.push_back(launch_.tiles.at(std::size_t(a.object)).name);
        return names;
    }

    LaunchTrace launch_;
};

TEST_F(TraceOfProducts, AWarpgroupThatMultipliesIsOneParty) {
    ASSERT_EQ(block().parties.size(), 1u);
    EXPECT_EQ(block().parties[0].name, "warpgroup 0");
    EXPECT_EQ(block().parties[0].role, "issues copies, multiplies");
    EXPECT_EQ(block().parties[0].threads, 128);
}

TEST_F(TraceOfProducts, AGroupIsUnderWayUntilItIsWaitedFor) {
    ASSERT_EQ(block().groups.size(), 2u);
    const TracedGroup &first = block().groups[0], &second = block().groups[1];
    EXPECT_EQ(first.number, 0);
    EXPECT_EQ(first.products, 4);
    EXPECT_EQ(first.site.line(), line_of(kFile, "first"));
    EXPECT_EQ(tiles_of(first), (std::vector<std::string>{"Q_i", "K_j"}));
    EXPECT_EQ(box(first.reads[1]), (std::vector<std::int64_t>{0, 63, 0, 63}));
    EXPECT_EQ(second.products, 1);
    EXPECT_EQ(second.site.line(), line_of(kFile, "second"));
    EXPECT_EQ(tiles_of(second), (std::vector<std::string>{"Q_i"}));
    EXPECT_EQ(box(second.reads[0]), (std::vector<std::int64_t>{0, 63, 0, 15}));

    EXPECT_EQ(first.begun, second.begun);
    EXPECT_EQ(first.committed, first.begun);
    EXPECT_EQ(first.done, first.begun + 1);
    EXPECT_EQ(second.done, first.begun + 2);
}

TEST_F(TraceOfProducts, ItsEventsHaveTheirLinesAndGroups) {
    const auto multiplied = events(launch_, Kind::multiply);
    ASSERT_EQ(multiplied.size(), 2u);
    EXPECT_EQ(multiplied[0].event->times, 4);
    EXPECT_EQ(multiplied[1].event->number, 1);
    const auto committed = events(launch_, Kind::commit);
    ASSERT_EQ(committed.size(), 2u);
    EXPECT_EQ(committed[0].event->times, 4);  // warps
    EXPECT_EQ(committed[0].event->site.line(), line_of(kFile, "commit"));
    const auto waits = events(launch_, Kind::wait_products);
    ASSERT_EQ(waits.size(), 2u);
    EXPECT_EQ(waits[0].event->number, 1);
    EXPECT_EQ(waits[0].event->site.line(), line_of(kFile, "wait_first"));
    EXPECT_EQ(waits[0].event->until, waits[0].moment + 1);
    EXPECT_EQ(waits[1].event->number, 2);
    EXPECT_EQ(waits[1].event->site.line(), line_of(kFile, "wait_second"));
}

TEST_F(TraceOfProducts, TilesAreReadByTheProductsAsLongAsTheyAreUnderWay) {
    ASSERT_EQ(block().fills.size(), 1u);
    const TracedFill& fill = block().fills[0];
    EXPECT_EQ(fill.bytes, unsigned(2 * kTileBytes));
    EXPECT_EQ(fill.boxes.size(), 4u);
    EXPECT_EQ(fill.emptied_at, TracedEvent::kNone);
    EXPECT_EQ(fill.first_read, block().groups[0].begun);
    EXPECT_EQ(fill.last_read, block().groups[1].done - 1);
    std::uint64_t bytes = 0;
    for (const TracedMoment& m : block().moments)
        for (const TracedAccess& a : m.accesses)
            if (a.agent == TracedAccess::Agent::products) bytes += a.bytes;
    EXPECT_EQ(bytes, 5u * 2 * 64 * 32);  // A and B of five products
}

TEST_F(HopperTrace, AStoreIsCommittedReadAndDone) {
    Matrix O("O", 64, 64);
    const auto O_map = tile_map<f16, 2, 64, 64, Swizzle::b128>(O.argument());
    const LaunchTrace launch = trace_of({.block = 32, .shared_bytes = kTileBytes}, [=] {
        const auto O_i = SharedArena().panels<f16, 64, 64, Swizzle::b128>("O_i");
        for (int i = int(threadIdx.x); i < 64 * 64; i += 32) O_i(i / 64, i % 64) = f16(1.0f);
        show_to_async();
        __syncwarp();
        if (threadIdx.x == 0) {
            tma_store(O_map, {0, 0}, O_i);  // @store
            commit_stores();                // @commit_store
            wait_stores_read<0>();          // @wait_read
            wait_stores<0>();
        }
        __syncwarp();
        O_i(int(threadIdx.x), 0) = f16(2.0f);  // @write_again
    });
    const TracedBlock& block = launch.blocks.at(0);
    ASSERT_EQ(block.stores.size(), 1u);
    const TracedStore& store = block.stores[0];
    EXPECT_EQ(store.bytes, unsigned(kTileBytes));
    EXPECT_EQ(store.site.line(), line_of(kFile, "store"));
    EXPECT_EQ(store.committed, store.asked);
    EXPECT_EQ(store.read, store.asked + 1);
    EXPECT_EQ(store.done, store.asked + 2);
    ASSERT_EQ(store.boxes.size(), 2u);
    EXPECT_EQ(box(store.boxes[0]), (std::vector<std::int64_t>{0, 63, 0, 63}));
    EXPECT_EQ(box(store.boxes[1]), (std::vector<std::int64_t>{0, 63, 0, 63}));
    EXPECT_EQ(block.parties.at(std::size_t(store.party)).role, "stores");
    EXPECT_EQ(store.asked, 1);  // the tile was written in the moment before
    for (int m = 0; m < int(block.moments.size()); ++m)
        for (const TracedAccess& a : block.moments[std::size_t(m)].accesses)
            if (a.site.line() == line_of(kFile, "write_again")) {
                EXPECT_EQ(m, store.done);  // nothing happens in between
            }
    EXPECT_EQ(events(launch, Kind::store).size(), 1u);
    EXPECT_EQ(events(launch, Kind::commit_stores).at(0).event->site.line(), line_of(kFile, "commit_store"));
    EXPECT_EQ(events(launch, Kind::wait_read).at(0).event->site.line(), line_of(kFile, "wait_read"));
    EXPECT_EQ(events(launch, Kind::wait_stores).size(), 1u);
}

TEST_F(HopperTrace, TurnsFollowOneAnother) {
    const LaunchTrace launch = trace_of({.block = 64}, [] {
        const int me = int(threadIdx.x) / 32, other = 1 - me;
        if (me == 1) arrive_threads(1, 64);
        for (int i = 0; i < 2; ++i) {
            sync_threads(1 + me, 64);       // @my_turn
            arrive_threads(1 + other, 64);  // @hand_over
        }
        if (me == 0) sync_threads(1, 64);
    });
    const auto first = std::ranges::find(launch.barriers, std::string("barrier 1"), &TracedBarrier::name);
    ASSERT_NE(first, launch.barriers.end());
    EXPECT_TRUE(first->is_numbered);
    EXPECT_EQ(first->arrivals, 64);
    const auto of_0 = events(launch, Kind::wait, "barrier 1"), of_1 = events(launch, Kind::wait, "barrier 2");
    ASSERT_EQ(of_0.size(), 3u);
    ASSERT_EQ(of_1.size(), 2u);
    EXPECT_EQ(of_0[0].event->site.line(), line_of(kFile, "my_turn"));
    EXPECT_LT(of_0[0].event->until, of_1[0].event->until);
    EXPECT_LT(of_1[0].event->until, of_0[1].event->until);
    EXPECT_LT(of_0[1].event->until, of_1[1].event->until);
    EXPECT_EQ(of_1[1].event->number, 1);  // its second opening
    EXPECT_EQ(events(launch, Kind::over, "barrier 1").size(), 3u);
    EXPECT_EQ(events(launch, Kind::arrive, "barrier 2").at(0).event->times, 32);
}

TEST_F(HopperTrace, RegistersChangeHands) {
    const LaunchTrace launch = trace_of({.block = 384}, [] {
        if (threadIdx.x < 128)
            release_registers<24>();  // @give
        else
            claim_registers<240>();
        if (threadIdx.x % 128 == 0) watch("x", threadIdx.x / 128, 0, 1.0f);
    });
    const auto given = events(launch, Kind::give_registers), taken = events(launch, Kind::take_registers);
    ASSERT_EQ(given.size(), 1u);
    EXPECT_EQ(given[0].event->number, 24);
    EXPECT_EQ(given[0].event->site.line(), line_of(kFile, "give"));
    ASSERT_EQ(taken.size(), 2u);
    EXPECT_EQ(taken[1].event->number, 240);
    EXPECT_EQ(party(launch, taken[1].event->party), "warp 0 of warpgroup 2");
    EXPECT_EQ(launch.blocks[0].moments.at(0).values.at(0).rows, 3);
}

TEST_F(HopperTrace, AWaitThatNeverEndsIsThere) {
    const LaunchLog counted;
    const TraceLog log({});
    const auto error = fault_of({.block = 32, .shared_bytes = 64}, [] {
        const auto full = SharedArena().barriers<1>("full");
        if (threadIdx.x == 0) {
            full[0].init(2);
            publish_barriers();
        }
        __syncthreads();
        if (threadIdx.x == 0) full[0].arrive();
        full[0].wait(0);
    });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->report().fault, Fault::deadlock);
    const auto waits = events(log.launches().front(), Kind::wait, "full[0]");
    ASSERT_EQ(waits.size(), 1u);
    EXPECT_EQ(waits[0].event->times, 32);
    EXPECT_EQ(waits[0].event->until, kNever);
    EXPECT_TRUE(log.launches().front().blocks.at(0).moments.back().fault);
}

TEST_F(HopperTrace, BlockBarriersCutTheMomentsOfAllParties) {
    Matrix K("K", 128, 64);
    const auto K_map = tile_map<const f16, 2, 64, 64, Swizzle::b128>(K.argument());
    const LaunchTrace launch = trace_of({.block = 64, .shared_bytes = kTileBytes + 64}, [=] {
        SharedArena arena;
        const auto K_j = arena.panels<f16, 64, 64, Swizzle::b128>("K_j");
        const auto full = arena.barriers<1>("full");
        if (threadIdx.x == 0) {
            full[0].init(1);
            publish_barriers();
        }
        __syncthreads();
        for (int j = 0; j < 2; ++j) {
            if (threadIdx.x == 0) {
                full[0].arrive_expecting(kTileBytes);
                tma_load(K_j, K_map, {64 * j, 0}, full[0]);
            }
            full[0].wait(unsigned(j));
            watch("x", threadIdx.x, j, float(f16(K_j(int(threadIdx.x), 0))));
            __syncthreads();
        }
    });
    const TracedBlock& block = launch.blocks.at(0);
    EXPECT_EQ(std::ranges::count_if(block.moments, [](const TracedMoment& m) { return m.barrier.has_value(); }), 3);
    ASSERT_EQ(block.fills.size(), 2u);
    EXPECT_EQ(block.fills[1].emptied_at, TracedEvent::kNone);  // full[0] itself empties nothing
    EXPECT_TRUE(block.moments.at(std::size_t(block.fills[0].last_read)).barrier);
    EXPECT_EQ(block.fills[1].asked, block.fills[0].last_read + 1);
    EXPECT_EQ(block.moments.at(std::size_t(block.fills[1].first_read)).values.at(0).first_column, 1);
}

TEST_F(HopperTrace, AProductBeginsWhenItsLastWarpComes) {
    Matrix K("K", 64, 64);
    const auto K_map = tile_map<const f16, 2, 64, 64, Swizzle::b128>(K.argument());
    const LaunchTrace launch = trace_of({.block = 128, .shared_bytes = kTileBytes + 64}, [=] {
        SharedArena arena;
        const auto K_j = arena.panels<f16, 64, 64, Swizzle::b128>("K_j");
        const auto full = arena.barriers<1>("full");
        if (threadIdx.x == 0) {
            full[0].init(1);
            publish_barriers();
            full[0].arrive_expecting(kTileBytes);
            tma_load(K_j, K_map, {0, 0}, full[0]);
        }
        __syncthreads();
        full[0].wait(0);
        if (threadIdx.x >= 96) full[0].wait(0);  // @once_more
        Accumulator<64> S;
        begin_products(S);
        multiply(S, k_major(K_j, 0, 0), k_major(K_j, 0, 0), false);
        commit_products();
        wait_products<0>(S);
    });
    int until = kNever;
    for (const Found& f : events(launch, Kind::wait))
        if (f.event->site.line() == line_of(kFile, "once_more")) until = f.event->until;
    EXPECT_EQ(launch.blocks.at(0).groups.at(0).begun, until);
    EXPECT_EQ(events(launch, Kind::commit).at(0).event->times, 4);
}

TEST_F(HopperTrace, WhatCameBeforeTheFirstEventTakesItsMoments) {
    std::vector<float> data(64, 1.0f);
    const auto x =
        global_tensor<float, 1>({.name = "x", .data = data.data(), .rank = 1, .extents = {64}, .strides = {1}});
    const LaunchTrace launch = trace_of({.block = 32, .shared_bytes = 512}, [=] {
        SharedArena arena;
        const auto tile = arena.tile<float, 1, 64>("tile");
        tile(0, threadIdx.x) = float(x(threadIdx.x));
        tile(0, threadIdx.x + 32) = float(x(threadIdx.x + 32));  // another moment
        __syncthreads();
        const auto done = arena.barriers<1>("done");
        if (threadIdx.x == 0) {
            done[0].init(1);
            publish_barriers();
        }
        __syncthreads();
        if (threadIdx.x == 0) done[0].arrive();
        done[0].wait(0);
        watch("x", threadIdx.x, 0, float(tile(0, 63 - threadIdx.x)));
    });
    const TracedBlock& block = launch.blocks.at(0);
    ASSERT_EQ(block.moments.size(), 5u);
    EXPECT_TRUE(block.moments[0].events.empty());
    EXPECT_TRUE(block.moments[1].barrier);
    EXPECT_EQ(events(launch, Kind::init, "done[0]").at(0).moment, 2);
    EXPECT_EQ(events(launch, Kind::wait, "done[0]").at(0).moment, 3);
    EXPECT_EQ(events(launch, Kind::wait, "done[0]").at(0).event->until, 4);
    EXPECT_EQ(block.moments[4].values.size(), 1u);
}

TEST_F(HopperTrace, TheMomentOfAFaultIsThatOfItsThread) {
    const LaunchLog counted;
    const TraceLog log({});
    const auto error = fault_of({.block = 64, .shared_bytes = 512}, [] {
        SharedArena arena;
        const auto tile = arena.tile<float, 1, 64>("tile");
        const auto go = arena.barriers<1>("go");
        if (threadIdx.x == 0) {
            go[0].init(32);
            publish_barriers();
        }
        __syncthreads();
        if (threadIdx.x < 32) {
            go[0].wait(0);
            tile(0, 64) = 1.0f;  // beyond its end
        } else {
            go[0].arrive();
            for (int i = 0; i < 3; ++i) go[0].wait(0);
            watch("far", threadIdx.x, 0, 1.0f);
        }
    });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->report().fault, Fault::out_of_bounds);
    const std::vector<TracedMoment>& moments = log.launches().front().blocks.at(0).moments;
    const auto wrong = std::ranges::find_if(moments, &TracedMoment::fault);
    ASSERT_NE(wrong, moments.end());
    EXPECT_EQ(std::ranges::count_if(moments, &TracedMoment::fault), 1);
    EXPECT_FALSE(moments.back().fault);
    EXPECT_EQ(moments.back().values.at(0).name, "far");
    EXPECT_EQ(int(wrong - moments.begin()), events(log.launches().front(), Kind::wait, "go[0]").at(0).event->until);
}

/// Block 0 has three phases of a barrier behind it before it lets block 1 have its turn; block 1 waits at once.
class TraceOfFlags : public HopperTrace {
  protected:
    LaunchTrace traced(const TraceLog::Wanted& wanted) {
        int turn = 0;
        const auto flag = global_tensor<int, 1>(
            {.name = "turn", .data = &turn, .type = ElementType::i32, .rank = 1, .extents = {1}, .strides = {1}});
        const LaunchLog counted;
        const TraceLog log(wanted);
        run({.grid = 2, .block = 32, .shared_bytes = 64}, [flag] {
            const auto full = SharedArena().barriers<1>("full");
            if (threadIdx.x > 0) return;
            full[0].init(1);
            publish_barriers();
            const int block = int(blockIdx.x);
            for (int i = 0; block == 0 && i < 3; ++i) {
                full[0].arrive();
                full[0].wait(unsigned(i) % 2);
            }
            while (load_acquire(flag(0)) != block) {  // @my_turn_came
            }
            store_release(flag(0), block + 1);  // @next_turn
        });
        return log.launches().front();
    }
};

TEST_F(TraceOfFlags, ABlockWaitsForWhatAnotherOneReleases) {
    const LaunchTrace launch = traced({});
    const auto flag = std::ranges::find(launch.barriers, std::string("turn(0)"), &TracedBarrier::name);
    ASSERT_NE(flag, launch.barriers.end());
    EXPECT_EQ(flag->arrivals, 0);
    EXPECT_FALSE(flag->is_numbered);

    const auto released = events(launch, Kind::arrive, "turn(0)"), waits = events(launch, Kind::wait, "turn(0)", 1);
    ASSERT_EQ(released.size(), 1u);
    EXPECT_EQ(released[0].event->number, 0);
    EXPECT_EQ(released[0].event->site.line(), line_of(kFile, "next_turn"));
    EXPECT_EQ(released[0].moment, 3);
    EXPECT_TRUE(events(launch, Kind::wait, "turn(0)").empty());  // it has its turn from the start

    ASSERT_EQ(waits.size(), 1u);
    EXPECT_EQ(waits[0].event->number, 0);
    EXPECT_EQ(waits[0].event->site.line(), line_of(kFile, "my_turn_came"));
    EXPECT_EQ(waits[0].moment, 0);
    EXPECT_EQ(waits[0].event->until, released[0].moment + 1);
    EXPECT_EQ(events(launch, Kind::over, "turn(0)", 1).size(), 2u);
    const auto released_again = events(launch, Kind::arrive, "turn(0)", 1);
    ASSERT_EQ(released_again.size(), 1u);
    EXPECT_EQ(released_again[0].event->number, 1);
    EXPECT_EQ(released_again[0].moment, waits[0].event->until);
}

TEST_F(TraceOfFlags, NobodyKnowsHowLongToWaitForABlockThatIsCountedOnly) {
    const LaunchTrace launch = traced({.blocks = {1}});
    EXPECT_TRUE(events(launch, Kind::wait, "turn(0)", 1).empty());
    EXPECT_EQ(events(launch, Kind::arrive, "turn(0)", 1).size(), 1u);
}

TEST_F(HopperTrace, AKernelWithoutPartiesHasNone) {
    int turn = 0;
    const auto flag = global_tensor<int, 1>(
        {.name = "turn", .data = &turn, .type = ElementType::i32, .rank = 1, .extents = {1}, .strides = {1}});
    const LaunchTrace launch = trace_of({.block = 64, .shared_bytes = 256}, [flag] {
        const auto tile = SharedArena().tile<float, 1, 64>("tile");
        tile(0, threadIdx.x) = 1.0f;
        __syncthreads();
        if (threadIdx.x == 0) store_release(flag(0), 1);
    });
    EXPECT_TRUE(launch.barriers.empty());
    EXPECT_TRUE(launch.blocks[0].parties.empty());
    EXPECT_EQ(launch.blocks[0].moments.at(0).accesses.at(0).party, TracedAccess::kEverybody);
}

}  // namespace
}  // namespace simt::testing
