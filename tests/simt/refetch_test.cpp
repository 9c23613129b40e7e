// A block that takes tile after tile: its producer may fetch the next Q_i only when nobody reads this one any more.
// What the machine says of kernels that forget that, each in its own way, and the right ones beside them.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/simt/product_kernels.h"

namespace simt::testing {
namespace {

using Refetch = OnHopper;

/// Q and K, of zeros: tiles of 128 queries and of 64 keys, 64 columns.
struct Problem {
    int tiles, keys;  ///< tiles of each
    Buffer<f16> Q{"Q", {128 * 3, 64}}, K{"K", {64 * 5, 64}};
    TensorMap<const f16, 2> Q_map = tile_map<const f16, 2, 128, 64, Swizzle::b128>(Q.argument<2>());
    TensorMap<const f16, 2> K_map = tile_map<const f16, 2, 64, 64, Swizzle::b128>(K.argument<2>());
};

/// What is wrong. The producer …
enum class Slip {
    none,
    no_wait,          ///< does not wait for Q_i
    queries_first,    ///< nor does it, and asks for Q_i before the first K_j
    passing_wait,     ///< waits for the phase before
    wait_afterwards,  ///< waits when it has asked
    another_lane,     ///< waits in one lane, and asks in another
    // Or consumers …
    released_early,    ///< let go of Q_i before they have waited for their last products
    one_group_counts,  ///< are two warpgroups, and one alone is waited for
    one_warp_counts,   ///< are four warps each, and one alone is waited for
    skips_a_tile,      ///< let go of a tile that they do not need before it has come
    // Or consumers read Q_i once, into registers, and …
    read_by_lanes,              ///< nothing is wrong
    released_by_lanes_not_met,  ///< one lane lets go while others read
    released_while_storing,     ///< write to it after they have let go
};

/// Two consumer warpgroups multiply 64 rows of Q_i each with all K_j; a lane of the ninth warp fetches.
template <int Stages>
auto persistent(Slip slip, const Problem& p) {
    return [slip, tiles = p.tiles, keys = p.keys, Q_map = p.Q_map, K_map = p.K_map] {
        SharedArena arena;
        const auto Q_i = arena.panels<f16, 128, 64, Swizzle::b128>("Q_i");
        const auto K_ring = arena.panels<f16, 64 * Stages, 64, Swizzle::b128>("K_j");
        const auto Q_full = arena.barriers<1>("Q_full"), Q_empty = arena.barriers<1>("Q_empty");
        const auto K_full = arena.barriers<Stages>("K_full"), K_empty = arena.barriers<Stages>("K_empty");
        if (threadIdx.x == 0) {
            Q_full[0].init(1);
            Q_empty[0].init(slip == Slip::one_group_counts ? 4 : slip == Slip::one_warp_counts ? 2 : 8);
            for (int s = 0; s < Stages; ++s) {
                K_full[s].init(1);
                K_empty[s].init(8);
            }
            publish_barriers();
        }
        __syncthreads();

        RingPosition<Stages> k;
        RingPosition<1> q;
        if (warp() == 8) {
            const bool fetches = lane() == 0;
            const auto fetch_keys = [&](int j) {
                if (!fetches) return;
                K_empty[k.stage].wait(k.parity ^ 1);
                K_full[k.stage].arrive_expecting(K_ring.template rows_from<64>(0).bytes);
                tma_load(K_ring.template rows_from<64>(64 * k.stage), K_map, {64 * j, 0}, K_full[k.stage]);
                k.next();
            };
            for (int i = 0; i < tiles; ++i, q.next()) {
                if (slip != Slip::queries_first) fetch_keys(0);
                const bool waits =
                    slip != Slip::no_wait && slip != Slip::queries_first && slip != Slip::wait_afterwards;
                if (waits && lane() == (slip == Slip::another_lane ? 1 : 0))
                    Q_empty[0].wait(slip == Slip::passing_wait ? 1 : q.parity ^ 1);
                if (fetches) {
                    Q_full[0].arrive_expecting(Q_i.bytes);          // @announced again
                    tma_load(Q_i, Q_map, {128 * i, 0}, Q_full[0]);  // @fetched again
                    if (slip == Slip::wait_afterwards) Q_empty[0].wait(q.parity ^ 1);
                }
                for (int j = slip == Slip::queries_first ? 0 : 1; j < keys; ++j) fetch_keys(j);
            }
            return;
        }
        const auto own = Q_i.template rows_from<64>(64 * warpgroup());
        const bool by_lanes = slip >= Slip::read_by_lanes;
        Accumulator<64> S;
        const auto release_queries = [&] {
            if (slip == Slip::one_group_counts && warpgroup() == 1) return;
            if (slip == Slip::one_warp_counts && warp() % 4 != 0) return;
            if (elect_one()) Q_empty[0].arrive();
        };
        for (int i = 0; i < tiles; ++i, q.next()) {
            const bool skips = slip == Slip::skips_a_tile && warpgroup() == 1 && i == 1;
            if (skips)
                release_queries();
            else
                Q_full[0].wait(q.parity);
            if (by_lanes) {
                float sum = 0.0f;
                for (int c = 0; c < 64; c += 8)
                    sum += float(f16(own(16 * (warp() % 4) + lane() / 2, c)));  // @read by lanes
                if (slip != Slip::released_by_lanes_not_met) __syncwarp();
                release_queries();
                if (slip == Slip::released_while_storing)
                    own(16 * (warp() % 4) + lane() / 2, lane() % 2) = f16(sum);  // @stored late
            }
            for (int j = 0; j < keys; ++j, k.next()) {
                const auto K_j = K_ring.template rows_from<64>(64 * k.stage);
                K_full[k.stage].wait(k.parity);
                if (!by_lanes && !skips) {
                    begin_products(S);
                    for (int c = 0; c < 64; c += 16)
                        multiply(S, k_major(own, 0, c), k_major(K_j, 0, c), c > 0);  // @read by products
                    commit_products();
                    if (slip == Slip::released_early && j == keys - 1) release_queries();
                    wait_products<0>(S);
                }
                if (elect_one()) K_empty[k.stage].arrive();
            }
            if (slip != Slip::released_early && !by_lanes && !skips) release_queries();
        }
    };
}

template <int Stages>
constexpr Shape kShape{.block = 288, .shared_bytes = panel_bytes<f16>(128 + 64 * Stages, 64) + 128};

/// The machine names the line that fetches Q_i again, and the other one: who still reads, or is still to come.
template <int Stages>
void expect_told(Slip slip, int keys, Fault fault, const char* first, const char* second,
                 const std::vector<std::string>& says) {
    const Problem problem{.tiles = 3, .keys = keys};
    for (unsigned seed = 0; seed < 6; ++seed) {
        const ScopedOrder order(seed);
        SCOPED_TRACE(std::to_string(int(slip)) + ": " + std::to_string(Stages) + " stages, " + std::to_string(keys) +
                     " keys, order " + std::to_string(seed));
        const auto error = fault_of(kShape<Stages>, persistent<Stages>(slip, problem));
        ASSERT_TRUE(error);
        const MachineError::Report& report = error->report();
        EXPECT_EQ(report.fault, fault) << error->what();
        EXPECT_EQ(report.first.site.text(), place(first)) << error->what();
        EXPECT_EQ(report.second.site.text(), place(second)) << error->what();
        for (const std::string& words : says)
            EXPECT_NE(std::string(error->what()).find(words), std::string::npos) << words << "\n" << error->what();
    }
}

/// Before anybody has read the Q_i that is there.
template <int Stages>
void expect_too_early(Slip slip, int keys) {
    expect_told<Stages>(
        slip, keys, Fault::barrier_misuse, "announced again", "fetched again",
        {"thread 256 arrives at phase 0 of Q_full[0], to which all 1 arrivals have come, and tma_load of Q "
         "to Q_i(0, 0) is still under way to it",
         "wait at a barrier at which all who read it arrive"});
}

/// While products with it are still to come.
template <int Stages>
void expect_under_way(Slip slip, int keys) {
    expect_told<Stages>(slip, keys, Fault::copy_in_flight, "read by products", "fetched again",
                        {"reads Q_i(", "which tma_load of Q to Q_i(0, 0) is still filling",
                         "the copy comes too early: who asks for it must wait until all readers have let go"});
}

/// While products read it.
template <int Stages>
void expect_read(Slip slip, int keys) {
    expect_told<Stages>(slip, keys, Fault::race, "fetched again", "read by products",
                        {"thread 256 writes Q_i(", "which the products of warp ",
                         "may still read, set off at " + place("read by products")});
}

TEST_F(Refetch, NobodyWaits) {
    expect_too_early<2>(Slip::no_wait, 1);
    expect_too_early<4>(Slip::no_wait, 3);
    expect_under_way<2>(Slip::no_wait, 2);
    expect_under_way<2>(Slip::no_wait, 5);
    expect_under_way<4>(Slip::no_wait, 5);
}

TEST_F(Refetch, AndQueriesComeFirst) {
    expect_too_early<1>(Slip::queries_first, 1);
    expect_under_way<1>(Slip::queries_first, 3);
    expect_under_way<2>(Slip::queries_first, 3);
}

TEST_F(Refetch, TheWaitIsNoneForThisTile) {
    for (const Slip slip : {Slip::wait_afterwards, Slip::another_lane}) {
        expect_too_early<2>(slip, 1);
        expect_under_way<2>(slip, 3);
    }
    expect_too_early<4>(Slip::passing_wait, 3);
    expect_under_way<2>(Slip::passing_wait, 2);
}

TEST_F(Refetch, ConsumersLetGoTooEarlyOrNotAllAreCounted) {
    for (const Slip slip : {Slip::released_early, Slip::one_group_counts, Slip::one_warp_counts})
        for (const int keys : {1, 3}) {
            expect_read<2>(slip, keys);
            expect_read<4>(slip, keys);
        }
}

TEST_F(Refetch, AnArrivalWithoutAWaitCountsForTheTileBefore) { expect_read<2>(Slip::skips_a_tile, 2); }

TEST_F(Refetch, OneLaneLetsGoForOthersThatRead) {
    expect_told<2>(Slip::released_by_lanes_not_met, 2, Fault::race, "fetched again", "read by lanes",
                   {"thread 256 writes Q_i(", "no barrier lies between"});
}

TEST_F(Refetch, WhoHasLetGoStoresThere) {
    const Problem problem{.tiles = 2, .keys = 2};
    const auto error = fault_of(kShape<2>, persistent<2>(Slip::released_while_storing, problem));
    ASSERT_TRUE(error);
    EXPECT_EQ(error->report().first.site.text(), place("fetched again")) << error->what();
    EXPECT_EQ(error->report().second.site.text(), place("stored late")) << error->what();
}

template <int Stages>
void expect_right(Slip slip) {
    for (const int tiles : {1, 2, 3})
        for (const int keys : {1, 2, 5}) {
            const Problem problem{.tiles = tiles, .keys = keys};
            expect_clean_in_any_order(kShape<Stages>, persistent<Stages>(slip, problem));
        }
}

TEST_F(Refetch, ByAWaitForAllWhoRead) {
    expect_right<1>(Slip::none);
    expect_right<2>(Slip::none);
    expect_right<4>(Slip::none);
    expect_right<2>(Slip::read_by_lanes);
}

// With one stage, the K_j that comes before Q_i has waited for the last products of the tile before.
TEST_F(Refetch, ByAWaitForAnotherTile) {
    expect_right<1>(Slip::no_wait);
    expect_right<1>(Slip::released_early);
}

}  // namespace
}  // namespace simt::testing
