// The lenient machine: what a GPU lets pass goes on, with poison in the place of what is not there; all else is
// diagnosed.

#include <gtest/gtest.h>

#include <cmath>

#include "common/simt/report/leniency.h"
#include "tests/simt/testing.h"

namespace simt::testing {
namespace {

constexpr Shape kOneWarp{.block = 32, .shared_bytes = 32 * sizeof(float)};

SharedTile<float, 1, 32> tile() { return SharedArena().tile<float, 1, 32>("tile"); }

/// Two lanes write one element: a race, which the lenient machine settles by the order in which it runs threads.
void racing_kernel(float* result) {
    const auto shared = tile();
    if (threadIdx.x < 2) shared(0, 0) = float(threadIdx.x + 1);
    if (threadIdx.x == 1) *result = shared(0, 0);
}

TEST(Leniency, LetsARacePass) {
    float result = 0;
    EXPECT_TRUE(fault_of(kOneWarp, [&] { racing_kernel(&result); }));
    const ScopedLeniency lenient;
    EXPECT_FALSE(fault_of(kOneWarp, [&] { racing_kernel(&result); }));
    EXPECT_EQ(result, 2);
}

TEST(Leniency, GivesPoisonForWhatNobodyWrote) {
    const auto kernel = [](float* result, int* number) {
        *result = tile()(0, int(threadIdx.x));
        *number = SharedArena().tile<int, 1, 32>("tile")(0, 1);
    };
    float result = 0;
    int number = 0;
    EXPECT_TRUE(fault_of(kOneWarp, [&] { kernel(&result, &number); }));
    const ScopedLeniency lenient;
    EXPECT_FALSE(fault_of(kOneWarp, [&] { kernel(&result, &number); }));
    EXPECT_TRUE(std::isnan(result));
    EXPECT_EQ(number, -1);
}

TEST(Leniency, ACopyThatNobodyWaitsForIsNotSeen) {
    Buffer<float> in("in", {1, 32});
    std::fill(in.storage.begin(), in.storage.end(), 7.0f);
    const auto view = in.view<2>();
    float result = 0;
    const auto kernel = [&] {
        const auto shared = tile();
        shared(0, int(threadIdx.x)) = 1.0f;
        copy_async(shared(0, int(threadIdx.x)), view(0, int(threadIdx.x)));
        commit_copies();
        if (threadIdx.x == 0) result = shared(0, 0);
    };
    EXPECT_TRUE(fault_of(kOneWarp, kernel));
    {
        const ScopedLeniency lenient;
        EXPECT_FALSE(fault_of(kOneWarp, kernel));
        EXPECT_EQ(result, 1);
    }
    EXPECT_TRUE(fault_of(kOneWarp, kernel));
}

TEST(Leniency, ACopyWhoseSourceChangesTakesTheOldValue) {
    Buffer<float> in("in", {1, 32});
    const auto view = in.view<2>();
    float result = 0;
    const auto kernel = [&] {
        if (threadIdx.x != 0) return;
        const auto shared = tile();
        view(0, 0) = 7.0f;
        copy_async(shared(0, 0), view(0, 0));
        view(0, 0) = 8.0f;
        wait_all_copies();
        result = shared(0, 0);
    };
    EXPECT_TRUE(fault_of(kOneWarp, kernel));
    const ScopedLeniency lenient;
    EXPECT_FALSE(fault_of(kOneWarp, kernel));
    EXPECT_EQ(result, 7);
}

TEST(Leniency, SharedAccessOutOfBoundsTouchesNothing) {
    const ScopedLeniency lenient;
    float outside = 0, inside = 0;
    Vector<float, 4> vector{};
    run({.block = 1, .shared_bytes = 32 * sizeof(float)}, [&] {
        const auto shared = tile();
        for (int i = 0; i < 32; ++i) shared(0, i) = 7.0f;
        shared(0, 32) = 1.0f;
        shared(-1, 0) = 1.0f;
        shared.vec<Vector<float, 4>>(0, 32) = Vector<float, 4>{1, 1, 1, 1};
        outside = shared(0, 32);
        vector = shared.vec<Vector<float, 4>>(0, 30);
        for (int i = 0; i < 32; ++i) inside += shared(0, i);
    });
    EXPECT_TRUE(std::isnan(outside)) << "what was written out of bounds is not there to be read";
    for (const float element : vector.element) EXPECT_TRUE(std::isnan(element));
    EXPECT_EQ(inside, 32 * 7);
}

TEST(Leniency, SharedMatrixLikewise) {
    const ScopedLeniency lenient;
    float outside = 0, inside = 0;
    run({.block = 1, .shared_bytes = 32 * sizeof(float)}, [&] {
        const auto shared = SharedArena().matrix<float>("matrix", 4, 8);
        for (int i = 0; i < 32; ++i) shared(i / 8, i % 8) = 7.0f;
        shared(0, 8) = 1.0f;
        shared.vec<float4>(4, 0) = make_float4(1, 1, 1, 1);
        outside = shared(4, 0);
        for (int i = 0; i < 32; ++i) inside += shared(i / 8, i % 8);
    });
    EXPECT_TRUE(std::isnan(outside));
    EXPECT_EQ(inside, 32 * 7);
}

TEST(Leniency, GlobalAccessOutOfBoundsTouchesNothing) {
    const ScopedLeniency lenient;
    Buffer<float> buffer("X", {4, 8});
    std::fill(buffer.storage.begin(), buffer.storage.end(), 7.0f);
    const auto view = buffer.view<2>();
    float outside = 0;
    Vector<float, 4> vector{};
    run({.block = 1}, [&] {
        view(0, 8) = 1.0f;
        view(4, 0) = 1.0f;
        view(-1, -1) = 1.0f;
        view.vec<Vector<float, 4>>(3, 8) = Vector<float, 4>{1, 1, 1, 1};
        outside = view(4, 0);
        vector = view.vec<Vector<float, 4>>(3, 6);
    });
    EXPECT_TRUE(std::isnan(outside));
    for (const float element : vector.element) EXPECT_TRUE(std::isnan(element));
    for (const float element : buffer.storage) ASSERT_EQ(element, 7);
}

TEST(Leniency, GivesPoisonForALaneThatDoesNotTakePart) {
    float result = 0;
    const auto kernel = [&] {
        if (threadIdx.x == 0) result = __shfl_sync(1u, 5.0f, 1);
    };
    EXPECT_TRUE(fault_of(kOneWarp, kernel));
    const ScopedLeniency lenient;
    EXPECT_FALSE(fault_of(kOneWarp, kernel));
    EXPECT_TRUE(std::isnan(result));
}

TEST(Leniency, WhatCannotGoOnIsStillDiagnosed) {
    const ScopedLeniency lenient;
    const auto fault = [](auto kernel) {
        const auto error = fault_of(kOneWarp, kernel);
        return error ? std::optional(error->report().fault) : std::nullopt;
    };
    Buffer<float> buffer("X", {4, 8});
    const auto view = buffer.view<2>();
    EXPECT_EQ(fault([] {
                  if (threadIdx.x == 0) __syncthreads();
              }),
              Fault::barrier_divergence);
    EXPECT_EQ(fault([] { __syncwarp(1u); }), Fault::invalid_collective);
    EXPECT_EQ(fault([] { SharedArena().tile<float, 2, 32>("large"); }), Fault::arena_overflow);
    EXPECT_EQ(fault([&] {
                  Vector<float, 4> x = view.vec<Vector<float, 4>>(0, 1);
                  static_cast<void>(x);
              }),
              Fault::misaligned);
    EXPECT_EQ(fault([&] { view.slice(4); }), Fault::out_of_bounds);
}

TEST(Leniency, EndsWithItsScope) {
    float result = 0;
    {
        const ScopedLeniency outer;
        { const ScopedLeniency inner; }
        EXPECT_TRUE(ScopedLeniency::active());
    }
    EXPECT_FALSE(ScopedLeniency::active());
    EXPECT_TRUE(fault_of(kOneWarp, [&] { racing_kernel(&result); }));
}

}  // namespace
}  // namespace simt::testing
