// Races in shared memory: what the CPU machine must find, and what it must say about it.

#include <gtest/gtest.h>

#include "tests/simt/faulty_kernels.h"

namespace simt::testing {
namespace {

/// Nothing, or the barrier that the second half of a kernel needs.
enum class Order { none, shuffle, ballot, syncwarp, syncthreads };

void keep(Order order) {
    if (order == Order::shuffle) __shfl_xor_sync(0xffffffffu, 1, 1);
    if (order == Order::ballot) __ballot_sync(0xffffffffu, 1);
    if (order == Order::syncwarp) __syncwarp();
    if (order == Order::syncthreads) __syncthreads();
}

// Thread 1 and the other thread touch K_j(3, 5) one after the other, with `order` between.
auto write_then_read(Order order, unsigned other) {
    return [=] {
        if (is_thread(1)) K_j()(3, 5) = 1.0f;  // @raw write
        keep(order);
        float x = 0;
        if (is_thread(other)) x = K_j()(3, 5);  // @raw read
        (void)x;
    };
}

// After a barrier the warp that arrived last runs first, so thread 40 finds the element as the first barrier left it.
auto read_then_write(Order order, unsigned other) {
    return [=] {
        if (is_thread(0)) K_j()(3, 5) = 0.0f;
        __syncthreads();
        float x = 0;
        if (is_thread(40)) x = K_j()(3, 5);  // @war read
        (void)x;
        keep(order);
        if (is_thread(other)) K_j()(3, 5) = 1.0f;  // @war write
    };
}

auto write_then_write(Order order, unsigned other) {
    return [=] {
        if (is_thread(1)) K_j()(3, 5) = 1.0f;  // @waw first
        keep(order);
        if (is_thread(other)) K_j()(3, 5) = 2.0f;  // @waw second
    };
}

TEST(Race, ReadAfterWriteOfAnotherWarp) {
    expect_fault(kTwoWarps, write_then_read(Order::none, 40),
                 {.fault = Fault::race,
                  .first = {40, "raw read"},
                  .second = {1, "raw write"},
                  .says = {"K_j(3, 5)", "thread 40 reads", "thread 1 wrote", "different warps", "__syncthreads()"}});
    expect_clean(kTwoWarps, write_then_read(Order::syncthreads, 40));
}

TEST(Race, ReadAfterWriteInsideAWarp) {
    expect_fault(kTwoWarps, write_then_read(Order::none, 9),
                 {.fault = Fault::race,
                  .first = {9, "raw read"},
                  .second = {1, "raw write"},
                  .says = {"K_j(3, 5)",
                           "__syncthreads() between the two lines orders them; since the two threads share a warp, "
                           "__syncwarp() is enough if no thread of another warp meets them there"}});
    expect_clean(kTwoWarps, write_then_read(Order::syncwarp, 9));
    expect_clean(kTwoWarps, write_then_read(Order::syncthreads, 9));
}

TEST(Race, WriteAfterReadOfAnotherWarp) {
    expect_fault(kTwoWarps, read_then_write(Order::none, 1),
                 {.fault = Fault::race,
                  .first = {1, "war write"},
                  .second = {40, "war read"},
                  .says = {"K_j(3, 5)", "thread 1 writes", "thread 40 read", "different warps"}});
    expect_clean(kTwoWarps, read_then_write(Order::syncthreads, 1));
}

TEST(Race, WriteAfterReadInsideAWarp) {
    expect_fault(kTwoWarps, read_then_write(Order::none, 50),
                 {.fault = Fault::race, .first = {50, "war write"}, .second = {40, "war read"}, .says = {"K_j(3, 5)"}});
    expect_clean(kTwoWarps, read_then_write(Order::syncwarp, 50));
}

TEST(Race, WriteAfterWriteOfAnotherWarp) {
    expect_fault(kTwoWarps, write_then_write(Order::none, 40),
                 {.fault = Fault::race,
                  .first = {40, "waw second"},
                  .second = {1, "waw first"},
                  .says = {"K_j(3, 5)", "thread 40 writes", "thread 1 wrote"}});
    expect_clean(kTwoWarps, write_then_write(Order::syncthreads, 40));
}

TEST(Race, WriteAfterWriteInsideAWarp) {
    expect_fault(kTwoWarps, write_then_write(Order::none, 9),
                 {.fault = Fault::race, .first = {9, "waw second"}, .second = {1, "waw first"}, .says = {"K_j(3, 5)"}});
    expect_clean(kTwoWarps, write_then_write(Order::syncwarp, 9));
}

TEST(Race, OneLineThatSeveralThreadsReach) {
    expect_fault(kTwoWarps,
                 [] {
                     K_j()(3, 5) = 1.0f;  // @everybody writes
                 },
                 {.fault = Fault::race,
                  .first = {1, "everybody writes"},
                  .second = {0, "everybody writes"},
                  .says = {"both write at the same line: two threads own one element"}});
    expect_fault(kTwoWarps,
                 [] {
                     const bool has_element = threadIdx.x > 0 && threadIdx.x < 8;
                     if (has_element) K_j()(0, threadIdx.x) = 1.0f;
                     __syncthreads();
                     if (has_element) K_j()(0, threadIdx.x - 1) = float(K_j()(0, threadIdx.x));  // @moved to the left
                 },
                 {.fault = Fault::race,
                  .first = {2, "moved to the left"},
                  .second = {1, "moved to the left"},
                  .says = {"one line both reads and writes what several threads touch"}});
}

TEST(Race, SyncwarpDoesNotOrderAcrossWarps) {
    for (const auto& found : {fault_of(kTwoWarps, write_then_read(Order::syncwarp, 40)),
                              fault_of(kTwoWarps, read_then_write(Order::syncwarp, 1)),
                              fault_of(kTwoWarps, write_then_write(Order::syncwarp, 40))}) {
        ASSERT_TRUE(found);
        EXPECT_EQ(found->report().fault, Fault::race);
    }
}

TEST(Race, ShufflesAndVotesOrderNothing) {
    for (const Order order : {Order::shuffle, Order::ballot})
        for (const unsigned other : {9u, 50u})
            for (const auto& found : {fault_of(kTwoWarps, write_then_read(order, other)),
                                      fault_of(kTwoWarps, read_then_write(order, other)),
                                      fault_of(kTwoWarps, write_then_write(order, other))}) {
                ASSERT_TRUE(found) << int(order) << " " << other;
                EXPECT_EQ(found->report().fault, Fault::race);
            }
}

TEST(Race, OneOfManyReadersIsEnough) {
    // All threads of the warp, or of the block, read; then one of the readers writes.
    const auto kernel = [](Order order, unsigned readers) {
        return [=] {
            if (is_thread(0)) K_j()(2, 2) = 0.0f;
            __syncthreads();
            float x = 0;
            if (threadIdx.x < readers) x = K_j()(2, 2);
            (void)x;
            keep(order);
            if (is_thread(0)) K_j()(2, 2) = 1.0f;
        };
    };
    for (const unsigned readers : {2u, 32u, 64u}) {
        const auto found = fault_of(kTwoWarps, kernel(Order::none, readers));
        ASSERT_TRUE(found) << readers;
        EXPECT_EQ(found->report().fault, Fault::race);
        expect_clean(kTwoWarps, kernel(Order::syncthreads, readers));
    }
    expect_clean(kTwoWarps, kernel(Order::none, 1));  // the writer was the only reader
    expect_clean(kTwoWarps, kernel(Order::syncwarp, 32));
    EXPECT_TRUE(fault_of(kTwoWarps, kernel(Order::syncwarp, 64))) << "readers of the other warp are not ordered";
}

TEST(Race, AReaderIsNotForgottenWhenOthersReadLater) {
    // Thread 40 of the other warp reads, then the writer's own warp, whose reads __syncwarp() orders before the write.
    expect_fault(
        kTwoWarps,
        [] {
            if (is_thread(0)) K_j()(2, 2) = 0.0f;
            __syncthreads();
            float x = 0;
            if (is_thread(40)) x = K_j()(2, 2);  // @read of the other warp
            if (is_thread(1)) x = K_j()(2, 2);
            __syncwarp();
            if (is_thread(2)) x = K_j()(2, 2);
            __syncwarp();
            (void)x;
            if (is_thread(2)) K_j()(2, 2) = 1.0f;  // @write after all reads
        },
        {.fault = Fault::race, .first = {2, "write after all reads"}, .second = {40, "read of the other warp"}});
    // The same inside one warp: the writer itself read last.
    expect_fault(
        kTwoWarps,
        [] {
            if (is_thread(0)) K_j()(2, 2) = 0.0f;
            __syncthreads();
            float x = 0;
            if (is_thread(3)) x = K_j()(2, 2);  // @read of the neighbour
            if (is_thread(5)) x = K_j()(2, 2);
            (void)x;
            if (is_thread(5)) K_j()(2, 2) = 1.0f;  // @write of the last reader
        },
        {.fault = Fault::race, .first = {5, "write of the last reader"}, .second = {3, "read of the neighbour"}});
}

TEST(Race, VectorAgainstOneOfItsElements) {
    expect_fault(kTwoWarps,
                 [] {
                     if (is_thread(1)) K_j().vec<float4>(3, 4) = make_float4(0, 0, 0, 0);  // @vec write
                     float x = 0;
                     if (is_thread(33)) x = K_j()(3, 6);  // @vec read
                     (void)x;
                 },
                 {.fault = Fault::race, .first = {33, "vec read"}, .second = {1, "vec write"}, .says = {"K_j(3, 6)"}});
    expect_clean(kTwoWarps, [] {
        if (is_thread(1)) K_j().vec<float4>(3, 4) = make_float4(0, 0, 0, 0);
        if (is_thread(33)) K_j()(3, 3) = 0.0f;
        if (is_thread(34)) K_j()(4, 0) = 0.0f;
    });
}

// What a thread may do to four elements is then known from the first, but only as long as they have one history.
TEST(Race, VectorOfElementsThatFourLanesWrote) {
    expect_fault(kTwoWarps,
                 [] {
                     if (threadIdx.x < 4) K_j()(3, int(threadIdx.x)) = 0.0f;  // @lanes' writes
                     __syncwarp();
                     float4 x{};
                     if (threadIdx.x < 8) x = K_j().vec<float4>(3, 0);
                     if (is_thread(33)) x = K_j().vec<float4>(3, 0);  // @read by the other warp
                     (void)x;
                 },
                 {.fault = Fault::race, .first = {33, "read by the other warp"}, .second = {0, "lanes' writes"}});
}

// Read as a vector, they share a note; who wrote which is still known.
TEST(Race, ElementOfAVectorThatFourLanesWrote) {
    expect_fault(kTwoWarps,
                 [] {
                     if (threadIdx.x < 4) K_j()(3, int(threadIdx.x)) = 0.0f;  // @a lane's write
                     __syncwarp();
                     float4 x{};
                     if (threadIdx.x < 8) x = K_j().vec<float4>(3, 0);
                     (void)x;
                     if (is_thread(33)) K_j()(3, 2) = 1.0f;  // @write by the other warp
                 },
                 {.fault = Fault::race, .first = {33, "write by the other warp"}, .second = {2, "a lane's write"}});
}

// Once many have read a vector, others read it unseen, but only until the next barrier.
TEST(Race, VectorThatEverybodyReadBeforeItWasWrittenAgain) {
    expect_fault(kTwoWarps,
                 [] {
                     float4 x{};
                     if (is_thread(0)) K_j().vec<float4>(3, 0) = float4{};
                     __syncthreads();
                     x = K_j().vec<float4>(3, 0);
                     __syncthreads();
                     if (is_thread(0)) K_j().vec<float4>(3, 0) = float4{};  // @second write
                     if (is_thread(33)) x = K_j().vec<float4>(3, 0);        // @read too soon
                     (void)x;
                 },
                 {.fault = Fault::race, .first = {33, "read too soon"}, .second = {0, "second write"}});
    expect_fault({.block = 32, .shared_bytes = kOneTile},
                 [] {
                     float4 x{};
                     if (is_thread(0)) K_j().vec<float4>(3, 0) = float4{};
                     __syncwarp();
                     x = K_j().vec<float4>(3, 0);  // @read of the warp
                     (void)x;
                     keep(Order::shuffle);
                     if (is_thread(31)) K_j()(3, 1) = 1.0f;  // @write too soon
                 },
                 {.fault = Fault::race, .first = {31, "write too soon"}, .second = {0, "read of the warp"}});
}

TEST(Race, VectorWhoseFirstElementHadMoreReaders) {
    expect_fault({.block = 32, .shared_bytes = kOneTile},
                 [] {
                     if (threadIdx.x < 4) K_j()(3, int(threadIdx.x)) = 0.0f;
                     __syncthreads();
                     float first = 0;
                     if (threadIdx.x < 2) first = K_j()(3, 0);
                     float4 all{};
                     if (is_thread(2) || is_thread(4)) all = K_j().vec<float4>(3, 0);  // @vector read
                     (void)first, (void)all;
                     keep(Order::shuffle);
                     if (is_thread(2)) K_j()(3, 1) = 1.0f;  // @write by a reader
                 },
                 {.fault = Fault::race, .first = {2, "write by a reader"}, .second = {4, "vector read"}});
}

TEST(Race, CompoundAssignmentReadsAndWrites) {
    expect_fault({.block = 2, .shared_bytes = kOneTile},
                 [] {
                     if (is_thread(0)) K_j()(1, 1) = 0.0f;
                     __syncthreads();
                     K_j()(1, 1) += 1.0f;  // @sum of all threads
                 },
                 {.fault = Fault::race,
                  .first = {0, "sum of all threads"},  // thread 1 came to the barrier last and goes on first
                  .second = {1, "sum of all threads"},
                  .says = {"K_j(1, 1)"}});
}

TEST(Race, OrderOfExecutionDoesNotMatter) {
    // The machine runs lane 5 before lane 20, whichever of them writes.
    for (const auto& [writer, reader] : {std::pair(5u, 20u), std::pair(20u, 5u)}) {
        const auto found = fault_of({.shared_bytes = kOneTile}, [writer = writer, reader = reader] {
            if (is_thread(0)) K_j()(0, 0) = 0.0f;
            __syncwarp();
            float x = 0;
            if (is_thread(reader)) x = K_j()(0, 0);
            (void)x;
            if (is_thread(writer)) K_j()(0, 0) = 1.0f;
        });
        ASSERT_TRUE(found);
        EXPECT_EQ(found->report().fault, Fault::race);
    }
}

TEST(Race, NamesBlockAndRowsAndColumnsOfTheTile) {
    expect_fault({.grid = dim3(3, 2, 2), .block = 64, .shared_bytes = 3 * kOneTile},
                 [] {
                     SharedArena arena;
                     const auto Q_i = arena.tile<float, 8, 8>("Q_i");
                     const auto V_j = arena.tile<f16, 8, 8, 24>("V_j");  // padded rows
                     if (is_thread(0)) Q_i(0, 0) = 0.0f;
                     if (blockIdx.x == 2 && blockIdx.y == 1 && blockIdx.z == 1 && threadIdx.x % 32 == 7)
                         V_j(6, 3) = f16(1.0f);  // @padded write
                 },
                 {.fault = Fault::race,
                  .block = {2, 1, 1},
                  .first = {39, "padded write"},
                  .second = {7, "padded write"},
                  .says = {"V_j(6, 3)"}});
}

TEST(Race, SharedMatrixToo) {
    expect_fault(
        {.block = 64, .shared_bytes = kOneTile},
        [] {
            const auto S = SharedArena().matrix<float>("S", 4, 5);
            if (threadIdx.x % 32 == 0) S(2, 4) = 1.0f;  // @matrix write
        },
        {.fault = Fault::race, .first = {32, "matrix write"}, .second = {0, "matrix write"}, .says = {"S(2, 4)"}});
}

TEST(Race, SixteenBitNeighboursDoNotRace) {
    expect_clean({.block = 64, .shared_bytes = 128}, [] {
        const auto tile = SharedArena().tile<f16, 1, 64>("tile");
        tile(0, int(threadIdx.x)) = f16(float(threadIdx.x));
        __syncthreads();
        const float x = float(tile(0, int(threadIdx.x) ^ 33));
        EXPECT_EQ(x, float(threadIdx.x ^ 33));
    });
    const auto found = fault_of({.block = 64, .shared_bytes = 128}, [] {
        const auto tile = SharedArena().tile<bf16, 1, 64>("tile");
        tile(0, int(threadIdx.x) / 2) = bf16(0.0f);
    });
    ASSERT_TRUE(found);
    EXPECT_NE(std::string(found->what()).find("tile(0, 0)"), std::string::npos) << found->what();
}

TEST(Race, SyncwarpOfSomeLanesOrdersThoseAndNoOthers) {
    const auto kernel = [](unsigned mask, unsigned reader) {
        return [=] {
            if (is_thread(1)) K_j()(0, 0) = 1.0f;  // @write before some meet
            if (mask >> threadIdx.x % 32 & 1) __syncwarp(mask);
            float x = 0;
            if (is_thread(reader)) x = K_j()(0, 0);  // @read after some met
            (void)x;
            __syncwarp();  // nobody has returned before
        };
    };
    for (const unsigned mask : {0x0000ffffu, 0x00000006u, 0xffffffffu}) expect_clean(kTwoWarps, kernel(mask, 2));
    for (const auto& [mask, reader] :
         {std::pair{0x0000ffffu, 16u}, {0x0000fffbu, 2u}, {0xfffffffdu, 2u}, {0xffffu, 34u}})
        expect_fault(kTwoWarps, kernel(mask, reader),
                     {.fault = Fault::race,
                      .first = {int(reader), "read after some met"},
                      .second = {1, "write before some meet"},
                      .says = {"K_j(0, 0)"}});
}

TEST(Race, WhatSomeLanesLearnTheyPassOn) {
    // Lane 1 tells lane 2, who tells lane 3; nobody tells lane 4.
    const auto kernel = [](unsigned reader) {
        return [=] {
            if (is_thread(1)) K_j()(0, 0) = 1.0f;
            if (threadIdx.x == 1 || threadIdx.x == 2) __syncwarp(0b0110);
            if (threadIdx.x == 2 || threadIdx.x == 3) __syncwarp(0b1100);
            float x = 0;
            if (is_thread(reader)) x = K_j()(0, 0);
            (void)x;
        };
    };
    expect_clean({.shared_bytes = kOneTile}, kernel(3));
    EXPECT_TRUE(fault_of({.shared_bytes = kOneTile}, kernel(4)));
}

TEST(Race, WhatALaneDoesAfterItMetOthersIsNotKnownToThem) {
    expect_fault({.shared_bytes = kOneTile},
                 [] {
                     if (threadIdx.x < 16) __syncwarp(0x0000ffffu);
                     if (is_thread(1)) K_j()(0, 0) = 1.0f;  // @write too late
                     float x = 0;
                     if (is_thread(2)) x = K_j()(0, 0);  // @read too early
                     (void)x;
                 },
                 {.fault = Fault::race, .first = {2, "read too early"}, .second = {1, "write too late"}});
}

TEST(Race, ReadersThatSomeLanesCollectedMayBeOverwritten) {
    // Thread 0 writes once all who read have met it; thread 20 read, too, and has not.
    const auto kernel = [](unsigned mask) {
        return [=] {
            if (is_thread(0)) K_j()(0, 0) = 1.0f;
            __syncwarp();
            float x = 0;
            if (threadIdx.x < 8 || threadIdx.x == 20) x = K_j()(0, 0);  // @read by nine
            (void)x;
            if (mask >> threadIdx.x & 1) __syncwarp(mask);
            if (is_thread(0)) K_j()(0, 0) = 2.0f;  // @overwritten
        };
    };
    expect_clean({.shared_bytes = kOneTile}, kernel(0x001000ffu));
    expect_fault({.shared_bytes = kOneTile}, kernel(0x000000ffu),
                 {.fault = Fault::race, .first = {0, "overwritten"}, .second = {20, "read by nine"}});
}

}  // namespace
}  // namespace simt::testing
