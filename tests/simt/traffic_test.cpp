// What the CPU machine counts: bytes, sectors, wavefronts, barriers, held against numbers worked out by hand.

#include <gtest/gtest.h>

#include "tests/simt/counted.h"

namespace simt::testing {
namespace {

/// Sectors that one warp touches when lane n reads element index(n) of a float tensor.
template <class Index>
std::uint64_t sectors_read_at(Index index, std::ptrdiff_t shift = 0) {
    Buffer<float> buffer("x", {4096});
    const auto x = buffer.view<1>(shift);
    const Counters counters = count({}, [=] {
        const float value = x(index(int(threadIdx.x)));
        (void)value;
    });
    EXPECT_EQ(traffic_of(counters, "x").bytes_read, 32u * 4);
    EXPECT_EQ(traffic_of(counters, "x").bytes_written, 0u);
    return traffic_of(counters, "x").sectors_read;
}

TEST(Sectors, OfAtomicUpdatesThatMeet) {
    // Measured on an H200: 32 sectors for a warp that adds floats to one element, or exchanges it; one where nvcc lets
    // one lane add up integers for all.
    const auto sectors = [](auto update) {
        Buffer<float> floats("floats", {64});
        Buffer<int> ints("ints", {64});
        const auto f = floats.view<1>();
        const auto i = ints.view<1>();
        const Counters counters = count({}, [=] { update(f, i, int(threadIdx.x)); });
        return traffic_of(counters, "floats").sectors_written + traffic_of(counters, "ints").sectors_written;
    };
    EXPECT_EQ(sectors([](const auto& f, const auto&, int) { atomic_add(f(3), 1.0f); }), 32u);
    EXPECT_EQ(sectors([](const auto&, const auto& i, int) { atomic_add(i(3), 1); }), 1u);
    EXPECT_EQ(sectors([](const auto&, const auto& i, int lane) { atomic_max(i(3), lane); }), 1u);
    EXPECT_EQ(sectors([](const auto&, const auto& i, int lane) { atomic_exchange(i(3), lane); }), 32u);
    EXPECT_EQ(sectors([](const auto& f, const auto&, int lane) { atomic_add(f(lane), 1.0f); }), 4u);
    EXPECT_EQ(sectors([](const auto&, const auto& i, int lane) { atomic_add(i(lane), 1); }), 4u);
    EXPECT_EQ(sectors([](const auto& f, const auto&, int lane) { atomic_add(f(lane / 2), 1.0f); }), 2u * 2);
    EXPECT_EQ(sectors([](const auto&, const auto& i, int) { store_relaxed(i(3), 1); }), 1u) << "no update";
}

TEST(Sectors, CoalescedStridedBroadcast) {
    EXPECT_EQ(sectors_read_at([](int lane) { return lane; }), 4u);       // 128 bytes
    EXPECT_EQ(sectors_read_at([](int lane) { return 31 - lane; }), 4u);  // order does not matter
    EXPECT_EQ(sectors_read_at([](int lane) { return 2 * lane; }), 8u);
    EXPECT_EQ(sectors_read_at([](int lane) { return 8 * lane; }), 32u);  // a sector for each
    EXPECT_EQ(sectors_read_at([](int lane) { return 100 * lane; }), 32u);
    EXPECT_EQ(sectors_read_at([](int) { return 77; }), 1u);  // broadcast
    EXPECT_EQ(sectors_read_at([](int lane) { return lane / 8 * 64; }), 4u);
    EXPECT_EQ(sectors_read_at([](int lane) { return lane; }, 1), 5u);  // misaligned by one element
    EXPECT_EQ(sectors_read_at([](int lane) { return lane; }, 8), 4u);  // by a whole sector
}

struct Coalescing {
    std::uint64_t sectors, ideal, requests;
    friend bool operator==(const Coalescing&, const Coalescing&) = default;
    friend std::ostream& operator<<(std::ostream& out, const Coalescing& c) {
        return out << c.sectors << " sectors, ideally " << c.ideal << ", in " << c.requests << " requests";
    }
};

template <class V, class Index>
Coalescing coalescing(Index index, std::ptrdiff_t shift = 0) {
    Buffer<float> buffer("c", {32, 64});
    const auto c = buffer.view<2>(shift);
    const Counters counters = count({}, [=] {
        const auto [row, column] = index(int(threadIdx.x));
        const V value = c.template vec<V>(row, column);
        (void)value;
    });
    const TensorTraffic t = traffic_of(counters, "c");
    return {t.sectors_read, t.sectors_read_ideal, t.requests_read};
}

TEST(Sectors, AtBestWhatTheDistinctBytesFill) {
    using Place = std::pair<int, int>;
    EXPECT_EQ((coalescing<float>([](int n) { return Place(0, n); })), (Coalescing{4, 4, 1}));
    EXPECT_EQ((coalescing<float>([](int n) { return Place(0, n); }, 1)), (Coalescing{5, 4, 1})) << "misaligned";
    EXPECT_EQ((coalescing<float>([](int n) { return Place(0, 2 * n); })), (Coalescing{8, 4, 1})) << "half is waste";
    EXPECT_EQ((coalescing<float>([](int n) { return Place(n, 0); })), (Coalescing{32, 4, 1})) << "a column";
    EXPECT_EQ((coalescing<float>([](int) { return Place(3, 5); })), (Coalescing{1, 1, 1})) << "one word for all";
    EXPECT_EQ((coalescing<float>([](int n) { return Place(0, n / 8 * 8); })), (Coalescing{4, 1, 1}))
        << "16 bytes of 128";
    EXPECT_EQ((coalescing<float4>([](int n) { return Place(n / 16, n % 16 * 4); })), (Coalescing{16, 16, 1}));
    EXPECT_EQ((coalescing<float4>([](int n) { return Place(n, 0); })), (Coalescing{32, 16, 1}));
    EXPECT_EQ((coalescing<float2>([](int n) { return Place(0, 63 - 2 * n - 1); })), (Coalescing{8, 8, 1}));
}

TEST(Sectors, WritesHaveTheirOwnIdeal) {
    Buffer<float> buffer("w", {64, 8});
    const auto w = buffer.view<2>();
    const TensorTraffic t = traffic_of(count({.block = 64}, [=] { w(threadIdx.x, 0) = 1.0f; }), "w");
    EXPECT_EQ(t.sectors_written, 2u * 32);
    EXPECT_EQ(t.sectors_written_ideal, 2u * 4);
    EXPECT_EQ(t.requests_written, 2u);
    EXPECT_EQ(t.sectors_read_ideal + t.requests_read, 0u);
}

TEST(Sectors, WritesAndSixteenBitElements) {
    Buffer<f16> buffer("y", {64, 64});
    const auto y = buffer.view<2>();
    const Counters row = count({}, [=] { y(3, threadIdx.x) = f16(1.0f); });
    EXPECT_EQ(traffic_of(row, "y").bytes_written, 64u);
    EXPECT_EQ(traffic_of(row, "y").sectors_written, 2u);
    EXPECT_EQ(traffic_of(row, "y").sectors_read, 0u);
    const Counters column = count({}, [=] { y(threadIdx.x, 3) = f16(1.0f); });
    EXPECT_EQ(traffic_of(column, "y").bytes_written, 64u);
    EXPECT_EQ(traffic_of(column, "y").sectors_written, 32u);
}

TEST(Sectors, VectorsMoveMorePerRequest) {
    Buffer<float> buffer("v", {32, 64});
    const auto v = buffer.view<2>();
    const Counters contiguous = count({}, [=] {
        const float4 x = v.vec<float4>(threadIdx.x / 16, threadIdx.x % 16 * 4);
        (void)x;
    });
    EXPECT_EQ(traffic_of(contiguous, "v").bytes_read, 32u * 16);
    EXPECT_EQ(traffic_of(contiguous, "v").sectors_read, 16u);
    const Counters rows = count({}, [=] {
        const float4 x = v.vec<float4>(threadIdx.x, 0);
        (void)x;
    });
    EXPECT_EQ(traffic_of(rows, "v").sectors_read, 32u) << "half of every sector is wasted";
}

TEST(Sectors, EachTensorHasItsOwn) {
    Buffer<float> a("a", {32}), b("b", {3, 32});
    const auto A = a.view<1>();
    const auto B = b.view<2>();
    const Counters counters = count({.grid = 3, .block = 32}, [=] {
        const float x = A(threadIdx.x);
        B(blockIdx.x, threadIdx.x) = x;
        B(blockIdx.x, threadIdx.x) += x;
    });
    EXPECT_EQ(traffic_of(counters, "a").bytes_read, 3u * 128);
    EXPECT_EQ(traffic_of(counters, "a").sectors_read, 3u * 4);
    EXPECT_EQ(traffic_of(counters, "b").bytes_written, 3u * 256);
    EXPECT_EQ(traffic_of(counters, "b").bytes_read, 3u * 128) << "+= reads as well";
    EXPECT_EQ(counters.global_bytes_read(), 3u * 256);
    EXPECT_EQ(counters.global_bytes_written(), 3u * 256);
    EXPECT_EQ(counters.tensors.size(), 2u) << "tensors that nobody touched are not listed";
}

// --- Shared memory -------------------------------------------------------------------------------------------------

struct Wavefronts {
    std::uint64_t requests, taken, ideal;
    friend bool operator==(const Wavefronts&, const Wavefronts&) = default;
    friend std::ostream& operator<<(std::ostream& out, const Wavefronts& w) {
        return out << w.requests << " requests, " << w.taken << " wavefronts, ideally " << w.ideal;
    }
};

/// One warp reads element (row(n), column(n)) of a tile whose rows lie Pitch elements apart.
template <class T, int Pitch, class V = T, class Row, class Column>
Wavefronts wavefronts(Row row, Column column) {
    const Shape shape{.block = 32, .shared_bytes = std::size_t(32) * Pitch * sizeof(T)};
    const auto kernel = [=](bool read) {
        return [=] {
            const auto tile = SharedArena().tile<T, 32, Pitch>("tile");
            for (int c = 0; c < Pitch; ++c) tile(int(threadIdx.x), c) = T(0.0f);
            __syncthreads();
            if (!read) return;
            const V value = tile.template vec<V>(row(int(threadIdx.x)), column(int(threadIdx.x)));
            (void)value;
        };
    };
    const Counters all = count(shape, kernel(true)), without = count(shape, kernel(false));
    return {all.shared_requests - without.shared_requests, all.shared_wavefronts - without.shared_wavefronts,
            all.shared_wavefronts_ideal - without.shared_wavefronts_ideal};
}

constexpr auto kLane = [](int lane) { return lane; };
constexpr auto kZero = [](int) { return 0; };

TEST(Wavefronts, ConflictFreeBroadcastAndConflicts) {
    EXPECT_EQ((wavefronts<float, 32>(kZero, kLane)), (Wavefronts{1, 1, 1}));                        // a row
    EXPECT_EQ((wavefronts<float, 32>(kZero, kZero)), (Wavefronts{1, 1, 1}));                        // one word for all
    EXPECT_EQ((wavefronts<float, 32>(kZero, [](int n) { return n % 4; })), (Wavefronts{1, 1, 1}));  // four words
    EXPECT_EQ((wavefronts<float, 64>(kZero, [](int n) { return 2 * n; })), (Wavefronts{1, 2, 1}));  // two-way
    EXPECT_EQ((wavefronts<float, 32>([](int n) { return n / 4; }, [](int n) { return n % 4; })),
              (Wavefronts{1, 8, 1}));                                          // eight rows, four banks
    EXPECT_EQ((wavefronts<float, 32>(kLane, kZero)), (Wavefronts{1, 32, 1}));  // a column
    EXPECT_EQ((wavefronts<float, 64>(kLane, kZero)), (Wavefronts{1, 32, 1}));
    EXPECT_EQ((wavefronts<float, 16>(kLane, kZero)), (Wavefronts{1, 16, 1}));
}

TEST(Wavefronts, PaddingRemovesConflicts) {
    EXPECT_EQ((wavefronts<float, 33>(kLane, kZero)), (Wavefronts{1, 1, 1}));
    EXPECT_EQ((wavefronts<float, 34>(kLane, kZero)), (Wavefronts{1, 2, 1}));
    EXPECT_EQ((wavefronts<float, 36>(kLane, kZero)), (Wavefronts{1, 4, 1}));
}

TEST(Wavefronts, SixteenBitElementsShareWords) {
    EXPECT_EQ((wavefronts<f16, 32>(kZero, kLane)), (Wavefronts{1, 1, 1}));
    EXPECT_EQ((wavefronts<f16, 64>(kLane, kZero)), (Wavefronts{1, 32, 1}));
    EXPECT_EQ((wavefronts<f16, 66>(kLane, kZero)), (Wavefronts{1, 1, 1}));
    EXPECT_EQ((wavefronts<f16, 64>([](int n) { return n / 2; }, [](int n) { return n % 2; })),
              (Wavefronts{1, 16, 1}));  // two lanes to a word
}

TEST(Wavefronts, WideAccesses) {
    // 16 bytes a lane: four passes of eight lanes.
    EXPECT_EQ((wavefronts<float, 128, float4>(kZero, [](int n) { return 4 * n; })), (Wavefronts{1, 4, 4}));
    EXPECT_EQ((wavefronts<float, 32, float4>(kLane, kZero)), (Wavefronts{1, 32, 4}));
    EXPECT_EQ((wavefronts<float, 36, float4>(kLane, kZero)), (Wavefronts{1, 4, 4})) << "16 bytes of padding";
    EXPECT_EQ((wavefronts<f16, 64, WideVector<f16>>(kLane, kZero)), (Wavefronts{1, 32, 4}));
    EXPECT_EQ((wavefronts<f16, 72, WideVector<f16>>(kLane, kZero)), (Wavefronts{1, 4, 4}));
    // 8 bytes a lane: two passes of sixteen.
    EXPECT_EQ((wavefronts<float, 64, float2>(kZero, [](int n) { return 2 * n; })), (Wavefronts{1, 2, 2}));
    EXPECT_EQ((wavefronts<float, 32, float2>(kLane, kZero)), (Wavefronts{1, 32, 2}));
    EXPECT_EQ((wavefronts<float, 34, float2>(kLane, kZero)), (Wavefronts{1, 2, 2}));
}

// Found by measurement on Turing and later, and published at
// code.hitori.moe/post/cuda-shared-memory-access-mechanism-with-vectorized-instructions.
TEST(Wavefronts, WideAccessesOfPairedLanesGoTogether) {
    // 8 bytes a lane: both halves of the warp at once.
    EXPECT_EQ((wavefronts<float, 64, float2>(kZero, [](int n) { return n / 2 * 2; })), (Wavefronts{1, 1, 1}));
    EXPECT_EQ((wavefronts<float, 64, float2>(kZero, [](int n) { return (n / 4 * 2 + n % 2) * 2; })),
              (Wavefronts{1, 1, 1}))
        << "lanes n and n ^ 2";
    EXPECT_EQ((wavefronts<float, 64, float2>(kZero, [](int n) { return n % 4 * 2 + n / 8 * 8; })),
              (Wavefronts{1, 2, 2}))
        << "lanes n and n ^ 4 do not pair up";
    EXPECT_EQ((wavefronts<float, 64, float2>([](int n) { return n / 16; }, [](int n) { return n % 16 / 2 * 2; })),
              (Wavefronts{1, 2, 1}))
        << "and then meet in the same banks";
    // 16 bytes a lane: the quarters of each half at once, the halves never.
    EXPECT_EQ((wavefronts<float, 128, float4>(kZero, [](int n) { return n / 2 * 4; })), (Wavefronts{1, 2, 2}));
    EXPECT_EQ((wavefronts<float, 128, float4>(kZero, [](int n) { return (n / 4 * 2 + n % 2) * 4; })),
              (Wavefronts{1, 2, 2}));
    EXPECT_EQ((wavefronts<float, 128, float4>(kZero, kZero)), (Wavefronts{1, 2, 2})) << "one vector for all";
    EXPECT_EQ((wavefronts<float, 36, float4>([](int n) { return n / 8; }, kZero)), (Wavefronts{1, 2, 2}))
        << "eight lanes to a row, as attention reads Q_i";
    EXPECT_EQ((wavefronts<float, 32, float4>([](int n) { return n / 8; }, kZero)), (Wavefronts{1, 4, 2}))
        << "unpadded rows in the same banks";
    // Half of the warp pairs up one way, half the other: that is neither.
    EXPECT_EQ(
        (wavefronts<float, 128, float4>(kZero, [](int n) { return n < 16 ? n / 2 * 4 : (n / 4 * 2 + n % 2) * 4; })),
        (Wavefronts{1, 4, 4}));
}

TEST(Wavefronts, LanesThatTakeNoPartPairWithAny) {
    const auto kernel = [](unsigned lanes) {
        return [=] {
            const auto tile = SharedArena().tile<float, 1, 128>("tile");
            if (lanes >> threadIdx.x & 1) tile.vec<float4>(0, int(threadIdx.x) * 4) = float4{};
        };
    };
    EXPECT_EQ(count({.shared_bytes = 512}, kernel(0x55555555u)).shared_wavefronts, 4u) << "2 for each half: 2-way";
    EXPECT_EQ(count({.shared_bytes = 512}, kernel(0x55555555u)).shared_wavefronts_ideal, 2u);
    EXPECT_EQ(count({.shared_bytes = 512}, kernel(0x00000055u)).shared_wavefronts, 1u);
}

TEST(Wavefronts, NoInstructionIsWiderThanSixteenBytes) {
    using Eight = Vector<float, 8>;
    EXPECT_EQ((wavefronts<float, 256, Eight>(kZero, [](int n) { return 8 * n; })), (Wavefronts{1, 16, 8}));
}

TEST(Wavefronts, ReadsAndWritesApart) {
    const Counters counters = count({.shared_bytes = 4096}, [] {
        const auto tile = SharedArena().tile<float, 32, 32>("tile");
        tile(int(threadIdx.x), 0) = 1.0f;  // 32 passes
        const float x = tile(int(threadIdx.x), 0);
        tile(0, int(threadIdx.x)) = x;  // one
    });
    EXPECT_EQ(counters.shared_requests, 3u);
    EXPECT_EQ(counters.shared_wavefronts, 32u + 32 + 1);
    EXPECT_EQ(counters.shared_read_requests, 1u);
    EXPECT_EQ(counters.shared_read_wavefronts, 32u);
}

TEST(Wavefronts, InactiveLanesTakeNoPass) {
    const auto kernel = [](unsigned lanes) {
        return [=] {
            const auto tile = SharedArena().tile<float, 1, 128>("tile");
            if (lanes >> threadIdx.x & 1) tile.vec<float4>(0, int(threadIdx.x) * 4) = float4{};
        };
    };
    EXPECT_EQ(count({.shared_bytes = 512}, kernel(0xffffffffu)).shared_wavefronts, 4u);
    EXPECT_EQ(count({.shared_bytes = 512}, kernel(0x0000ffffu)).shared_wavefronts, 2u);
    EXPECT_EQ(count({.shared_bytes = 512}, kernel(0x80000001u)).shared_wavefronts, 2u);
    EXPECT_EQ(count({.shared_bytes = 512}, kernel(0)).shared_requests, 0u);
}

TEST(SharedBytes, AreCountedAsAsked) {
    const Counters counters = count({.block = 64, .shared_bytes = 1024}, [] {
        const auto tile = SharedArena().tile<float, 64, 4>("tile");
        const int thread = int(threadIdx.x);
        tile.vec<float4>(thread, 0) = float4{};
        tile(thread, 1) += 1.0f;
        const float2 x = tile.vec<float2>(thread, 2);
        (void)x;
    });
    EXPECT_EQ(counters.shared_bytes_written, 64u * (16 + 4));
    EXPECT_EQ(counters.shared_bytes_read, 64u * (4 + 8));
    EXPECT_EQ(counters.shared_requests, 2u * 4);
}

// --- Synchronisation -----------------------------------------------------------------------------------------------

TEST(Synchronisation, BarriersPerBlockAndCollectivesPerWarp) {
    const Counters counters = count({.grid = dim3(3, 2), .block = 80}, [] {
        for (int i = 0; i < 4; ++i) __syncthreads();
        __syncwarp();
        __shfl_xor_sync(0xffffffffu, 1, 1);
        if (threadIdx.x % 32 < 16)
            __ballot_sync(0x0000ffffu, 1);
        else
            __ballot_sync(0xffff0000u, 1);
    });
    EXPECT_EQ(counters.block_barriers, 6u * 4);
    // Three warps; the third has 16 lanes and no upper half.
    EXPECT_EQ(counters.warp_collectives, 6u * (3 * 2 + 2 + 2 + 1));
}

TEST(Counting, IsOffUntilSomeoneListens) {
    Buffer<float> buffer("heard", {32});
    const auto x = buffer.view<1>();
    const auto kernel = [=] { x(threadIdx.x) = 1.0f; };
    run({}, kernel);
    EXPECT_TRUE(last_launch_counters().tensors.empty()) << "counting costs time";
    const Counters counters = count({}, kernel);
    EXPECT_EQ(traffic_of(counters, "heard").bytes_written, 128u) << "what was counted before is not in it";
    EXPECT_EQ(traffic_of(counters, "heard").sectors_written, 4u);
}

TEST(Counting, BytesAloneWhereRequestsAreNotWanted) {
    Buffer<float> buffer("bytes_alone", {32});
    const auto x = buffer.view<1>();
    const LaunchLog log(LaunchLog::Detail::bytes);
    run({}, [=] { x(threadIdx.x) = 1.0f; });
    EXPECT_EQ(traffic_of(log.total(), "bytes_alone").bytes_written, 128u);
    EXPECT_EQ(traffic_of(log.total(), "bytes_alone").requests_written, 0u);
}

TEST(Counting, AFailedLaunchLeavesNothingBehind) {
    Buffer<float> buffer("lost", {32});
    const auto x = buffer.view<1>();
    const LaunchLog log;
    EXPECT_TRUE(fault_of({}, [=] {
        x(threadIdx.x) = 1.0f;
        __syncwarp(1u);
    }));
    run({}, [=] { x(threadIdx.x) = 1.0f; });
    EXPECT_EQ(traffic_of(log.total(), "lost").bytes_written, 128u);
    EXPECT_EQ(traffic_of(log.total(), "lost").sectors_written, 4u);
    EXPECT_EQ(log.total().warp_collectives, 0u);
}

TEST(Counting, LongLoopsWithoutABarrier) {
    Buffer<float> buffer("long", {1 << 16});
    const auto x = buffer.view<1>();
    const Counters counters = count({.block = 64}, [=] {
        float sum = 0;
        for (std::int64_t i = threadIdx.x; i < x.extent(0); i += blockDim.x) sum += float(x(i));
        (void)sum;
    });
    EXPECT_EQ(traffic_of(counters, "long").bytes_read, std::uint64_t{4} << 16);
    EXPECT_EQ(traffic_of(counters, "long").sectors_read, (std::uint64_t{4} << 16) / 32);
}

}  // namespace
}  // namespace simt::testing
