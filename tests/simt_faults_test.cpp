// Everything that the CPU machine must find wrong with a kernel, what it must say about it, and right kernels that look
// dangerous and must pass.

#include <gtest/gtest.h>

#include <bit>

#include "tests/simt_testing.h"

namespace simt::testing {
namespace {

constexpr const char* kThisFile = "simt_faults_test.cpp";

/// A thread and the mark on the source line where it stood.
struct Party {
    int thread = -1;
    const char* mark = nullptr;
};

struct Expected {
    Fault fault;
    Party first, second = {};
    std::vector<std::string> says = {};
    std::array<unsigned, 3> block = {};
};

void expect_party(const Witness& witness, const Party& party, const std::string& message) {
    EXPECT_EQ(witness.thread, party.thread) << message;
    if (!party.mark) return;
    const std::string place = std::string("tests/") + kThisFile + ":" + std::to_string(line_of(kThisFile, party.mark));
    EXPECT_EQ(witness.site.text(), place) << party.mark << "\n" << message;
    EXPECT_NE(message.find("thread " + std::to_string(party.thread) + " at " + place + "\n"), std::string::npos)
        << message;
}

/// Every thread adds its number to a sum in shared memory, with barriers: a kernel that works if the machine does.
void expect_machine_still_works() {
    int sum = 0;
    run({.block = 96, .shared_bytes = 96 * sizeof(int)}, [&sum] {
        const auto part = SharedArena().tile<int, 1, 96>("part");
        const int thread = int(threadIdx.x);
        part(0, thread) = thread;
        __syncthreads();
        if (thread == 0)
            for (int i = 0; i < 96; ++i) sum += part(0, i);
    });
    EXPECT_EQ(sum, 95 * 96 / 2);
}

template <class Kernel>
void expect_fault(const Shape& shape, Kernel kernel, const Expected& expected) {
    const auto error = fault_of(shape, kernel, "faulty_kernel");
    ASSERT_TRUE(error) << "not found: " << name_of(expected.fault);
    // Every place ends its line, the last one too.
    const std::string message = std::string(error->what()) + "\n";
    const MachineError::Report& report = error->report();
    EXPECT_EQ(report.fault, expected.fault) << message;
    EXPECT_EQ(report.kernel, "faulty_kernel");
    EXPECT_EQ(report.block, expected.block) << message;
    const auto& [x, y, z] = expected.block;
    EXPECT_NE(message.find(std::string(name_of(expected.fault)) + " in faulty_kernel, block (" + std::to_string(x) +
                           ", " + std::to_string(y) + ", " + std::to_string(z) + ")"),
              std::string::npos)
        << message;
    expect_party(report.first, expected.first, message);
    expect_party(report.second, expected.second, message);
    for (const std::string& words : expected.says) EXPECT_NE(message.find(words), std::string::npos) << message;
    expect_machine_still_works();
}

template <class Kernel>
void expect_clean(const Shape& shape, Kernel kernel) {
    const auto error = fault_of(shape, kernel);
    EXPECT_FALSE(error) << error->what();
}

constexpr std::size_t kOneTile = 8 * 8 * sizeof(float);

/// The tile that most kernels here work on.
auto K_j() { return SharedArena().tile<float, 8, 8>("K_j"); }

/// Nothing, or the barrier that the second half of a kernel needs.
enum class Order { none, shuffle, ballot, syncwarp, syncthreads };

void keep(Order order) {
    if (order == Order::shuffle) __shfl_xor_sync(0xffffffffu, 1, 1);
    if (order == Order::ballot) __ballot_sync(0xffffffffu, 1);
    if (order == Order::syncwarp) __syncwarp();
    if (order == Order::syncthreads) __syncthreads();
}

bool is_thread(unsigned n) { return threadIdx.x == n; }

// --- Races ----------------------------------------------------------------------------------------------------------

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

constexpr Shape kTwoWarps{.block = 64, .shared_bytes = kOneTile};

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
                  .first = {39, "padded write"},
                  .second = {7, "padded write"},
                  .says = {"V_j(6, 3)"},
                  .block = {2, 1, 1}});
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

TEST(Race, AnExplicitLimit_PartialSyncwarpIsNotTrusted) {
    // The shadow keeps one interval per warp, so a mask that leaves live lanes out orders nothing: stricter than CUDA.
    const auto kernel = [](unsigned mask) {
        return [=] {
            if (is_thread(1)) K_j()(0, 0) = 1.0f;
            if (mask >> threadIdx.x & 1) __syncwarp(mask);
            float x = 0;
            if (is_thread(2)) x = K_j()(0, 0);
            (void)x;
        };
    };
    EXPECT_TRUE(fault_of({.shared_bytes = kOneTile}, kernel(0x0000ffffu)));
    expect_clean({.shared_bytes = kOneTile}, kernel(0xffffffffu));
}

// --- Right kernels that look dangerous ------------------------------------------------------------------------------

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

// --- Uninitialised reads ---------------------------------------------------------------------------------------------

TEST(Uninitialised, ReadOfAnElementThatNobodyWrote) {
    expect_fault(
        kTwoWarps,
        [] {
            if (threadIdx.x % 8 < 4) K_j()(int(threadIdx.x) / 8, int(threadIdx.x) % 8) = 1.0f;
            __syncthreads();
            float x = 0;
            if (is_thread(35)) x = K_j()(7, 4);  // @unwritten read
            (void)x;
        },
        {.fault = Fault::uninitialised_read, .first = {35, "unwritten read"}, .says = {"K_j(7, 4)", "nobody"}});
}

TEST(Uninitialised, OneMissingElementOfAVector) {
    const auto kernel = [](int written) {
        return [=] {
            for (int i = 0; i < written; ++i)
                if (is_thread(0)) K_j()(1, i) = 1.0f;
            __syncthreads();
            float4 x{};
            if (is_thread(3)) x = K_j().vec<float4>(1, 0);  // @vector of garbage
            (void)x;
        };
    };
    expect_clean(kTwoWarps, kernel(4));
    expect_fault(kTwoWarps, kernel(3),
                 {.fault = Fault::uninitialised_read, .first = {3, "vector of garbage"}, .says = {"K_j(1, 3)"}});
}

// The upper half of a float is no element that anybody wrote.
TEST(Uninitialised, AVectorOfNarrowerElementsThanWereWritten) {
    expect_fault(kTwoWarps,
                 [] {
                     if (is_thread(0)) K_j().vec<float4>(0, 0) = float4{};
                     __syncthreads();
                     Vector<bf16, 8> x{};
                     if (is_thread(3))
                         x = SharedArena().tile<bf16, 8, 8>("halves").vec<Vector<bf16, 8>>(0, 0);  // @halves of floats
                     (void)x;
                 },
                 {.fault = Fault::uninitialised_read, .first = {3, "halves of floats"}});
}

TEST(Uninitialised, CompoundAssignmentReadsFirst) {
    expect_fault({.shared_bytes = kOneTile},
                 [] {
                     if (is_thread(2)) K_j()(0, 2) += 1.0f;  // @sum from garbage
                 },
                 {.fault = Fault::uninitialised_read, .first = {2, "sum from garbage"}, .says = {"K_j(0, 2)"}});
    expect_fault({.shared_bytes = kOneTile},
                 [] {
                     if (is_thread(2)) K_j()(0, 2) *= 1.0f;  // @product from garbage
                 },
                 {.fault = Fault::uninitialised_read, .first = {2, "product from garbage"}});
}

TEST(Uninitialised, WhatAnEarlierBlockWroteDoesNotCount) {
    const int workers = cpu_workers();
    set_cpu_workers(1);  // the second block runs on the worker, and in the memory, of the first
    expect_fault({.grid = 2, .shared_bytes = kOneTile},
                 [] {
                     if (blockIdx.x == 0 && is_thread(0)) K_j()(0, 0) = 1.0f;
                     float x = 0;
                     if (blockIdx.x == 1 && is_thread(0)) x = K_j()(0, 0);  // @leftover
                     (void)x;
                 },
                 {.fault = Fault::uninitialised_read, .first = {0, "leftover"}, .block = {1, 0, 0}});
    set_cpu_workers(workers);
}

TEST(Uninitialised, WhatAnEarlierLaunchWroteDoesNotCount) {
    run({.shared_bytes = kOneTile}, [] { K_j()(int(threadIdx.x) / 8, int(threadIdx.x) % 8) = 1.0f; });
    const auto found = fault_of({.shared_bytes = kOneTile}, [] {
        const float x = K_j()(int(threadIdx.x) / 8, int(threadIdx.x) % 8);
        (void)x;
    });
    ASSERT_TRUE(found);
    EXPECT_EQ(found->report().fault, Fault::uninitialised_read);
}

// --- Indices, alignment, the arena
// ------------------------------------------------------------------------------------

TEST(Bounds, SharedTileRowsAndColumns) {
    for (const auto& [row, column] : {std::pair(8, 0), std::pair(0, 8), std::pair(-1, 0), std::pair(0, -1)})
        expect_fault(
            {.shared_bytes = kOneTile},
            [row = row, column = column] {
                if (is_thread(4)) K_j()(row, column) = 1.0f;  // @outside the tile
            },
            {.fault = Fault::out_of_bounds,
             .first = {4, "outside the tile"},
             .says = {"K_j(" + std::to_string(row) + ", " + std::to_string(column) + ")", "8 rows and 8 columns"}});
}

TEST(Bounds, PaddingOfATileIsOutside) {
    expect_fault({.shared_bytes = 4 * 12 * sizeof(float)},
                 [] {
                     const auto tile = SharedArena().tile<float, 4, 8, 12>("tile");
                     if (is_thread(4)) tile(1, 8) = 1.0f;  // @in the padding
                 },
                 {.fault = Fault::out_of_bounds, .first = {4, "in the padding"}, .says = {"tile(1, 8)"}});
}

TEST(Bounds, SharedVectorThatReachesBeyondTheRow) {
    expect_clean({.block = 1, .shared_bytes = kOneTile}, [] { K_j().vec<float4>(7, 4) = float4{}; });
    for (const auto& [row, column] : {std::pair(0, 5), std::pair(0, 8), std::pair(8, 0), std::pair(0, -4)})
        expect_fault({.shared_bytes = kOneTile},
                     [row = row, column = column] {
                         if (is_thread(4)) K_j().vec<float4>(row, column) = float4{};  // @vector outside the tile
                     },
                     {.fault = Fault::out_of_bounds,
                      .first = {4, "vector outside the tile"},
                      .says = {"K_j(" + std::to_string(row) + ", " + std::to_string(column) + ")", "vector of 4"}});
}

TEST(Bounds, SharedMatrix) {
    for (const auto& [row, column] : {std::pair(3, 0), std::pair(0, 5), std::pair(-1, 0), std::pair(0, -1)})
        expect_fault(
            {.shared_bytes = kOneTile},
            [row = row, column = column] {
                const auto S = SharedArena().matrix<float>("S", 3, 5);
                if (is_thread(4)) S(row, column) = 1.0f;  // @outside the matrix
            },
            {.fault = Fault::out_of_bounds,
             .first = {4, "outside the matrix"},
             .says = {"S(" + std::to_string(row) + ", " + std::to_string(column) + ")", "3 rows and 5 columns"}});
    expect_fault({.shared_bytes = kOneTile},
                 [] {
                     const auto S = SharedArena().matrix<float>("S", 3, 6);
                     if (is_thread(4)) S.vec<float2>(2, 5) = float2{};  // @vector outside the matrix
                 },
                 {.fault = Fault::out_of_bounds, .first = {4, "vector outside the matrix"}, .says = {"S(2, 5)"}});
}

TEST(Bounds, GlobalTensorInEveryDimension) {
    Buffer<float> buffer("K", {2, 3, 4, 5});
    const auto K = buffer.view<4>();
    for (int dimension = 0; dimension < 4; ++dimension)
        for (const std::int64_t index : {std::int64_t{-1}, buffer.extents[dimension], std::int64_t{1} << 40}) {
            std::array<std::int64_t, 4> at{};
            at[dimension] = index;
            expect_fault({.block = 8},
                         [=] {
                             float x = 0;
                             if (is_thread(6)) x = K(at[0], at[1], at[2], at[3]);  // @outside the tensor
                             (void)x;
                         },
                         {.fault = Fault::out_of_bounds,
                          .first = {6, "outside the tensor"},
                          .says = {"K(" + std::to_string(at[0]) + ", " + std::to_string(at[1]) + ", " +
                                       std::to_string(at[2]) + ", " + std::to_string(at[3]) + ") lies outside",
                                   "index " + std::to_string(index) + " in dimension " + std::to_string(dimension),
                                   "extent is " + std::to_string(buffer.extents[dimension])}});
        }
}

TEST(Bounds, GlobalWritesAndSlicesAndVectors) {
    Buffer<float> buffer("O", {2, 3, 4, 8});
    const auto O = buffer.view<4>();
    expect_fault({},
                 [=] {
                     if (!is_thread(6)) return;
                     O.slice(1, 2)(4, 0) = 1.0f;  // @write outside
                 },
                 {.fault = Fault::out_of_bounds,
                  .first = {6, "write outside"},
                  .says = {"O(1, 2, 4, 0)", "index 4 in dimension 2"}});
    expect_fault({},
                 [=] {
                     if (!is_thread(6)) return;
                     O.slice(2, 0)(0, 0) = 1.0f;  // @slice outside
                 },
                 {.fault = Fault::out_of_bounds,
                  .first = {6, "slice outside"},
                  .says = {"O(2, 0, :, :)", "index 2 in dimension 0"}});
    expect_fault({},
                 [=] {
                     if (!is_thread(6)) return;
                     O.slice(0, 3)(0, 0) = 1.0f;  // @second slice outside
                 },
                 {.fault = Fault::out_of_bounds,
                  .first = {6, "second slice outside"},
                  .says = {"O(0, 3, :, :)", "index 3 in dimension 1"}});
    expect_fault({},
                 [=] {
                     if (!is_thread(6)) return;
                     O.slice(0).slice(3)(0, 0) = 1.0f;  // @single slice outside
                 },
                 {.fault = Fault::out_of_bounds,
                  .first = {6, "single slice outside"},
                  .says = {"O(0, 3, :, :)", "index 3 in dimension 1"}});
    expect_fault({},
                 [=] {
                     if (!is_thread(6)) return;
                     O.slice(0, 0).vec<float4>(3, 5) = float4{};  // @global vector outside
                 },
                 {.fault = Fault::out_of_bounds,
                  .first = {6, "global vector outside"},
                  .says = {"O(0, 0, 3, 5), a vector of 4", "index 5 in dimension 3"}});
    expect_clean({.block = 1}, [=] { O.slice(1, 2).vec<float4>(3, 4) = float4{}; });
}

TEST(Misaligned, SharedVector) {
    expect_fault(
        {.shared_bytes = kOneTile},
        [] {
            if (is_thread(4)) K_j().vec<float4>(1, 2) = float4{};  // @askew in shared memory
        },
        {.fault = Fault::misaligned, .first = {4, "askew in shared memory"}, .says = {"K_j(1, 2)", "16 bytes"}});
    // Rows of 9 floats: only every fourth row starts at a multiple of 16 bytes.
    expect_fault({.shared_bytes = 8 * 9 * sizeof(float)},
                 [] {
                     const auto tile = SharedArena().tile<float, 8, 8, 9>("tile");
                     if (is_thread(4)) tile.vec<float4>(4, 0) = float4{};
                     if (is_thread(4)) tile.vec<float4>(1, 0) = float4{};  // @askew by the pitch
                 },
                 {.fault = Fault::misaligned, .first = {4, "askew by the pitch"}, .says = {"tile(1, 0)"}});
    expect_fault({.shared_bytes = kOneTile},
                 [] {
                     const auto S = SharedArena().matrix<float>("S", 3, 5);
                     if (is_thread(4)) S.vec<float2>(1, 0) = float2{};  // @askew in a matrix
                 },
                 {.fault = Fault::misaligned, .first = {4, "askew in a matrix"}, .says = {"S(1, 0)", "8 bytes"}});
}

TEST(Misaligned, GlobalVector) {
    Buffer<float> buffer("K", {4, 8});
    const auto read_row_1 = [&](GlobalTensor<float, 2> K) {
        return [=] {
            float4 x{};
            if (is_thread(4)) x = K.vec<float4>(1, 0);  // @askew in global memory
            (void)x;
        };
    };
    expect_clean({}, read_row_1(buffer.view<2>()));
    expect_clean({}, read_row_1(buffer.view<2>(4)));
    const Expected misaligned{
        .fault = Fault::misaligned, .first = {4, "askew in global memory"}, .says = {"K(1, 0)", "16 bytes"}};
    expect_fault({}, read_row_1(buffer.view<2>(2)), misaligned);  // the base is askew
    Buffer<float> heads("K", {2, 3, 4, 8});
    expect_fault({}, [K = heads.view<4>()] { K.slice(1, 2).vec<float4>(3, 2) = float4{}; },
                 {.fault = Fault::misaligned, .first = {0}, .says = {"K(1, 2, 3, 2)"}});
    const std::int64_t extents[] = {4, 4}, odd_rows[] = {5, 1}, gaps[] = {8, 2};
    const int id = tensor_id("K");
    expect_fault({}, read_row_1({buffer.base, extents, odd_rows, id}), misaligned);  // the rows are
    expect_fault({}, read_row_1({buffer.base, extents, gaps, id}), misaligned);      // elements are not neighbours
}

TEST(Arena, OverflowByOneTile) {
    const auto kernel = [] {
        SharedArena arena;
        const auto A = arena.tile<float, 8, 8>("A");
        const auto B = arena.tile<f16, 1, 3>("B");  // @last tile
        if (is_thread(0)) A(7, 7) = 0.0f;
        if (is_thread(0)) B(0, 2) = f16(0.0f);
    };
    const std::size_t needed = shared_bytes<float>(8, 8) + shared_bytes<f16>(1, 3);
    EXPECT_EQ(needed, 256u + 16u);
    expect_clean({.shared_bytes = needed}, kernel);
    expect_clean({.shared_bytes = needed + 1}, kernel);
    expect_fault({.shared_bytes = needed - 1}, kernel,
                 {.fault = Fault::arena_overflow,
                  .first = {0, "last tile"},
                  .says = {"carving B", "272 bytes", "asked for 271"}});
    expect_fault({.shared_bytes = 0}, kernel,
                 {.fault = Fault::arena_overflow, .first = {0, nullptr}, .says = {"carving A"}});
}

TEST(Arena, MatrixOverflowAndNegativeShape) {
    const auto kernel = [](int rows, int columns) {
        return [=] { SharedArena().matrix<float>("S", rows, columns); };  // @carving a matrix
    };
    expect_clean({.shared_bytes = 64}, kernel(4, 4));
    expect_clean({.shared_bytes = 0}, kernel(0, 4));
    for (const auto& [rows, columns] :
         {std::pair(4, 5), std::pair(-1, 4), std::pair(4, -1), std::pair(1 << 30, 1 << 30)})
        expect_fault({.shared_bytes = 64}, kernel(rows, columns),
                     {.fault = Fault::arena_overflow, .first = {0, "carving a matrix"}, .says = {"carving S"}});
}

TEST(Arena, TilesAreAlignedAndDoNotOverlap) {
    expect_clean({.block = 1, .shared_bytes = 4 * 16}, [] {
        SharedArena arena;
        const auto a = arena.tile<f16, 1, 1>("a");
        const auto b = arena.tile<float, 1, 3>("b");
        const auto c = arena.tile<float, 1, 4>("c");
        const auto d = arena.matrix<f16>("d", 1, 8);
        a(0, 0) = f16(1.0f);
        for (int i = 0; i < 3; ++i) b(0, i) = 2.0f;
        c.vec<float4>(0, 0) = make_float4(3, 3, 3, 3);
        for (int i = 0; i < 8; ++i) d(0, i) = f16(4.0f);
        EXPECT_EQ(float(a(0, 0)), 1.0f);
        EXPECT_EQ(float(b(0, 2)), 2.0f);
        EXPECT_EQ(float(c(0, 3)), 3.0f);
    });
}

// --- Barriers and warp collectives
// ------------------------------------------------------------------------------------

TEST(Barrier, TwoLinesAreTwoBarriers) {
    expect_fault({.block = 64},
                 [] {
                     if (threadIdx.x < 40)
                         __syncthreads();  // @first barrier
                     else
                         __syncthreads();  // @other barrier
                 },
                 {.fault = Fault::barrier_divergence,
                  .first = {40, "other barrier"},
                  .second = {0, "first barrier"},
                  .says = {"every thread of a block"}});
}

TEST(Barrier, ThreadReturnedBeforeTheOthersWait) {
    expect_fault({.block = 64},
                 [] {
                     if (is_thread(0)) return;
                     __syncthreads();  // @barrier without thread 0
                 },
                 {.fault = Fault::barrier_divergence,
                  .first = {1, "barrier without thread 0"},
                  .says = {"1 threads of the block have already returned"}});
}

TEST(Barrier, ThreadReturnsWhileTheOthersWait) {
    expect_fault({.block = 64},
                 [] {
                     if (is_thread(63)) return;
                     __syncthreads();  // @barrier without thread 63
                 },
                 {.fault = Fault::barrier_divergence,
                  .first = {0, "barrier without thread 63"},
                  .says = {"thread 63 has returned", "thread 0 waits"}});
}

TEST(Barrier, UnequalTripCounts) {
    const auto found = fault_of({.block = 64}, [] {
        for (unsigned i = 0; i < 1 + threadIdx.x / 32; ++i) __syncthreads();
    });
    ASSERT_TRUE(found);
    EXPECT_EQ(found->report().fault, Fault::barrier_divergence);
}

TEST(Barrier, EarlyReturnsAreFineWithoutABarrierAfterThem) {
    int arrived = 0;
    expect_clean({.block = 100}, [&arrived] {
        __syncthreads();
        if (threadIdx.x % 3) return;
        ++arrived;
    });
    EXPECT_EQ(arrived, 34);
}

TEST(Collective, DivergedByKind) {
    expect_fault({},
                 [] {
                     if (threadIdx.x < 16)
                         __shfl_xor_sync(0xffffffffu, 1, 1);  // @half shuffles
                     else
                         __ballot_sync(0xffffffffu, 1);  // @half votes
                 },
                 {.fault = Fault::collective_divergence,
                  .first = {16, "half votes"},
                  .second = {0, "half shuffles"},
                  .says = {"__ballot_sync", "__shfl_xor_sync", "0xffffffff"}});
}

TEST(Collective, DivergedByMask) {
    expect_fault({.block = 64},
                 [] {
                     if (threadIdx.x < 32) return;
                     // Lanes 0 to 7 wait for 16 lanes, lane 8 for 9 of them.
                     const unsigned mask = threadIdx.x % 32 < 8 ? 0xffffu : 0x1ffu;
                     if (threadIdx.x % 32 < 9) __syncwarp(mask);  // @masks differ
                 },
                 {.fault = Fault::collective_divergence,
                  .first = {40, "masks differ"},
                  .second = {32, "masks differ"},
                  .says = {"0x000001ff", "0x0000ffff"}});
}

TEST(Collective, DivergedByLine) {
    expect_fault({},
                 [] {
                     if (threadIdx.x < 16)
                         __syncwarp();  // @one line
                     else
                         __syncwarp();  // @another line
                 },
                 {.fault = Fault::collective_divergence,
                  .first = {16, "another line"},
                  .second = {0, "one line"},
                  .says = {"on another line"}});
}

TEST(Collective, OverlappingMasksOneAfterTheOtherAreFine) {
    // Either half, or both, may come to the collective of the whole warp while the other is still busy with its own.
    for (const unsigned busy : {0x0000ffffu, 0xffff0000u, 0x55555555u, 0xaaaaaaaau})
        expect_clean({}, [=] {
            int x = int(threadIdx.x);
            if (busy >> threadIdx.x & 1)
                for (int i = 0; i < 3; ++i) x = __shfl_sync(busy, x, std::countr_zero(busy));
            __syncwarp();
            EXPECT_EQ(x, busy >> threadIdx.x & 1 ? std::countr_zero(busy) : int(threadIdx.x));
            EXPECT_EQ(__ballot_sync(0xffffffffu, 1), 0xffffffffu);
        });
}

TEST(Collective, CircleOfThreeMasks) {
    // Lane 0 waits for 1, 1 for 2, 2 for 0: no two wait for each other, and yet nobody can go on.
    const auto found = fault_of({.block = 3}, [] {
        const unsigned next = (threadIdx.x + 1) % 3;
        __syncwarp(1u << threadIdx.x | 1u << next);
    });
    ASSERT_TRUE(found);
    EXPECT_EQ(found->report().fault, Fault::deadlock) << found->what();
}

TEST(Collective, MaskWithoutTheCaller) {
    expect_fault({.block = 64},
                 [] {
                     if (threadIdx.x < 32) return;
                     __shfl_sync(0x0000fff7u, 1, 0);  // @lane 3 is not in the mask
                 },
                 {.fault = Fault::invalid_collective,
                  .first = {35, "lane 3 is not in the mask"},
                  .says = {"__shfl_sync", "0x0000fff7", "lane 3"}});
}

TEST(Collective, ShuffleFromALaneThatTakesNoPart) {
    expect_fault({.block = 64},
                 [] {
                     if (threadIdx.x < 48) return;
                     __shfl_xor_sync(0xffff0000u, 1, 16);  // @across the mask
                 },
                 {.fault = Fault::invalid_collective,
                  .first = {48, "across the mask"},
                  .says = {"lane 16 reads lane 0, which the mask 0xffff0000 does not name"}});
}

TEST(Collective, ShuffleFromALaneThatHasReturned) {
    // The last lane to arrive is lane 15; lanes 16 and up are gone.
    const auto found = fault_of({}, [] {
        if (threadIdx.x >= 16) return;
        __shfl_down_sync(0xffffffffu, 1, 1);
    });
    ASSERT_TRUE(found);
    EXPECT_EQ(found->report().fault, Fault::invalid_collective);
    EXPECT_EQ(found->report().first.thread, 15);
    EXPECT_NE(
        found->report().what.find("lane 15 reads lane 16, which the mask 0xffffffff names, but which has returned"),
        std::string::npos)
        << found->what();
}

TEST(Collective, ShuffleFromALaneThatNeverWas) {
    const auto found = fault_of({.block = 48}, [] { __shfl_xor_sync(0xffffffffu, 1, 16); });
    ASSERT_TRUE(found) << "the second warp has 16 lanes";
    EXPECT_EQ(found->report().fault, Fault::invalid_collective);
    EXPECT_EQ(found->report().first.thread, 32);
    EXPECT_NE(
        found->report().what.find("lane 0 reads lane 16, which the mask 0xffffffff names, but the block has no such"),
        std::string::npos)
        << found->what();
}

TEST(Collective, WidthThatIsNoPowerOfTwo) {
    for (const int width : {0, -1, 3, 24, 33, 64})
        expect_fault({},
                     [=] {
                         __shfl_down_sync(0xffffffffu, 1, 1, width);  // @odd width
                     },
                     {.fault = Fault::invalid_collective,
                      .first = {0, "odd width"},
                      .says = {"__shfl_down_sync", "width " + std::to_string(width)}});
}

TEST(Deadlock, CollectiveAgainstBarrier) {
    expect_fault({.block = 64},
                 [] {
                     if (threadIdx.x < 32 || threadIdx.x >= 40)
                         __syncthreads();  // @waits for all
                     else
                         __syncwarp();  // @waits for its warp
                 },
                 {.fault = Fault::deadlock,
                  .first = {32, "waits for its warp"},
                  .second = {40, "waits for all"},
                  .says = {"__syncwarp", "0xffffff00", "56 of 64 threads wait at __syncthreads()"}});
}

TEST(Deadlock, CollectiveThatALaneNeverReaches) {
    expect_fault({},
                 [] {
                     if (threadIdx.x == 31)
                         __syncthreads();  // @the barrier of lane 31
                     else
                         __all_sync(0xffffffffu, 1);  // @the vote of the others
                     __syncthreads();
                 },
                 {.fault = Fault::deadlock,
                  .first = {0, "the vote of the others"},
                  .second = {31, "the barrier of lane 31"},
                  .says = {"__all_sync", "0x80000000"}});
}

TEST(Fault, TheLowestFailingBlockIsReported) {
    // Block 3 fails soon; the blocks that other workers run meanwhile fail later.
    const int workers = cpu_workers();
    set_cpu_workers(4);
    for (int repeat = 0; repeat < 20; ++repeat) {
        const auto found = fault_of({.grid = 64, .shared_bytes = kOneTile}, [] {
            for (int i = 0; i < (blockIdx.x == 3 ? 100 : 3000); ++i) __syncthreads();
            if (blockIdx.x >= 3) K_j()(8, int(blockIdx.x)) = 0.0f;
        });
        ASSERT_TRUE(found);
        EXPECT_EQ(found->report().block[0], 3u);
    }
    set_cpu_workers(workers);
}

TEST(Fault, MessagesAreTheSameOnEveryRun) {
    const auto kernel = write_then_read(Order::none, 40);
    const std::string first = fault_of(kTwoWarps, kernel)->what();
    for (int repeat = 0; repeat < 5; ++repeat) EXPECT_EQ(first, fault_of(kTwoWarps, kernel)->what());
}

TEST(Fault, ManyInARowLeaveTheMachineSound) {
    for (int repeat = 0; repeat < 200; ++repeat) {
        EXPECT_TRUE(fault_of({.grid = 4, .block = 512, .shared_bytes = kOneTile}, [] { __syncwarp(1u); }));
    }
    expect_machine_still_works();
}

}  // namespace
}  // namespace simt::testing
