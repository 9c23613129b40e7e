// What the CPU machine says about wrong copies by TMA, and what it leaves alone. mbarriers by themselves are in
// barrier_model_test.cpp, the rules of tensor maps in tma_rules_test.cpp.

#include <gtest/gtest.h>

#include <functional>

#include "common/simt/device/device_profile.h"
#include "tests/simt/fault_checks.h"
#include "tests/simt/global_memory.h"

namespace simt::testing {
namespace {

const FaultChecks checks("tma_model_test.cpp");

class TmaModel : public ::testing::Test {
    const ScopedCpuDevice imitated_{device_from(device_profile("h200"))};
};
using TmaLoads = TmaModel;
using TmaStores = TmaModel;
using TmaAdditions = TmaModel;
using BulkLoads = TmaModel;
using TmaKernels = TmaModel;

constexpr int R = 16, C = 32, kBytes = R * C * int(sizeof(float));  // a tile of one panel
constexpr int kTensorRows = 40;
constexpr Shape kTwoWarps{.block = 64, .shared_bytes = 3 * kBytes + 256};

/// [40, 32], x(r, c) = 100 r + c
struct Numbers : Buffer<float> {
    explicit Numbers(const char* name) : Buffer(name, {kTensorRows, C}) {
        for (int i = 0; i < kTensorRows * C; ++i) base[i] = float(i / C * 100 + i % C);
    }
    template <class T = const float>
    TensorMap<T, 2> map(int rows = R, Swizzle swizzle = Swizzle::b128, int columns = C) {
        return tensor_map<T, 2>(argument<2>(), {rows, columns}, swizzle);
    }
};

bool is_thread(unsigned n) { return threadIdx.x == n; }

/// What the kernels have in common: two tiles, and a barrier for each, made by thread 0.
struct Tiles {
    SharedArena arena{};
    PanelTile<float, 2 * R, C, Swizzle::b128> all = arena.panels<float, 2 * R, C, Swizzle::b128>("K_j");
    SharedBarriers<2> full = arena.barriers<2>("full");

    auto tile(int i) const { return all.rows_from<R>(i * R); }
    void make_barriers(int arrivals = 1) const {
        if (is_thread(0)) {
            for (int i = 0; i < 2; ++i) full[i].init(arrivals);
            publish_barriers();
        }
        __syncthreads();
    }
};

// --- loads ----------------------------------------------------------------------------------------------------------

/// Thread 0 loads rows 8 … 23 of K, and all read them.
enum class Slip {
    none,
    no_wait,
    wrong_parity,
    expects_too_much,
    expects_too_little,
    never_expects,
    whole_warp,
    not_published,
    no_barrier_after_init,
};

auto load_and_read(Slip slip, TensorMap<const float, 2> map, float* seen) {
    return [=] {
        const Tiles t;
        if (is_thread(0)) t.full[0].init(1);  // @init
        if (is_thread(0) && slip != Slip::not_published) publish_barriers();
        if (slip != Slip::no_barrier_after_init) __syncthreads();
        if (is_thread(0) || (slip == Slip::whole_warp && threadIdx.x < 32)) {
            const int bytes = slip == Slip::expects_too_much     ? kBytes + 128
                              : slip == Slip::expects_too_little ? kBytes - 128
                              : slip == Slip::never_expects      ? 0
                                                                 : kBytes;
            if (is_thread(0)) t.full[0].arrive_expecting(bytes);  // @expectation
            tma_load(t.tile(0), map, {8, 0}, t.full[0]);          // @load
        }
        // So that the copy is under way, but not there, when others read.
        if (slip == Slip::no_wait || slip == Slip::wrong_parity || slip == Slip::never_expects) __syncthreads();
        if (slip == Slip::wrong_parity)
            t.full[0].wait(1);
        else if (slip != Slip::no_wait)
            t.full[0].wait(0);                                 // @wait
        const float x = t.all(3, 31 - int(threadIdx.x) % 32);  // @read
        seen[threadIdx.x] = x;
    };
}

TEST_F(TmaLoads, ComeToThoseWhoWait) {
    Numbers K("K");
    std::vector<float> seen(64);
    const auto error = fault_of(kTwoWarps, load_and_read(Slip::none, K.map(), seen.data()));
    ASSERT_FALSE(error) << error->what();
    for (int t = 0; t < 64; ++t) EXPECT_EQ(seen[std::size_t(t)], 100 * (8 + 3) + 31 - t % 32);
}

TEST_F(TmaLoads, ReadWithoutAWait) {
    Numbers K("K");
    float seen[64];
    checks.expect(
        kTwoWarps, load_and_read(Slip::no_wait, K.map(), seen),
        {.fault = Fault::copy_in_flight,
         .first = {31, "read"},
         .second = {0, "load"},
         .says = {"thread 31 reads K_j(3, 0), which tma_load of K to K_j(0, 0) is still filling", "full[0]"}});
}

TEST_F(TmaLoads, WaitForTheWrongParity) {
    Numbers K("K");
    float seen[64];
    checks.expect(kTwoWarps, load_and_read(Slip::wrong_parity, K.map(), seen),
                  {.fault = Fault::copy_in_flight,
                   .first = {31, "read"},
                   .second = {0, "load"},
                   .says = {"K_j(3, 0)", "with the parity of that phase: 0"}});
}

TEST_F(TmaLoads, MoreBytesExpectedThanCome) {
    Numbers K("K");
    float seen[64];
    const auto error = fault_of(kTwoWarps, load_and_read(Slip::expects_too_much, K.map(), seen));
    ASSERT_TRUE(error);
    EXPECT_EQ(error->report().fault, Fault::deadlock) << error->what();
    for (const char* const words : {"full[0]", "2048 of 2176 bytes"})
        EXPECT_NE(std::string(error->what()).find(words), std::string::npos) << error->what();
}

TEST_F(TmaLoads, FewerBytesExpectedThanCome) {
    Numbers K("K");
    float seen[64];
    checks.expect(kTwoWarps, load_and_read(Slip::expects_too_little, K.map(), seen),
                  {.fault = Fault::barrier_misuse,
                   .first = {0, "load"},
                   .second = {0, "expectation"},
                   .says = {"full[0]", "1920 bytes", "tma_load of K to K_j(0, 0)", "2048 have come"}});
}

TEST_F(TmaLoads, NoBytesExpected) {
    Numbers K("K");
    float seen[64];
    // The phase is over before anything has come.
    checks.expect(
        kTwoWarps, load_and_read(Slip::never_expects, K.map(), seen),
        {.fault = Fault::copy_in_flight, .first = {31, "read"}, .second = {0, "load"}, .says = {"K_j(3, 0)"}});
}

TEST_F(TmaLoads, ByAWholeWarp) {
    Numbers K("K");
    float seen[64];
    checks.expect(kTwoWarps, load_and_read(Slip::whole_warp, K.map(), seen),
                  {.fault = Fault::copy_in_flight,
                   .first = {1, "load"},
                   .second = {0, "load"},
                   .says = {"thread 1 writes K_j(0, 0), which tma_load of K to K_j(0, 0) is still filling"}});
}

TEST_F(TmaLoads, BarriersNotPublished) {
    Numbers K("K");
    float seen[64];
    checks.expect(kTwoWarps, load_and_read(Slip::not_published, K.map(), seen),
                  {.fault = Fault::barrier_misuse,
                   .first = {0, "load"},
                   .second = {0, "init"},
                   .says = {"full[0]", "publish_barriers()"}});
}

TEST_F(TmaLoads, BarriersUsedBeforeAllKnowThem) {
    Numbers K("K");
    float seen[64];
    checks.expect(kTwoWarps, load_and_read(Slip::no_barrier_after_init, K.map(), seen),
                  {.fault = Fault::barrier_misuse,
                   .first = {1, "wait"},
                   .second = {0, "init"},
                   .says = {"thread 1 waits at full[0]", "no barrier lies between"}});
}

/// Thread 0 loads with this tile, map and place.
template <class Load>
void expect_load_refused(Load load, Fault fault, const char* mark, const std::vector<std::string>& says) {
    checks.expect(kTwoWarps,
                  [=] {
                      const Tiles t;
                      t.make_barriers();
                      if (is_thread(0)) load(t);
                      __syncthreads();
                  },
                  {.fault = fault, .first = {0, mark}, .says = says});
}

TEST_F(TmaLoads, MapsThatDoNotFitTheTile) {
    Numbers K("K");
    const auto short_box = K.map(8), other_swizzle = K.map(R, Swizzle::b64, 16), narrow = K.map(R, Swizzle::b128, 16);
    const auto plain = K.map(R, Swizzle::none);
    expect_load_refused(
        [=](const Tiles& t) {
            tma_load(t.tile(0), short_box, {0, 0}, t.full[0]);  // @short box
        },
        Fault::bad_descriptor, "short box",
        {"tma_load of K", "a box of the map has 8 x 32 elements", "16 x 32 elements", "tile_map()"});
    expect_load_refused(
        [=](const Tiles& t) {
            tma_load(t.tile(0), narrow, {0, 0}, t.full[0]);  // @narrow box
        },
        Fault::bad_descriptor, "narrow box", {"has 16 x 16 elements"});
    expect_load_refused(
        [=](const Tiles& t) {
            tma_load(t.tile(1), other_swizzle, {0, 0}, t.full[0]);  // @swizzle
        },
        Fault::bad_descriptor, "swizzle", {"K_j(16, 0): the tile has a 128-byte swizzle, the map a 64-byte swizzle"});
    expect_load_refused(
        [=](const Tiles& t) {
            tma_load(t.tile(0), plain, {0, 0}, t.full[0]);  // @no swizzle
        },
        Fault::bad_descriptor, "no swizzle", {"the map no swizzle"});
    const TensorMap<const float, 2> never_made;
    expect_load_refused(
        [=](const Tiles& t) {
            tma_load(t.tile(0), never_made, {0, 0}, t.full[0]);  // @no map
        },
        Fault::bad_descriptor, "no map", {"a tensor map that was never made", "__grid_constant__"});
}

TEST_F(TmaLoads, ToATileThatIsNotAligned) {
    Numbers K("K");
    const auto map = K.map(R, Swizzle::none);
    checks.expect(kTwoWarps,
                  [=] {
                      SharedArena arena;
                      const auto full = arena.barriers<1>("full");
                      const auto tile = arena.tile<float, R, C>("V_j");
                      if (!is_thread(0)) return;
                      full[0].init(1);
                      publish_barriers();
                      full[0].arrive_expecting(kBytes);
                      tma_load(tile, map, {0, 0}, full[0]);  // @askew
                  },
                  {.fault = Fault::misaligned,
                   .first = {0, "askew"},
                   .says = {"V_j(0, 0)", "16 bytes beyond a multiple of 128", "panel tiles"}});
}

TEST_F(TmaLoads, FromAColumnThatIsNotAligned) {
    Numbers K("K");
    const auto map = K.map();
    expect_load_refused(
        [=](const Tiles& t) {
            tma_load(t.tile(0), map, {0, 6}, t.full[0]);  // @odd column
        },
        Fault::misaligned, "odd column", {"from column 6 of the tensor on, which is no multiple of 4", "16 bytes"});
}

TEST_F(TmaLoads, OnADeviceWithoutTma) {
    const ScopedCpuDevice ampere(device_from(device_profile("a100")));
    Numbers K("K");
    const auto map = K.map();
    checks.expect(kTwoWarps,
                  [=] {
                      prefetch_map(map);  // @no accelerator
                  },
                  {.fault = Fault::unsupported,
                   .first = {0, "no accelerator"},
                   .says = {"the tensor memory accelerator (TMA)", "A100"}});
}

/// One thread loads tile after tile into two stages, another warp reads them.
enum class RingSlip { none, no_wait_for_empty, releases_early, one_lane_releases_for_all };

auto ring(RingSlip slip, TensorMap<const float, 2> map, float* sums) {
    return [=] {
        const Tiles t;
        SharedArena arena = t.arena;
        const auto empty = arena.barriers<2>("empty");
        const bool one_lane = slip == RingSlip::one_lane_releases_for_all;
        if (is_thread(0))
            for (int i = 0; i < 2; ++i) empty[i].init(one_lane ? 1 : 32);
        t.make_barriers();
        RingPosition<2> at;
        if (is_thread(0)) {
            for (int j = 0; j < 5; ++j, at.next()) {
                if (slip != RingSlip::no_wait_for_empty) empty[at.stage].wait(at.parity ^ 1);
                t.full[at.stage].arrive_expecting(kBytes);                      // @ring expectation
                tma_load(t.tile(at.stage), map, {8 * j, 0}, t.full[at.stage]);  // @ring load
            }
        } else if (threadIdx.x >= 32) {
            const int lane = int(threadIdx.x) - 32;
            for (int j = 0; j < 5; ++j, at.next()) {
                t.full[at.stage].wait(at.parity);
                if (slip == RingSlip::releases_early) empty[at.stage].arrive();
                if (one_lane && lane == 0) empty[at.stage].arrive();
                for (int r = 0; r < R; ++r) sums[lane] += t.tile(at.stage)(r, lane);  // @ring read
                if (slip == RingSlip::none || slip == RingSlip::no_wait_for_empty) empty[at.stage].arrive();
            }
        }
    };
}

TEST_F(TmaLoads, AStageIsRefilledBeforeItWasRead) {
    Numbers K("K");
    for (const RingSlip slip : {RingSlip::releases_early, RingSlip::one_lane_releases_for_all}) {
        std::vector<float> sums(32);
        const auto error = fault_of(kTwoWarps, ring(slip, K.map(), sums.data()));
        ASSERT_TRUE(error) << int(slip);
        const MachineError::Report& report = error->report();
        EXPECT_EQ(report.fault, Fault::race) << error->what();
        EXPECT_EQ(report.first.site.text(), checks.place("ring load")) << error->what();
        EXPECT_EQ(report.second.site.text(), checks.place("ring read")) << error->what();
        EXPECT_NE(std::string(error->what()).find("thread 0 writes K_j("), std::string::npos) << error->what();
    }
}

TEST_F(TmaLoads, AStageIsRefilledBeforeItHasCome) {
    Numbers K("K");
    std::vector<float> sums(32);
    checks.expect(
        kTwoWarps, ring(RingSlip::no_wait_for_empty, K.map(), sums.data()),
        {.fault = Fault::barrier_misuse,
         .first = {0, "ring expectation"},
         .second = {0, "ring load"},
         .says = {"thread 0 arrives at phase 0 of full[0], to which all 1 arrivals have come, and tma_load of K "
                  "to K_j(0, 0) is still under way to it"}});
}

TEST_F(TmaLoads, OverAStoreThatWasNotShown) {
    Numbers K("K");
    const auto map = K.map();
    const auto kernel = [=](bool shows) {
        return [=] {
            const Tiles t;
            t.make_barriers();
            if (is_thread(40)) t.all(2, 5) = 1.0f;  // @cleared
            if (shows) show_to_async();
            __syncthreads();
            if (is_thread(0)) {
                t.full[0].arrive_expecting(kBytes);
                tma_load(t.tile(0), map, {0, 0}, t.full[0]);  // @load over it
            }
            t.full[0].wait(0);
        };
    };
    expect_clean(kTwoWarps, kernel(true));
    checks.expect(kTwoWarps, kernel(false),
                  {.fault = Fault::unseen_by_agent,
                   .first = {0, "load over it"},
                   .second = {40, "cleared"},
                   .says = {"overwrites K_j(2, 5)", "show_to_async()"}});
}

TEST_F(TmaLoads, NobodyWaitsFor) {
    Numbers K("K");
    const auto map = K.map();
    checks.expect(kTwoWarps,
                  [=] {
                      const Tiles t;
                      t.make_barriers();
                      if (!is_thread(0)) return;
                      t.full[1].arrive_expecting(kBytes);
                      tma_load(t.tile(1), map, {0, 0}, t.full[1]);  // @left behind
                  },
                  {.fault = Fault::copy_not_awaited,
                   .first = {0, "left behind"},
                   .says = {"tma_load of K to K_j(16, 0)", "full[1]"}});
}

TEST_F(TmaLoads, SourceOverwrittenUnderWay) {
    Numbers K("K");
    const auto map = K.map();
    const auto view = K.view<2>();
    const auto kernel = [=](bool waits) {
        return [=] {
            const Tiles t;
            t.make_barriers();
            if (is_thread(0)) {
                t.full[0].arrive_expecting(kBytes);
                tma_load(t.tile(0), map, {0, 0}, t.full[0]);  // @copy of a source
            }
            if (waits) t.full[0].wait(0);
            __syncthreads();
            if (is_thread(50)) view(3, 7) = 1.0f;  // @write of a source
            if (!waits) t.full[0].wait(0);
        };
    };
    expect_clean(kTwoWarps, kernel(true));
    checks.expect(kTwoWarps, kernel(false),
                  {.fault = Fault::global_race,
                   .first = {50, "write of a source"},
                   .second = {0, "copy of a source"},
                   .says = {"thread 50 writes K(3, 7), which an asynchronous copy of thread 0 is still reading"}});
}

TEST_F(TmaLoads, SourceOverwrittenByOneWhoWaitedForAnotherCopy) {
    Numbers K("K");
    const auto map = K.map();
    const auto view = K.view<2>();
    checks.expect(
        kTwoWarps,
        [=] {
            const Tiles t;
            t.make_barriers();
            if (is_thread(0)) {
                t.full[0].arrive_expecting(kBytes);
                t.full[1].arrive_expecting(kBytes);
                tma_load(t.tile(0), map, {0, 0}, t.full[0]);  // @one copy
                tma_load(t.tile(1), map, {R, 0}, t.full[1]);
                t.full[0].wait(0);
            }
            if (is_thread(50)) {
                t.full[1].wait(0);
                view(3, 7) = 1.0f;  // @write of another
            }
        },
        {.fault = Fault::global_race,
         .first = {50, "write of another"},
         .says = {"thread 50 writes K(3, 7), which a copy set off at " + checks.place("one copy") + " read"}});
}

TEST_F(TmaLoads, SourceThatNoKernelWrote) {
    Numbers W("W");
    const auto garbage = expect_kernels_to_write(W.base, kTensorRows * C * sizeof(float), sizeof(float));
    const auto map = W.map();
    checks.expect(
        kTwoWarps,
        [=] {
            const Tiles t;
            t.make_barriers();
            if (is_thread(0)) tma_load(t.tile(0), map, {38, 28}, t.full[0]);  // @load of garbage
            __syncthreads();
        },
        {.fault = Fault::unwritten_read, .first = {0, "load of garbage"}, .says = {"thread 0 reads W(38, 28)"}});
}

// --- stores ---------------------------------------------------------------------------------------------------------

enum class StoreSlip {
    none,
    not_shown,
    shown_too_early,
    no_barrier,
    unwritten,
    no_wait_before_reuse,
    waits_for_too_little,
    never_waits,
    never_commits,
    one_row_is_missing,
};

/// All fill a tile, thread 0 stores it to O; twice, through one buffer.
auto fill_and_store(StoreSlip slip, TensorMap<float, 2> map) {
    return [=] {
        const Tiles t;
        const int thread = int(threadIdx.x);
        for (int j = 0; j < 2; ++j) {
            if (slip == StoreSlip::shown_too_early) show_to_async();
            for (int r = thread / 32; r < R; r += 2)
                if (r != 5 || slip != StoreSlip::one_row_is_missing)
                    t.all(r, thread % 32) = float(1000 * j + 100 * r + thread % 32);  // @fill
            if (slip != StoreSlip::not_shown && slip != StoreSlip::shown_too_early) show_to_async();
            if (slip != StoreSlip::no_barrier) __syncthreads();
            if (is_thread(0)) {
                tma_store(map, {R * j, 0}, t.tile(0));  // @store
                if (slip != StoreSlip::never_commits) commit_stores();
                if (slip == StoreSlip::waits_for_too_little && j == 0) wait_stores_read<1>();
                const bool waits = slip != StoreSlip::no_wait_before_reuse && slip != StoreSlip::waits_for_too_little &&
                                   slip != StoreSlip::never_waits;
                if (waits && j == 0) wait_stores_read<0>();
                if (j == 1 && slip != StoreSlip::never_waits) wait_stores_read<0>();
            }
            __syncthreads();
            if (slip == StoreSlip::never_waits || slip == StoreSlip::never_commits) return;
        }
    };
}

TEST_F(TmaStores, Arrive) {
    Numbers O("O");
    const auto error = fault_of(kTwoWarps, fill_and_store(StoreSlip::none, O.map<float>()));
    ASSERT_FALSE(error) << error->what();
    for (int r = 0; r < 2 * R; ++r)
        for (int c = 0; c < C; ++c) EXPECT_EQ(O.base[r * C + c], 1000 * (r / R) + 100 * (r % R) + c);
    EXPECT_EQ(O.base[2 * R * C], 100 * 2 * R);
}

TEST_F(TmaStores, OfWhatWasNotShown) {
    Numbers O("O");
    for (const StoreSlip slip : {StoreSlip::not_shown, StoreSlip::shown_too_early})
        checks.expect(kTwoWarps, fill_and_store(slip, O.map<float>()),
                      {.fault = Fault::unseen_by_agent,
                       .first = {0, "store"},
                       .second = {0, "fill"},
                       .says = {"reads K_j(0, 0)", "stored in the ordinary way", "show_to_async()"}});
}

TEST_F(TmaStores, WithoutABarrierBefore) {
    Numbers O("O");
    checks.expect(kTwoWarps, fill_and_store(StoreSlip::no_barrier, O.map<float>()),
                  {.fault = Fault::uninitialised_read,  // the others have not even come so far
                   .first = {0, "store"},
                   .says = {"thread 0 reads K_j("}});
    const auto map = O.map<float>();
    checks.expect(kTwoWarps,
                  [=] {
                      const Tiles t;
                      const int thread = int(threadIdx.x);
                      for (int r = thread / 32; r < R; r += 2) t.all(r, thread % 32) = 1.0f;  // @unordered fill
                      show_to_async();
                      if (is_thread(63)) tma_store(map, {0, 0}, t.tile(0));  // @unordered store
                  },
                  {.fault = Fault::race,
                   .first = {63, "unordered store"},
                   .second = {0, "unordered fill"},
                   .says = {"thread 63 reads K_j(0, 0), which thread 0 wrote", "no barrier lies between"}});
}

TEST_F(TmaStores, OfATileWithAHole) {
    Numbers O("O");
    checks.expect(kTwoWarps, fill_and_store(StoreSlip::one_row_is_missing, O.map<float>()),
                  {.fault = Fault::uninitialised_read,
                   .first = {0, "store"},
                   .says = {"thread 0 reads K_j(5, 0), which nobody has written"}});
}

TEST_F(TmaStores, BufferReusedTooEarly) {
    Numbers O("O");
    for (const StoreSlip slip : {StoreSlip::no_wait_before_reuse, StoreSlip::waits_for_too_little})
        checks.expect(kTwoWarps, fill_and_store(slip, O.map<float>()),
                      {.fault = Fault::race,
                       .first = {31, "fill"},
                       .says = {"thread 31 writes K_j(0, 31), which a bulk store of thread 0 may still read",
                                "set off at " + checks.place("store")}});
}

TEST_F(TmaStores, NeverWaitedFor) {
    Numbers O("O");
    checks.expect(kTwoWarps, fill_and_store(StoreSlip::never_waits, O.map<float>()),
                  {.fault = Fault::copy_not_awaited,
                   .first = {0, "store"},
                   .says = {"thread 0 returns while 1 of its bulk stores", "tma_store of O from K_j(0, 0)",
                            "wait_stores_read<0>()"}});
    checks.expect(kTwoWarps, fill_and_store(StoreSlip::never_commits, O.map<float>()),
                  {.fault = Fault::copy_not_awaited,
                   .first = {0, "store"},
                   .says = {"never committed to a group", "commit_stores()"}});
}

/// Thread 0 stores a tile of ones to rows 0 … 15 of O, and then does something.
template <class Then>
auto store_and(TensorMap<float, 2> map, Then then) {
    return [=] {
        const Tiles t;
        const int thread = int(threadIdx.x);
        for (int r = thread / 32; r < R; r += 2) t.all(r, thread % 32) = 1.0f;
        show_to_async();
        __syncthreads();
        if (is_thread(0)) {
            tma_store(map, {0, 0}, t.tile(0));  // @first store
            commit_stores();
        }
        then(t);
        __syncthreads();
        if (is_thread(0)) wait_stores<0>();  // @last wait
    };
}

TEST_F(TmaStores, ReadInGlobalMemoryTooEarly) {
    Numbers O("O");
    const auto map = O.map<float>();
    const auto view = O.view<2>();
    const auto read_after = [=](bool all_of_it) {
        return store_and(map, [=](const Tiles&) {
            if (is_thread(0)) {
                if (all_of_it)
                    wait_stores<0>();
                else
                    wait_stores_read<0>();
            }
            __syncthreads();
            float x = 0;
            if (is_thread(33)) x = view(4, 9);  // @read of the target
            (void)x;
        });
    };
    expect_clean(kTwoWarps, read_after(true));
    checks.expect(
        kTwoWarps, read_after(false),
        {.fault = Fault::global_race,
         .first = {33, "read of the target"},
         .second = {0, "first store"},
         .says = {"thread 33 reads O(4, 9), which a bulk store of thread 0 is still writing", "wait_stores<N>()"}});
}

TEST_F(TmaStores, ThatMeetUnderWay) {
    Numbers O("O");
    const auto map = O.map<float>();
    checks.expect(kTwoWarps,
                  store_and(map,
                            [=](const Tiles& t) {
                                if (!is_thread(0)) return;
                                tma_store(map, {8, 0}, t.tile(0));  // @second store
                            }),
                  {.fault = Fault::global_race,
                   .first = {0, "second store"},
                   .second = {0, "first store"},
                   .says = {"thread 0 writes O(8, 0), which a bulk store of thread 0 is still writing"}});
}

TEST_F(TmaStores, AtTheEdges) {
    Numbers O("O");
    Buffer<float> N("N", {40, 28});
    TensorArgument narrow = N.argument<2>();
    narrow.extents[1] = 25;  // of rows that lie 28 apart
    const auto map = O.map<float>();
    const auto ragged = tensor_map<float, 2>(narrow, {R, C}, Swizzle::b128);
    checks.expect(kTwoWarps,
                  store_and(map,
                            [=](const Tiles& t) {
                                if (!is_thread(0)) return;
                                tma_store(map, {-8, 0}, t.tile(0));  // @before the tensor
                            }),
                  {.fault = Fault::out_of_bounds,
                   .first = {0, "before the tensor"},
                   .says = {"begins before the tensor: at -8 in dimension 0", "loads may begin before"}});
    checks.expect(kTwoWarps,
                  store_and(map,
                            [=](const Tiles& t) {
                                if (!is_thread(0)) return;
                                tma_add(ragged, {0, 0}, t.tile(0));  // @beyond the row
                            }),
                  {.fault = Fault::out_of_bounds,
                   .first = {0, "beyond the row"},
                   .says = {"tma_add of N", "rows of 25 elements, which end 4 bytes after a multiple of 16",
                            "the next 3 elements"}});
}

TEST_F(TmaStores, FromTwoBlocksToOnePlace) {
    Numbers O("O");
    const Shape blocks{.grid = 2, .block = 64, .shared_bytes = kTwoWarps.shared_bytes};
    checks.expect(blocks, store_and(O.map<float>(), [](const Tiles&) {}),
                  {.fault = Fault::global_race,
                   .block = {1, 0, 0},
                   .first = {0, "last wait", BlockIndex{1, 0, 0}},
                   .second = {0, "last wait", BlockIndex{0, 0, 0}},
                   .says = {"block (1, 0, 0) writes O(0, 0), which block (0, 0, 0) writes"}});
}

// --- additions ------------------------------------------------------------------------------------------------------

/// Every block adds a tile of its own values to rows 0 … 15, twice at once; then something may follow.
template <class Then>
auto add_and(TensorMap<float, 2> map, Then then) {
    return [=] {
        const Tiles t;
        const int thread = int(threadIdx.x);
        for (int r = thread / 32; r < R; r += 2)
            t.all(r, thread % 32) = 1.0f / float(3 * r + thread % 32 + 7 * int(blockIdx.x) + 1);
        show_to_async();
        __syncthreads();
        if (is_thread(0)) {
            tma_add(map, {0, 0}, t.tile(0));  // @addition
            tma_add(map, {8, 0}, t.tile(0));
            commit_stores();
            wait_stores<0>();  // @wait for a sum
        }
        then();
    };
}
constexpr auto kNothing = [] {};

TEST_F(TmaAdditions, OfAllBlocksGiveTheSameBitsOnEveryRun) {
    Numbers one("sum");
    const Shape blocks{.grid = 12, .block = 64, .shared_bytes = kTwoWarps.shared_bytes};
    std::vector<float> expected(one.base, one.base + kTensorRows * C);
    for (int b = 0; b < 12; ++b)
        for (const int first : {0, 8})
            for (int i = 0; i < R * C; ++i)
                expected[std::size_t(first * C + i)] += 1.0f / float(3 * (i / C) + i % C + 7 * b + 1);
    for (const int workers : {1, 2, 4})
        for (int run = 0; run < 3; ++run) {
            const Workers some(workers);
            Numbers sum("sum");
            const auto error = fault_of(blocks, add_and(sum.map<float>(), kNothing));
            ASSERT_FALSE(error) << error->what();
            EXPECT_EQ(std::vector<float>(sum.base, sum.base + kTensorRows * C), expected) << workers;
        }
}

TEST_F(TmaAdditions, MayBeReadByTheirBlock) {
    Numbers sum("sum");
    const auto view = sum.view<2>();
    std::vector<float> seen(64);
    const auto error = fault_of(kTwoWarps, add_and(sum.map<float>(), [&seen, view] {
                                    __syncthreads();
                                    const int c = int(threadIdx.x) % 32;
                                    seen[threadIdx.x] = view(0, c);
                                    if (is_thread(5)) view(1, 5) = 3.0f;
                                }));
    ASSERT_FALSE(error) << error->what();
    for (int c = 0; c < C; ++c) EXPECT_EQ(seen[std::size_t(c)], float(c) + 1.0f / float(c + 1));
    EXPECT_EQ(sum.base[C + 5], 3.0f);
}

TEST_F(TmaAdditions, ToWhatAnotherBlockReads) {
    Numbers sum("sum");
    const auto view = sum.view<2>();
    const Shape blocks{.grid = 2, .block = 64, .shared_bytes = kTwoWarps.shared_bytes};
    checks.expect(blocks,
                  add_and(sum.map<float>(),
                          [=] {
                              float x = 0;
                              if (blockIdx.x == 1 && is_thread(40)) x = view(2, 3);  // @read of a sum
                              (void)x;
                              __syncthreads();
                          }),
                  {.fault = Fault::global_race,
                   .block = {1, 0, 0},
                   .first = {40, "read of a sum", BlockIndex{1, 0, 0}},
                   .second = {0, "wait for a sum", BlockIndex{0, 0, 0}},
                   .says = {"block (1, 0, 0) reads sum(2, 3), which block (0, 0, 0) writes"}});
}

TEST_F(TmaAdditions, ToWhatAnotherThreadWrites) {
    Numbers sum("sum");
    const auto map = sum.map<float>();
    const auto view = sum.view<2>();
    for (const bool waits : {true, false})
        checks.expect(
            kTwoWarps,
            [=] {
                const Tiles t;
                const int thread = int(threadIdx.x);
                for (int r = thread / 32; r < R; r += 2) t.all(r, thread % 32) = 1.0f;
                show_to_async();
                __syncthreads();
                if (is_thread(32)) {
                    tma_add(map, {0, 0}, t.tile(0));  // @adds to it
                    commit_stores();
                    if (waits)
                        wait_stores<0>();  // @added to it
                    else
                        wait_stores_read<0>();
                }
                if (is_thread(1)) view(9, 30) = 0.0f;  // @clears a sum
            },
            {.fault = Fault::global_race,
             .first = {1, "clears a sum"},
             .second = {32, waits ? "added to it" : "adds to it"},
             .says = {"sum(9, 30)", waits ? "thread 32 wrote" : "a bulk store of thread 32 is still writing"}});
}

TEST_F(TmaAdditions, ToWhatNobodyHasCleared) {
    Numbers sum("sum");
    const auto garbage = expect_kernels_to_write(sum.base, kTensorRows * C * sizeof(float), sizeof(float));
    checks.expect(
        kTwoWarps, add_and(sum.map<float>(), kNothing),
        {.fault = Fault::unwritten_read, .first = {0, "addition"}, .says = {"sum(0, 0)", "such as 0 for a sum"}});
}

// --- copies without a map -------------------------------------------------------------------------------------------

template <class Load>
void expect_bulk_load_refused(Load load, Fault fault, const char* mark, const std::vector<std::string>& says) {
    checks.expect(kTwoWarps,
                  [=] {
                      SharedArena arena;
                      const auto row = arena.tile<float, 1, 64>("lse");
                      const auto full = arena.barriers<1>("full");
                      if (!is_thread(0)) return;
                      full[0].init(1);
                      publish_barriers();
                      load(row, full[0]);
                  },
                  {.fault = fault, .first = {0, mark}, .says = says});
}

TEST_F(BulkLoads, MustFit) {
    Buffer<float> L("L", {100});
    const auto lse = L.view<1>();
    expect_bulk_load_refused(
        [=](auto row, Mbarrier bar) {
            bulk_load(row(0, 0), lse(2), 64, bar);  // @off source
        },
        Fault::misaligned, "off source", {"L(2), 8 bytes beyond a multiple of 16"});
    expect_bulk_load_refused(
        [=](auto row, Mbarrier bar) {
            bulk_load(row(0, 3), lse(4), 64, bar);  // @off target
        },
        Fault::misaligned, "off target", {"lse(0, 3), 12 bytes beyond one"});
    expect_bulk_load_refused(
        [=](auto row, Mbarrier bar) {
            bulk_load(row(0, 0), lse(0), 40, bar);  // @odd bytes
        },
        Fault::misaligned, "odd bytes", {"bulk_load of 40 bytes", "a multiple of 16 bytes"});
    expect_bulk_load_refused(
        [=](auto row, Mbarrier bar) {
            bulk_load(row(0, 32), lse(0), 256, bar);  // @long tile
        },
        Fault::out_of_bounds, "long tile", {"lse(0, 32) goes 128 bytes beyond the tile's end"});
    expect_bulk_load_refused(
        [=](auto row, Mbarrier bar) {
            bulk_load(row(0, 0), lse(64), 256, bar);  // @long row
        },
        Fault::out_of_bounds, "long row", {"from L(64) on goes beyond the row of 100 elements", "ragged end"});
}

// --- right ones -----------------------------------------------------------------------------------------------------

TEST_F(TmaKernels, AFourStageRingWithOneProducerWarp) {
    Buffer<float> K("K", {100, 64});
    for (int i = 0; i < 100 * 64; ++i) K.base[i] = float(i);
    constexpr int stages = 4, rows = 8, tiles = 13;
    const auto map = tile_map<const float, 2, rows, 64, Swizzle::b128>(K.argument<2>());
    std::vector<float> sums(64);
    const Shape shape{.block = 128, .shared_bytes = panel_bytes<float>(stages * rows, 64) + 128};
    const auto error = fault_of(shape, [&sums, map] {
        SharedArena arena;
        const auto K_j = arena.panels<float, stages * rows, 64, Swizzle::b128>("K_j");
        const auto full = arena.barriers<stages>("full"), empty = arena.barriers<stages>("empty");
        if (is_thread(0)) {
            for (int s = 0; s < stages; ++s) {
                full[s].init(1);
                empty[s].init(2);  // an elected lane of each consumer warp
            }
            publish_barriers();
        }
        __syncthreads();
        const int warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32;
        RingPosition<stages> at;
        if (warp == 0) {
            for (int j = 0; j < tiles; ++j, at.next()) {
                empty[at.stage].wait(at.parity ^ 1);
                if (lane == 0) {
                    full[at.stage].arrive_expecting(rows * 64 * int(sizeof(float)));
                    tma_load<Reuse::soon>(K_j.rows_from<rows>(at.stage * rows), map, {j * rows, 0}, full[at.stage]);
                }
                __syncwarp();
            }
        } else if (warp < 3) {
            const int column = (warp - 1) * 32 + lane;
            for (int j = 0; j < tiles; ++j, at.next()) {
                full[at.stage].wait(at.parity);
                const auto tile = K_j.rows_from<rows>(at.stage * rows);
                for (int r = 0; r < rows; ++r) sums[std::size_t(column)] += tile(r, column);
                __syncwarp();  // all lanes have read
                if (lane == 0) empty[at.stage].arrive();
            }
        }
    });
    ASSERT_FALSE(error) << error->what();
    for (int c = 0; c < 64; ++c) EXPECT_EQ(sums[std::size_t(c)], 64 * (99 * 100 / 2) + 100 * c);
}

TEST_F(TmaKernels, ARingOfTwo) {
    Numbers K("K");
    std::vector<float> sums(32);
    const auto error = fault_of(kTwoWarps, ring(RingSlip::none, K.map(), sums.data()));
    ASSERT_FALSE(error) << error->what();
    for (int c = 0; c < 32; ++c) {
        float sum = 0;
        for (int j = 0; j < 5; ++j)
            for (int r = 8 * j; r < 8 * j + R && r < kTensorRows; ++r) sum += float(100 * r + c);
        EXPECT_EQ(sums[std::size_t(c)], sum);
    }
}

TEST_F(TmaKernels, StoresThroughTwoBuffersInTurn) {
    Buffer<float> O("O", {6 * R, C});
    const auto map = tensor_map<float, 2>(O.argument<2>(), {R, C}, Swizzle::b128);
    const auto error = fault_of(kTwoWarps, [map] {
        const Tiles t;
        const int thread = int(threadIdx.x);
        for (int j = 0; j < 6; ++j) {
            if (is_thread(0)) wait_stores_read<1>();
            __syncthreads();
            for (int r = thread / 32; r < R; r += 2) t.tile(j % 2)(r, thread % 32) = float(j * R + r);
            show_to_async();
            __syncthreads();
            if (is_thread(0)) {
                tma_store(map, {j * R, 0}, t.tile(j % 2));
                commit_stores();
            }
        }
        if (is_thread(0)) wait_stores_read<0>();
    });
    ASSERT_FALSE(error) << error->what();
    for (int r = 0; r < 6 * R; ++r) EXPECT_EQ(O.base[r * C + 7], float(r));
}

TEST_F(TmaKernels, EachWarpStoresItsOwnRowsWithoutABarrier) {
    Numbers O("O");
    const auto map = O.map<float>(8);
    const auto error = fault_of(kTwoWarps, [map] {
        const Tiles t;
        const int warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32;
        const auto own = t.all.rows_from<8>(8 * warp);
        for (int r = 0; r < 8; ++r) own(r, lane) = float(lane);
        show_to_async();
        __syncwarp();
        if (lane == 0) {
            tma_store(map, {8 * warp, 0}, own);
            commit_stores();
            wait_stores_read<0>();
        }
    });
    ASSERT_FALSE(error) << error->what();
    EXPECT_EQ(O.base[15 * C + 9], 9.0f);
}

TEST_F(TmaKernels, WhatIsClippedNeedNotBeWritten) {
    Buffer<float> O("O", {21, 28});
    const auto map = tensor_map<float, 2>(O.argument<2>(), {R, C}, Swizzle::b128);
    expect_clean(kTwoWarps, [map] {
        const Tiles t;
        const int thread = int(threadIdx.x);
        for (int r = thread / 32; r < 5; r += 2)
            if (thread % 32 < 28) t.all(r, thread % 32) = 1.0f;
        show_to_async();
        __syncthreads();
        if (is_thread(0)) {
            tma_store(map, {16, 0}, t.tile(0));
            commit_stores();
            wait_stores_read<0>();
        }
    });
    EXPECT_EQ(O.base[20 * 28 + 27], 1.0f);
}

TEST_F(TmaKernels, UpdateATensorInPlace) {
    Numbers X("X");
    const auto in = X.map();
    const auto out = X.map<float>();
    const auto view = X.view<2>();
    const auto error = fault_of(kTwoWarps, [=] {
        const Tiles t;
        t.make_barriers();
        const int thread = int(threadIdx.x);
        if (is_thread(0)) {
            t.full[0].arrive_expecting(2 * kBytes);  // of both
            tma_load(t.tile(0), in, {0, 0}, t.full[0]);
            tma_load(t.tile(1), in, {16, 0}, t.full[0]);
        }
        t.full[0].wait(0);
        // Who has waited may write what the copy has read, in shared memory and in global memory.
        for (int r = thread / 32; r < R; r += 2) {
            const float x = t.tile(1)(r, thread % 32), y = t.tile(0)(r, thread % 32);
            t.tile(1)(r, thread % 32) = -x;
            view(r, thread % 32) = 2 * y;
        }
        show_to_async();
        __syncthreads();
        if (is_thread(0)) {
            tma_store(out, {16, 0}, t.tile(1));
            commit_stores();
            wait_stores<0>();
            const float x = view(17, 3);
            view(17, 3) = x - 1;
        }
    });
    ASSERT_FALSE(error) << error->what();
    EXPECT_EQ(X.base[5 * C + 3], 2 * 503.0f);
    EXPECT_EQ(X.base[17 * C + 3], -1704.0f);
    EXPECT_EQ(X.base[31 * C + 31], -3131.0f);
}

TEST_F(TmaKernels, BytesMayBeAnnouncedInParts) {
    Numbers K("K");
    Buffer<float> L("L", {64});
    const auto map = K.map();
    const auto lse = L.view<1>();
    expect_clean(kTwoWarps, [=] {
        Tiles t;
        const auto row = t.arena.tile<float, 1, 64>("lse");
        t.make_barriers();
        if (is_thread(0)) {
            t.full[0].expect(kBytes);
            tma_load(t.tile(0), map, {-8, 0}, t.full[0]);  // half of it lies before the tensor
            t.full[0].expect(128);
            bulk_load(row(0, 0), lse(16), 128, t.full[0]);
            t.full[0].arrive_expecting(128);
            bulk_load(row(0, 32), lse(16), 128, t.full[0]);
        }
        t.full[0].wait(0);
        const float x = t.all(15, 3) + row(0, int(threadIdx.x));
        const float zero = t.all(7, 3);
        EXPECT_EQ(zero, 0.0f);
        (void)x;
    });
}

// --- what is counted ------------------------------------------------------------------------------------------------

TEST_F(TmaKernels, AreCountedByTensorInBytesAndSectors) {
    Buffer<float> K("K counted", {40, 44});
    const TensorArgument argument = K.argument<2>();
    const auto in = tensor_map<const float, 2>(argument, {R, C}, Swizzle::b128);
    Numbers O("O counted");
    const auto out = O.map<float>();
    LaunchLog log;
    run(kTwoWarps, [=] {
        const Tiles t;
        t.make_barriers();
        if (is_thread(0)) {
            t.full[0].arrive_expecting(kBytes);
            tma_load(t.tile(0), in, {30, 20}, t.full[0]);  // 10 rows of 24 elements: from byte 80 to 175 of 176
        }
        t.full[0].wait(0);
        if (is_thread(0)) {
            tma_store(out, {0, 4}, t.tile(0));  // 16 rows of 28
            commit_stores();
            wait_stores_read<0>();
        }
    });
    const Counters& counters = log.records().back().counters;
    const auto traffic = [&](const std::string& name) {
        for (const TensorTraffic& t : counters.tensors)
            if (t.tensor == name) return t;
        return TensorTraffic{};
    };
    const TensorTraffic k = traffic("K counted"), o = traffic("O counted");
    EXPECT_EQ(k.bytes_read, 10u * 24 * 4);
    // Rows are 176 bytes apart: byte 80 of a row lies 16 bytes into a sector in even rows, and begins one in odd rows.
    std::uint64_t sectors = 0;
    for (int r = 30; r < 40; ++r) sectors += std::uint64_t((r * 176 + 175) / 32 - (r * 176 + 80) / 32 + 1);
    EXPECT_EQ(k.sectors_read, sectors);
    EXPECT_EQ(k.requests_read, 0u);
    EXPECT_EQ(o.bytes_written, 16u * 28 * 4);
    EXPECT_EQ(o.sectors_written, 16u * 4);
    // What threads did by themselves was to initialise two barriers, which are no stores to the counters.
    EXPECT_EQ(counters.shared_bytes_written, std::uint64_t(kBytes));
    EXPECT_EQ(counters.shared_wavefronts, 0u);
}

}  // namespace
}  // namespace simt::testing
