// Fences of block, device and system scope: what each orders, and what the CPU machine says of who relies on more.

#include <gtest/gtest.h>

#include "tests/simt/global_memory.h"

namespace simt::testing {
namespace {

constexpr Shape kTwoBlocks{.grid = 2};
constexpr BlockIndex kFirst{0, 0, 0}, kSecond{1, 0, 0};

struct Memory {
    mutable Buffer<float> data_buffer{"data", {64}};
    mutable Buffer<int> flag_buffer{"flag", {4}};
    GlobalTensor<float, 1> data = data_buffer.view<1>();
    GlobalTensor<int, 1> flag = flag_buffer.view<1>();
};

void fence_of(FenceScope scope) {
    if (scope == FenceScope::block) fence_block();  // @narrow
    if (scope == FenceScope::device) fence();
    if (scope == FenceScope::system) fence_system();
}

/// Block 0 writes data and raises the flag, block 1 waits for it and reads; with a fence on each side.
auto hand_over(FenceScope writer, FenceScope reader, const Memory& m) {
    return [=, data = m.data, flag = m.flag] {
        if (is_thread(0, 0)) {
            data(5) = 1.0f;  // @written
            fence_of(writer);
            store_relaxed(flag(0), 1);
        }
        if (is_thread(1, 3)) {
            while (load_relaxed(flag(0)) == 0) {
            }
            fence_of(reader);
            const float x = data(5);  // @read
            EXPECT_EQ(x, 1.0f);
        }
    };
}

TEST(FenceScopes, ThoseOfTheDeviceAndTheSystemOrderBlocks) {
    for (const FenceScope writer : {FenceScope::device, FenceScope::system})
        for (const FenceScope reader : {FenceScope::device, FenceScope::system}) {
            const Memory m;
            expect_clean(kTwoBlocks, hand_over(writer, reader, m));
        }
}

TEST(FenceScopes, ThoseOfABlockOrderNothingBetweenBlocks) {
    const auto expect_race = [](FenceScope writer, FenceScope reader) {
        const Memory m;
        expect_fault(kTwoBlocks, hand_over(writer, reader, m),
                     {.fault = Fault::global_race,
                      .block = kSecond,
                      .first = {3, "read", kSecond},
                      .second = {0, "written", kFirst},
                      .says = {"the fence_block() at " + place("narrow") +
                                   " orders the threads of its own block alone, and nothing between two blocks",
                               "simt::fence() is what holds for the whole device"}});
    };
    expect_race(FenceScope::block, FenceScope::device);
    expect_race(FenceScope::device, FenceScope::block);
    expect_race(FenceScope::block, FenceScope::block);
}

/// What a thread wrote before its wide fence is handed over, what it wrote after it and before the narrow one is not.
TEST(FenceScopes, AWideOneBeforeANarrowOneCoversNoMoreThanItself) {
    const Memory m;
    const auto kernel = [&](bool reads_more) {
        m.flag_buffer.base[0] = 0;
        return [reads_more, data = m.data, flag = m.flag] {
            if (is_thread(0, 0)) {
                data(5) = 1.0f;
                fence();
                data(6) = 2.0f;  // @written between
                fence_block();   // @narrow after
                store_relaxed(flag(0), 1);
            }
            if (is_thread(1, 0)) {
                while (load_acquire(flag(0)) == 0) {
                }
                float x = data(5);
                if (reads_more) x += data(6);  // @read more
                EXPECT_GE(x, 1.0f);
            }
        };
    };
    expect_clean(kTwoBlocks, kernel(false));
    expect_fault(kTwoBlocks, kernel(true),
                 {.fault = Fault::global_race,
                  .block = kSecond,
                  .first = {0, "read more", kSecond},
                  .second = {0, "written between", kFirst},
                  .says = {"the fence_block() at " + place("narrow after")}});
}

/// Thread 0 hands over to thread 33 of its block, by a flag in global or in shared memory.
auto hand_over_in_block(bool fences_write, bool fences_read, bool in_shared_memory, const Memory& m) {
    return [=, data = m.data, global_flag = m.flag] {
        const auto flags = SharedArena().tile<int, 1, 1>("flag");
        if (threadIdx.x == 0) flags(0, 0) = 0;
        __syncthreads();
        if (threadIdx.x == 0) {
            data(5) = 1.0f;  // @written in the block
            if (fences_write) fence_block();
            if (in_shared_memory)
                store_relaxed(flags(0, 0), 1);
            else
                store_relaxed(global_flag(0), 1);
        }
        if (threadIdx.x == 33) {
            while ((in_shared_memory ? load_relaxed(flags(0, 0)) : load_relaxed(global_flag(0))) == 0) {
            }
            if (fences_read) fence_block();
            const float x = data(5);  // @read in the block
            EXPECT_EQ(x, 1.0f);
        }
    };
}

TEST(FenceScopes, ThoseOfABlockOrderItsThreads) {
    for (const bool in_shared_memory : {false, true}) {
        const Memory m;
        expect_clean({.block = 64, .shared_bytes = 16}, hand_over_in_block(true, true, in_shared_memory, m));
    }
}

TEST(FenceScopes, InABlockBothSidesNeedOne) {
    for (const bool in_shared_memory : {false, true})
        for (const bool fences_write : {false, true}) {
            const Memory m;
            expect_fault({.block = 64, .shared_bytes = 16},
                         hand_over_in_block(fences_write, !fences_write, in_shared_memory, m),
                         {.fault = Fault::global_race,
                          .first = {33, "read in the block"},
                          .second = {0, "written in the block"},
                          .says = {"thread 33 reads data(5), which thread 0 wrote"}});
        }
}

/// Causality goes on: within the block by fences of its scope, and from there to another block by one of the device's.
TEST(FenceScopes, WhatABlockHasOrderedOneThreadHandsOn) {
    const Memory m;
    const auto kernel = [&](bool wide) {
        m.flag_buffer.base[0] = m.flag_buffer.base[1] = 0;
        return [wide, data = m.data, flag = m.flag] {
            if (is_thread(0, 0)) {
                data(5) = 1.0f;  // @written first
                fence_block();
                store_relaxed(flag(0), 1);
            }
            if (is_thread(0, 40)) {
                while (load_relaxed(flag(0)) == 0) {
                }
                fence_block();  // @narrow in the chain
                if (wide) fence();
                store_relaxed(flag(1), 1);
            }
            if (is_thread(1, 0)) {
                while (load_acquire(flag(1)) == 0) {
                }
                const float x = data(5);  // @read last
                EXPECT_EQ(x, 1.0f);
            }
        };
    };
    constexpr Shape shape{.grid = 2, .block = 64};
    expect_clean(shape, kernel(true));
    expect_fault(shape, kernel(false),
                 {.fault = Fault::global_race,
                  .block = kSecond,
                  .first = {0, "read last", kSecond},
                  .second = {0, "written first", kFirst},
                  .says = {"fence_block() at"}});
}

/// The update of another block between does not end what a block's own updates have released.
TEST(FenceScopes, OfABlockGoOnThroughUpdatesOfOthers) {
    const Memory m;
    expect_clean({.grid = 2, .block = 64}, [data = m.data, flag = m.flag] {
        if (is_thread(0, 0)) {
            data(5) = 1.0f;
            fence_block();
            atomic_add(flag(0), 1);
        }
        if (is_thread(1, 0)) {
            while (load_relaxed(flag(0)) == 0) {
            }
            atomic_add(flag(0), 1);
        }
        if (is_thread(0, 40)) {
            while (load_relaxed(flag(0)) < 2) {
            }
            fence_block();
            const float x = data(5);
            EXPECT_EQ(x, 1.0f);
        }
    });
}

}  // namespace
}  // namespace simt::testing
