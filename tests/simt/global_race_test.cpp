// Races in global memory, between blocks and inside one: what the CPU machine must find, and what it must say about it;
// and right kernels that look as if they raced.

#include <gtest/gtest.h>

#include <array>
#include <set>

#include "tests/simt/global_memory.h"

namespace simt::testing {
namespace {

TEST(BlockRace, TwoBlocksWriteOneElement) {
    Buffer<float> buffer("O", {4, 8});
    const auto O = buffer.view<2>();
    expect_fault(
        {.grid = 3},
        [=] {
            if (is_thread(0, 5)) O(2, 7) = 1.0f;  // @first block writes
            if (is_thread(2, 9)) O(2, 7) = 2.0f;  // @third block writes
        },
        {.fault = Fault::global_race,
         .block = {2, 0, 0},
         .first = {9, "third block writes", BlockIndex{2, 0, 0}},
         .second = {5, "first block writes", BlockIndex{0, 0, 0}},
         .says = {"block (2, 0, 0) writes O(2, 7), which block (0, 0, 0) writes", "same launch", "any order"}});
}

TEST(BlockRace, OneReadsWhatAnotherWrites) {
    Buffer<float> buffer("O", {4, 8});
    const auto O = buffer.view<2>();
    float sink = 0;
    expect_fault({.grid = 2},
                 [=, &sink] {
                     if (is_thread(0, 5)) O(2, 7) = 1.0f;  // @written first
                     if (is_thread(1, 9)) sink = O(2, 7);  // @read later
                 },
                 {.fault = Fault::global_race,
                  .block = {1, 0, 0},
                  .first = {9, "read later", BlockIndex{1, 0, 0}},
                  .second = {5, "written first", BlockIndex{0, 0, 0}},
                  .says = {"block (1, 0, 0) reads O(2, 7), which block (0, 0, 0) writes"}});
    expect_fault({.grid = 2},
                 [=, &sink] {
                     if (is_thread(0, 5)) sink = O(2, 7);  // @read first
                     if (is_thread(1, 9)) O(2, 7) = 1.0f;  // @written later
                 },
                 {.fault = Fault::global_race,
                  .block = {1, 0, 0},
                  .first = {9, "written later", BlockIndex{1, 0, 0}},
                  .second = {5, "read first", BlockIndex{0, 0, 0}},
                  .says = {"block (1, 0, 0) writes O(2, 7), which block (0, 0, 0) reads"}});
}

// Phase 2's lesson: with the key tiles of one head spread over blocks, each block mends O of every row.
TEST(BlockRace, TwoBlocksAddToOneRowOfO) {
    Buffer<float> buffer("O", {1, 4, 20, 32});
    const auto O = buffer.view<4>();
    expect_fault({.grid = dim3(1, 4, 2)},
                 [=] {
                     const auto O_h = O.slice(0, blockIdx.y);
                     for (int row = 0; row < 20; ++row) O_h(row, threadIdx.x) += 1.0f;  // @both blocks add
                 },
                 {.fault = Fault::global_race,
                  .block = {0, 0, 1},
                  .first = {0, "both blocks add", BlockIndex{0, 0, 1}},
                  .second = {0, "both blocks add", BlockIndex{0, 0, 0}},
                  .says = {"O(0, 0, 0, 0)"}});
}

TEST(BlockRace, NamesAllIndicesWhateverTheStrides) {
    std::vector<float> memory(2 * 4 * 20 * 8);
    const std::int64_t extents[] = {2, 4, 20, 6};
    const std::int64_t plain[] = {4 * 20 * 8, 20 * 8, 8, 1}, heads_last[] = {20 * 4 * 8, 8, 4 * 8, 1};
    const std::int64_t columns_first[] = {4 * 20 * 8, 20 * 8, 1, 20}, backwards[] = {-4 * 20 * 8, 20 * 8, 8, 1};
    for (const std::int64_t* strides : {plain, heads_last, columns_first, backwards}) {
        float* const base = memory.data() + (strides[0] < 0 ? 4 * 20 * 8 : 0);
        const GlobalTensor<float, 4> O(base, extents, strides, tensor_id("O"));
        expect_fault({.grid = 2},
                     [=] {
                         if (threadIdx.x < 2) O.slice(1).slice(3)(17, 5) = 1.0f;
                     },
                     {.fault = Fault::global_race, .first = {1}, .second = {0}, .says = {"O(1, 3, 17, 5)"}});
    }
}

TEST(BlockRace, VectorAgainstOneOfItsElements) {
    Buffer<float> buffer("O", {4, 8});
    const auto O = buffer.view<2>();
    expect_fault({.grid = 2},
                 [=] {
                     if (is_thread(0, 5)) O.vec<float4>(2, 4) = float4{};  // @whole vector
                     if (is_thread(1, 9)) O(2, 6) = 2.0f;                  // @one element
                 },
                 {.fault = Fault::global_race,
                  .block = {1, 0, 0},
                  .first = {9, "one element", BlockIndex{1, 0, 0}},
                  .second = {5, "whole vector", BlockIndex{0, 0, 0}},
                  .says = {"O(2, 6)"}});
}

TEST(BlockRace, MemoryUnderTwoNames) {
    Buffer<float> buffer("O", {4, 8});
    const auto O = buffer.view<2>();
    const std::int64_t extents[] = {32}, strides[] = {1};
    const GlobalTensor<const float, 1> Q(buffer.base, extents, strides, tensor_id("Q"));
    expect_fault({.grid = 2},
                 [=] {
                     float q = 0;
                     if (is_thread(0, 5)) q = Q(23);    // @read as Q
                     if (is_thread(1, 9)) O(2, 7) = q;  // @written as O
                 },
                 {.fault = Fault::global_race,
                  .block = {1, 0, 0},
                  .first = {9, "written as O", BlockIndex{1, 0, 0}},
                  .second = {5, "read as Q", BlockIndex{0, 0, 0}},
                  .says = {"writes O(2, 7), which block (0, 0, 0) reads as Q(23)"}});
}

// Readers that come between, before and after must not hide the one that matters.
TEST(BlockRace, OneWriterAmongManyReaders) {
    Buffer<float> buffer("x", {1});
    const auto x = buffer.view<1>();
    for (unsigned writer = 0; writer < 5; ++writer)
        for (unsigned first_reader = 0; first_reader < 5; ++first_reader) {
            const auto error = fault_of({.grid = 5, .block = 1}, [=] {
                float sum = 0;
                if (blockIdx.x >= first_reader) sum = x(0);
                if (blockIdx.x == writer) x(0) = sum;
            });
            const bool alone = first_reader == 4 && writer == 4;
            ASSERT_EQ(error.has_value(), !alone) << "writer " << writer << ", readers from " << first_reader;
            if (!error) continue;
            const unsigned other = first_reader == writer ? writer + 1 : first_reader;
            EXPECT_EQ(error->report().first.block, (BlockIndex{std::max(writer, other), 0, 0})) << error->what();
            EXPECT_EQ(error->report().second.block, (BlockIndex{std::min(writer, other), 0, 0})) << error->what();
        }
}

TEST(BlockRace, TheSameDiagnosisWhateverTheWorkersDo) {
    Buffer<float> buffer("O", {64});
    const auto O = buffer.view<1>();
    // Blocks 6 and 9, 3 and 12, 4 and 12 and many later ones collide: 9 is the first block that meets an earlier one.
    const auto kernel = [=] {
        const unsigned b = blockIdx.x;
        for (int spin = 0; spin < int((b * 7) % 5) * 50; ++spin) __syncthreads();
        if (b == 6 || b == 9) O(60) += 1.0f;
        if (b == 3 || b == 12) O(1) += 1.0f;
        if (b == 12 && threadIdx.x == 0) O(2) = O(61);
        if (b == 4 && threadIdx.x == 0) O(2) = 1.0f;
        if (b > 12) O(0) = float(b);
    };
    const auto message = [&] {
        const auto error = fault_of({.grid = 40, .block = 1}, kernel);
        return error ? std::string(error->what()) : "";
    };
    std::string expected;
    {
        const Workers one(1);
        expected = message();
        EXPECT_NE(expected.find("block (9, 0, 0) writes O(60), which block (6, 0, 0) writes"), std::string::npos)
            << expected;
    }
    const Workers several(4);
    for (int repetition = 0; repetition < 50; ++repetition) ASSERT_EQ(message(), expected);
}

TEST(BlockRace, WhicheverComesFirstIsReported) {
    Buffer<float> buffer("O", {8});
    const auto O = buffer.view<1>();
    const auto kernel = [=](unsigned conflicting, unsigned stray) {
        return [=] {
            if (blockIdx.x == 1 || blockIdx.x == conflicting) O(3) = 1.0f;
            if (blockIdx.x == stray) O(8) = 1.0f;
        };
    };
    for (const int workers : {1, 3}) {
        const Workers restored(workers);
        const auto fault = [&](unsigned conflicting, unsigned stray) {
            return fault_of({.grid = 12, .block = 1}, kernel(conflicting, stray))->report();
        };
        EXPECT_EQ(fault(4, 3).fault, Fault::out_of_bounds);
        EXPECT_EQ(fault(4, 4).fault, Fault::global_race);
        EXPECT_EQ(fault(4, 5).fault, Fault::global_race);
    }
}

TEST(NoBlockRace, LaunchesOneAfterTheOtherAddToOneO) {
    Buffer<float> buffer("O", {20, 32});
    const auto O = buffer.view<2>();
    for (int step = 0; step < 3; ++step) expect_clean({.grid = 20}, [=] { O(blockIdx.x, threadIdx.x) += 1.0f; });
    // With the rows dealt out anew in each launch, too.
    for (int step = 0; step < 3; ++step)
        expect_clean({.grid = 20}, [=] { O((blockIdx.x + step) % 20, threadIdx.x) += 1.0f; });
}

TEST(NoBlockRace, AllReadWhatAnEarlierLaunchWrote) {
    FreshBuffer<float> scores("S", {32});
    Buffer<float> sums("sums", {6});
    const auto S = scores.view<1>();
    const auto sum = sums.view<1>();
    expect_clean({}, [=] { S(threadIdx.x) = 1.0f; });
    expect_clean({.grid = 6, .block = 1}, [=] {
        for (int i = 0; i < 32; ++i) sum(blockIdx.x) += S(i);
    });
}

TEST(NoBlockRace, NeighboursInOneSectorAndOneRow) {
    Buffer<f16> buffer("O", {4, 16});
    const auto O = buffer.view<2>();
    expect_clean({.grid = 16, .block = 4}, [=] {
        for (int step = 0; step < 3; ++step) O(threadIdx.x, blockIdx.x) = f16(float(O(threadIdx.x, blockIdx.x)) + 1);
    });
}

TEST(NoBlockRace, ViewsOfNarrowerElements) {
    // Each block owns one half of every float: right only if the machine looks at two bytes at a time.
    FreshBuffer<float> buffer("O", {32});
    const std::int64_t extents[] = {32, 2}, strides[] = {2, 1};
    const auto O = buffer.view<1>();
    expect_clean({}, [=] { O(threadIdx.x) = 0.0f; });
    const GlobalTensor<f16, 2> halves(reinterpret_cast<f16*>(buffer.base), extents, strides, tensor_id("halves"));
    expect_clean({.grid = 2}, [=] {
        const float before = float(halves(threadIdx.x, blockIdx.x));
        halves(threadIdx.x, blockIdx.x) = f16(before + 1);
    });
    expect_clean({}, [=] { O(threadIdx.x) += 1.0f; });
}

enum class Order { none, syncwarp, syncthreads };

void keep(Order order) {
    if (order == Order::syncwarp) __syncwarp();
    if (order == Order::syncthreads) __syncthreads();
}

auto write_then_read(GlobalTensor<float, 2> O, Order order, unsigned other) {
    return [=] {
        if (is_thread(0, 1)) O(3, 5) = 1.0f;  // @raw write
        keep(order);
        float x = 0;
        if (is_thread(0, other)) x = O(3, 5);  // @raw read
        (void)x;
    };
}

auto read_then_write(GlobalTensor<float, 2> O, Order order, unsigned other) {
    return [=] {
        float x = 0;
        if (is_thread(0, 1)) x = O(3, 5);  // @war read
        (void)x;
        keep(order);
        if (is_thread(0, other)) O(3, 5) = 1.0f;  // @war write
    };
}

auto write_then_write(GlobalTensor<float, 2> O, Order order, unsigned other) {
    return [=] {
        if (is_thread(0, 1)) O(3, 5) = 1.0f;  // @waw first
        keep(order);
        if (is_thread(0, other)) O(3, 5) = 2.0f;  // @waw second
    };
}

TEST(ThreadRace, BarriersOrderAsInSharedMemory) {
    Buffer<float> buffer("O", {4, 8});
    const auto O = buffer.view<2>();
    for (const int other : {20, 40}) {
        const std::string advice = other == 40 ? "only __syncthreads()" : "__syncwarp() is enough if";
        const auto expected = [&](const char* now, const char* before, const char* words) {
            return Expected{.fault = Fault::global_race,
                            .first = {other, now},
                            .second = {1, before},
                            .says = {"thread " + std::to_string(other) + " " + words, "O(3, 5)", advice}};
        };
        for (const Order order : {Order::none, Order::syncwarp, Order::syncthreads}) {
            if (order == Order::syncthreads || (order == Order::syncwarp && other == 20)) {
                expect_clean({.block = 64}, write_then_read(O, order, other));
                expect_clean({.block = 64}, read_then_write(O, order, other));
                expect_clean({.block = 64}, write_then_write(O, order, other));
            } else {
                expect_fault({.block = 64}, write_then_read(O, order, other),
                             expected("raw read", "raw write", "reads"));
                expect_fault({.block = 64}, read_then_write(O, order, other),
                             expected("war write", "war read", "writes"));
                expect_fault({.block = 64}, write_then_write(O, order, other),
                             expected("waw second", "waw first", "writes"));
            }
        }
    }
}

TEST(ThreadRace, TheLowestBlockIsReported) {
    Buffer<float> buffer("O", {8, 8});
    const auto O = buffer.view<2>();
    for (const int workers : {1, 4}) {
        const Workers restored(workers);
        expect_fault({.grid = 8},
                     [=] {
                         if (blockIdx.x >= 2) O(blockIdx.x, 3) = 1.0f;  // @all threads of a block
                     },
                     {.fault = Fault::global_race,
                      .block = {2, 0, 0},
                      .first = {1, "all threads of a block"},
                      .second = {0, "all threads of a block"},
                      .says = {"O(2, 3)"}});
    }
}

// A vector that begins before the memory that kernels write, or ends after it, takes a part of it along.
TEST(ThreadRace, VectorsAcrossTheBorderOfWhatIsWritten) {
    for (const int shift : {0, 1, 4, 5}) {  // of the written part against the vectors
        Buffer<float> buffer("x", {16});
        const GlobalTensor<const float, 2> x = global_tensor<const float, 2>(
            {.name = "x", .data = buffer.base, .rank = 2, .extents = {1, 16}, .strides = {16, 1}});
        const auto y = global_tensor<float, 1>(
            {.name = "y", .data = buffer.base + 2 + shift, .rank = 1, .extents = {5}, .strides = {1}});
        const auto kernel = [=](bool in_order) {
            return [=] {
                float4 sum{};
                if (is_thread(0, 0)) y(0) = 1.0f;
                if (in_order) __syncthreads();
                for (int column = 0; column < 16; column += 4)
                    if (is_thread(0, 1)) sum = x.vec<float4>(0, column);
                static_cast<void>(sum);
            };
        };
        const auto found = fault_of({.block = 64}, kernel(false));
        ASSERT_TRUE(found) << shift;
        EXPECT_EQ(found->report().fault, Fault::global_race) << found->what();
        EXPECT_NE(found->report().what.find("x(0, " + std::to_string(2 + shift) + ")"), std::string::npos)
            << found->what();
        expect_clean({.block = 64}, kernel(true));
    }
}

// The part beyond one tensor that is written belongs to the next.
TEST(ThreadRace, VectorsAcrossTwoTensorsThatAreWritten) {
    Buffer<float> buffer("x", {16});
    const GlobalTensor<const float, 2> x = global_tensor<const float, 2>(
        {.name = "x", .data = buffer.base, .rank = 2, .extents = {1, 16}, .strides = {16, 1}});
    const auto part = [&](const char* name, int first, int count) {
        return global_tensor<float, 1>(
            {.name = name, .data = buffer.base + first, .rank = 1, .extents = {count}, .strides = {1}});
    };
    const auto y = part("y", 0, 6), z = part("z", 6, 6);
    static_cast<void>(y);
    const auto found = fault_of({.block = 64}, [=] {
        float4 sum{};
        if (is_thread(0, 0)) z(1) = 1.0f;
        if (is_thread(0, 1)) sum = x.vec<float4>(0, 4);
        static_cast<void>(sum);
    });
    ASSERT_TRUE(found);
    EXPECT_EQ(found->report().fault, Fault::global_race) << found->what();
}

TEST(NoThreadRace, ExchangeThroughGlobalMemoryWithBarriers) {
    FreshBuffer<float> buffer("mail", {3, 64});
    const auto mail = buffer.view<2>();
    expect_clean({.grid = 3, .block = 64}, [=] {
        const auto own = mail.slice(blockIdx.x);
        for (int step = 0; step < 4; ++step) {
            own(threadIdx.x) = float(step);
            __syncthreads();
            float sum = 0;
            for (int i = 0; i < 64; ++i) sum += own(i);
            EXPECT_EQ(sum, 64.0f * step);
            __syncthreads();
        }
    });
}

}  // namespace
}  // namespace simt::testing
