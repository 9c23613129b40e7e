// Right kernels that look as if they raced, and must pass.

#include <gtest/gtest.h>

#include "tests/simt/faulty_kernels.h"

namespace simt::testing {
namespace {

TEST(NoRace, DoubleBufferingByParity) {
    // One barrier a step: the buffer written in step n + 1 was last read in step n - 1.
    expect_clean({.block = 128, .shared_bytes = 2 * 128 * sizeof(int)}, [] {
        SharedArena arena;
        const auto buffers = arena.tile<int, 2, 128>("buffers");
        const int thread = int(threadIdx.x);
        for (int step = 0; step < 6; ++step) {
            buffers(step % 2, thread) = step * 1000 + thread;
            __syncthreads();
            const int neighbour = (thread + 77) % 128;
            const int x = buffers(step % 2, neighbour);
            EXPECT_EQ(x, step * 1000 + neighbour);
        }
    });
    const auto single = fault_of({.block = 128, .shared_bytes = 128 * sizeof(int)}, [] {
        const auto buffer = SharedArena().tile<int, 1, 128>("buffer");
        for (int step = 0; step < 2; ++step) {
            buffer(0, int(threadIdx.x)) = step;
            __syncthreads();
            const int x = buffer(0, (int(threadIdx.x) + 77) % 128);
            (void)x;
        }
    });
    EXPECT_TRUE(single) << "with one buffer the same loop needs a second barrier";
}

TEST(NoRace, ReductionTree) {
    for (const unsigned threads : {32u, 64u, 256u, 1024u})
        expect_clean({.block = threads, .shared_bytes = threads * sizeof(int)}, [=] {
            const auto sum = SharedArena().matrix<int>("sum", 1, int(threads));
            const int thread = int(threadIdx.x);
            sum(0, thread) = thread;
            for (int half = int(threads) / 2; half > 0; half /= 2) {
                __syncthreads();
                if (thread < half) sum(0, thread) += int(sum(0, thread + half));
            }
            __syncthreads();
            const int total = sum(0, 0);
            EXPECT_EQ(total, int(threads * (threads - 1) / 2));
        });
}

TEST(NoRace, ReductionTreeOfOneWarpWithSyncwarp) {
    const auto kernel = [](bool last_steps_unsynchronised) {
        return [=] {
            const auto sum = SharedArena().tile<int, 1, 32>("sum");
            const int thread = int(threadIdx.x);
            sum(0, thread) = thread;
            for (int half = 16; half > 0; half /= 2) {
                if (half >= 4 || !last_steps_unsynchronised) __syncwarp();
                if (thread < half) sum(0, thread) += int(sum(0, thread + half));
            }
        };
    };
    expect_clean({.shared_bytes = 128}, kernel(false));
    EXPECT_TRUE(fault_of({.shared_bytes = 128}, kernel(true))) << "the old warp-synchronous style is a race";
}

TEST(NoRace, ReuseOfATileAfterABarrier) {
    expect_clean({.block = 64, .shared_bytes = kOneTile}, [] {
        const auto tile = K_j();
        const int row = int(threadIdx.x) / 8, column = int(threadIdx.x) % 8;
        for (int step = 0; step < 3; ++step) {
            __syncthreads();
            tile(row, column) = float(step * 64 + row * 8 + column);
            __syncthreads();
            const float x = tile(column, row);
            EXPECT_EQ(x, float(step * 64 + column * 8 + row));
        }
    });
}

TEST(NoRace, ReadsInSeveralWarpIntervalsThenAWriteOfTheSameWarp) {
    expect_clean({.shared_bytes = kOneTile}, [] {
        if (is_thread(0)) K_j()(0, 0) = 7.0f;
        for (int i = 0; i < 3; ++i) {
            __syncwarp();
            const float x = K_j()(0, 0);
            EXPECT_EQ(x, 7.0f);
        }
        __syncwarp();
        if (is_thread(31)) K_j()(0, 0) = 8.0f;
        __syncwarp();
        const float x = K_j()(0, 0);
        EXPECT_EQ(x, 8.0f);
    });
}

TEST(NoRace, ReadsOfAllWarpsNeverConflict) {
    expect_clean({.block = 128, .shared_bytes = kOneTile}, [] {
        if (is_thread(99)) K_j()(0, 0) = 7.0f;
        __syncthreads();
        for (int i = 0; i < 3; ++i) {
            const float x = K_j()(0, 0);
            EXPECT_EQ(x, 7.0f);
        }
    });
}

TEST(NoRace, OwnElementNeedsNoBarrier) {
    expect_clean({.block = 64, .shared_bytes = kOneTile}, [] {
        const int row = int(threadIdx.x) / 8, column = int(threadIdx.x) % 8;
        K_j()(row, column) = 1.0f;
        K_j()(row, column) += 1.0f;
        K_j()(row, column) *= 3.0f;
        const float x = K_j()(row, column);
        EXPECT_EQ(x, 6.0f);
        K_j()(row, column) = x;
    });
}

TEST(NoRace, PartialWarps) {
    // 48 threads: the second warp has 16 lanes, and 0xffffffff names them all.
    expect_clean({.block = 48, .shared_bytes = 48 * sizeof(int)}, [] {
        const auto tile = SharedArena().tile<int, 1, 48>("tile");
        const int thread = int(threadIdx.x), first = thread / 32 * 32, lanes = thread < 32 ? 32 : 16;
        tile(0, thread) = thread;
        __syncwarp();
        const int x = tile(0, first + (thread + 5) % lanes);
        EXPECT_EQ(x, first + (thread + 5) % lanes);
        __syncwarp();
        tile(0, first + (thread + 1) % lanes) = 0;
        __syncthreads();
        const int y = tile(0, (thread + 20) % 48);
        EXPECT_EQ(y, 0);
    });
}

TEST(NoRace, TwoAndThreeDimensionalBlocks) {
    // Warps are made of linear thread numbers, x fastest.
    const auto kernel = [](bool barrier) {
        return [=] {
            const auto tile = SharedArena().tile<int, 1, 64>("tile");
            const int linear = int(threadIdx.x + blockDim.x * (threadIdx.y + std::size_t(blockDim.y) * threadIdx.z));
            tile(0, linear) = linear;
            __syncwarp();
            const int same_warp = linear ^ 31;
            int x = tile(0, same_warp);
            EXPECT_EQ(x, same_warp);
            if (barrier) __syncthreads();
            x = tile(0, linear ^ 32);
            EXPECT_EQ(x, linear ^ 32);
        };
    };
    for (const dim3 block : {dim3(8, 8), dim3(4, 4, 4), dim3(2, 16, 2), dim3(1, 1, 64), dim3(64)}) {
        expect_clean({.block = block, .shared_bytes = 256}, kernel(true));
        EXPECT_TRUE(fault_of({.block = block, .shared_bytes = 256}, kernel(false)));
    }
}

TEST(NoRace, EveryBlockHasSharedMemoryOfItsOwn) {
    expect_clean({.grid = 20, .block = 64, .shared_bytes = kOneTile}, [] {
        if (threadIdx.x == blockIdx.x % 64) K_j()(0, 0) = float(blockIdx.x);
        __syncthreads();
        const float x = K_j()(0, 0);
        EXPECT_EQ(x, float(blockIdx.x));
    });
}

}  // namespace
}  // namespace simt::testing
