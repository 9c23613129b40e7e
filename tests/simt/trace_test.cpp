// What a trace holds of a kernel: its moments in order, their boxes and bytes, and the moment of a fault.

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "common/simt/report/trace.h"
#include "tests/simt/testing.h"

namespace simt {
namespace {

using testing::fault_of;
using testing::run;
using testing::Shape;

template <class T, int Rank>
GlobalTensor<T, Rank> view(const char* name, std::vector<std::remove_const_t<T>>& data,
                           std::array<std::int64_t, 4> extents) {
    TensorArgument argument{.name = name, .data = data.data(), .rank = Rank, .extents = extents};
    std::int64_t stride = 1;
    for (int d = Rank - 1; d >= 0; --d) {
        argument.strides[d] = stride;
        stride *= extents[d];
    }
    return global_tensor<T, Rank>(argument);
}

/// Runs `kernel` once and returns what its launch left.
template <class Kernel>
LaunchTrace trace_of(const Shape& shape, Kernel kernel, TraceLog::Wanted wanted = {}) {
    const LaunchLog counted;
    const TraceLog log(std::move(wanted));
    run(shape, kernel);
    EXPECT_EQ(log.launches().size(), 1u);
    return log.launches().front();
}

std::vector<std::int64_t> box(const TracedAccess& a) {
    std::vector<std::int64_t> numbers;
    for (int d = 0; d < a.rank; ++d) numbers.insert(numbers.end(), {a.first[d], a.last[d]});
    return numbers;
}

/// Global bytes of a block's moments, those read or those written.
std::uint64_t global_bytes(const TracedBlock& block, bool written) {
    std::uint64_t sum = 0;
    for (const TracedMoment& m : block.moments)
        for (const TracedAccess& a : m.accesses)
            if (a.memory == TracedAccess::Memory::global && a.write == written) sum += a.bytes;
    return sum;
}

TEST(Trace, ACopyIsOneMomentThatEndsAtTheBarrier) {
    std::vector<float> in(2 * 8 * 4), out(32);
    const auto source = view<const float, 3>("in", in, {2, 8, 4});
    const auto target = view<float, 1>("out", out, {32});
    const LaunchTrace launch = trace_of({.block = 32, .shared_bytes = 256}, [=] {
        SharedArena arena;
        const auto tile = arena.tile<float, 8, 4, 8>("tile");
        const int row = threadIdx.x / 4, column = threadIdx.x % 4;
        tile(row, column) = float(source(1, row, column));
        __syncthreads();
        target(threadIdx.x) = float(tile(7 - row, column));
    });
    ASSERT_EQ(launch.blocks.size(), 1u);
    const std::vector<TracedMoment>& moments = launch.blocks[0].moments;
    ASSERT_EQ(moments.size(), 2u);

    ASSERT_EQ(moments[0].accesses.size(), 2u);
    const TracedAccess &read = moments[0].accesses[0], &write = moments[0].accesses[1];
    EXPECT_FALSE(read.write);
    EXPECT_EQ(launch.tensors.at(std::size_t(read.object)).name, "in");
    EXPECT_EQ(box(read), (std::vector<std::int64_t>{1, 1, 0, 7, 0, 3}));
    EXPECT_EQ(read.bytes, 128u);
    EXPECT_TRUE(write.write);
    EXPECT_EQ(launch.tiles.at(std::size_t(write.object)), (TracedTile{"tile", 0, 8, 4, 8, 4}));
    EXPECT_EQ(box(write), (std::vector<std::int64_t>{0, 7, 0, 3}));
    EXPECT_TRUE(moments[0].barrier.has_value());

    EXPECT_FALSE(moments[1].barrier.has_value());
    EXPECT_EQ(launch.tensors.at(std::size_t(moments[1].accesses.back().object)).name, "out");
    EXPECT_EQ(launch.tensors.at(0).extents, (std::vector<std::int64_t>{2, 8, 4}));
}

TEST(Trace, AVectorCoversAllItsElements) {
    std::vector<float> in(64);
    const auto source = view<const float, 2>("in", in, {4, 16});
    const LaunchTrace launch = trace_of({.block = 2}, [=] {
        const WideVector<float> x = source.vec<WideVector<float>>(threadIdx.x + 1, 8);
        (void)x;
    });
    const TracedAccess& a = launch.blocks[0].moments.at(0).accesses.at(0);
    EXPECT_EQ(box(a), (std::vector<std::int64_t>{1, 2, 8, 11}));
    EXPECT_EQ(a.bytes, 32u);
}

TEST(Trace, AVectorOfATileDoesToo) {
    const LaunchTrace launch = trace_of({.block = 2, .shared_bytes = 256}, [] {
        SharedArena arena;
        const auto tile = arena.tile<float, 2, 12, 16>("tile");
        tile.vec<float4>(threadIdx.x, 8) = make_float4(1, 2, 3, 4);
    });
    EXPECT_EQ(box(launch.blocks[0].moments.at(0).accesses.at(0)), (std::vector<std::int64_t>{0, 1, 8, 11}));
}

TEST(Trace, ACopyThatFollowsACopyIsANewMoment) {
    std::vector<float> k(32), v(32);
    const auto K = view<const float, 1>("K", k, {32});
    const auto V = view<const float, 1>("V", v, {32});
    const LaunchTrace launch = trace_of({.block = 32, .shared_bytes = 256}, [=] {
        SharedArena arena;
        const auto K_j = arena.tile<float, 1, 32>("K_j"), V_j = arena.tile<float, 1, 32>("V_j");
        K_j(0, threadIdx.x) = float(K(threadIdx.x));
        V_j(0, threadIdx.x) = float(V(threadIdx.x));
        __syncthreads();
    });
    ASSERT_EQ(launch.blocks[0].moments.size(), 2u);
    EXPECT_FALSE(launch.blocks[0].moments[0].barrier);
    EXPECT_TRUE(launch.blocks[0].moments[1].barrier);
}

TEST(Trace, WarpBarriersCutTheWorkOfAllWarpsAtOnce) {
    const LaunchTrace launch = trace_of({.block = 64, .shared_bytes = 256}, [] {
        SharedArena arena;
        const auto tile = arena.tile<float, 1, 64>("tile");
        tile(0, threadIdx.x) = 1.0f;
        __syncwarp();
        const float x = tile(0, threadIdx.x ^ 1);
        (void)x;
    });
    const std::vector<TracedMoment>& moments = launch.blocks[0].moments;
    ASSERT_EQ(moments.size(), 2u);
    EXPECT_TRUE(moments[0].warp_barrier);
    EXPECT_EQ(box(moments[0].accesses.at(0)), (std::vector<std::int64_t>{0, 0, 0, 63}));
    EXPECT_EQ(box(moments[1].accesses.at(0)), (std::vector<std::int64_t>{0, 0, 0, 63}));
}

TEST(Trace, AValueShownAgainBeginsTheMomentThatLedToIt) {
    std::vector<float> in(3 * 32, 1.0f);
    const auto x = view<const float, 2>("x", in, {3, 32});
    const LaunchTrace launch = trace_of({.block = 32}, [=] {
        float sum = 0;
        for (int j = 0; j < 3; ++j) {
            sum += float(x(j, threadIdx.x));
            watch("score", j, threadIdx.x, 10.0f * float(j));
            watch("sum", 0, threadIdx.x, sum);
        }
    });
    const std::vector<TracedMoment>& moments = launch.blocks[0].moments;
    ASSERT_EQ(moments.size(), 3u);
    for (std::size_t j = 0; j < 3; ++j) {
        const auto row = std::int64_t(j);
        EXPECT_EQ(box(moments[j].accesses.at(0)), (std::vector<std::int64_t>{row, row, 0, 31}));
        ASSERT_EQ(moments[j].values.size(), 2u);
        EXPECT_EQ(moments[j].values[0].name, "score");
        EXPECT_EQ(moments[j].values[0].first_row, row);
        EXPECT_EQ(moments[j].values[1].values.at(31), float(j + 1));
    }
}

TEST(Trace, ValuesThatNobodyShowedAreAbsent) {
    const LaunchTrace launch = trace_of({.block = 3}, [] { watch("m", threadIdx.x * 2, 5, -INFINITY); });
    const TracedValues& v = launch.blocks[0].moments.at(0).values.at(0);
    EXPECT_EQ(v.rows, 5);
    EXPECT_EQ(v.columns, 1);
    EXPECT_EQ(v.first_column, 5);
    EXPECT_EQ(v.values, (std::vector<std::optional<float>>{-INFINITY, {}, -INFINITY, {}, -INFINITY}));
}

TEST(Trace, ValuesOfRowsFarApartTakeNoRoom) {
    const LaunchTrace launch = trace_of({.block = 2}, [] { watch("m", std::int64_t(threadIdx.x) << 40, 0, 1.0f); });
    EXPECT_EQ(launch.blocks[0].moments.at(0).values.at(0).rows, 0);
}

TEST(Trace, MomentsAddUpToTheCounters) {
    std::vector<float> in(64 * 8), out(64 * 8);
    const auto x = view<const float, 2>("x", in, {64, 8});
    const auto y = view<float, 2>("y", out, {64, 8});
    const auto kernel = [=] {
        const int row = int(blockIdx.x * 16 + threadIdx.x);
        for (int pass = 0; pass < 3; ++pass)
            for (int c = 0; c <= row % 8; ++c) y(row, c) = float(x(row, c)) + float(pass);
    };
    const LaunchLog counted;
    const TraceLog log({});
    run({.grid = 4, .block = 16}, kernel);
    const LaunchTrace& launch = log.launches().front();
    ASSERT_EQ(launch.blocks.size(), 4u);
    std::uint64_t read = 0, written = 0;
    for (const TracedBlock& block : launch.blocks) {
        EXPECT_EQ(global_bytes(block, false), block.counters.global_bytes_read());
        EXPECT_EQ(global_bytes(block, true), block.counters.global_bytes_written());
        read += global_bytes(block, false);
        written += global_bytes(block, true);
    }
    EXPECT_EQ(read, counted.records().front().counters.global_bytes_read());
    EXPECT_EQ(written, counted.records().front().counters.global_bytes_written());
    EXPECT_GT(read, 0u);
}

TEST(Trace, BlocksThatNobodyChoseAreCountedOnly) {
    std::vector<float> in(96);
    const auto x = view<const float, 1>("x", in, {96});
    const auto kernel = [=] {
        const float value = x(blockIdx.x * 32 + threadIdx.x);
        (void)value;
    };
    const LaunchTrace launch = trace_of({.grid = 3, .block = 32}, kernel, {.blocks = {1}});
    ASSERT_EQ(launch.blocks.size(), 3u);
    for (std::size_t b = 0; b < 3; ++b) {
        EXPECT_EQ(launch.blocks[b].index[0], b);
        EXPECT_EQ(launch.blocks[b].recorded, b == 1);
        EXPECT_EQ(launch.blocks[b].moments.empty(), b != 1);
        EXPECT_EQ(launch.blocks[b].counters.global_bytes_read(), 128u);
    }
}

TEST(Trace, TheBudgetEndsRecordingBetweenBlocks) {
    const auto kernel = [] { watch("m", threadIdx.x, 0, 1.0f); };
    const LaunchTrace launch = trace_of({.grid = 8, .block = 32}, kernel, {.budget_bytes = 300});
    EXPECT_FALSE(launch.blocks.front().moments.empty());
    EXPECT_TRUE(launch.blocks.back().moments.empty());
    EXPECT_EQ(launch.blocks.size(), 8u);
}

TEST(Trace, NobodyListeningNothingIsKept) {
    const auto kernel = [] { watch("m", 0, 0, 1.0f); };
    run({}, kernel);
    const LaunchLog counted;
    {
        const TraceLog log({});
        run({}, kernel);
        EXPECT_EQ(log.launches().size(), 1u);
    }
    EXPECT_EQ(TraceLog::active(), nullptr);
    run({}, kernel);
}

const TracedMoment* faulty_moment(const LaunchTrace& launch) {
    const TracedMoment* found = nullptr;
    for (const TracedBlock& block : launch.blocks)
        for (const TracedMoment& moment : block.moments)
            if (moment.fault) {
                EXPECT_EQ(found, nullptr) << "one moment is to be marked";
                found = &moment;
            }
    return found;
}

TEST(Trace, ARaceIsMarkedWhereTheFailingThreadWas) {
    const LaunchLog counted;
    const TraceLog log({});
    const auto error = fault_of({.block = 64, .shared_bytes = 512}, [] {
        SharedArena arena;
        const auto a = arena.tile<float, 1, 64>("a"), b = arena.tile<float, 1, 64>("b");
        a(0, threadIdx.x) = 1.0f;
        __syncthreads();
        b(0, threadIdx.x) = 2.0f;
        const float x = b(0, 63 - threadIdx.x);  // no barrier
        (void)x;
    });
    ASSERT_TRUE(error);
    const LaunchTrace& launch = log.launches().front();
    const TracedMoment* moment = faulty_moment(launch);
    ASSERT_NE(moment, nullptr);
    ASSERT_EQ(moment->accesses.size(), 1u);
    EXPECT_FALSE(moment->accesses[0].write);
    EXPECT_EQ(launch.tiles.at(std::size_t(moment->accesses[0].object)).name, "b");
    EXPECT_EQ(moment->accesses[0].site, error->report().first.site);
}

TEST(Trace, WhatOtherThreadsDidAfterwardsIsNotMarked) {
    const LaunchLog counted;
    const TraceLog log({});
    const auto error = fault_of({.block = 64, .shared_bytes = 512}, [] {
        SharedArena arena;
        const auto a = arena.tile<float, 1, 64>("a"), b = arena.tile<float, 1, 64>("b");
        a(0, threadIdx.x) = 1.0f;
        const float x = a(0, threadIdx.x % 32);  // no barrier: the second warp reads what the first one wrote
        b(0, threadIdx.x) = x;
        const float y = b(0, threadIdx.x);
        (void)y;
    });
    ASSERT_TRUE(error);
    const std::vector<TracedMoment>& moments = log.launches().front().blocks.at(0).moments;
    const TracedMoment* moment = faulty_moment(log.launches().front());
    ASSERT_NE(moment, nullptr);
    EXPECT_EQ(moment->accesses.at(0).site, error->report().first.site);
    EXPECT_NE(moment, &moments.back());
}

TEST(Trace, AFaultBeforeAnyAccessIsMarkedToo) {
    const LaunchLog counted;
    const TraceLog log({});
    const auto error = fault_of({.block = 64, .shared_bytes = 256}, [] {
        SharedArena arena;
        const auto tile = arena.tile<float, 4, 4>("tile");
        tile(0, 4) = 1.0f;
    });
    ASSERT_TRUE(error);
    EXPECT_NE(faulty_moment(log.launches().front()), nullptr);
}

TEST(Trace, ADivergedBarrierIsMarked) {
    const LaunchLog counted;
    const TraceLog log({});
    const auto error = fault_of({.block = 64, .shared_bytes = 256}, [] {
        SharedArena arena;
        const auto tile = arena.tile<float, 1, 64>("tile");
        tile(0, threadIdx.x) = 1.0f;
        if (threadIdx.x < 32) __syncthreads();
    });
    ASSERT_TRUE(error);
    EXPECT_NE(faulty_moment(log.launches().front()), nullptr);
}

TEST(Trace, ARaceBetweenBlocksIsMarkedInTheLaterOne) {
    std::vector<float> out(8);
    const auto y = view<float, 1>("y", out, {8});
    const LaunchLog counted;
    const TraceLog log({});
    const auto error = fault_of({.grid = 3, .block = 1}, [=] {
        y(3 + blockIdx.x) = 1.0f;
        y(blockIdx.x == 1 ? 7 : blockIdx.x / 2) = 2.0f;  // blocks 0 and 2: elements 0 and 1
        if (blockIdx.x == 2) y(3) = 3.0f;                // block 0's
    });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->report().fault, Fault::global_race);
    const TracedMoment* moment = faulty_moment(log.launches().front());
    ASSERT_NE(moment, nullptr);
    const auto& sites = moment->accesses;
    EXPECT_NE(std::ranges::find(sites, error->report().first.site, &TracedAccess::site), sites.end());
    EXPECT_TRUE(log.launches().front().blocks.at(2).moments.back().fault);
}

TEST(Trace, BlocksBeforeTheWrongOneAreKept) {
    std::vector<float> out(4);
    const auto y = view<float, 1>("y", out, {4});
    const LaunchLog counted;
    const TraceLog log({});
    const auto error = fault_of({.grid = 4, .block = 1}, [=] { y(blockIdx.x == 2 ? 4 : blockIdx.x) = 1.0f; });
    ASSERT_TRUE(error);
    ASSERT_EQ(log.launches().front().blocks.size(), 3u);
    EXPECT_TRUE(log.launches().front().blocks[2].moments.at(0).fault);
    EXPECT_EQ(global_bytes(log.launches().front().blocks[1], true), 4u);
}

}  // namespace
}  // namespace simt
