// Right kernels with copies by TMA, which the CPU machine leaves alone, and what it counts of them.

#include <gtest/gtest.h>

#include "tests/simt/tma_kernels.h"

namespace simt::testing {
namespace {

using TmaKernels = TmaModel;

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
