// Atomic accesses of 64 bits: what the CPU machine lets pass, and what it says of wrong ones.

#include <gtest/gtest.h>

#include "tests/simt/global_memory.h"

namespace simt::testing {
namespace {

using Wide = unsigned long long;

constexpr Wide kHigh = Wide{1} << 32;
constexpr BlockIndex kFirst{0, 0, 0}, kSecond{1, 0, 0};

struct Memory {
    mutable Buffer<Wide> counts{"n", {4}};
    mutable Buffer<float> data_buffer{"data", {64}};
    GlobalTensor<Wide, 1> n = counts.view<1>();
    GlobalTensor<float, 1> data = data_buffer.view<1>();
};

/// The same bytes as two numbers of 32 bits each.
GlobalTensor<unsigned, 1> halves_of(const Memory& m) {
    return global_tensor<unsigned, 1>(
        {.name = "halves", .data = m.counts.base, .rank = 1, .extents = {8}, .strides = {1}});
}

TEST(WideAtomics, CarryBeyond32Bits) {
    const Memory m;
    m.counts.base[0] = 0xffffffffu;
    m.counts.base[1] = 5;
    m.counts.base[2] = ~Wide{0};
    Wide old = 0;
    expect_clean({.grid = 3, .block = 64}, [&old, n = m.n] {
        atomic_add(n(0), 1);
        atomic_max(n(1), kHigh + threadIdx.x);
        atomic_min(n(2), kHigh + threadIdx.x);
        if (is_thread(0, 0)) old = atomic_exchange(n(3), 3 * kHigh);
    });
    EXPECT_EQ(m.counts.base[0], 0xffffffffu + Wide{192});
    EXPECT_EQ(m.counts.base[1], kHigh + 63);
    EXPECT_EQ(m.counts.base[2], kHigh);
    EXPECT_EQ(m.counts.base[3], 3 * kHigh);
    EXPECT_EQ(old, 0u);
}

TEST(WideAtomics, AnExchangeComparesAllBits) {
    const Memory m;
    m.counts.base[0] = m.counts.base[1] = kHigh;
    Wide found[2]{};
    expect_clean({.block = 1}, [&found, n = m.n] {
        found[0] = atomic_compare_exchange(n(0), 0, 7);  // the lower half is equal
        found[1] = atomic_compare_exchange<Order::acq_rel>(n(1), kHigh, 7);
    });
    EXPECT_EQ(found[0], kHigh);
    EXPECT_EQ(found[1], kHigh);
    EXPECT_EQ(m.counts.base[0], kHigh);
    EXPECT_EQ(m.counts.base[1], 7u);
}

TEST(WideAtomics, InSharedMemory) {
    const Memory m;
    expect_clean({.block = 96, .shared_bytes = 32}, [n = m.n] {
        const auto sums = SharedArena().tile<Wide, 1, 4>("sums");
        if (threadIdx.x < 4) sums(0, threadIdx.x) = threadIdx.x == 2 ? ~Wide{0} : 0;
        __syncthreads();
        atomic_add(sums(0, 0), kHigh + 1);
        atomic_max(sums(0, 1), kHigh * threadIdx.x);
        atomic_min(sums(0, 2), kHigh * (5 + threadIdx.x));
        __syncthreads();
        if (threadIdx.x < 4) n(threadIdx.x) = Wide(sums(0, threadIdx.x));
    });
    EXPECT_EQ(m.counts.base[0], 96 * (kHigh + 1));
    EXPECT_EQ(m.counts.base[1], 95 * kHigh);
    EXPECT_EQ(m.counts.base[2], 5 * kHigh);
}

/// Only the upper half of the flag changes, which who waits for it must see.
TEST(WideAtomics, HandOverByTheUpperHalf) {
    const Memory m;
    const Workers one(1);
    expect_clean({.grid = 2, .block = 1}, [data = m.data, n = m.n] {
        for (int turn = 0; turn < 100; ++turn) {
            if (int(blockIdx.x) == turn % 2) {
                while (load_acquire(n(0)) != kHigh * unsigned(turn)) {
                }
                data(0) = data(0) + 1.0f;
                store_release(n(0), kHigh * unsigned(turn + 1));
            }
        }
    });
    EXPECT_EQ(m.data_buffer.base[0], 100.0f);
}

TEST(WideAtomics, OneFlagForEachHalfOfABarrierIsFine) {
    const Memory m;
    expect_clean({.block = 64}, [n = m.n, halves = halves_of(m)] {
        if (threadIdx.x < 32) atomic_add(n(0), 1);
        __syncthreads();  // the other width is another kind of access
        atomic_add(halves(threadIdx.x % 2), 1u);
        __syncthreads();
        atomic_add(n(0), 1);
    });
    EXPECT_EQ(m.counts.base[0], 32 + 32 + 64 + 32 * kHigh);
}

// --- wrong ----------------------------------------------------------------------------------------------------------

TEST(WideAtomics, HalfOfAnElementByAnotherThread) {
    const Memory m;
    expect_fault({.block = 64},
                 [n = m.n, halves = halves_of(m)] {
                     if (threadIdx.x == 0) atomic_add(n(1), 1);         // @wide
                     if (threadIdx.x == 32) atomic_add(halves(3), 1u);  // @half
                 },
                 {.fault = Fault::global_race,
                  .first = {32, "half"},
                  .second = {0, "wide"},
                  .says = {"thread 32 writes the 4 bytes of halves(3) atomically, of which thread 0 wrote 8 atomically",
                           "only if they are of the same bytes"}});
}

TEST(WideAtomics, HalfOfAnElementInSharedMemory) {
    expect_fault({.block = 64, .shared_bytes = 64},
                 [] {
                     const auto sums = SharedArena().tile<Wide, 1, 4>("sums");
                     const SharedTile<unsigned, 1, 8> halves(
                         reinterpret_cast<unsigned*>(Block::current().shared.data()), "sums");
                     if (threadIdx.x == 0) sums(0, 1) = 0;
                     __syncthreads();
                     if (threadIdx.x == 32) atomic_add(halves(0, 3), 1u);  // @shared half
                     if (threadIdx.x == 0) atomic_add(sums(0, 1), 1);      // @shared wide
                 },
                 {.fault = Fault::race,
                  .first = {0, "shared wide"},
                  .second = {32, "shared half"},
                  .says = {"the 8 bytes of sums(0, 1) atomically, of which thread 32 wrote 4 atomically"}});
}

TEST(WideAtomics, ReadPlainlyWhereOthersCount) {
    expect_fault({.block = 64, .shared_bytes = 64},
                 [] {
                     const auto sums = SharedArena().tile<Wide, 1, 4>("sums");
                     if (threadIdx.x < 4) sums(0, threadIdx.x) = 0;
                     __syncthreads();
                     if (threadIdx.x == 40) atomic_add(sums(0, 1), kHigh);        // @counted
                     const Wide early = threadIdx.x == 0 ? Wide(sums(0, 1)) : 0;  // @read early
                     EXPECT_LE(early, kHigh);
                 },
                 {.fault = Fault::race,
                  .first = {0, "read early"},
                  .second = {40, "counted"},
                  .says = {"thread 0 reads sums(0, 1), which thread 40 wrote atomically"}});
}

TEST(WideAtomics, ReleaseNothingUnlessAsked) {
    const Memory m;
    expect_fault({.grid = 2, .block = 1},
                 [data = m.data, n = m.n] {
                     if (blockIdx.x == 0) {
                         data(0) = 1.0f;  // @written
                         atomic_exchange(n(0), kHigh);
                     } else {
                         while (atomic_add<Order::acquire>(n(0), 0) != kHigh) {
                         }
                         const float x = data(0);  // @read
                         EXPECT_EQ(x, 1.0f);
                     }
                 },
                 {.fault = Fault::global_race,
                  .block = kSecond,
                  .first = {0, "read", kSecond},
                  .second = {0, "written", kFirst},
                  .says = {"the write of n(0)", "releases nothing"}});
}

}  // namespace
}  // namespace simt::testing
