// Two arenas in one kernel, bytes that tiles share one after the other, and tiles where a bare pointer writes: what the
// CPU machine must find, and what it must let pass.

#include <gtest/gtest.h>

#include <bit>
#include <cstring>

#include "tests/simt/faulty_kernels.h"

namespace simt::testing {
namespace {

TEST(Arena, ADifferentTileOfAnotherArenaInTheSamePlace) {
    const auto expect_overlap = [](auto second_tile, int thread, const char* mark, const std::string& words) {
        expect_fault({.shared_bytes = 1024},
                     [=] {
                         SharedArena arena;
                         arena.tile<float, 4, 8>("Q_i");  // @first arena
                         arena.tile<float, 4, 8>("O_i");  // @still first arena
                         second_tile();
                     },
                     {.fault = Fault::arena_overlap,
                      .first = {thread, mark},
                      .second = {0, words.starts_with("O_i") ? "still first arena" : "first arena"},
                      .says = {words, "carved from another arena"}});
    };
    expect_overlap([] { SharedArena().tile<float, 8, 8>("K_j"); },  // @other name
                   0, "other name", "Q_i [4, 8]");
    expect_overlap([] { SharedArena().tile<float, 4, 4>("Q_i"); },  // @other shape
                   0, "other shape", "Q_i [4, 8]");
    expect_overlap([] { SharedArena().tile<f16, 4, 8>("Q_i"); },  // @other type
                   0, "other type", "Q_i [4, 8]");
    expect_overlap([] { SharedArena().matrix<float>("S_ij", 4, 8); },  // @a matrix
                   0, "a matrix", "Q_i [4, 8]");
    expect_overlap(
        [] {
            if (!is_thread(5)) return;
            SharedArena own;
            own.tile<float, 4, 8>("Q_i");
            own.tile<float, 2, 8>("of one thread");  // @of one thread
        },
        5, "of one thread", "O_i [4, 8]");
}

TEST(Arena, TheSameTilesFromAnotherArenaAreTheSame) {
    expect_clean({.block = 64, .shared_bytes = 1024}, [] {
        const auto carve = [] {
            SharedArena arena;
            arena.tile<float, 1, 64>("first");
            return arena.tile<float, 1, 64>("second");
        };
        carve()(0, int(threadIdx.x)) = 1.0f;
        __syncthreads();
        const float other = carve()(0, int(threadIdx.x) ^ 1);
        (void)other;
        SharedArena().matrix<float>("empty", 0, 8);
    });
}

/// Rounds that use the same bytes for one tile, and then for two others.
auto rounds(bool ends_with_barrier) {
    return [=] {
        SharedArena arena;
        const int t = int(threadIdx.x);
        for (int round = 0; round < 3; ++round) {
            const auto S = arena.tile<float, 1, 64>("S");
            S(0, t) = float(round);
            __syncthreads();
            const float s = S(0, 63 - t);  // @old tile
            if (ends_with_barrier) __syncthreads();
            arena.start_over();
            const auto P = arena.tile<f16, 1, 64>("P");
            const auto R = arena.tile<f16, 1, 64>("R");
            P(0, t) = f16(s);  // @new tile
            R(0, t) = f16(s);
            __syncthreads();
            EXPECT_EQ(float(P(0, 63 - t)), float(round));
            __syncthreads();
            arena.start_over();
        }
    };
}

TEST(Arena, StartingOverReplacesTheTiles) {
    const Shape shape{.block = 64, .shared_bytes = 64 * sizeof(float)};
    expect_clean(shape, rounds(true));
    const auto error = fault_of(shape, rounds(false));
    ASSERT_TRUE(error);
    EXPECT_EQ(error->report().fault, Fault::race) << error->what();
    EXPECT_EQ(error->report().first.site.text(), place("old tile"));
    EXPECT_EQ(error->report().second.site.text(), place("new tile"));
    EXPECT_NE(std::string(error->what()).find("thread 32 reads S(0, 31), which thread 63 wrote as P(0, 63)"),
              std::string::npos)
        << "each by the name of the tile that it uses\n"
        << error->what();
}

// --- bare pointers --------------------------------------------------------------------------------------------------

constexpr Shape kBare{.block = 64, .shared_bytes = 64 * sizeof(float)};

template <class T>
auto read_what_a_bare_pointer_wrote(T value, int written) {
    return [=] {
        const int t = int(threadIdx.x);
        T* const bare = dynamic_shared_memory<T>();
        if (t < written) bare[t] = value;
        __syncthreads();
        const auto tile = SharedArena().tile<T, 1, int(kBare.shared_bytes / sizeof(T))>("tile");
        const T seen = tile(0, 63 - t);
        EXPECT_TRUE(63 - t >= written || std::memcmp(&seen, &value, sizeof(T)) == 0);
    };
}

TEST(BarePointer, WhatItWroteMayBeReadThroughATile) {
    expect_clean(kBare, read_what_a_bare_pointer_wrote(1.0f, 64));
    expect_clean(kBare, read_what_a_bare_pointer_wrote(std::bit_cast<float>(0x3f80ffffu), 64));
    expect_clean(kBare, read_what_a_bare_pointer_wrote(f16(0.5f), 64));
    expect_clean(kBare, read_what_a_bare_pointer_wrote(e4m3(0.5f), 64));
    expect_clean(kBare, read_what_a_bare_pointer_wrote(7, 64));
    expect_clean(kBare, read_what_a_bare_pointer_wrote(-1, 64));  // all bits set, as in memory that nobody wrote
    expect_clean(kBare, [] {
        float* const bare = dynamic_shared_memory<float>();
        if (is_thread(0))
            for (int i = 0; i < 64; ++i) bare[i] = float(i);
        __syncthreads();
        const float4 four = SharedArena().tile<float, 1, 64>("tile").vec<float4>(0, 4 * int(threadIdx.x % 16));
        EXPECT_EQ(four.y, float(4 * (threadIdx.x % 16) + 1));
    });
}

TEST(BarePointer, WhatNobodyWroteIsStillUninitialised) {
    expect_fault(kBare, read_what_a_bare_pointer_wrote(1.0f, 40),
                 {.fault = Fault::uninitialised_read, .first = {0}, .says = {"tile(0, 63)"}});
    expect_fault(kBare, read_what_a_bare_pointer_wrote(e5m2(1.0f), 40),
                 {.fault = Fault::uninitialised_read, .first = {0}, .says = {"tile(0, 63)"}});
    // A block has no pointer because the one before it had.
    const Workers one(1);
    expect_clean(kBare, read_what_a_bare_pointer_wrote(7, 64));
    expect_fault(kTwoWarps, [] { static_cast<void>(float(K_j()(0, 0))); },
                 {.fault = Fault::uninitialised_read, .first = {0}, .says = {"K_j(0, 0)"}});
}

}  // namespace
}  // namespace simt::testing
