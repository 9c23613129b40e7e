// Warp collectives against the PTX instructions behind them, written out once more from NVIDIA's PTX ISA manual.

#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <limits>
#include <random>

#include "tests/simt/testing.h"

namespace simt::testing {
namespace {

enum class Mode { idx, up, down, bfly };

/// The lane that `shfl.sync.mode` reads, after the manual's pseudocode: `b` is the operand, `c` packs the segment mask
/// (bits 12…8) and the clamp (bits 4…0). CUDA's intrinsics pass c = (32 - width) << 8, with clamp 31 except for `up`.
int source_lane(Mode mode, int lane, unsigned operand, int width) {
    const unsigned c = unsigned(32 - width) << 8 | (mode == Mode::up ? 0u : 0x1fu);
    const int bval = int(operand & 0x1fu), cval = int(c & 0x1fu), segmask = int(c >> 8 & 0x1fu);
    const int max_lane = (lane & segmask) | (cval & ~segmask & 0x1f);
    const int min_lane = lane & segmask;
    int j = 0;
    bool inside = false;
    switch (mode) {
        case Mode::up:
            j = lane - bval;
            inside = j >= max_lane;
            break;
        case Mode::down:
            j = lane + bval;
            inside = j <= max_lane;
            break;
        case Mode::bfly:
            j = lane ^ bval;
            inside = j <= max_lane;
            break;
        case Mode::idx:
            j = min_lane | (bval & ~segmask & 0x1f);
            inside = j <= max_lane;
            break;
    }
    return inside ? j : lane;
}

template <class T>
T shuffle_by(Mode mode, unsigned mask, T value, int operand, int width) {
    switch (mode) {
        case Mode::idx:
            return __shfl_sync(mask, value, operand, width);
        case Mode::up:
            return __shfl_up_sync(mask, value, unsigned(operand), width);
        case Mode::down:
            return __shfl_down_sync(mask, value, unsigned(operand), width);
        case Mode::bfly:
            return __shfl_xor_sync(mask, value, operand, width);
    }
    return value;
}

constexpr Mode kModes[] = {Mode::idx, Mode::up, Mode::down, Mode::bfly};

TEST(Shuffle, TheModelItself) {
    // A few lanes by hand, from the CUDA programming guide's prose.
    EXPECT_EQ(source_lane(Mode::idx, 13, 2, 8), 10);   // lane 2 of the segment 8…15
    EXPECT_EQ(source_lane(Mode::idx, 13, 11, 8), 11);  // modulo the width
    EXPECT_EQ(source_lane(Mode::up, 9, 2, 8), 9);      // lane 7 lies in an earlier segment
    EXPECT_EQ(source_lane(Mode::up, 10, 2, 8), 8);
    EXPECT_EQ(source_lane(Mode::down, 14, 2, 8), 14);  // lane 16 lies in a later segment
    EXPECT_EQ(source_lane(Mode::down, 13, 2, 8), 15);
    EXPECT_EQ(source_lane(Mode::bfly, 1, 8, 8), 1);  // lane 9 lies in a later segment
    EXPECT_EQ(source_lane(Mode::bfly, 9, 8, 8), 1);  // an earlier segment may be read
}

TEST(Shuffle, EveryKindWidthAndOperand) {
    constexpr int kFirst = -70, kLast = 70;
    std::vector<int> extremes = {std::numeric_limits<int>::min(), std::numeric_limits<int>::max(), 1 << 20};
    for (int operand = kFirst; operand <= kLast; ++operand) extremes.push_back(operand);
    for (const Mode mode : kModes)
        for (const int width : {1, 2, 4, 8, 16, 32}) {
            std::vector<std::array<int, 32>> got(extremes.size());
            run({}, [mode, width, operands = &extremes, results = &got] {
                for (std::size_t n = 0; n < operands->size(); ++n)
                    (*results)[n][threadIdx.x] =
                        shuffle_by(mode, 0xffffffffu, 100 + int(threadIdx.x), (*operands)[n], width);
            });
            for (std::size_t n = 0; n < extremes.size(); ++n)
                for (int lane = 0; lane < 32; ++lane)
                    ASSERT_EQ(got[n][lane], 100 + source_lane(mode, lane, unsigned(extremes[n]), width))
                        << "mode " << int(mode) << ", width " << width << ", operand " << extremes[n] << ", lane "
                        << lane;
        }
}

TEST(Shuffle, OperandsMayDifferFromLaneToLane) {
    std::mt19937 random(1);
    for (int repeat = 0; repeat < 50; ++repeat) {
        std::array<int, 32> sources, got{};
        for (int& source : sources) source = int(random() % 32);
        run({}, [&] { got[threadIdx.x] = __shfl_sync(0xffffffffu, int(threadIdx.x) * 7, sources[threadIdx.x]); });
        for (int lane = 0; lane < 32; ++lane) ASSERT_EQ(got[lane], sources[lane] * 7);
    }
}

template <class T>
class ShuffledType : public ::testing::Test {};

struct EightBytes {
    std::int32_t a;
    float b;
};

using ShuffledTypes = ::testing::Types<std::int8_t, std::uint16_t, std::int32_t, std::uint32_t, float, std::int64_t,
                                       std::uint64_t, double, float2, EightBytes>;
TYPED_TEST_SUITE(ShuffledType, ShuffledTypes);

TYPED_TEST(ShuffledType, ArrivesBitForBit) {
    std::mt19937_64 random(sizeof(TypeParam));
    std::array<TypeParam, 32> sent, got;
    for (TypeParam& value : sent) {
        const std::uint64_t bits = random();
        std::memcpy(&value, &bits, sizeof(TypeParam));
    }
    for (const Mode mode : kModes) {
        run({}, [&] { got[threadIdx.x] = shuffle_by(mode, 0xffffffffu, sent[threadIdx.x], 3, 16); });
        for (int lane = 0; lane < 32; ++lane)
            EXPECT_EQ(std::memcmp(&got[lane], &sent[source_lane(mode, lane, 3, 16)], sizeof(TypeParam)), 0)
                << "mode " << int(mode) << ", lane " << lane;
    }
}

TEST(Shuffle, HalvesOfAWarpAtTheSameTime) {
    std::array<int, 32> got{};
    run({}, [&] {
        const int lane = int(threadIdx.x);
        if (lane < 16)
            got[lane] = __shfl_xor_sync(0x0000ffffu, lane, 5);
        else
            got[lane] = __shfl_down_sync(0xffff0000u, lane, 1, 16);
    });
    for (int lane = 0; lane < 32; ++lane) EXPECT_EQ(got[lane], lane < 16 ? lane ^ 5 : lane == 31 ? 31 : lane + 1);
}

TEST(Shuffle, InterleavedMasksAndDifferentNumbersOfCalls) {
    std::array<int, 32> got{};
    run({.block = 64}, [&] {
        const int lane = int(threadIdx.x % 32);
        const unsigned even = 0x55555555u;
        int sum = lane;
        if (lane % 2 == 0) {
            for (int step = 2; step < 32; step *= 2) sum += __shfl_xor_sync(even, sum, step);
        } else {
            sum = __shfl_sync(~even, lane, 31);
            __syncwarp(~even);
            sum += __shfl_sync(~even, lane, 1);
        }
        __syncwarp();
        if (threadIdx.x >= 32) got[lane] = sum;
    });
    for (int lane = 0; lane < 32; ++lane) EXPECT_EQ(got[lane], lane % 2 ? 32 : 240);
}

TEST(Shuffle, LanesThatReturnedAreNotWaitedFor) {
    std::array<int, 32> got;
    got.fill(-1);
    run({}, [&] {
        const int lane = int(threadIdx.x);
        if (lane >= 20) return;
        got[lane] = __shfl_up_sync(0xffffffffu, lane, 1);
    });
    for (int lane = 0; lane < 32; ++lane) EXPECT_EQ(got[lane], lane >= 20 ? -1 : lane == 0 ? 0 : lane - 1);
}

TEST(Shuffle, LanesMayReturnWhileOthersWait) {
    std::array<unsigned, 32> got{};
    run({}, [&] {
        if (threadIdx.x == 31) return;  // the last to run: all others wait for it
        got[threadIdx.x] = __ballot_sync(0xffffffffu, 1);
    });
    EXPECT_EQ(got[0], 0x7fffffffu);
    EXPECT_EQ(got[30], 0x7fffffffu);
}

TEST(Shuffle, WarpsAreIndependent) {
    std::array<int, 128> got{};
    run({.block = dim3(4, 32)}, [&] {
        const int linear = int(threadIdx.x + 4 * threadIdx.y), warp = linear / 32;
        int x = linear;
        for (int i = 0; i <= warp; ++i)
            x = __shfl_xor_sync(0xffffffffu, x, 1 << i);  // each warp another number of them
        got[linear] = x;
    });
    for (int linear = 0; linear < 128; ++linear) EXPECT_EQ(got[linear], linear ^ ((2 << linear / 32) - 1));
}

TEST(Shuffle, SumOverAWarpInTwoWays) {
    std::array<float, 32> butterfly{}, tree{};
    run({}, [&] {
        const float mine = 1.0f + float(threadIdx.x) / 64;
        float x = mine, y = mine;
        for (int step = 16; step > 0; step /= 2) x += __shfl_xor_sync(0xffffffffu, x, step);
        for (int step = 16; step > 0; step /= 2) y += __shfl_down_sync(0xffffffffu, y, unsigned(step));
        butterfly[threadIdx.x] = x;
        tree[threadIdx.x] = y;
    });
    for (const float sum : butterfly) EXPECT_EQ(sum, 32 + 31 * 32 / 2 / 64.0f);
    EXPECT_EQ(tree[0], butterfly[0]);
}

TEST(Vote, BallotAnyAll) {
    std::mt19937 random(2);
    constexpr int values[] = {0, 1, 2, -1, 256, 1 << 31};
    for (int repeat = 0; repeat < 200; ++repeat) {
        const unsigned mask = repeat == 0 ? 0xffffffffu : repeat == 1 ? 1u : random() | 1u << random() % 32;
        std::array<int, 32> predicate;
        const unsigned kinds = repeat % 3 == 0 ? 1 : 6;  // all false, or a mixture
        for (int& p : predicate) p = repeat % 3 == 2 ? values[1 + random() % 5] : values[random() % kinds];
        unsigned expected = 0;
        for (int lane = 0; lane < 32; ++lane)
            if (predicate[lane] && mask >> lane & 1) expected |= 1u << lane;
        std::array<unsigned, 32> ballot{};
        std::array<int, 32> any{}, all{};
        run({}, [&] {
            const int lane = int(threadIdx.x);
            if (!(mask >> lane & 1)) return;
            ballot[lane] = __ballot_sync(mask, predicate[lane]);
            any[lane] = __any_sync(mask, predicate[lane]);
            all[lane] = __all_sync(mask, predicate[lane]);
        });
        for (int lane = 0; lane < 32; ++lane) {
            if (!(mask >> lane & 1)) continue;
            ASSERT_EQ(ballot[lane], expected) << mask;
            ASSERT_EQ(any[lane] != 0, expected != 0) << mask;
            ASSERT_EQ(all[lane] != 0, expected == mask) << mask;
        }
    }
}

TEST(Vote, LanesThatReturnedHaveNoVote) {
    std::array<int, 32> all{};
    std::array<unsigned, 32> ballot{};
    run({.block = 48}, [&] {
        const int lane = int(threadIdx.x % 32);
        if (threadIdx.x < 32 || lane % 4 == 0) return;
        all[lane] = __all_sync(0xffffffffu, 1);
        ballot[lane] = __ballot_sync(0xffffffffu, lane != 5);
    });
    EXPECT_EQ(all[1], 1);
    EXPECT_EQ(ballot[1], 0xeeeeu & ~(1u << 5));
}

TEST(Syncwarp, MakesWritesOfTheWarpVisible) {
    run({.block = 64, .shared_bytes = 64 * sizeof(int)}, [] {
        const auto tile = SharedArena().tile<int, 1, 64>("tile");
        const int thread = int(threadIdx.x);
        for (int step = 1; step < 32; ++step) {
            tile(0, thread) = thread * step;
            __syncwarp();
            const int x = tile(0, thread ^ step);
            EXPECT_EQ(x, (thread ^ step) * step);
            __syncwarp();
        }
    });
}

TEST(Syncwarp, PartialMasksWaitForTheirLanesOnly) {
    std::array<int, 32> order{};
    int next = 0;
    run({}, [&] {
        const int lane = int(threadIdx.x);
        if (lane < 4) __syncwarp(0x0000000fu);
        if (lane >= 4 && lane < 8) __syncwarp(0x000000f0u);
        order[lane] = next++;
        __syncwarp();
        EXPECT_EQ(next, 32) << "all lanes have passed before any goes on";
    });
}

TEST(Intrinsics, FastMathIsExactHere) {
    for (const float x : {-100.0f, -1.0f, 0.0f, 0.5f, 3.0f, 88.0f, std::numeric_limits<float>::infinity()}) {
        EXPECT_EQ(__expf(x), std::exp(x));
        if (x > 0) {
            EXPECT_EQ(__logf(x), std::log(x));
        }
        EXPECT_EQ(__fdividef(x, 3.0f), x / 3.0f);
    }
    EXPECT_EQ(__expf(-std::numeric_limits<float>::infinity()), 0.0f);
}

TEST(Intrinsics, TheSmallerAndTheLarger) {
    EXPECT_EQ(min(3, -5), -5);
    EXPECT_EQ(max(3, -5), 3);
    EXPECT_EQ(min(3u, 5u), 3u);
    EXPECT_EQ(max(1.5f, std::numeric_limits<float>::quiet_NaN()), 1.5f);
    for (const float x : {-2.0f, 0.0f, 3.0f, -std::numeric_limits<float>::infinity()}) {
        EXPECT_EQ(simt::for_kernels::fmaxf(x, 0.0f), std::fmax(x, 0.0f));
        EXPECT_EQ(simt::for_kernels::fmaxf(0.0f, x), std::fmax(x, 0.0f));
        EXPECT_EQ(simt::for_kernels::fmaxf(x, std::numeric_limits<float>::quiet_NaN()), x);
        EXPECT_EQ(simt::for_kernels::fmaxf(std::numeric_limits<float>::quiet_NaN(), x), x);
    }
    EXPECT_EQ(min(std::numeric_limits<float>::quiet_NaN(), 1.5f), 1.5f);
}

}  // namespace
}  // namespace simt::testing
