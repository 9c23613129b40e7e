// What reports say beside the fault: which thread it was in blocks of more than one dimension, and advice that does not
// lead into the next mistake.

#include <gtest/gtest.h>

#include "tests/simt/faulty_kernels.h"

namespace simt::testing {
namespace {

std::string message_of(const Shape& shape, auto kernel) {
    const auto found = fault_of(shape, kernel);
    EXPECT_TRUE(found);
    return found ? std::string(found->what()) + "\n" : "";
}

void expect_says(const std::string& message, const std::string& words) {
    EXPECT_NE(message.find(words), std::string::npos) << '"' << words << "\" is not in:\n" << message;
}
void expect_silent_about(const std::string& message, const std::string& words) {
    EXPECT_EQ(message.find(words), std::string::npos) << '"' << words << "\" is in:\n" << message;
}

// --- Indices of threads ---------------------------------------------------------------------------------------------

TEST(ThreadIndices, OfABlockOfTwoDimensions) {
    const std::string message = message_of({.block = {8, 6}, .shared_bytes = kOneTile}, [] {
        if (threadIdx.x == 5) K_j()(1, 2) = float(threadIdx.y);
    });
    expect_says(message, "thread 13 = (5, 1) writes K_j(1, 2), which thread 5 = (5, 0) wrote");
    expect_says(message, "\n  thread 13 = (5, 1) at ");
    expect_says(message, "\n  thread 5 = (5, 0) at ");
}

TEST(ThreadIndices, OfABlockOfThreeDimensions) {
    for (const dim3 block : {dim3{4, 2, 3}, dim3{4, 1, 6}}) {
        const std::string message = message_of({.block = block}, [=] {
            if (threadIdx.z == 2 && threadIdx.x == 3 && threadIdx.y == block.y - 1) return;
            __syncthreads();
        });
        const std::string last = block.y == 2 ? "thread 23 = (3, 1, 2)" : "thread 11 = (3, 0, 2)";
        expect_says(message, last + " has returned");
        expect_says(message, "thread 0 = (0, 0, 0) waits");
    }
}

TEST(ThreadIndices, WithTheBlockOfEachThread) {
    Buffer<float> buffer("O", {8});
    const auto O = buffer.view<1>();
    const std::string message = message_of({.grid = 2, .block = {4, 4}}, [=] {
        if (threadIdx.x == 1 && threadIdx.y == 2) O(3) = 1.0f;
    });
    expect_says(message, "\n  thread 9 = (1, 2) of block (1, 0, 0) at ");
    expect_says(message, "\n  thread 9 = (1, 2) of block (0, 0, 0) at ");
}

TEST(ThreadIndices, NumbersSayAllWhereThereIsOneDimension) {
    const std::string message = message_of(kTwoWarps, [] { K_j()(1, 2) = 1.0f; });
    expect_says(message, "thread 1 writes K_j(1, 2), which thread 0 wrote");
    expect_silent_about(message, " = (");
}

// --- Indices before the first ---------------------------------------------------------------------------------------

const std::string kBefore = "nothing lies before index 0", kLooksBack = "`if (row > 0)`",
                  kRagged = "`if (row < length)`";

TEST(NegativeIndex, OfATensor) {
    Buffer<float> vector("x", {64}), matrix("y", {8, 8});
    const auto x = vector.view<1>();
    const auto y = matrix.view<2>();
    const int one = 1;
    for (const std::string& message : {message_of({}, [=] { x(int(threadIdx.x) - one) = 0.0f; }),
                                       message_of({}, [=] { y(0, int(threadIdx.x) - one) = 0.0f; }),
                                       message_of({}, [=] { y.vec<float4>(0, -4 * one) = float4{}; }),
                                       message_of({}, [=] { y.vec<float4>(-one, 0) = float4{}; }),
                                       message_of({}, [=] { y.slice(-one)(0) = 0.0f; })}) {
        expect_says(message, "lies outside the tensor: index -");
        expect_says(message, kBefore);
        expect_says(message, kLooksBack);
        expect_silent_about(message, kRagged);
    }
}

TEST(NegativeIndex, OfATile) {
    const int one = 1;
    for (const std::string& message :
         {message_of(kTwoWarps, [=] { K_j()(int(threadIdx.x) - one, 0) = 0.0f; }),
          message_of(kTwoWarps, [=] { K_j()(0, int(threadIdx.x) - one) = 0.0f; }),
          message_of(kTwoWarps, [=] { K_j().vec<float4>(0, -4 * one) = float4{}; }),
          message_of(kTwoWarps, [=] { SharedArena().matrix<float>("m", 8, 8)(-one, 0) = 0.0f; })}) {
        expect_says(message, "lies outside the tile");
        expect_says(message, kBefore);
        expect_says(message, kLooksBack);
    }
}

TEST(NegativeIndex, OfUnsignedNumbers) {
    Buffer<float> vector("x", {64});
    const auto x = vector.view<1>();
    const std::string message = message_of({}, [=] { x(threadIdx.x - 3) = 0.0f; });
    expect_says(message, "4294967293 is -3 in unsigned arithmetic");
    expect_says(message, "int(threadIdx.x)");
    expect_says(message, kLooksBack);
}

TEST(NegativeIndex, IsNotWhatLiesBeyondTheEnd) {
    Buffer<float> vector("x", {40});
    const auto x = vector.view<1>();
    for (const std::int64_t step : {std::int64_t{8}, std::int64_t{1} << 31, std::int64_t{1} << 40}) {
        const std::string message = message_of({}, [=] { x(40 + step * threadIdx.x) = 0.0f; });
        expect_says(message, kRagged);
        expect_silent_about(message, kBefore);
        expect_silent_about(message, "unsigned");
    }
}

// --- Read, change, write back ---------------------------------------------------------------------------------------

const std::string kOwner = "give each element one owner", kSplit = "split it";

TEST(RacingUpdates, InSharedMemory) {
    const auto zeroed = [](auto update) {
        return [=] {
            const auto bins = K_j();
            bins(int(threadIdx.x) / 8, int(threadIdx.x) % 8) = 0.0f;
            __syncthreads();
            update(bins);
        };
    };
    for (const std::string& message :
         {message_of(kTwoWarps, zeroed([](auto bins) { bins(0, int(threadIdx.x) % 4) += 1.0f; })),
          message_of(kTwoWarps, zeroed([](auto bins) { bins(0, int(threadIdx.x) % 32 / 8) *= 2.0f; })),
          message_of(kTwoWarps,
                     zeroed([](auto bins) { bins(0, int(threadIdx.x) / 32) = bins(0, int(threadIdx.x) / 32) + 1.0f; })),
          message_of(kTwoWarps, zeroed([](auto bins) {
                         const float before = bins(3, 3);
                         bins(3, 3) = fmaxf(before, float(threadIdx.x));
                     }))}) {
        expect_says(message, "shared-memory race");
        expect_says(message, kOwner);
        expect_says(message, "atomic");
        expect_silent_about(message, kSplit);
    }
}

TEST(RacingUpdates, InGlobalMemory) {
    Buffer<float> buffer("bins", {8});
    const auto bins = buffer.view<1>();
    for (const std::string& message :
         {message_of(kTwoWarps, [=] { bins(threadIdx.x % 8) += 1.0f; }), message_of(kTwoWarps, [=] {
              const float before = bins(threadIdx.x / 32);
              bins(threadIdx.x / 32) = before + 1.0f;
          })}) {
        expect_says(message, "race in global memory");
        expect_says(message, kOwner);
        expect_says(message, "atomic");
    }
}

TEST(RacingUpdates, AreNotWhatShiftsAnArray) {
    Buffer<float> buffer("x", {65});
    const auto x = buffer.view<1>();
    const auto filled = [](auto shift) {
        return [=] {
            const int t = int(threadIdx.x);
            K_j()(t / 8, t % 8) = 0.0f;
            __syncthreads();
            if (t < 63) shift(K_j(), t);
        };
    };
    const auto one_up = [](auto tile, int t) { tile((t + 1) / 8, (t + 1) % 8) = float(tile(t / 8, t % 8)); };
    for (const std::string& message : {message_of(kTwoWarps, filled(one_up)),
                                       message_of(kTwoWarps, [=] { x(threadIdx.x + 1) = float(x(threadIdx.x)); })}) {
        expect_says(message, kSplit);
        expect_silent_about(message, kOwner);
    }
}

TEST(RacingUpdates, AreNotWritesThatOneReadComesAfter) {
    const std::string message = message_of(kTwoWarps, [] {
        if (is_thread(0)) K_j()(0, 0) = 1.0f;
        float seen = 0.0f;
        if (is_thread(1)) seen = K_j()(0, 0);
        static_cast<void>(seen);
    });
    expect_says(message, "__syncthreads() between the two lines");
    expect_silent_about(message, kOwner);
}

}  // namespace
}  // namespace simt::testing
