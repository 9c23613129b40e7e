// What the CPU machine says about wrong loads by TMA, and what it leaves alone. mbarriers by themselves are in
// mbarrier_model_test.cpp, the rules of tensor maps in tma_rules_test.cpp.

#include <gtest/gtest.h>

#include "tests/simt/tma_kernels.h"

namespace simt::testing {
namespace {

using TmaLoads = TmaModel;
using BulkLoads = TmaModel;

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

void expect_of_load(Slip slip, const Expected& expected) {
    Numbers K("K");
    float seen[64];
    expect_fault(kTwoWarps, load_and_read(slip, K.map(), seen), expected);
}

TEST_F(TmaLoads, ComeToThoseWhoWait) {
    Numbers K("K");
    std::vector<float> seen(64);
    const auto error = fault_of(kTwoWarps, load_and_read(Slip::none, K.map(), seen.data()));
    ASSERT_FALSE(error) << error->what();
    for (int t = 0; t < 64; ++t) EXPECT_EQ(seen[std::size_t(t)], 100 * (8 + 3) + 31 - t % 32);
}

TEST_F(TmaLoads, ReadWithoutAWait) {
    expect_of_load(
        Slip::no_wait,
        {.fault = Fault::copy_in_flight,
         .first = {31, "read"},
         .second = {0, "load"},
         .says = {"thread 31 reads K_j(3, 0), which tma_load of K to K_j(0, 0) is still filling", "full[0]"}});
}

TEST_F(TmaLoads, WaitForTheWrongParity) {
    expect_of_load(Slip::wrong_parity, {.fault = Fault::copy_in_flight,
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
    expect_of_load(Slip::expects_too_little,
                   {.fault = Fault::barrier_misuse,
                    .first = {0, "load"},
                    .second = {0, "expectation"},
                    .says = {"full[0]", "1920 bytes", "tma_load of K to K_j(0, 0)", "2048 have come"}});
}

TEST_F(TmaLoads, NoBytesExpected) {
    // The phase is over before anything has come.
    expect_of_load(
        Slip::never_expects,
        {.fault = Fault::copy_in_flight, .first = {31, "read"}, .second = {0, "load"}, .says = {"K_j(3, 0)"}});
}

TEST_F(TmaLoads, ByAWholeWarp) {
    expect_of_load(Slip::whole_warp,
                   {.fault = Fault::copy_in_flight,
                    .first = {1, "load"},
                    .second = {0, "load"},
                    .says = {"thread 1 writes K_j(0, 0), which tma_load of K to K_j(0, 0) is still filling"}});
}

TEST_F(TmaLoads, BarriersNotPublished) {
    expect_of_load(Slip::not_published, {.fault = Fault::barrier_misuse,
                                         .first = {0, "load"},
                                         .second = {0, "init"},
                                         .says = {"full[0]", "publish_barriers()"}});
}

TEST_F(TmaLoads, BarriersUsedBeforeAllKnowThem) {
    expect_of_load(Slip::no_barrier_after_init, {.fault = Fault::barrier_misuse,
                                                 .first = {1, "wait"},
                                                 .second = {0, "init"},
                                                 .says = {"thread 1 waits at full[0]", "no barrier lies between"}});
}

/// Thread 0 loads with this tile, map and place.
template <class Load>
void expect_load_refused(Load load, Fault fault, const char* mark, const std::vector<std::string>& says) {
    expect_fault(kTwoWarps,
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
    expect_fault(kTwoWarps,
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
    expect_fault(kTwoWarps,
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
        EXPECT_EQ(report.first.site.text(), place("ring load")) << error->what();
        EXPECT_EQ(report.second.site.text(), place("ring read")) << error->what();
        EXPECT_NE(std::string(error->what()).find("thread 0 writes K_j("), std::string::npos) << error->what();
    }
}

TEST_F(TmaLoads, AStageIsRefilledBeforeItHasCome) {
    Numbers K("K");
    std::vector<float> sums(32);
    expect_fault(
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
    expect_fault(kTwoWarps, kernel(false),
                 {.fault = Fault::unseen_by_agent,
                  .first = {0, "load over it"},
                  .second = {40, "cleared"},
                  .says = {"overwrites K_j(2, 5)", "show_to_async()"}});
}

TEST_F(TmaLoads, NobodyWaitsFor) {
    Numbers K("K");
    const auto map = K.map();
    expect_fault(kTwoWarps,
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
    expect_fault(kTwoWarps, kernel(false),
                 {.fault = Fault::global_race,
                  .first = {50, "write of a source"},
                  .second = {0, "copy of a source"},
                  .says = {"thread 50 writes K(3, 7), which an asynchronous copy of thread 0 is still reading"}});
}

TEST_F(TmaLoads, SourceOverwrittenByOneWhoWaitedForAnotherCopy) {
    Numbers K("K");
    const auto map = K.map();
    const auto view = K.view<2>();
    expect_fault(kTwoWarps,
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
                  .says = {"thread 50 writes K(3, 7), which a copy set off at " + place("one copy") + " read"}});
}

TEST_F(TmaLoads, SourceThatNoKernelWrote) {
    Numbers W("W");
    const auto garbage = expect_kernels_to_write(W.base, kTensorRows * C * sizeof(float), sizeof(float));
    const auto map = W.map();
    expect_fault(
        kTwoWarps,
        [=] {
            const Tiles t;
            t.make_barriers();
            if (is_thread(0)) tma_load(t.tile(0), map, {38, 28}, t.full[0]);  // @load of garbage
            __syncthreads();
        },
        {.fault = Fault::unwritten_read, .first = {0, "load of garbage"}, .says = {"thread 0 reads W(38, 28)"}});
}

TEST_F(TmaLoads, ARingOfTwo) {
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

// --- copies without a map -------------------------------------------------------------------------------------------

template <class Load>
void expect_bulk_load_refused(Load load, Fault fault, const char* mark, const std::vector<std::string>& says) {
    expect_fault(kTwoWarps,
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

}  // namespace
}  // namespace simt::testing
