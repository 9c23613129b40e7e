// What the CPU machine says about operands of wgmma in shared memory: wrong descriptors, and tiles that are not ready
// or that change under way.

#include <gtest/gtest.h>

#include "tests/simt/product_kernels.h"

namespace simt::testing {
namespace {

using Descriptors = OnHopper;
using OperandMemory = OnHopper;
using RightOperands = OnHopper;

/// Q_i times an operand B that a thread makes; the line is B's.
template <int N, Major b_major>
void multiply_by(const Tiles& t, const MatrixOperand<f16, b_major>& b, SourceSite site = SourceSite::here()) {
    Accumulator<N> S;
    begin_products(S);
    multiply(S, k_major(t.Q_i, 0, 0), b, false, site);
    commit_products();
    wait_products<0>(S);
}

/// What a descriptor of K_j says, with one thing changed.
template <Major major, class Change>
MatrixOperand<f16, major> changed(const Tile& tile, int row, int column, Change change) {
    auto descriptor = MatrixDescriptor::from_bits(major == Major::k ? k_major(tile, row, column).bits()
                                                                    : mn_major(tile, row, column).bits());
    change(descriptor);
    return MatrixOperand<f16, major>::from_bits(descriptor.bits());
}

// --- descriptors ----------------------------------------------------------------------------------------------------

/// A kernel whose B has a descriptor with something changed.
template <Major major, int N = 64, class Change>
auto with_changed(Change change) {
    return [=] {
        const Tiles t = ready_tiles();
        multiply_by<N>(t, changed<major>(t.K_j, 0, 0, change));  // @changed
    };
}

Expected bad_descriptor(const char* mark, std::vector<std::string> says) {
    return {.fault = Fault::bad_descriptor, .first = {0, mark}, .second = {0}, .says = std::move(says)};
}

TEST_F(Descriptors, HaveAnotherSwizzleThanTheTile) {
    expect_fault_by_some(
        kOneGroup, with_changed<Major::k>([](MatrixDescriptor& d) { d.swizzle = Swizzle::b64; }),
        bad_descriptor("changed", {"the descriptor of B says 64-byte swizzle, but K_j has 128-byte swizzle",
                                   "1 for 128 bytes, 2 for 64 and 3 for 32"}));
}

TEST_F(Descriptors, HaveNoSwizzleWhereTheTileHas) {
    expect_fault_by_some(kOneGroup, with_changed<Major::k>([](MatrixDescriptor& d) { d.swizzle = Swizzle::none; }),
                         bad_descriptor("changed", {"says no swizzle, but K_j has 128-byte swizzle"}));
}

TEST_F(Descriptors, HaveAWrongStride) {
    expect_fault_by_some(
        kOneGroup, with_changed<Major::k>([](MatrixDescriptor& d) { d.stride = 128; }),
        bad_descriptor("changed", {"has a stride byte offset of 128, but from one group of eight rows to the next of "
                                   "K_j it is 1024 bytes"}));
}

TEST_F(Descriptors, HaveAWrongDistanceOfPanels) {
    const auto kernel = [] {
        SharedArena arena;
        const auto Q_i = arena.panels<f16, 64, 64, Swizzle::b128>("Q_i");
        const auto V_j = arena.panels<f16, 64, 128, Swizzle::b128>("V_j");
        fill(Q_i);
        fill(V_j);
        show_to_async();
        __syncthreads();
        auto descriptor = MatrixDescriptor::from_bits(mn_major(V_j, 0, 0).bits());
        descriptor.leading = 1024;
        Accumulator<128> O;
        begin_products(O);
        multiply(O, k_major(Q_i, 0, 0), MatrixOperand<f16, Major::mn>::from_bits(descriptor.bits()), false);  // @panels
        commit_products();
        wait_products<0>(O);
    };
    expect_fault_by_some(
        kOneGroup, kernel,
        bad_descriptor("panels",
                       {"has a leading byte offset of 1024, but from one panel to the next of V_j it is 8192"}));
}

TEST_F(Descriptors, BeginBetweenTwoPatterns) {
    expect_fault_by_some(
        kOneGroup, with_changed<Major::k, 32>([](MatrixDescriptor& d) { d.address += 3 * 128; }),
        bad_descriptor("changed", {"begins at K_j(3, 0), between two patterns of the swizzle, which repeat every 8 "
                                   "rows"}));
    const auto typed = [] {
        const Tiles t = ready_tiles();
        multiply_by<32>(t, k_major(t.K_j, 3, 0));  // @row 3
    };
    expect_fault_by_some(kOneGroup, typed,
                         {.fault = Fault::bad_descriptor,
                          .first = {kSome, "row 3"},
                          .says = {"k_major(K_j, 3, 0) begins between two patterns"}});
}

TEST_F(Descriptors, HaveABaseOffset) {
    expect_fault_by_some(
        kOneGroup, with_changed<Major::k>([](MatrixDescriptor& d) { d.base_offset = 4; }),
        bad_descriptor("changed", {"has base offset 4, but K_j begins where the pattern of its swizzle does"}));
}

TEST_F(Descriptors, LeaveTheTile) {
    expect_fault_by_some(
        kOneGroup, with_changed<Major::k>([](MatrixDescriptor& d) { d.address += 8 * 128; }),
        bad_descriptor("changed", {"leaves the tile: 64 rows of 16 columns from K_j(8, 0) on, but K_j has 64 rows of "
                                   "64 columns"}));
    expect_fault_by_some(kOneGroup, with_changed<Major::mn>([](MatrixDescriptor& d) { d.address += 56 * 128; }),
                         bad_descriptor("changed", {"leaves the tile: 16 rows of 64 columns from K_j(56, 0) on"}));
    expect_fault_by_some(kOneGroup, with_changed<Major::mn, 128>([](MatrixDescriptor& d) { d.leading = 8192; }),
                         bad_descriptor("changed", {"leaves the tile: 16 rows of 128 columns from K_j(0, 0) on"}));
}

TEST_F(Descriptors, TakeMoreRowsThanTheStageHas) {
    const auto kernel = [] {
        SharedArena arena;
        const auto Q_i = arena.panels<f16, 64, 64, Swizzle::b128>("Q_i");
        const auto ring = arena.panels<f16, 128, 64, Swizzle::b128>("K ring");
        fill(Q_i);
        fill(ring);
        show_to_async();
        __syncthreads();
        const auto stage = ring.rows_from<32>(32);
        Accumulator<64> S;
        begin_products(S);
        multiply(S, k_major(Q_i, 0, 0), k_major(stage, 0, 0), false);  // @short stage
        commit_products();
        wait_products<0>(S);
    };
    expect_fault_by_some(
        kOneGroup, kernel,
        {.fault = Fault::bad_descriptor,
         .first = {0, "short stage"},
         .says = {"B takes 64 rows of 16 columns of K ring from (0, 0) on, counted from row 32 of the tile, but there "
                  "are only 32 rows of 64 columns"}});
}

TEST_F(Descriptors, OfARowsThatAreNotThere) {
    const auto kernel = [] {
        const Tiles t = ready_tiles();
        Accumulator<64> S;
        begin_products(S);
        multiply(S, k_major(t.Q_i, 8, 0), k_major(t.K_j, 0, 0), false);  // @rows of A
        commit_products();
        wait_products<0>(S);
    };
    expect_fault_by_some(kOneGroup, kernel,
                         {.fault = Fault::bad_descriptor,
                          .first = {0, "rows of A"},
                          .says = {"A takes 64 rows of 16 columns of Q_i from (8, 0) on, but there are only 64 rows"}});
}

TEST_F(Descriptors, BeginInsideOfAProductsColumns) {
    const auto kernel = [] {
        const Tiles t = ready_tiles();
        multiply_by<64>(t, k_major(t.K_j, 0, 8));  // @column 8
    };
    expect_fault_by_some(kOneGroup, kernel,
                         {.fault = Fault::bad_descriptor,
                          .first = {kSome, "column 8"},
                          .says = {"k_major(K_j, 0, 8) does not begin at a multiple of 16 columns"}});
    expect_fault_by_some(
        kOneGroup, with_changed<Major::k>([](MatrixDescriptor& d) { d.address += 112; }),
        bad_descriptor("changed", {"begins inside a row of a panel, at K_j(0, 56), and runs over its end"}));
}

TEST_F(Descriptors, BeginInsideOfAPanel) {
    const auto kernel = [] {
        const Tiles t = ready_tiles();
        multiply_by<32>(t, mn_major(t.K_j, 0, 16));  // @column 16
    };
    expect_fault_by_some(kOneGroup, kernel,
                         {.fault = Fault::bad_descriptor,
                          .first = {kSome, "column 16"},
                          .says = {"mn_major(K_j, 0, 16) does not begin at a multiple of 64 columns"}});
    expect_fault_by_some(
        kOneGroup, with_changed<Major::mn>([](MatrixDescriptor& d) { d.address += 64; }),
        bad_descriptor("changed", {"begins inside a row of a panel, at K_j(0, 32)", "begin where a panel does"}));
}

TEST_F(Descriptors, BeginOutsideOfTheTile) {
    const auto kernel = [] {
        const Tiles t = ready_tiles();
        multiply_by<64>(t, k_major(t.K_j, 0, 64));  // @column 64
    };
    expect_fault_by_some(kOneGroup, kernel,
                         {.fault = Fault::out_of_bounds,
                          .first = {kSome, "column 64"},
                          .says = {"k_major(K_j, 0, 64) begins outside the tile of 64 rows of 64 columns"}});
}

TEST_F(Descriptors, PointToNoTile) {
    const auto kernel = [] {
        const Tiles t = ready_tiles();
        multiply_by<64>(t, changed<Major::k>(t.V_j, 0, 0, [](MatrixDescriptor& d) { d.address += 8192; }));  // @nowhere
    };
    expect_fault_by_some({.block = 128, .shared_bytes = 4 * kTileBytes}, kernel,
                         {.fault = Fault::bad_descriptor,
                          .first = {0, "nowhere"},
                          .says = {"the descriptor of B begins at byte 24576 of shared memory, where no tile lies"}});
}

TEST_F(Descriptors, OfATileWithoutPanels) {
    const auto kernel = [] {
        SharedArena arena;
        const auto Q_i = arena.panels<f16, 64, 64, Swizzle::b128>("Q_i");
        const auto K_j = arena.tile<f16, 64, 64>("K_j");
        fill(Q_i);
        fill(K_j);
        show_to_async();
        __syncthreads();
        Accumulator<64> S;
        begin_products(S);
        const auto here = MatrixDescriptor{8192, 0, 1024, 0, Swizzle::b128};
        multiply(S, k_major(Q_i, 0, 0), MatrixOperand<f16, Major::k>::from_bits(here.bits()), false);  // @no panels
        commit_products();
        wait_products<0>(S);
    };
    expect_fault_by_some(
        kOneGroup, kernel,
        bad_descriptor("no panels", {"says 128-byte swizzle, but K_j has no panels: it lies row by row"}));
}

TEST_F(Descriptors, WithoutASwizzleLeaveTheTile) {
    const auto kernel = [] {
        SharedArena arena;
        const auto Q_i = arena.panels<f16, 64, 64, Swizzle::b128>("Q_i");
        const auto K_j = arena.tile<f16, 128, 8>("K_j");  // 8x8 matrices, one behind the other
        fill(Q_i);
        fill(K_j);
        show_to_async();
        __syncthreads();
        Accumulator<64> S;
        begin_products(S);
        const auto here = MatrixDescriptor{8192, 1024, 256, 0, Swizzle::none};
        multiply(S, k_major(Q_i, 0, 0), MatrixOperand<f16, Major::k>::from_bits(here.bits()), false);  // @strides
        commit_products();
        wait_products<0>(S);
    };
    expect_fault_by_some(
        kOneGroup, kernel,
        bad_descriptor("strides",
                       {"leaves the tile: its element (32, 8) would be at byte 10240, but K_j has bytes 8192 "
                        "to 10239"}));
}

// --- memory ---------------------------------------------------------------------------------------------------------

TEST_F(OperandMemory, NobodyHasWrittenTheTile) {
    const auto kernel = [] {
        const Tiles t = tiles();
        fill(t.Q_i);
        show_to_async();
        __syncthreads();
        multiply_by<64>(t, k_major(t.K_j, 0, 0));  // @hollow
    };
    expect_fault_by_some(
        kOneGroup, kernel,
        {.fault = Fault::uninitialised_read, .first = {kSome, "hollow"}, .says = {"reads K_j(", "which nobody has"}});
}

TEST_F(OperandMemory, OneElementIsMissing) {
    const auto kernel = [] {
        const Tiles t = tiles();
        fill(t.Q_i);
        for (int i = int(threadIdx.x); i < 64 * 64; i += 128)
            if (i != 64 * 37 + 9) t.K_j(i / 64, i % 64) = f16(1.0f);
        show_to_async();
        __syncthreads();
        multiply_by<64>(t, k_major(t.K_j, 0, 0));  // @hole
    };
    expect_fault_by_some(kOneGroup, kernel,
                         {.fault = Fault::uninitialised_read, .first = {kSome, "hole"}, .says = {"reads K_j(37, 9)"}});
}

TEST_F(OperandMemory, NobodyHasShownTheStores) {
    const auto kernel = [] {
        const Tiles t = tiles();
        fill(t.Q_i);
        fill(t.V_j);
        show_to_async();
        for (int i = int(threadIdx.x); i < 64 * 8; i += 128)
            t.K_j.vec<Wide>(i / 8, i % 8 * 8) = Wide{};  // @unshown store
        __syncthreads();
        multiply_by<64>(t, k_major(t.K_j, 0, 0));  // @unshown
    };
    const auto found = fault_of(kOneGroup, kernel);
    ASSERT_TRUE(found);
    expect_fault_by_some(kOneGroup, kernel,
                         {.fault = Fault::unseen_by_agent,
                          .first = {kSome, "unshown"},
                          .second = {found->report().second.thread, "unshown store"},
                          .says = {"stored in the ordinary way", "show_to_async()"}});
}

TEST_F(OperandMemory, OnlyOneThreadShowsItsStores) {
    const auto kernel = [] {
        const Tiles t = tiles();
        fill(t.Q_i);
        fill(t.K_j);
        if (threadIdx.x == 0) show_to_async();
        __syncthreads();
        multiply_by<64>(t, k_major(t.K_j, 0, 0));
    };
    const auto found = fault_of(kOneGroup, kernel);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->report().fault, Fault::unseen_by_agent) << found->what();
}

TEST_F(OperandMemory, NoBarrierLiesBetween) {
    const auto kernel = [] {
        const Tiles t = ready_tiles();
        fill(t.K_j);
        show_to_async();
        multiply_by<64>(t, k_major(t.K_j, 0, 0));  // @no barrier
    };
    const auto found = fault_of(kOneGroup, kernel);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->report().fault, Fault::race) << found->what();
    EXPECT_EQ(found->report().first.site.text(), place("no barrier"));
    EXPECT_NE(std::string(found->what()).find("no barrier lies between"), std::string::npos) << found->what();
}

TEST_F(OperandMemory, ACopyIsStillFillingTheTile) {
    Buffer<f16> in("in", {64, 64});
    const auto view = in.view<2>();
    const auto kernel = [=] {
        const Tiles t = ready_tiles();
        if (threadIdx.x == 0) {
            copy_async(t.K_j.vec<Wide>(12, 8), view.vec<Wide>(12, 8));  // @filling
            commit_copies();
        }
        __syncthreads();
        multiply_by<64>(t, k_major(t.K_j, 0, 0));  // @in flight
        wait_all_copies();
    };
    expect_fault_by_some(kOneGroup, kernel,
                         {.fault = Fault::copy_in_flight,
                          .first = {kSome, "in flight"},
                          .second = {0, "filling"},
                          .says = {"reads K_j(12, 8)"}});
}

TEST_F(OperandMemory, TheTileIsOverwrittenBeforeTheWait) {
    const auto kernel = [] {
        const Tiles t = ready_tiles();
        Accumulator<64> S;
        begin_products(S);
        multiply(S, k_major(t.Q_i, 0, 0), k_major(t.K_j, 0, 0), false);  // @reads on
        commit_products();
        if (threadIdx.x == 77) t.K_j(40, 3) = f16(1.0f);  // @early store
        wait_products<0>(S);
    };
    expect_fault_by_some(
        kOneGroup, kernel,
        {.fault = Fault::race,
         .first = {77, "early store"},
         .says = {"thread 77 writes K_j(40, 3), which the products of warpgroup 0 may still read, set off at " +
                  place("reads on")}});
}

TEST_F(OperandMemory, TheOperandAIsOverwrittenBeforeTheWait) {
    const auto kernel = [] {
        const Tiles t = ready_tiles();
        Accumulator<64> S;
        begin_products(S);
        multiply(S, mn_major(t.Q_i, 16, 0), k_major(t.K_j, 0, 0), false);  // @reads A
        if (threadIdx.x == 3) t.Q_i(31, 63) = f16(1.0f);                   // @store to A
        commit_products();
        wait_products<0>(S);
    };
    expect_fault_by_some(
        kOneGroup, kernel,
        {.fault = Fault::race,
         .first = {3, "store to A"},
         .says = {"thread 3 writes Q_i(31, 63), which the products of warp 3 may still read, set off at " +
                  place("reads A")}});
}

TEST_F(OperandMemory, AnotherWarpgroupOverwritesItAfterABarrier) {
    const auto kernel = [] {
        const Tiles t = ready_tiles();
        Accumulator<64> S;
        if (warpgroup() == 0) {
            begin_products(S);
            multiply(S, k_major(t.Q_i, 0, 0), k_major(t.K_j, 0, 0), false);  // @not waited for
            commit_products();
        }
        __syncthreads();
        if (threadIdx.x == 200) t.K_j(8, 8) = f16(1.0f);  // @after barrier
        if (warpgroup() == 0) wait_products<0>(S);
    };
    expect_fault_by_some(kTwoGroups, kernel,
                         {.fault = Fault::race,
                          .first = {200, "after barrier"},
                          .says = {"thread 200 writes K_j(8, 8), which the products of warpgroup 0 may still read",
                                   place("not waited for")}});
}

TEST_F(OperandMemory, OneWarpHasWaitedAndTheOthersHaveNotMetIt) {
    const auto kernel = [] {
        const Tiles t = ready_tiles();
        Accumulator<64> S;
        if (warpgroup() == 0) {
            begin_products(S);
            multiply(S, k_major(t.Q_i, 0, 0), k_major(t.K_j, 0, 0), false);
            commit_products();
            wait_products<0>(S);
        } else if (threadIdx.x == 128) {
            t.K_j(0, 0) = f16(1.0f);
        }
    };
    const auto found = fault_of(kTwoGroups, kernel);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->report().fault, Fault::race) << found->what();
}

/// Each warp waits for its products; then thread 0, whose own warp has waited too, refills what all of them read.
auto refilled_by_one_thread(bool after_barrier) {
    return [=] {
        const Tiles t = ready_tiles();
        Accumulator<64> S;
        begin_products(S);
        multiply(S, k_major(t.Q_i, 0, 0), k_major(t.K_j, 0, 0), false);  // @of four warps
        commit_products();
        wait_products<0>(S);
        if (after_barrier) __syncthreads();
        if (threadIdx.x == 0) t.K_j(0, 0) = f16(1.0f);  // @refill by one
    };
}

TEST_F(OperandMemory, AWarpsWaitSpeaksForThatWarpAlone) {
    expect_fault_by_some(
        kOneGroup, refilled_by_one_thread(false),
        {.fault = Fault::race,
         .first = {0, "refill by one"},
         .says = {"thread 0 writes K_j(0, 0), which the products of warp 1 may still read, set off at " +
                      place("of four warps"),
                  "of products, in each warp for itself"}});
}

TEST_F(OperandMemory, AllWarpsWaitAndMeetBeforeOneRefills) {
    for (unsigned seed = 0; seed < 8; ++seed) {
        const ScopedOrder order(seed);
        EXPECT_FALSE(fault_of(kOneGroup, refilled_by_one_thread(true))) << "in order " << seed;
    }
}

/// Warp 0 waits and then meets the others, who wait only later.
TEST_F(OperandMemory, ABarrierPassesOnWhatHasBeenWaitedForAndNoMore) {
    const auto kernel = [] {
        const Tiles t = ready_tiles();
        Accumulator<64> S;
        begin_products(S);
        multiply(S, k_major(t.Q_i, 0, 0), k_major(t.K_j, 0, 0), false);  // @waited for by one
        commit_products();
        if (warp() == 0) wait_products<0>(S);
        __syncthreads();
        if (threadIdx.x == 64) t.K_j(0, 0) = f16(1.0f);  // @refill too early
        if (warp() != 0) wait_products<0>(S);
    };
    expect_fault_by_some(
        kOneGroup, kernel,
        {.fault = Fault::race,
         .first = {64, "refill too early"},
         .says = {"which the products of warp 1 may still read, set off at " + place("waited for by one")}});
}

TEST_F(OperandMemory, AWarpMayReuseItsOwnRowsOfAAfterItsOwnWait) {
    const auto kernel = [](int row_of_warp) {
        return [=] {
            const Tiles t = ready_tiles();
            Accumulator<64> S;
            begin_products(S);
            multiply(S, k_major(t.Q_i, 0, 0), k_major(t.K_j, 0, 0), false);  // @reads rows
            commit_products();
            wait_products<0>(S);
            if (threadIdx.x == 0) t.Q_i(row_of_warp, 0) = f16(1.0f);  // @reuses rows
        };
    };
    EXPECT_FALSE(fault_of(kOneGroup, kernel(0)));
    expect_fault_by_some(kOneGroup, kernel(16),
                         {.fault = Fault::race,
                          .first = {0, "reuses rows"},
                          .says = {"thread 0 writes Q_i(16, 0), which the products of warp 1 may still read"}});
}

/// Warps 4 to 7 fill K_j and say so; of the warps that multiply all wait for that but one.
auto with_a_warp_that_does_not_wait(int hasty) {
    return [=] {
        SharedArena arena;
        const auto Q_i = arena.panels<f16, 64, 64, Swizzle::b128>("Q_i"),
                   K_j = arena.panels<f16, 64, 64, Swizzle::b128>("K_j");
        const auto full = arena.barriers<1>("full");
        fill(Q_i);
        show_to_async();
        if (threadIdx.x == 0) {
            full[0].init(128);
            publish_barriers();
        }
        __syncthreads();
        if (warpgroup() == 1) {
            for (int i = int(threadIdx.x) - 128; i < 64 * 8; i += 128)
                K_j.vec<Wide>(i / 8, i % 8 * 8) = Wide{};  // @filled by others
            show_to_async();
            full[0].arrive();
        } else {
            if (warp() != hasty) full[0].wait(0);
            Accumulator<64> S;
            begin_products(S);
            multiply(S, k_major(Q_i, 0, 0), k_major(K_j, 0, 0), false);  // @of a hasty warp
            commit_products();
            wait_products<0>(S);
        }
    };
}

constexpr Shape kWithBarrier{.block = 256, .shared_bytes = 2 * kTileBytes + 16};

TEST_F(OperandMemory, OneWarpHasNotWaitedForTheTile) {
    for (int hasty = 0; hasty < 4; ++hasty) {
        const auto kernel = with_a_warp_that_does_not_wait(hasty);
        const auto found = fault_of(kWithBarrier, kernel);
        ASSERT_TRUE(found);
        EXPECT_EQ(found->report().first.thread / 32, hasty) << found->what();
        expect_fault_by_some(kWithBarrier, kernel,
                             {.fault = Fault::race,
                              .first = {kSome, "of a hasty warp"},
                              .second = {found->report().second.thread, "filled by others"},
                              .says = {" reads K_j("}});
    }
}

// --- right ones -----------------------------------------------------------------------------------------------------

TEST_F(RightOperands, BitsThatSayWhatTheTileIs) {
    expect_clean_in_any_order(kOneGroup, [] {
        const Tiles t = ready_tiles();
        multiply_by<64>(t, MatrixOperand<f16, Major::k>::from_bits(k_major(t.K_j, 0, 48).bits()));
        multiply_by<48>(t, MatrixOperand<f16, Major::k>::from_bits(k_major(t.K_j, 16, 16).bits()));
        multiply_by<64>(t, MatrixOperand<f16, Major::mn>::from_bits(mn_major(t.K_j, 48, 0).bits()));
        // What is not used may be anything: the distance of panels of a k-major operand, or of one that has one panel.
        multiply_by<64>(t, changed<Major::k>(t.K_j, 0, 0, [](MatrixDescriptor& d) { d.leading = 16; }));
        multiply_by<64>(t, changed<Major::mn>(t.K_j, 0, 0, [](MatrixDescriptor& d) { d.leading = 0; }));
    });
}

TEST_F(RightOperands, MatricesWithoutASwizzle) {
    float sum = 0;
    run(kOneGroup, [&sum] {
        SharedArena arena;
        const auto Q_i = arena.panels<f16, 64, 64, Swizzle::b128>("Q_i");
        const auto K_j = arena.tile<f16, 128, 8>("K_j");  // 8x8 matrices, one behind the other: k 0 to 7, then 8 to 15
        fill(Q_i);
        fill(K_j);
        __syncthreads();
        for (int i = int(threadIdx.x); i < 64 * 16; i += 128) Q_i(i / 16, i % 16) = f16(float(i % 16));
        if (threadIdx.x == 0) K_j(64 + 21, 3) = f16(1.0f);  // column 21 of B, k 11
        show_to_async();
        __syncthreads();
        Accumulator<64> S;
        begin_products(S);
        const auto here = MatrixDescriptor{8192, 1024, 128, 0, Swizzle::none};
        multiply(S, k_major(Q_i, 0, 0), MatrixOperand<f16, Major::k>::from_bits(here.bits()), false);
        commit_products();
        wait_products<0>(S);
        for (int i = 0; i < S.size; ++i)
            if (S.column(int(threadIdx.x), i) == 21) sum += S[i];
    });
    EXPECT_EQ(sum, 64 * 11.0f);
}

TEST_F(RightOperands, AllWarpsHaveWaitedForTheTile) {
    expect_clean_in_any_order(kWithBarrier, with_a_warp_that_does_not_wait(-1));
}

TEST_F(RightOperands, AWarpStoresItsOwnRowsOfA) {
    expect_clean_in_any_order(kOneGroup, [] {
        const Tiles t = ready_tiles();
        Accumulator<64> O;
        for (int j = 0; j < 2; ++j) {
            for (int i = lane(); i < 16 * 8; i += 32) t.Q_i.vec<Wide>(16 * warp() + i / 8, i % 8 * 8) = Wide{};
            show_to_async();
            __syncwarp();  // enough: a warp reads its own 16 rows of A
            begin_products(O);
            for (int k = 0; k < 4; ++k) multiply(O, k_major(t.Q_i, 0, 16 * k), mn_major(t.V_j, 16 * k, 0), k > 0);
            commit_products();
            wait_products<0>(O);
        }
    });
}

TEST_F(RightOperands, AStageIsRefilledWhileAnotherIsRead) {
    expect_clean_in_any_order(kOneGroup, [] {
        SharedArena arena;
        const auto Q_i = arena.panels<f16, 64, 64, Swizzle::b128>("Q_i");
        const auto ring = arena.panels<f16, 64, 64, Swizzle::b128>("K ring");  // two stages of 32 keys
        fill(Q_i);
        fill(ring);
        show_to_async();
        __syncthreads();
        Accumulator<32> S;
        for (int j = 0; j < 4; ++j) {
            const auto stage = ring.rows_from<32>(j % 2 * 32), other = ring.rows_from<32>((j + 1) % 2 * 32);
            begin_products(S);
            for (int k = 0; k < 4; ++k) multiply(S, k_major(Q_i, 0, 16 * k), k_major(stage, 0, 16 * k), k > 0);
            commit_products();
            fill(other);
            show_to_async();
            wait_products<0>(S);
            __syncthreads();
        }
    });
}

TEST_F(RightOperands, OneThreadShowsWhatAllHaveStored) {
    expect_clean_in_any_order(kOneGroup, [] {
        const Tiles t = tiles();
        fill(t.Q_i);
        fill(t.K_j);
        __syncthreads();
        show_to_async();
        __syncthreads();
        multiply_by<64>(t, k_major(t.K_j, 0, 0));
    });
}

// --- counters -------------------------------------------------------------------------------------------------------

TEST_F(OperandMemory, IsCountedByTheTensorCoresReads) {
    const auto read_by = [](auto kernel) {
        const LaunchLog log;
        run(kOneGroup, kernel);
        return log.total();
    };
    const Counters without = read_by([] { ready_tiles(); });
    const Counters with = read_by([] {
        const Tiles t = ready_tiles();
        multiply_by<64>(t, k_major(t.K_j, 0, 0));
    });
    // A [64, 16] and B [16, 64] of 2 bytes, 128 bytes to a wavefront, without a bank conflict.
    EXPECT_EQ(with.shared_bytes_read - without.shared_bytes_read, 2u * 64 * 16 * 2);
    EXPECT_EQ(with.shared_wavefronts - without.shared_wavefronts, 2u * 64 * 16 * 2 / 128);
    EXPECT_EQ(with.product_read_wavefronts, 2u * 64 * 16 * 2 / 128);
    EXPECT_EQ(without.product_read_wavefronts, 0u);
}

}  // namespace
}  // namespace simt::testing
