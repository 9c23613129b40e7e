// The types and views through which kernels see memory.

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <type_traits>

#include "tests/simt/testing.h"

namespace simt::testing {
namespace {

// --- 16-bit floating point -----------------------------------------------------------------------------------------

template <class Ours, class Torch>
struct Pair {
    using Type = Ours;
    static float torch_widen(std::uint16_t bits) { return float(Torch(bits, Torch::from_bits())); }
    static std::uint16_t torch_round(float x) { return Torch(x).x; }
};

template <class Types>
class SixteenBit : public ::testing::Test {
  protected:
    using T = typename Types::Type;

    static bool is_nan(std::uint16_t bits) { return std::isnan(Types::torch_widen(bits)); }

    /// Counts how often rounding differs from torch's; only NaN-ness is compared for NaN.
    void check(float x) {
        const std::uint16_t ours = T(x).bits(), theirs = Types::torch_round(x);
        if (is_nan(ours) != is_nan(theirs) || (!is_nan(ours) && ours != theirs)) {
            if (mismatches_++ < 5)
                ADD_FAILURE() << std::hexfloat << x << " (0x" << std::hex << std::bit_cast<std::uint32_t>(x)
                              << ") rounds to 0x" << ours << ", in torch to 0x" << theirs;
        }
        ++checked_;
    }
    void check_around(float x) {
        for (const float y : {x, std::nextafter(x, INFINITY), std::nextafter(x, -INFINITY)}) {
            check(y);
            check(-y);
        }
    }
    long checked_ = 0, mismatches_ = 0;
};

using SixteenBitTypes = ::testing::Types<Pair<f16, c10::Half>, Pair<bf16, c10::BFloat16>>;
TYPED_TEST_SUITE(SixteenBit, SixteenBitTypes);

TYPED_TEST(SixteenBit, TakesTwoBytes) {
    EXPECT_EQ(sizeof(typename TypeParam::Type), 2u);
    EXPECT_TRUE(std::is_trivially_copyable_v<typename TypeParam::Type>);
}

TYPED_TEST(SixteenBit, EveryPatternWidensAsInTorchAndComesBack) {
    using T = typename TypeParam::Type;
    for (unsigned bits = 0; bits < 0x10000; ++bits) {
        const float ours = float(T::from_bits(std::uint16_t(bits)));
        const float theirs = TypeParam::torch_widen(std::uint16_t(bits));
        if (std::isnan(theirs)) {
            ASSERT_TRUE(std::isnan(ours)) << bits;
            ASSERT_TRUE(std::isnan(float(T(ours)))) << bits;
            continue;
        }
        ASSERT_EQ(std::bit_cast<std::uint32_t>(ours), std::bit_cast<std::uint32_t>(theirs)) << bits;
        ASSERT_EQ(T(ours).bits(), bits);
    }
}

TYPED_TEST(SixteenBit, RoundsAsTorchAtEveryValueAndEveryTie) {
    // Between two neighbours lies exactly one float that is as far from one as from the other.
    for (unsigned bits = 0; bits + 1 < 0x8000; ++bits) {
        const float low = TypeParam::torch_widen(std::uint16_t(bits));
        const float high = TypeParam::torch_widen(std::uint16_t(bits + 1));
        if (std::isnan(low)) break;
        this->check_around(low);
        if (std::isfinite(high)) this->check_around(float((double(low) + double(high)) / 2));
    }
    EXPECT_GT(this->checked_, 6 * 2 * 0x7b00);
    EXPECT_EQ(this->mismatches_, 0);
}

TYPED_TEST(SixteenBit, RoundsAsTorchAtTheEdges) {
    using Limits = std::numeric_limits<float>;
    for (const float x : {0.0f,
                          Limits::denorm_min(),
                          Limits::min(),
                          Limits::max(),
                          Limits::infinity(),
                          65504.0f,
                          65519.0f,
                          65520.0f,
                          65535.0f,
                          65536.0f,
                          0x1p-14f,
                          0x1p-24f,
                          0x1p-25f,
                          0x1.8p-25f,
                          0x1p-26f,
                          0x1p-126f,
                          0x1p-133f,
                          0x1p-134f,
                          0x1.fep127f,
                          0x1.ffp127f})
        this->check_around(x);
    EXPECT_EQ(this->mismatches_, 0);
    using T = typename TypeParam::Type;
    for (const std::uint32_t nan : {0x7fc00000u, 0x7f800001u, 0xffffffffu, 0xff800001u, 0x7f801fffu})
        EXPECT_TRUE(std::isnan(float(T(std::bit_cast<float>(nan))))) << std::hex << nan;
}

TYPED_TEST(SixteenBit, RoundsAsTorchOnRandomPatterns) {
    std::mt19937 random(3);
    for (int n = 0; n < 3'000'000; ++n) this->check(std::bit_cast<float>(std::uint32_t(random())));
    // Uniform bits rarely fall into float16's range.
    for (int n = 0; n < 1'000'000; ++n) {
        const std::uint32_t exponent = 127 - 28 + random() % 46;
        this->check(std::bit_cast<float>((std::uint32_t(random()) & 0x807fffffu) | exponent << 23));
    }
    EXPECT_EQ(this->mismatches_, 0);
}

TEST(SixteenBitTies, GoToEven) {
    EXPECT_EQ(f16(1.0f + 0x1p-11f).bits(), f16(1.0f).bits());
    EXPECT_EQ(f16(1.0f + 0x1.8p-10f).bits(), f16(1.0f + 0x1p-9f).bits());
    EXPECT_EQ(bf16(1.0f + 0x1p-8f).bits(), bf16(1.0f).bits());
    EXPECT_EQ(bf16(1.0f + 0x1.8p-7f).bits(), bf16(1.0f + 0x1p-6f).bits());
}

// --- Vectors -------------------------------------------------------------------------------------------------------

static_assert(sizeof(WideVector<float>) == 16 && alignof(WideVector<float>) == 16 && kVectorWidth<float> == 4);
static_assert(sizeof(WideVector<f16>) == 16 && alignof(WideVector<f16>) == 16 && kVectorWidth<f16> == 8);
static_assert(sizeof(WideVector<e4m3>) == 16 && alignof(WideVector<e4m3>) == 16 && kVectorWidth<e4m3> == 16);
static_assert(sizeof(Vector<bf16, 2>) == 4 && alignof(Vector<bf16, 2>) == 4);
static_assert(sizeof(float2) == 8 && alignof(float2) == 8 && sizeof(float4) == 16 && alignof(float4) == 16);

// --- Element access ------------------------------------------------------------------------------------------------

// `auto x = tile(r, c)` names the place, not the value: nothing can be read from it or written through it later, when
// the machine would blame the wrong line.
using TileRef = decltype(std::declval<SharedTile<float, 1, 1>>()(0, 0));
static_assert(std::is_convertible_v<TileRef, float>);
static_assert(!std::is_convertible_v<TileRef&, float> && !std::is_assignable_v<TileRef&, float>);
// Tensors of const elements cannot be written.
using ConstRef = decltype(std::declval<GlobalTensor<const float, 1>>()(0));
static_assert(std::is_convertible_v<ConstRef, float> && !std::is_assignable_v<ConstRef, float>);

TEST(SharedMemoryPoison, EveryByteIs0xFFBeforeEachBlock) {
    const int workers = cpu_workers();
    set_cpu_workers(1);
    static constexpr std::size_t kBytes = 1008;
    int blocks = 0;
    run({.grid = 3, .block = 1, .shared_bytes = kBytes}, [&blocks] {
        SharedMemory& shared = Block::current().shared;
        ASSERT_EQ(shared.bytes(), kBytes);
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(shared.data()) % 1024, 0u);
        EXPECT_TRUE(
            std::all_of(shared.data(), shared.data() + kBytes, [](std::byte b) { return b == std::byte{0xFF}; }));
        const auto tile = SharedArena().tile<float, 1, 252>("tile");
        for (int i = 0; i < 252; ++i) tile(0, i) = 0.0f;  // which the next block must not find
        EXPECT_EQ(std::count(shared.data(), shared.data() + kBytes, std::byte{0}), std::ptrdiff_t(kBytes));
        ++blocks;
    });
    EXPECT_EQ(blocks, 3);
    set_cpu_workers(workers);
    // The poison is NaN in every floating-point type.
    EXPECT_TRUE(std::isnan(std::bit_cast<float>(0xffffffffu)));
    EXPECT_TRUE(std::isnan(float(f16::from_bits(0xffff))) && std::isnan(float(bf16::from_bits(0xffff))));
    EXPECT_TRUE(std::isnan(float(e4m3::from_bits(0xff))) && std::isnan(float(e5m2::from_bits(0xff))));
}

TEST(SharedTile, RowsLieAPitchApart) {
    run({.block = 1, .shared_bytes = 4 * 12 * sizeof(float)}, [] {
        const auto tile = SharedArena().tile<float, 4, 8, 12>("tile");
        static_assert(tile.rows() == 4 && tile.columns() == 8 && tile.bytes == 4 * 12 * sizeof(float));
        for (int r = 0; r < 4; ++r)
            for (int c = 0; c < 8; ++c) tile(r, c) = float(r * 100 + c);
        const auto* memory = reinterpret_cast<const float*>(Block::current().shared.data());
        EXPECT_EQ(memory[2 * 12 + 5], 205.0f);
        EXPECT_TRUE(std::isnan(memory[2 * 12 + 8])) << "padding stays untouched";
        const float4 x = tile.vec<float4>(3, 4);
        EXPECT_EQ(x.x, 304.0f);
        EXPECT_EQ(x.w, 307.0f);
    });
}

TEST(SharedTile, OperatorsAndCopies) {
    run({.block = 1, .shared_bytes = 64}, [] {
        const auto tile = SharedArena().tile<float, 1, 4>("tile");
        tile(0, 0) = 3.0f;
        tile(0, 1) = tile(0, 0);  // copies the element, not the place
        tile(0, 1) += 2.0f;
        tile(0, 1) *= 10.0f;
        EXPECT_EQ(float(tile(0, 0)), 3.0f);
        EXPECT_EQ(float(tile(0, 1)), 50.0f);
        EXPECT_EQ(int(tile(0, 1)), 50);
    });
}

/// The element at (i, j, k) of [2, 3, 4] with these strides, counted from the middle of a buffer that counts up.
template <class Check>
void with_strides(std::array<std::int64_t, 3> strides, Check check) {
    std::vector<int> memory(401);
    for (int i = 0; i < 401; ++i) memory[i] = i - 200;
    TensorArgument argument{.name = "T", .data = memory.data() + 200, .rank = 3};
    argument.extents = {2, 3, 4};
    for (int d = 0; d < 3; ++d) argument.strides[d] = strides[d];
    run({.block = 1}, [=] {
        const auto T = global_tensor<const int, 3>(argument);
        EXPECT_EQ(T.extent(0), 2);
        EXPECT_EQ(T.extent(1), 3);
        EXPECT_EQ(T.extent(2), 4);
        for (int i = 0; i < 2; ++i)
            for (int j = 0; j < 3; ++j)
                for (int k = 0; k < 4; ++k) check(T, i, j, k, i * strides[0] + j * strides[1] + k * strides[2]);
    });
}

// Any strides are accepted, 0 and negative ones included: extents bound the indices, strides are the caller's word.
TEST(GlobalTensor, AnyStridesAndSlices) {
    for (const auto& strides : {std::array<std::int64_t, 3>{12, 4, 1},
                                {1, 2, 6},
                                {40, 7, 1},
                                {0, 4, 1},
                                {12, 0, 1},
                                {12, 4, 0},
                                {0, 0, 0},
                                {-12, 4, 1},
                                {12, -4, 1},
                                {12, 4, -1},
                                {-50, -20, -3}})
        with_strides(strides, [](const GlobalTensor<const int, 3>& T, int i, int j, int k, std::int64_t expected) {
            EXPECT_EQ(int(T(i, j, k)), expected);
            EXPECT_EQ(int(T.slice(i)(j, k)), expected);
            EXPECT_EQ(int(T.slice(i, j)(k)), expected);
            EXPECT_EQ(int(T.slice(i).slice(j)(k)), expected);
            EXPECT_EQ(int(T.slice(i).rows_from(j)(0, k)), expected);
            EXPECT_EQ(T.slice(i).rows_from(j).extent(0), 3 - j);
            EXPECT_EQ(T.slice(i).extent(0), 3);
            EXPECT_EQ(T.slice(i, j).extent(0), 4);
        });
}

TEST(GlobalTensor, OffsetsNeedSixtyFourBits) {
    // Two rows, 2^33 elements apart: only the second one is really there.
    std::vector<float> row = {1.0f, 2.0f};
    const std::int64_t extents[] = {2, 2}, strides[] = {std::int64_t{1} << 33, 1};
    float* const far =
        reinterpret_cast<float*>(reinterpret_cast<std::uintptr_t>(row.data()) - (std::uintptr_t{4} << 33));
    run({.block = 1}, [=, id = tensor_id("far")] {
        const GlobalTensor<float, 2> T(far, extents, strides, id);
        EXPECT_EQ(float(T(1, 1)), 2.0f);
    });
}

TEST(GlobalTensor, VectorsAreWrittenAndRead) {
    Buffer<float> buffer("V", {2, 8});
    const auto V = buffer.view<2>();
    run({.block = 1}, [=] {
        V.vec<float4>(1, 4) = make_float4(1, 2, 3, 4);
        const float4 x = V.vec<float4>(1, 4);
        EXPECT_EQ(x.z, 3.0f);
        const GlobalTensor<float, 2> one_row = V;
        const float2 y = one_row.vec<float2>(1, 6);
        EXPECT_EQ(y.x, 3.0f);
    });
    EXPECT_EQ(buffer.base[12], 1.0f);
    EXPECT_EQ(buffer.base[15], 4.0f);
}

// --- Arguments -----------------------------------------------------------------------------------------------------

TEST(TensorArgument, RowsAlignedTo16Bytes) {
    alignas(16) static std::byte memory[64];
    const auto aligned = [](ElementType type, std::array<std::int64_t, 4> extents, std::array<std::int64_t, 4> strides,
                            int shift = 0) {
        return TensorArgument{
            .name = "K", .data = memory + shift, .type = type, .rank = 4, .extents = extents, .strides = strides}
            .rows_aligned_to_16_bytes();
    };
    using enum ElementType;
    EXPECT_TRUE(aligned(f32, {2, 3, 5, 4}, {60, 20, 4, 1}));
    EXPECT_TRUE(aligned(f16, {2, 3, 5, 8}, {120, 40, 8, 1}));
    EXPECT_TRUE(aligned(bf16, {2, 3, 5, 8}, {120, 40, 8, 1}));
    EXPECT_TRUE(aligned(i32, {2, 3, 5, 4}, {60, 20, 4, 1}));
    EXPECT_TRUE(aligned(e4m3, {2, 3, 5, 16}, {240, 80, 16, 1}));
    // The width of a row.
    EXPECT_FALSE(aligned(e5m2, {2, 3, 5, 8}, {240, 80, 16, 1}));
    EXPECT_FALSE(aligned(f32, {2, 3, 5, 6}, {120, 40, 8, 1}));
    EXPECT_FALSE(aligned(f16, {2, 3, 5, 12}, {240, 80, 16, 1}));
    EXPECT_TRUE(aligned(f32, {2, 3, 5, 12}, {240, 80, 16, 1}));
    // The base.
    EXPECT_FALSE(aligned(f32, {2, 3, 5, 4}, {60, 20, 4, 1}, 4));
    EXPECT_FALSE(aligned(f16, {2, 3, 5, 8}, {120, 40, 8, 1}, 2));
    EXPECT_FALSE(aligned(f16, {2, 3, 5, 8}, {120, 40, 8, 1}, 8));
    EXPECT_TRUE(aligned(f16, {2, 3, 5, 8}, {120, 40, 8, 1}, 32));
    // Each stride.
    EXPECT_FALSE(aligned(f32, {2, 3, 5, 4}, {60, 20, 5, 1}));
    EXPECT_FALSE(aligned(f32, {2, 3, 5, 4}, {60, 21, 4, 1}));
    EXPECT_FALSE(aligned(f32, {2, 3, 5, 4}, {61, 20, 4, 1}));
    EXPECT_FALSE(aligned(f16, {2, 3, 5, 8}, {120, 40, 12, 1}));
    EXPECT_FALSE(aligned(f32, {2, 3, 5, 4}, {60, 20, 4, 2})) << "elements must be neighbours";
    // What is never multiplied by anything but 0 does not matter.
    EXPECT_TRUE(aligned(f32, {1, 3, 5, 4}, {61, 20, 4, 1}));
    EXPECT_TRUE(aligned(f32, {2, 1, 1, 4}, {60, 21, 5, 1}));
    EXPECT_TRUE(aligned(f32, {2, 3, 5, 4}, {0, 0, 4, 1})) << "expanded heads";
    EXPECT_TRUE(aligned(f32, {2, 3, 5, 4}, {-60, 20, -4, 1}));
    EXPECT_FALSE(aligned(f32, {2, 3, 5, 4}, {-61, 20, -4, 1}));
    EXPECT_FALSE(TensorArgument{}.rows_aligned_to_16_bytes());
}

TEST(TensorNames, OneNumberPerName) {
    const std::string again = "a name that is known";
    const int id = tensor_id("a name that is known");
    EXPECT_EQ(tensor_id(again.c_str()), id) << "compared by text, not by address";
    EXPECT_NE(tensor_id("another name"), id);
    EXPECT_STREQ(tensor_name(id), "a name that is known");
}

TEST(SharedLayout, BytesAreRoundedUpTo16) {
    static_assert(shared_bytes<float>(0, 4) == 0);
    static_assert(shared_bytes<float>(1, 1) == 16);
    static_assert(shared_bytes<float>(4, 8) == 128);
    static_assert(shared_bytes<f16>(3, 3) == 32);
    static_assert(shared_bytes<f16>(1, 8) == 16);
    EXPECT_EQ(shared_bytes<float>(1 << 20, 1 << 12), std::size_t{1} << 34) << "no 32-bit overflow";
}

}  // namespace
}  // namespace simt::testing
