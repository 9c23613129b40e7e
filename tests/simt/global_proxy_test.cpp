// Global memory that threads store in the ordinary way, and that copies by TMA come to; and the other way round: what
// the CPU machine says where no fence lies between, and where one does.

#include <gtest/gtest.h>

#include "common/simt/device/device_profile.h"
#include "tests/simt/global_memory.h"

namespace simt::testing {
namespace {

class GlobalProxy : public ::testing::Test {
    const ScopedCpuDevice imitated_{device_from(device_profile("h200"))};
};

constexpr int R = 16, C = 32, kBytes = R * C * int(sizeof(float));
constexpr BlockIndex kFirst{0, 0, 0}, kSecond{1, 0, 0};
constexpr Shape kOneBlock{.block = 64, .shared_bytes = kBytes + 256},
    kTwoBlocks{.grid = 2, .block = 64, .shared_bytes = kBytes + 256},
    kCluster{.grid = 2, .block = 64, .shared_bytes = kBytes + 256, .cluster = 2};

struct Memory {
    mutable Buffer<float> buffer{"X", {R, C}};
    mutable Buffer<int> flags{"flag", {1}};
    TensorMap<const float, 2> in = tensor_map<const float, 2>(buffer.argument<2>(), {R, C}, Swizzle::b128);
    TensorMap<float, 2> out = tensor_map<float, 2>(buffer.argument<2>(), {R, C}, Swizzle::b128);
    GlobalTensor<float, 2> X = buffer.view<2>();
    GlobalTensor<int, 1> flag = flags.view<1>();
};

bool is_thread(unsigned n) { return threadIdx.x == n; }

/// A tile, and a barrier that thread 0 has made.
struct Tile {
    SharedArena arena{};
    PanelTile<float, R, C, Swizzle::b128> tile = arena.panels<float, R, C, Swizzle::b128>("K_j");
    SharedBarriers<1> full = arena.barriers<1>("full");

    Tile() {
        if (is_thread(0)) {
            full[0].init(1);
            publish_barriers();
        }
        __syncthreads();
    }
    void fill() const {
        for (int r = int(threadIdx.x) / 32; r < R; r += 2) tile(r, int(threadIdx.x) % 32) = 1.0f;
        show_to_async();
        __syncthreads();
    }
};

/// All threads of a block of 64 write X.
void write(const GlobalTensor<float, 2>& X) {
    for (int r = int(threadIdx.x) / 32; r < R; r += 2) X(r, threadIdx.x % 32) = float(r);  // @ordinary
}

// --- in one block ---------------------------------------------------------------------------------------------------

enum class Fence { none, of_shared_memory, of_global_memory, of_both, before_the_stores, in_one_warp, in_the_loader };

/// All threads write X, and thread 0 loads it.
auto write_and_load(Fence fence, const Memory& m, float* seen) {
    return [=, X = m.X, map = m.in] {
        const Tile t;
        if (fence == Fence::before_the_stores) show_global_to_async();
        write(X);
        if (fence == Fence::of_shared_memory) show_to_async();
        if (fence == Fence::of_global_memory) show_global_to_async();
        if (fence == Fence::of_both) show_all_to_async();
        if (fence == Fence::in_one_warp && threadIdx.x < 32) show_global_to_async();
        __syncthreads();
        if (is_thread(0)) {
            if (fence == Fence::in_the_loader) show_global_to_async();
            t.full[0].arrive_expecting(kBytes);
            tma_load(t.tile, map, {0, 0}, t.full[0]);  // @load
        }
        t.full[0].wait(0);
        seen[threadIdx.x] = t.tile(15, threadIdx.x % 32);
    };
}

TEST_F(GlobalProxy, ALoadOfWhatWasShown) {
    const Memory m;
    for (const Fence fence : {Fence::of_global_memory, Fence::of_both, Fence::in_the_loader}) {
        float seen[64]{};
        expect_clean(kOneBlock, write_and_load(fence, m, seen));
        EXPECT_EQ(seen[40], 15.0f);
    }
}

TEST_F(GlobalProxy, ALoadOfWhatWasNotShown) {
    const Memory m;
    float seen[64];
    for (const Fence fence : {Fence::none, Fence::of_shared_memory, Fence::before_the_stores})
        expect_fault(kOneBlock, write_and_load(fence, m, seen),
                     {.fault = Fault::unseen_by_agent,
                      .first = {0, "load"},
                      .second = {0, "ordinary"},
                      .says = {"what thread 0 sets off reads X(0, 0) in global memory, which thread 0 stored in the "
                               "ordinary way",
                               "show_global_to_async()", "show_to_async() speaks of shared memory alone"}});
}

TEST_F(GlobalProxy, ALoadOfWhatOneOfTwoWarpsHasShown) {
    const Memory m;
    float seen[64];
    expect_fault(kOneBlock, write_and_load(Fence::in_one_warp, m, seen),
                 {.fault = Fault::unseen_by_agent,
                  .first = {0, "load"},
                  .second = {32, "ordinary"},
                  .says = {"reads X(1, 0) in global memory, which thread 32 stored"}});
}

TEST_F(GlobalProxy, AFenceOfGlobalMemorySaysNothingOfSharedMemory) {
    const Memory m;
    expect_fault(kOneBlock,
                 [X = m.X, map = m.out] {
                     const Tile t;
                     for (int r = int(threadIdx.x) / 32; r < R; r += 2)
                         t.tile(r, int(threadIdx.x) % 32) = 1.0f;  // @filled
                     show_global_to_async();
                     __syncthreads();
                     if (is_thread(0)) {
                         tma_store(map, {0, 0}, t.tile);  // @stored
                         commit_stores();
                         wait_stores<0>();
                     }
                 },
                 {.fault = Fault::unseen_by_agent,
                  .first = {0, "stored"},
                  .second = {0, "filled"},
                  .says = {"reads K_j(0, 0)", "show_to_async()"}});
}

/// Thread 33 clears an element, and thread 0 stores, or adds to, all of X.
auto clear_and_store(bool shows, bool adds, const Memory& m) {
    return [=, X = m.X, map = m.out] {
        const Tile t;
        if (is_thread(33)) {
            X(2, 5) = 0.0f;  // @cleared
            if (shows) show_global_to_async();
        }
        t.fill();
        if (is_thread(0)) {
            if (adds)
                tma_add(map, {0, 0}, t.tile);  // @addition
            else
                tma_store(map, {0, 0}, t.tile);  // @store
            commit_stores();
            wait_stores<0>();
        }
    };
}

TEST_F(GlobalProxy, AnAdditionToWhatWasClearedAndNotShown) {
    const Memory m;
    expect_clean(kOneBlock, clear_and_store(true, true, m));
    EXPECT_EQ(m.buffer.base[2 * C + 5], 1.0f);
    expect_fault(kOneBlock, clear_and_store(false, true, m),
                 {.fault = Fault::unseen_by_agent,
                  .first = {0, "addition"},
                  .second = {33, "cleared"},
                  .says = {"what thread 0 sets off adds to X(2, 5) in global memory"}});
}

TEST_F(GlobalProxy, AStoreOverWhatWasNotShown) {
    const Memory m;
    expect_clean(kOneBlock, clear_and_store(true, false, m));
    expect_fault(kOneBlock, clear_and_store(false, false, m),
                 {.fault = Fault::unseen_by_agent,
                  .first = {0, "store"},
                  .second = {33, "cleared"},
                  .says = {"what thread 0 sets off overwrites X(2, 5) in global memory"}});
}

TEST_F(GlobalProxy, ALoadOfWhatAtomicsLeft) {
    const Memory m;
    const auto kernel = [&](bool shows) {
        return [shows, X = m.X, map = m.in] {
            const Tile t;
            if (threadIdx.x % 32 == 7) atomic_add(X(3, 4), 1.0f);  // @counted
            if (shows) show_global_to_async();
            __syncthreads();
            if (is_thread(0)) {
                t.full[0].arrive_expecting(kBytes);
                tma_load(t.tile, map, {0, 0}, t.full[0]);  // @load of the count
            }
            t.full[0].wait(0);
        };
    };
    expect_clean(kOneBlock, kernel(true));
    expect_fault(kOneBlock, kernel(false),
                 {.fault = Fault::unseen_by_agent,
                  .first = {0, "load of the count"},
                  .second = {39, "counted"},
                  .says = {"reads X(3, 4) in global memory, which thread 39 stored"}});
}

/// What a copy has stored, ordinary reads and another copy find without a fence: the wait shows it.
TEST_F(GlobalProxy, WhatAStoreWroteIsSeenByAllAfterTheWait) {
    const Memory m;
    float seen[64]{};
    expect_clean(kOneBlock, [&seen, X = m.X, in = m.in, out = m.out] {
        const Tile t;
        t.fill();
        if (is_thread(0)) {
            tma_store(out, {0, 0}, t.tile);
            commit_stores();
            wait_stores<0>();
            t.full[0].arrive_expecting(kBytes);
            tma_load(t.tile, in, {0, 0}, t.full[0]);
        }
        t.full[0].wait(0);
        seen[threadIdx.x] = float(X(3, threadIdx.x % 32)) + t.tile(4, threadIdx.x % 32);
    });
    EXPECT_EQ(seen[63], 2.0f);
}

/// A launch orders all.
TEST_F(GlobalProxy, WhatAnotherLaunchStored) {
    const Memory m;
    expect_clean(kOneBlock, [X = m.X] { write(X); });
    expect_clean(kOneBlock, [map = m.in] {
        const Tile t;
        if (is_thread(0)) {
            t.full[0].arrive_expecting(kBytes);
            tma_load(t.tile, map, {0, 0}, t.full[0]);
        }
        t.full[0].wait(0);
    });
}

/// The fence of an earlier turn says nothing of what is stored after it.
TEST_F(GlobalProxy, StoredAgainAfterTheFence) {
    const Memory m;
    const auto kernel = [&](bool shows_again) {
        return [shows_again, X = m.X, map = m.in] {
            const Tile t;
            for (unsigned j = 0; j < 2; ++j) {
                write(X);
                if (j == 0 || shows_again) show_global_to_async();
                __syncthreads();
                if (is_thread(0)) {
                    t.full[0].arrive_expecting(kBytes);
                    tma_load(t.tile, map, {0, 0}, t.full[0]);  // @load in turn
                }
                t.full[0].wait(j % 2);
                __syncthreads();
            }
        };
    };
    expect_clean(kOneBlock, kernel(true));
    expect_fault(kOneBlock, kernel(false),
                 {.fault = Fault::unseen_by_agent, .first = {0, "load in turn"}, .second = {0, "ordinary"}});
}

// --- between blocks -------------------------------------------------------------------------------------------------

enum class Hand { over_shown, over_unshown, shown_by_the_taker, shown_before_the_acquire, shown_after_the_release };

/// Block 0 writes X and raises the flag, block 1 waits for it and loads X.
auto hand_over(Hand how, const Memory& m) {
    return [=, X = m.X, map = m.in, flag = m.flag] {
        const Tile t;
        if (blockIdx.x == 0) {
            write(X);
            if (how == Hand::over_shown) show_global_to_async();
            __syncthreads();
            if (is_thread(0)) store_release(flag(0), 1);
            if (how == Hand::shown_after_the_release) show_global_to_async();
            return;
        }
        if (is_thread(32)) {
            if (how == Hand::shown_before_the_acquire) show_global_to_async();
            while (load_acquire(flag(0)) == 0) {
            }
            if (how == Hand::shown_by_the_taker) show_global_to_async();
        }
        __syncthreads();
        if (is_thread(0)) {
            t.full[0].arrive_expecting(kBytes);
            tma_load(t.tile, map, {0, 0}, t.full[0]);  // @load of another block's
        }
        t.full[0].wait(0);
    };
}

TEST_F(GlobalProxy, HandedOverWithAFenceOnEitherSide) {
    const Memory m;
    for (const Hand how : {Hand::over_shown, Hand::shown_by_the_taker}) {
        m.flags.base[0] = 0;
        expect_clean(kTwoBlocks, hand_over(how, m));
    }
}

TEST_F(GlobalProxy, HandedOverWithoutAFenceBetween) {
    const Memory m;
    for (const Hand how : {Hand::over_unshown, Hand::shown_before_the_acquire, Hand::shown_after_the_release}) {
        m.flags.base[0] = 0;
        expect_fault(kTwoBlocks, hand_over(how, m),
                     {.fault = Fault::unseen_by_agent,
                      .block = kSecond,
                      .first = {0, "load of another block's", kSecond},
                      .second = {0, "ordinary", kFirst},
                      .says = {"what thread 0 of block (1, 0, 0) sets off reads X(0, 0) in global memory, which "
                               "thread 0 of block (0, 0, 0) stored in the ordinary way",
                               "takes over from the other", "show_global_to_async()"}});
    }
}

/// Block 0 stores X by TMA, and block 1 reads it in the ordinary way.
enum class Wait { until_done, until_read, after_the_release };

auto store_and_hand_over(Wait wait, const Memory& m, float* seen) {
    return [=, X = m.X, map = m.out, flag = m.flag] {
        const Tile t;
        if (blockIdx.x == 0) {
            t.fill();
            if (!is_thread(0)) return;
            tma_store(map, {0, 0}, t.tile);  // @store of a block
            commit_stores();
            if (wait == Wait::until_done) wait_stores<0>();
            if (wait == Wait::until_read) wait_stores_read<0>();
            store_release(flag(0), 1);
            if (wait == Wait::after_the_release) wait_stores<0>();
            return;
        }
        if (is_thread(0))
            while (load_acquire(flag(0)) == 0) {
            }
        __syncthreads();
        seen[threadIdx.x] = X(3, threadIdx.x % 32);  // @read by another block
    };
}

TEST_F(GlobalProxy, StoredAndHandedOverAfterTheWait) {
    const Memory m;
    float seen[64]{};
    expect_clean(kTwoBlocks, store_and_hand_over(Wait::until_done, m, seen));
    EXPECT_EQ(seen[50], 1.0f);
}

TEST_F(GlobalProxy, StoredAndHandedOverUnderWay) {
    const Memory m;
    float seen[64];
    expect_fault(kTwoBlocks, store_and_hand_over(Wait::until_read, m, seen),
                 {.fault = Fault::global_race,
                  .block = kSecond,
                  .first = {0, "read by another block", kSecond},
                  .second = {0, "store of a block", kFirst},
                  .says = {"block (1, 0, 0) reads X(3, 0), which block (0, 0, 0) writes", "wait_stores<0>()"}});
    m.flags.base[0] = 0;
    expect_fault(kTwoBlocks, store_and_hand_over(Wait::after_the_release, m, seen),
                 {.fault = Fault::global_race,
                  .block = kSecond,
                  .first = {0, "read by another block", kSecond},
                  .second = {0, "store of a block", kFirst},
                  .says = {"does not lie before its release"}});
}

/// Blocks of a cluster, one of which writes for the other.
auto write_for_the_cluster(bool shows, bool by_the_loader, const Memory& m) {
    return [=, X = m.X, map = m.in] {
        const Tile t;
        cluster_sync();
        if (blockIdx.x == 0) {
            write(X);
            if (shows && !by_the_loader) show_global_to_async();
        }
        cluster_sync();
        if (blockIdx.x == 1 && is_thread(0)) {
            if (shows && by_the_loader) show_global_to_async();
            t.full[0].arrive_expecting(kBytes);
            tma_load(t.tile, map, {0, 0}, t.full[0]);  // @load in the cluster
        }
        if (blockIdx.x == 1) t.full[0].wait(0);
    };
}

TEST_F(GlobalProxy, ABlockOfAClusterWritesForAnother) {
    const Memory m;
    expect_clean(kCluster, write_for_the_cluster(true, false, m));
    expect_clean(kCluster, write_for_the_cluster(true, true, m));
    expect_fault(kCluster, write_for_the_cluster(false, false, m),
                 {.fault = Fault::unseen_by_agent,
                  .block = kSecond,
                  .first = {0, "load in the cluster", kSecond},
                  .second = {0, "ordinary", kFirst},
                  .says = {"reads X(0, 0) in global memory"}});
}

}  // namespace
}  // namespace simt::testing
