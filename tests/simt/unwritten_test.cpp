// Reads of global memory that nobody has written; and that what keeps watch over them is not counted.

#include <gtest/gtest.h>

#include "tests/simt/global_memory.h"

namespace simt::testing {
namespace {

TEST(Unwritten, ReadOfAnElementOfAFreshTensor) {
    FreshBuffer<float> buffer("l", {2, 3, 8});
    const auto l = buffer.view<3>();
    const auto read = [](const auto& view) {
        return [=] {
            float x = 0;
            if (is_thread(1, 5)) x = view.slice(1, 2)(7);  // @too early
            (void)x;
        };
    };
    const Expected expected{.fault = Fault::unwritten_read,
                            .block = {1, 0, 0},
                            .first = {5, "too early"},
                            .says = {"thread 5 reads l(1, 2, 7)", "neither an earlier launch nor this block"}};
    expect_fault({.grid = 3}, read(l), expected);
    const std::int64_t extents[] = {2, 3, 8}, strides[] = {24, 8, 1};
    const GlobalTensor<const float, 3> as_input(buffer.base, extents, strides, tensor_id("l"));
    expect_fault({.grid = 3}, read(as_input), expected);

    expect_clean({}, [=] {
        if (is_thread(0, 9)) l(1, 2, 7) = 1.0f;
    });
    expect_clean({.grid = 3}, read(l));
    expect_clean({.grid = 3}, read(as_input));
    expect_fault({}, [=] { l(1, 2, 6) += 1.0f; },
                 {.fault = Fault::unwritten_read, .first = {0}, .says = {"l(1, 2, 6)"}});
}

TEST(Unwritten, OneMissingElementOfAVector) {
    FreshBuffer<float> buffer("O", {2, 8});
    const auto O = buffer.view<2>();
    const auto read = [=] {
        float4 x{};
        if (is_thread(0, 3)) x = O.vec<float4>(1, 4);  // @vector with a hole
        (void)x;
    };
    expect_clean({.block = 8}, [=] {
        if (threadIdx.x != 6) O(1, threadIdx.x) = 0.0f;
    });
    expect_fault({}, read, {.fault = Fault::unwritten_read, .first = {3, "vector with a hole"}, .says = {"O(1, 6)"}});
    expect_clean({}, [=] {
        if (is_thread(0, 0)) O.vec<float2>(1, 6) = float2{};
    });
    expect_clean({}, read);
}

TEST(Unwritten, WhatTheBlockItselfWroteCounts) {
    FreshBuffer<float> buffer("O", {4, 32});
    const auto O = buffer.view<2>();
    expect_clean({.grid = 4}, [=] {
        O(blockIdx.x, threadIdx.x) = 1.0f;
        O(blockIdx.x, threadIdx.x) += 1.0f;
        __syncwarp();
        EXPECT_EQ(float(O(blockIdx.x, 31 - threadIdx.x)), 2.0f);
    });
}

// Whether another block of the same launch has written already depends on the workers; what is said must not.
TEST(Unwritten, WhatAnotherBlockWritesAtTheSameTime) {
    for (const int workers : {1, 4}) {
        const Workers restored(workers);
        for (int repetition = 0; repetition < 20; ++repetition) {
            FreshBuffer<float> buffer("O", {8});
            const auto O = buffer.view<1>();
            const auto hand_over = [=](unsigned writer, unsigned reader) {
                return fault_of({.grid = 6, .block = 1},
                                [=] {
                                    if (blockIdx.x == writer) O(3) = 1.0f;
                                    if (blockIdx.x == reader) O(4) = O(3);
                                })
                    ->report();
            };
            EXPECT_EQ(hand_over(1, 4).fault, Fault::global_race);
            buffer.fresh.reset();
            buffer.fresh = expect_kernels_to_write(buffer.base, buffer.bytes(), sizeof(float));
            EXPECT_EQ(hand_over(4, 1).fault, Fault::unwritten_read);
        }
    }
}

TEST(Unwritten, TheHostMayWriteToo) {
    FreshBuffer<float> buffer("O", {32});
    const auto O = buffer.view<1>();
    const auto read_element = [=](int element) {
        return [=] {
            float x = 0;
            if (is_thread(0, 0)) x = O(element);
            (void)x;
        };
    };
    note_host_write(buffer.base + 8, 4 * sizeof(float));
    expect_clean({}, read_element(8));
    expect_clean({}, read_element(11));
    EXPECT_EQ(fault_of({}, read_element(7))->report().fault, Fault::unwritten_read);
    EXPECT_EQ(fault_of({}, read_element(12))->report().fault, Fault::unwritten_read);
}

TEST(Unwritten, EndsWithTheHandle) {
    Buffer<float> buffer("O", {32});
    const auto O = buffer.view<1>();
    const auto read = [=] { EXPECT_EQ(float(O(threadIdx.x)), 0.0f); };
    expect_clean({}, read);  // memory that nobody spoke for holds values
    {
        const auto fresh = expect_kernels_to_write(buffer.base, 16 * sizeof(float), sizeof(float));
        EXPECT_EQ(fault_of({}, read)->report().fault, Fault::unwritten_read);
    }
    expect_clean({}, read);
    // A second life of the same memory starts anew.
    expect_clean({}, [=] { O(threadIdx.x) = 0.0f; });
    const auto fresh = expect_kernels_to_write(buffer.base, 16 * sizeof(float), sizeof(float));
    EXPECT_EQ(fault_of({}, read)->report().fault, Fault::unwritten_read);
    EXPECT_EQ(written_elements(buffer.base, 16 * sizeof(float), sizeof(float)), std::vector<bool>(16, false));
    EXPECT_TRUE(written_elements(buffer.base + 16, sizeof(float), sizeof(float)).empty());
}

TEST(Unwritten, RacesAreStillSeenBesideMemoryOfAnotherLife) {
    // Some elements of a view become something else, before or after the view is made: all stay watched.
    for (const bool view_first : {true, false}) {
        Buffer<float> buffer("O", {64});
        if (view_first) buffer.view<1>();
        const auto fresh = expect_kernels_to_write(buffer.base + 16, 16 * sizeof(float), sizeof(float));
        const auto O = buffer.view<1>();
        for (const int element : {0, 15, 16, 31, 32, 63})
            EXPECT_TRUE(fault_of({.grid = 2, .block = 1}, [=] { O(element) = 1.0f; })) << element;
    }
}

TEST(GlobalShadow, CountersDoNotKnowOfIt) {
    const auto counters = [](auto& buffer) {
        const LaunchLog log;
        const auto O = buffer.template view<2>();
        run({.grid = 2}, [=] {
            O(blockIdx.x, threadIdx.x) = 1.0f;
            O(blockIdx.x, threadIdx.x) += 1.0f;
        });
        const TensorTraffic traffic = log.total().tensors.at(0);
        return std::array{traffic.bytes_read, traffic.bytes_written, traffic.sectors_read, traffic.sectors_written};
    };
    Buffer<float> plain("O", {2, 32});
    FreshBuffer<float> fresh("O", {2, 32});
    const std::array<std::uint64_t, 4> expected{256, 512, 8, 16};
    EXPECT_EQ(counters(plain), expected);
    EXPECT_EQ(counters(fresh), expected);
}

}  // namespace
}  // namespace simt::testing
