// Uninitialised reads, indices and addresses that are wrong, and an arena that is too small: what the CPU machine must
// find, and what it must say about it.

#include <gtest/gtest.h>

#include "tests/simt/faulty_kernels.h"

namespace simt::testing {
namespace {

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
TEST(Uninitialised, ElementsOfOtherWidthsThanWereWritten) {
    const auto kernel = [](int written) {
        return [=] {
            if (is_thread(0)) {
                if (written == 16) K_j().vec<float4>(0, 0) = float4{};
                for (int c = 0; written < 16 && c < written / 4; ++c) K_j()(0, c) = 1.0f;
            }
            __syncthreads();
            Vector<bf16, 8> x{};
            SharedArena again;
            again.start_over();
            if (is_thread(3)) x = again.tile<bf16, 8, 8>("halves").vec<Vector<bf16, 8>>(0, 0);  // @halves of floats
            (void)x;
        };
    };
    expect_clean(kTwoWarps, kernel(16));
    expect_fault(kTwoWarps, kernel(12),
                 {.fault = Fault::uninitialised_read, .first = {3, "halves of floats"}, .says = {"halves(0, 6)"}});
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
                 {.fault = Fault::uninitialised_read, .block = {1, 0, 0}, .first = {0, "leftover"}});
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

TEST(Bounds, RowsFrom) {
    Buffer<float> buffer("O", {2, 3, 4, 8});
    const auto O = buffer.view<4>();
    expect_clean({.block = 1}, [=] { O.slice(1, 2).rows_from(1).rows_from(2).vec<float4>(0, 4) = float4{}; });
    expect_fault(
        {},
        [=] {
            if (!is_thread(6)) return;
            O.slice(1, 2).rows_from(1).rows_from(1)(2, 0) = 1.0f;  // @past the last row
        },
        {.fault = Fault::out_of_bounds,
         .first = {6, "past the last row"},
         .says = {
             "O(1, 2, :, :).rows_from(2)(2, 0) lies outside the view: index 2 in dimension 0, whose extent is 2"}});
    expect_fault({},
                 [=] {
                     if (!is_thread(6)) return;
                     O.slice(1, 2).rows_from(3)(-1, 0) = 1.0f;  // @left out
                 },
                 {.fault = Fault::out_of_bounds,
                  .first = {6, "left out"},
                  .says = {"O(1, 2, :, :).rows_from(3)(-1, 0) lies outside the view: index -1 in dimension 0",
                           "nothing lies before index 0"}});
    expect_fault(
        {},
        [=] {
            if (!is_thread(6)) return;
            O.slice(1, 2).rows_from(3)(0, 8) = 1.0f;  // @past the last column
        },
        {.fault = Fault::out_of_bounds,
         .first = {6, "past the last column"},
         .says = {
             "O(1, 2, :, :).rows_from(3)(0, 8) lies outside the view: index 8 in dimension 1, whose extent is 8"}});
    expect_fault({},
                 [=] {
                     if (!is_thread(6)) return;
                     O.slice(1, 2).rows_from(4)(0, 0) = 1.0f;  // @no such row
                 },
                 {.fault = Fault::out_of_bounds,
                  .first = {6, "no such row"},
                  .says = {"O(1, 2, 4, :)", "index 4 in dimension 2, whose extent is 4"}});
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
    EXPECT_EQ(shared_bytes<float>(8, 8) + shared_bytes<f16>(1, 3), 256u + 16u);
    const std::size_t needed = 256 + 3 * sizeof(f16);  // nothing follows B, so nothing needs its padding
    expect_clean({.shared_bytes = 256 + 16}, kernel);
    expect_clean({.shared_bytes = needed}, kernel);
    expect_clean({.shared_bytes = needed + 1}, kernel);
    expect_fault({.shared_bytes = needed - 1}, kernel,
                 {.fault = Fault::arena_overflow,
                  .first = {0, "last tile"},
                  .says = {"carving B", "262 bytes", "asked for 261"}});
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

TEST(Arena, OnlyWhatFollowsATileNeedsItsPadding) {
    const auto kernel = [](int first, int second) {
        return [=] {
            SharedArena arena;
            const auto A = arena.matrix<f16>("A", 1, first);
            const auto B = arena.matrix<f16>("B", second, 1);
            if (is_thread(0)) A(0, first - 1) = f16(0.0f);
            if (is_thread(0) && second > 0) B(second - 1, 0) = f16(0.0f);
        };
    };
    expect_clean({.shared_bytes = 6}, kernel(3, 0));
    expect_clean({.shared_bytes = 16 + 2}, kernel(3, 1));
    for (const std::size_t bytes : {6u, 16u, 17u})
        expect_fault({.shared_bytes = bytes}, kernel(3, 1),
                     {.fault = Fault::arena_overflow, .first = {0}, .says = {"carving B [1, 1]", "18 bytes"}});
    expect_fault({.shared_bytes = 5}, kernel(3, 0),
                 {.fault = Fault::arena_overflow, .first = {0}, .says = {"carving A [1, 3]", "6 bytes"}});
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

}  // namespace
}  // namespace simt::testing
