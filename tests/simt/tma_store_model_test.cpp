// What the CPU machine says about wrong stores and additions by TMA, and what it leaves alone.

#include <gtest/gtest.h>

#include "tests/simt/tma_kernels.h"

namespace simt::testing {
namespace {

using TmaStores = TmaModel;
using TmaAdditions = TmaModel;

// --- stores ---------------------------------------------------------------------------------------------------------

enum class StoreSlip {
    none,
    not_shown,
    shown_too_early,
    no_barrier,
    unwritten,
    no_wait_before_reuse,
    waits_for_too_little,
    never_waits,
    never_commits,
    one_row_is_missing,
};

/// All fill a tile, thread 0 stores it to O; twice, through one buffer.
auto fill_and_store(StoreSlip slip, TensorMap<float, 2> map) {
    return [=] {
        const Tiles t;
        const int thread = int(threadIdx.x);
        for (int j = 0; j < 2; ++j) {
            if (slip == StoreSlip::shown_too_early) show_to_async();
            for (int r = thread / 32; r < R; r += 2)
                if (r != 5 || slip != StoreSlip::one_row_is_missing)
                    t.all(r, thread % 32) = float(1000 * j + 100 * r + thread % 32);  // @fill
            if (slip != StoreSlip::not_shown && slip != StoreSlip::shown_too_early) show_to_async();
            if (slip != StoreSlip::no_barrier) __syncthreads();
            if (is_thread(0)) {
                tma_store(map, {R * j, 0}, t.tile(0));  // @store
                if (slip != StoreSlip::never_commits) commit_stores();
                if (slip == StoreSlip::waits_for_too_little && j == 0) wait_stores_read<1>();
                const bool waits = slip != StoreSlip::no_wait_before_reuse && slip != StoreSlip::waits_for_too_little &&
                                   slip != StoreSlip::never_waits;
                if (waits && j == 0) wait_stores_read<0>();
                if (j == 1 && slip != StoreSlip::never_waits) wait_stores_read<0>();
            }
            __syncthreads();
            if (slip == StoreSlip::never_waits || slip == StoreSlip::never_commits) return;
        }
    };
}

void expect_of_stores(StoreSlip slip, const Expected& expected) {
    Numbers O("O");
    expect_fault(kTwoWarps, fill_and_store(slip, O.map<float>()), expected);
}

TEST_F(TmaStores, Arrive) {
    Numbers O("O");
    const auto error = fault_of(kTwoWarps, fill_and_store(StoreSlip::none, O.map<float>()));
    ASSERT_FALSE(error) << error->what();
    for (int r = 0; r < 2 * R; ++r)
        for (int c = 0; c < C; ++c) EXPECT_EQ(O.base[r * C + c], 1000 * (r / R) + 100 * (r % R) + c);
    EXPECT_EQ(O.base[2 * R * C], 100 * 2 * R);
}

TEST_F(TmaStores, OfWhatWasNotShown) {
    for (const StoreSlip slip : {StoreSlip::not_shown, StoreSlip::shown_too_early})
        expect_of_stores(slip, {.fault = Fault::unseen_by_agent,
                                .first = {0, "store"},
                                .second = {0, "fill"},
                                .says = {"reads K_j(0, 0)", "stored in the ordinary way", "show_to_async()"}});
}

TEST_F(TmaStores, WithoutABarrierBefore) {
    Numbers O("O");
    expect_of_stores(StoreSlip::no_barrier,
                     {.fault = Fault::uninitialised_read,  // the others have not even come so far
                      .first = {0, "store"},
                      .says = {"thread 0 reads K_j("}});
    const auto map = O.map<float>();
    expect_fault(kTwoWarps,
                 [=] {
                     const Tiles t;
                     const int thread = int(threadIdx.x);
                     for (int r = thread / 32; r < R; r += 2) t.all(r, thread % 32) = 1.0f;  // @unordered fill
                     show_to_async();
                     if (is_thread(63)) tma_store(map, {0, 0}, t.tile(0));  // @unordered store
                 },
                 {.fault = Fault::race,
                  .first = {63, "unordered store"},
                  .second = {0, "unordered fill"},
                  .says = {"thread 63 reads K_j(0, 0), which thread 0 wrote", "no barrier lies between"}});
}

TEST_F(TmaStores, OfATileWithAHole) {
    expect_of_stores(StoreSlip::one_row_is_missing, {.fault = Fault::uninitialised_read,
                                                     .first = {0, "store"},
                                                     .says = {"thread 0 reads K_j(5, 0), which nobody has written"}});
}

TEST_F(TmaStores, BufferReusedTooEarly) {
    for (const StoreSlip slip : {StoreSlip::no_wait_before_reuse, StoreSlip::waits_for_too_little})
        expect_of_stores(slip, {.fault = Fault::race,
                                .first = {31, "fill"},
                                .says = {"thread 31 writes K_j(0, 31), which a bulk store of thread 0 may still read",
                                         "set off at " + place("store")}});
}

TEST_F(TmaStores, NeverWaitedFor) {
    expect_of_stores(StoreSlip::never_waits, {.fault = Fault::copy_not_awaited,
                                              .first = {0, "store"},
                                              .says = {"thread 0 returns while 1 of its bulk stores",
                                                       "tma_store of O from K_j(0, 0)", "wait_stores_read<0>()"}});
    expect_of_stores(StoreSlip::never_commits, {.fault = Fault::copy_not_awaited,
                                                .first = {0, "store"},
                                                .says = {"never committed to a group", "commit_stores()"}});
}

/// Thread 0 stores a tile of ones to rows 0 … 15 of O, and then does something.
template <class Then>
auto store_and(TensorMap<float, 2> map, Then then) {
    return [=] {
        const Tiles t;
        const int thread = int(threadIdx.x);
        for (int r = thread / 32; r < R; r += 2) t.all(r, thread % 32) = 1.0f;
        show_to_async();
        __syncthreads();
        if (is_thread(0)) {
            tma_store(map, {0, 0}, t.tile(0));  // @first store
            commit_stores();
        }
        then(t);
        __syncthreads();
        if (is_thread(0)) wait_stores<0>();  // @last wait
    };
}

TEST_F(TmaStores, ReadInGlobalMemoryTooEarly) {
    Numbers O("O");
    const auto map = O.map<float>();
    const auto view = O.view<2>();
    const auto read_after = [=](bool all_of_it) {
        return store_and(map, [=](const Tiles&) {
            if (is_thread(0)) {
                if (all_of_it)
                    wait_stores<0>();
                else
                    wait_stores_read<0>();
            }
            __syncthreads();
            float x = 0;
            if (is_thread(33)) x = view(4, 9);  // @read of the target
            (void)x;
        });
    };
    expect_clean(kTwoWarps, read_after(true));
    expect_fault(
        kTwoWarps, read_after(false),
        {.fault = Fault::global_race,
         .first = {33, "read of the target"},
         .second = {0, "first store"},
         .says = {"thread 33 reads O(4, 9), which a bulk store of thread 0 is still writing", "wait_stores<N>()"}});
}

TEST_F(TmaStores, ThatMeetUnderWay) {
    Numbers O("O");
    const auto map = O.map<float>();
    expect_fault(kTwoWarps,
                 store_and(map,
                           [=](const Tiles& t) {
                               if (!is_thread(0)) return;
                               tma_store(map, {8, 0}, t.tile(0));  // @second store
                           }),
                 {.fault = Fault::global_race,
                  .first = {0, "second store"},
                  .second = {0, "first store"},
                  .says = {"thread 0 writes O(8, 0), which a bulk store of thread 0 is still writing"}});
}

TEST_F(TmaStores, AtTheEdges) {
    Numbers O("O");
    Buffer<float> N("N", {40, 28});
    TensorArgument narrow = N.argument<2>();
    narrow.extents[1] = 25;  // of rows that lie 28 apart
    const auto map = O.map<float>();
    const auto ragged = tensor_map<float, 2>(narrow, {R, C}, Swizzle::b128);
    expect_fault(kTwoWarps,
                 store_and(map,
                           [=](const Tiles& t) {
                               if (!is_thread(0)) return;
                               tma_store(map, {-8, 0}, t.tile(0));  // @before the tensor
                           }),
                 {.fault = Fault::out_of_bounds,
                  .first = {0, "before the tensor"},
                  .says = {"begins before the tensor: at -8 in dimension 0", "loads may begin before"}});
    expect_fault(kTwoWarps,
                 store_and(map,
                           [=](const Tiles& t) {
                               if (!is_thread(0)) return;
                               tma_add(ragged, {0, 0}, t.tile(0));  // @beyond the row
                           }),
                 {.fault = Fault::out_of_bounds,
                  .first = {0, "beyond the row"},
                  .says = {"tma_add of N", "rows of 25 elements, which end 4 bytes after a multiple of 16",
                           "the next 3 elements"}});
}

TEST_F(TmaStores, FromTwoBlocksToOnePlace) {
    Numbers O("O");
    const Shape blocks{.grid = 2, .block = 64, .shared_bytes = kTwoWarps.shared_bytes};
    expect_fault(blocks, store_and(O.map<float>(), [](const Tiles&) {}),
                 {.fault = Fault::global_race,
                  .block = {1, 0, 0},
                  .first = {0, "last wait", BlockIndex{1, 0, 0}},
                  .second = {0, "last wait", BlockIndex{0, 0, 0}},
                  .says = {"block (1, 0, 0) writes O(0, 0), which block (0, 0, 0) writes"}});
}

// --- additions ------------------------------------------------------------------------------------------------------

/// Every block adds a tile of its own values to rows 0 … 15, twice at once; then something may follow.
template <class Then>
auto add_and(TensorMap<float, 2> map, Then then) {
    return [=] {
        const Tiles t;
        const int thread = int(threadIdx.x);
        for (int r = thread / 32; r < R; r += 2)
            t.all(r, thread % 32) = 1.0f / float(3 * r + thread % 32 + 7 * int(blockIdx.x) + 1);
        show_to_async();
        __syncthreads();
        if (is_thread(0)) {
            tma_add(map, {0, 0}, t.tile(0));  // @addition
            tma_add(map, {8, 0}, t.tile(0));
            commit_stores();
            wait_stores<0>();  // @wait for a sum
        }
        then();
    };
}
constexpr auto kNothing = [] {};

/// All threads fill tile 0, and show it to who adds it.
Tiles tile_of_ones() {
    const Tiles t;
    const int thread = int(threadIdx.x);
    for (int r = thread / 32; r < R; r += 2) t.all(r, thread % 32) = 1.0f;
    show_to_async();
    __syncthreads();
    return t;
}

TEST_F(TmaAdditions, OfAllBlocksGiveTheSameBitsOnEveryRun) {
    Numbers one("sum");
    const Shape blocks{.grid = 12, .block = 64, .shared_bytes = kTwoWarps.shared_bytes};
    std::vector<float> expected(one.base, one.base + kTensorRows * C);
    for (int b = 0; b < 12; ++b)
        for (const int first : {0, 8})
            for (int i = 0; i < R * C; ++i)
                expected[std::size_t(first * C + i)] += 1.0f / float(3 * (i / C) + i % C + 7 * b + 1);
    for (const int workers : {1, 2, 4})
        for (int run = 0; run < 3; ++run) {
            const Workers some(workers);
            Numbers sum("sum");
            const auto error = fault_of(blocks, add_and(sum.map<float>(), kNothing));
            ASSERT_FALSE(error) << error->what();
            EXPECT_EQ(std::vector<float>(sum.base, sum.base + kTensorRows * C), expected) << workers;
        }
}

TEST_F(TmaAdditions, MayBeReadByTheirBlock) {
    Numbers sum("sum");
    const auto view = sum.view<2>();
    std::vector<float> seen(64);
    const auto error = fault_of(kTwoWarps, add_and(sum.map<float>(), [&seen, view] {
                                    __syncthreads();
                                    const int c = int(threadIdx.x) % 32;
                                    seen[threadIdx.x] = view(0, c);
                                    if (is_thread(5)) view(1, 5) = 3.0f;
                                }));
    ASSERT_FALSE(error) << error->what();
    for (int c = 0; c < C; ++c) EXPECT_EQ(seen[std::size_t(c)], float(c) + 1.0f / float(c + 1));
    EXPECT_EQ(sum.base[C + 5], 3.0f);
}

TEST_F(TmaAdditions, ToWhatAnotherBlockReads) {
    Numbers sum("sum");
    const auto view = sum.view<2>();
    const Shape blocks{.grid = 2, .block = 64, .shared_bytes = kTwoWarps.shared_bytes};
    expect_fault(blocks,
                 add_and(sum.map<float>(),
                         [=] {
                             float x = 0;
                             if (blockIdx.x == 1 && is_thread(40)) x = view(2, 3);  // @read of a sum
                             (void)x;
                             __syncthreads();
                         }),
                 {.fault = Fault::global_race,
                  .block = {1, 0, 0},
                  .first = {40, "read of a sum", BlockIndex{1, 0, 0}},
                  .second = {0, "wait for a sum", BlockIndex{0, 0, 0}},
                  .says = {"block (1, 0, 0) reads sum(2, 3), which block (0, 0, 0) writes"}});
}

/// The block that adds comes to its end after the one that does not.
TEST_F(TmaAdditions, ToWhatAnotherBlockHasReadOrWritten) {
    const Workers one(1);
    Numbers sum("sum");
    const auto map = sum.map<float>();
    const auto view = sum.view<2>();
    const Shape blocks{.grid = 2, .block = 64, .shared_bytes = kTwoWarps.shared_bytes};
    for (const bool writes : {false, true})
        expect_fault(blocks,
                     [=] {
                         const Tiles t = tile_of_ones();
                         if (blockIdx.x == 1 && is_thread(0)) {
                             tma_add(map, {0, 0}, t.tile(0));
                             commit_stores();
                             wait_stores<0>();  // @adds after another block
                         }
                         float x = 0.0f;
                         if (blockIdx.x == 0 && is_thread(40) && !writes) x = view(2, 3);  // @has read a sum
                         if (blockIdx.x == 0 && is_thread(40) && writes) view(2, 3) = x;   // @has written a sum
                     },
                     {.fault = Fault::global_race,
                      .block = {1, 0, 0},
                      .first = {0, "adds after another block", BlockIndex{1, 0, 0}},
                      .second = {40, writes ? "has written a sum" : "has read a sum", BlockIndex{0, 0, 0}},
                      .says = {std::string("block (1, 0, 0) writes sum(2, 3), which block (0, 0, 0) ") +
                               (writes ? "writes" : "reads")}});
}

TEST_F(TmaAdditions, ToWhatAnotherThreadWrites) {
    Numbers sum("sum");
    const auto map = sum.map<float>();
    const auto view = sum.view<2>();
    for (const bool waits : {true, false})
        expect_fault(
            kTwoWarps,
            [=] {
                const Tiles t = tile_of_ones();
                if (is_thread(32)) {
                    tma_add(map, {0, 0}, t.tile(0));  // @adds to it
                    commit_stores();
                    if (waits)
                        wait_stores<0>();  // @added to it
                    else
                        wait_stores_read<0>();
                }
                if (is_thread(1)) view(9, 30) = 0.0f;  // @clears a sum
            },
            {.fault = Fault::global_race,
             .first = {1, "clears a sum"},
             .second = {32, waits ? "added to it" : "adds to it"},
             .says = {"sum(9, 30)", waits ? "thread 32 wrote" : "a bulk store of thread 32 is still writing"}});
}

TEST_F(TmaAdditions, ToWhatNobodyHasCleared) {
    Numbers sum("sum");
    const auto garbage = expect_kernels_to_write(sum.base, kTensorRows * C * sizeof(float), sizeof(float));
    expect_fault(
        kTwoWarps, add_and(sum.map<float>(), kNothing),
        {.fault = Fault::unwritten_read, .first = {0, "addition"}, .says = {"sum(0, 0)", "such as 0 for a sum"}});
}

}  // namespace
}  // namespace simt::testing
