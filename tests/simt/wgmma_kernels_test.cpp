// Kernels with products that the CPU machine leaves alone, and a ring that is right or wrong.

#include <gtest/gtest.h>

#include <string>

#include "tests/simt/product_kernels.h"

namespace simt::testing {
namespace {

using ProductKernels = OnHopper;

TEST_F(ProductKernels, ScoresAreUsedWhileTheNextProductGoesOn) {
    expect_clean_in_any_order(kOneGroup, [] {
        const Tiles t = ready_tiles();
        Accumulator<64> S, O;
        OperandA<f16> P[4];
        for (int i = 0; i < O.size; ++i) O[i] = 0.0f;
        begin_products(S);
        multiply_once(S, t);
        commit_products();
        wait_products<0>(S);
        for (int j = 0; j < 3; ++j) {
            for (int k = 0; k < 4; ++k) P[k] = to_operand<f16>(S, k);
            for (int i = 0; i < O.size; ++i) O[i] *= 0.5f;
            begin_products(S, O, P);
            for (int k = 0; k < 4; ++k) multiply(S, k_major(t.Q_i, 0, 16 * k), k_major(t.K_j, 0, 16 * k), k > 0);
            commit_products();
            for (int k = 0; k < 4; ++k) multiply(O, P[k], mn_major(t.V_j, 16 * k, 0), true);
            commit_products();
            wait_products<1>(S);
            for (int i = 0; i < S.size; ++i) S[i] += 1.0f;
            wait_products<0>(O, P);
        }
    });
}

TEST_F(ProductKernels, OneSumGrowsOverSeveralGroups) {
    expect_clean_in_any_order(kOneGroup, [] {
        const Tiles t = ready_tiles();
        Accumulator<64> O;
        OperandA<f16> P[2];
        for (int i = 0; i < O.size; ++i) O[i] = 0.0f;
        begin_products(O);
        for (int j = 0; j < 4; ++j) {
            P[j % 2] = zeros();  // what the group before the last has read
            begin_products(P[j % 2]);
            multiply(O, P[j % 2], mn_major(t.V_j, 16 * j, 0), true);
            commit_products();
            wait_products<1>();
        }
        wait_products<0>(O);
        O[0] += 1.0f;
    });
}

TEST_F(ProductKernels, UntouchedRegistersNeedNoSecondFence) {
    expect_clean_in_any_order(kOneGroup, [] {
        const Tiles t = ready_tiles();
        Accumulator<64> S;
        OperandA<f16> P = zeros();
        begin_products(S, P);
        for (int j = 0; j < 3; ++j) {
            multiply(S, P, mn_major(t.V_j, 0, 0), j > 0);
            commit_products();
            wait_products<0>(S);
        }
    });
}

TEST_F(ProductKernels, TheTileIsRefilledAfterTheWait) {
    expect_clean_in_any_order(kTwoGroups, [] {
        const Tiles t = ready_tiles();
        Accumulator<64> S;
        for (int j = 0; j < 3; ++j) {
            if (warpgroup() == 0) {
                begin_products(S);
                multiply_once(S, t);
                commit_products();
                wait_products<0>(S);
            }
            __syncthreads();
            fill(t.K_j);
            show_to_async();
            __syncthreads();
        }
    });
}

TEST_F(ProductKernels, AnotherTileIsFilledMeanwhile) {
    expect_clean_in_any_order(kOneGroup, [] {
        const Tiles t = ready_tiles();
        Accumulator<64> S;
        begin_products(S);
        multiply_once(S, t);
        commit_products();
        fill(t.V_j);
        show_to_async();
        __syncthreads();
        multiply(S, k_major(t.Q_i, 0, 16), mn_major(t.V_j, 16, 0), true);
        commit_products();
        wait_products<0>(S);
    });
}

TEST_F(ProductKernels, WarpsWaitEachForItself) {
    expect_clean_in_any_order(kOneGroup, [] {
        const Tiles t = ready_tiles();
        Accumulator<64> S, O;
        begin_products(S, O);
        multiply_once(S, t);
        if (warp() == 1) {
            commit_products();
            wait_products<0>(S);
            S[0] = 0.0f;
        } else {
            commit_products();
        }
        if (warp() == 1) begin_products(S);
        multiply_once(S, t, true);
        commit_products();
        wait_products<0>(S);
        S[0] += 1.0f;
    });
}

TEST_F(ProductKernels, TwoWarpgroupsTakeTurns) {
    expect_clean_in_any_order(kTwoGroups, [] {
        const Tiles t = ready_tiles();
        Accumulator<64> S;
        for (int turn = 0; turn < 4; ++turn) {
            if (turn % 2 == warpgroup()) {
                begin_products(S);
                multiply_once(S, t);
                commit_products();
                wait_products<0>(S);
                for (int i = 0; i < S.size; ++i) S[i] += 1.0f;
            }
            __syncthreads();
        }
    });
}

TEST_F(ProductKernels, AccumulatorsAndOperandsInArrays) {
    expect_clean_in_any_order(kOneGroup, [] {
        const Tiles t = ready_tiles();
        Accumulator<32> S[2];
        begin_products(S);
        for (int half = 0; half < 2; ++half)
            for (int k = 0; k < 4; ++k)
                multiply(S[half], k_major(t.Q_i, 0, 16 * k), k_major(t.K_j, 32 * half, 16 * k), k > 0);
        commit_products();
        wait_products<0>(S);
        for (int half = 0; half < 2; ++half)
            for (int i = 0; i < 16; ++i) S[half][i] *= 2.0f;
    });
}

TEST_F(ProductKernels, AProductThatDoesNotAccumulateForgetsTheOneBefore) {
    float wrong = 0;
    run(kOneGroup, [&wrong] {
        const Tiles t = ready_tiles();
        for (int i = int(threadIdx.x); i < 64 * 32; i += 128) {
            t.Q_i(i / 32, i % 32) = f16(1.0f);
            t.K_j(i / 32, i % 32) = f16(i % 32 < 16 ? 1.0f : 2.0f);
        }
        show_to_async();
        __syncthreads();
        Accumulator<64> S;
        begin_products(S);
        for (int k = 0; k < 2; ++k) multiply(S, k_major(t.Q_i, 0, 16 * k), k_major(t.K_j, 0, 16 * k), false);
        commit_products();
        wait_products<0>(S);
        for (int i = 0; i < S.size; ++i) wrong += S[i] != 32.0f;
    });
    EXPECT_EQ(wrong, 0.0f);
}

/// One thread's share of the tile as a stage of a ring: warps 4 to 7 read it, warp 0 refills it.
auto ring_of_one_stage(bool releases_early) {
    return [=] {
        SharedArena arena;
        const auto Q_i = arena.panels<f16, 64, 64, Swizzle::b128>("Q_i"),
                   K_j = arena.panels<f16, 64, 64, Swizzle::b128>("K_j");
        const auto full = arena.barriers<1>("full"), empty = arena.barriers<1>("empty");
        fill(Q_i);
        show_to_async();
        if (threadIdx.x == 0) {
            full[0].init(32);
            empty[0].init(4);
            publish_barriers();
        }
        __syncthreads();
        constexpr int kTiles = 4;
        if (warp() == 0) {
            for (int j = 0; j < kTiles; ++j) {
                if (j > 0) empty[0].wait(unsigned(j - 1) % 2);
                for (int i = lane(); i < 64 * 8; i += 32) K_j.vec<Wide>(i / 8, i % 8 * 8) = Wide{};  // @refill
                show_to_async();
                full[0].arrive();
            }
        } else if (warpgroup() == 1) {
            Accumulator<64> S;
            for (int j = 0; j < kTiles; ++j) {
                full[0].wait(unsigned(j) % 2);
                begin_products(S);
                for (int k = 0; k < 4; ++k)
                    multiply(S, k_major(Q_i, 0, 16 * k), k_major(K_j, 0, 16 * k), k > 0);  // @reads the stage
                commit_products();
                if (!releases_early) wait_products<0>(S);
                if (elect_one()) empty[0].arrive();
                if (releases_early) wait_products<0>(S);
            }
        }
    };
}

constexpr Shape kRing{.block = 256, .shared_bytes = 2 * kTileBytes + 32};

TEST_F(ProductKernels, AStageIsReleasedAfterTheWait) { expect_clean_in_any_order(kRing, ring_of_one_stage(false)); }

TEST_F(ProductKernels, AStageIsReleasedBeforeTheWait) {
    const auto kernel = ring_of_one_stage(true);
    for (unsigned seed = 0; seed < 8; ++seed) {
        const ScopedOrder order(seed);
        const auto found = fault_of(kRing, kernel);
        ASSERT_TRUE(found) << "in order " << seed;
        EXPECT_EQ(found->report().fault, Fault::race) << found->what();
        EXPECT_EQ(found->report().first.site.text(), place("refill")) << found->what();
        const std::string words =
            ", which the products of warpgroup 1 may still read, set off at " + place("reads the stage");
        EXPECT_NE(std::string(found->what()).find(words), std::string::npos) << found->what();
    }
}

TEST_F(ProductKernels, TwoWarpgroupsPingPong) {
    expect_clean_in_any_order(kTwoGroups, [] {
        const Tiles t = ready_tiles();
        Accumulator<64> S, O;
        OperandA<f16> P[4];
        for (int i = 0; i < O.size; ++i) O[i] = 0.0f;
        const int own = 1 + warpgroup(), other = 2 - warpgroup();
        if (warpgroup() == 0) arrive_threads(other, 256);  // hence the other's first turn comes first
        for (int j = 0; j < 3; ++j) {
            sync_threads(own, 256);
            begin_products(S, O);
            for (int k = 0; k < 4; ++k) multiply(S, k_major(t.Q_i, 0, 16 * k), k_major(t.K_j, 0, 16 * k), k > 0);
            commit_products();
            if (j > 0) {
                for (int k = 0; k < 4; ++k) multiply(O, P[k], mn_major(t.V_j, 16 * k, 0), true);
                commit_products();
            }
            arrive_threads(other, 256);
            if (j > 0)
                wait_products<1>(S);
            else
                wait_products<0>(S);
            for (int i = 0; i < S.size; ++i) S[i] += 1.0f;
            wait_products<0>(O, P);
            for (int k = 0; k < 4; ++k) P[k] = to_operand<f16>(S, k);
            begin_products(P);
        }
        if (warpgroup() == 1) sync_threads(own, 256);
    });
}

TEST_F(ProductKernels, AWaitThatNamesMoreThanThereIs) {
    expect_clean_in_any_order(kOneGroup, [] {
        const Tiles t = ready_tiles();
        Accumulator<64> S, O;
        for (int i = 0; i < O.size; ++i) O[i] = 0.0f;
        wait_products<0>(O);  // the first turn of a loop has nothing under way yet
        begin_products(S, O);
        multiply_once(S, t);
        commit_products();
        wait_products<0>(S, O);
        S[0] += O[0];
    });
}

}  // namespace
}  // namespace simt::testing
