// e4m3 and e5m2 are what their definition says, and bit for bit the same on both machines.

#include "tests/simt/float8.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "common/simt/language/float8.h"
#include "tests/simt/on_device.h"

namespace ladder {

// float8.cuh, compiled once per machine.
namespace cpu {
void launch_encode(const EncodeTrial&);
void launch_decode(const DecodeTrial&);
}  // namespace cpu
namespace cuda {
[[gnu::weak]] void launch_encode(const EncodeTrial&);
[[gnu::weak]] void launch_decode(const DecodeTrial&);
}  // namespace cuda

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// --- the definition -------------------------------------------------------------------------------------------------

/// A format as table 1 of arXiv 2209.05433 has it.
struct Format {
    simt::ElementType type;
    int mantissa_bits;
    int bias;
    unsigned largest;   ///< the code of the largest number
    unsigned infinity;  ///< the code of infinity; 0: there is none
};

constexpr Format kE4m3{simt::ElementType::e4m3, 3, 7, 0b0'1111'110, 0};
constexpr Format kE5m2{simt::ElementType::e5m2, 2, 15, 0b0'11110'11, 0b0'11111'00};
constexpr std::array kFormats{kE4m3, kE5m2};

/// The number that a code stands for.
double value_of(const Format& f, unsigned code) {
    const unsigned magnitude = code % 128;
    double value = std::numeric_limits<double>::quiet_NaN();
    if (magnitude <= f.largest) {
        const int exponent = int(magnitude >> f.mantissa_bits), steps = 1 << f.mantissa_bits;
        const double mantissa = double(magnitude % unsigned(steps)) / steps;
        value = exponent == 0 ? std::ldexp(mantissa, 1 - f.bias) : std::ldexp(1 + mantissa, exponent - f.bias);
    } else if (magnitude == f.infinity) {
        value = kInfinity;
    }
    return code < 128 ? value : -value;
}

/// The middles between neighbouring numbers from 0 on: middle i lies between the codes i and i + 1. Exact in float.
std::vector<double> middles_of(const Format& f) {
    std::vector<double> middles;
    for (unsigned code = 0; code < f.largest; ++code)
        middles.push_back((value_of(f, code) + value_of(f, code + 1)) / 2);
    return middles;
}

/// What a float must become: the nearest of all numbers, of two that are equally near the one whose code is even, so
/// nothing beyond the largest; CUDA's NaN for NaN.
class Nearest {
  public:
    explicit Nearest(const Format& f) : middles_(middles_of(f)) {}
    unsigned operator()(float x) const {
        if (std::isnan(x)) return 0x7f;
        const double magnitude = std::abs(double(x));
        const auto middle = std::ranges::lower_bound(middles_, magnitude);  // the first that is not below
        unsigned code = unsigned(middle - middles_.begin());
        if (middle != middles_.end() && *middle == magnitude && code % 2 == 1) ++code;
        return code | (std::signbit(x) ? 0x80 : 0);
    }

  private:
    std::vector<double> middles_;
};

TEST(Float8Definition, HasTheNumbersOfTheSpecification) {
    EXPECT_EQ(value_of(kE4m3, 0x7e), 448);
    EXPECT_EQ(value_of(kE4m3, 0x08), 0x1p-6);
    EXPECT_EQ(value_of(kE4m3, 0x07), 0.875 * 0x1p-6);
    EXPECT_EQ(value_of(kE4m3, 0x01), 0x1p-9);
    EXPECT_TRUE(std::isnan(value_of(kE4m3, 0x7f)) && std::isnan(value_of(kE4m3, 0xff)));
    EXPECT_EQ(value_of(kE5m2, 0x7b), 57344);
    EXPECT_EQ(value_of(kE5m2, 0x04), 0x1p-14);
    EXPECT_EQ(value_of(kE5m2, 0x03), 0.75 * 0x1p-14);
    EXPECT_EQ(value_of(kE5m2, 0x01), 0x1p-16);
    EXPECT_EQ(value_of(kE5m2, 0xfc), -kInfinity);
    for (const unsigned nan : {0x7d, 0x7e, 0x7f, 0xfd, 0xfe, 0xff}) EXPECT_TRUE(std::isnan(value_of(kE5m2, nan)));
    EXPECT_EQ(value_of(kE4m3, 0x38), 1);
    EXPECT_EQ(value_of(kE5m2, 0x3c), 1);
}

// --- the CPU's types ------------------------------------------------------------------------------------------------

template <class T>
constexpr const Format& format_of() {
    return std::is_same_v<T, simt::e4m3> ? kFormats[0] : kFormats[1];
}

std::uint32_t bits_of(float x) { return std::bit_cast<std::uint32_t>(x); }
float float_of(std::uint32_t bits) { return std::bit_cast<float>(bits); }

/// What conversions get wrong first.
std::vector<float> special_values() {
    using Limits = std::numeric_limits<float>;
    std::vector<float> values;
    for (const float x :
         {0.0f, Limits::denorm_min(), Limits::min(), Limits::max(), Limits::infinity(), 0x1p-9f, 0x1p-10f, 0x1p-16f,
          0x1p-17f, 448.0f, 464.0f, 480.0f, 512.0f, 57344.0f, 61440.0f, 65504.0f, 65536.0f, 1e30f})
        for (const float sign : {1.0f, -1.0f}) values.push_back(sign * x);
    for (const std::uint32_t nan : {0x7fc00000u, 0x7f800001u, 0x7fffffffu, 0xffc00000u, 0xff800001u, 0xffffffffu})
        values.push_back(float_of(nan));
    return values;
}

/// Every number, and every middle between two, with the floats beside it.
std::vector<float> around_each_boundary(const Format& f) {
    std::vector<float> values;
    const auto add = [&](double x) {
        const float exact = float(x);
        EXPECT_EQ(double(exact), x);
        for (const float y : {exact, std::nextafter(exact, INFINITY), std::nextafter(exact, -INFINITY)})
            for (const float sign : {1.0f, -1.0f}) values.push_back(sign * y);
    };
    for (unsigned code = 0; code <= f.largest; ++code) add(value_of(f, code));
    for (const double middle : middles_of(f)) add(middle);
    add(2 * value_of(f, f.largest) - middles_of(f).back());  // would be a middle, were there a larger number
    return values;
}

std::vector<float> every_half() {
    std::vector<float> values;
    for (unsigned bits = 0; bits < 0x10000; ++bits) values.push_back(float(simt::f16::from_bits(std::uint16_t(bits))));
    return values;
}

std::vector<float> random_values(int count) {
    std::mt19937 random(8);
    std::vector<float> values;
    for (int i = 0; i < count; ++i) {
        values.push_back(float_of(std::uint32_t(random())));
        // Uniform bits rarely fall into the range of 8-bit types.
        const std::uint32_t exponent = 127 - 20 + random() % 40;
        values.push_back(float_of((std::uint32_t(random()) & 0x807fffffu) | exponent << 23));
    }
    return values;
}

template <class T>
class Float8 : public ::testing::Test {
  protected:
    /// Whether each value becomes the nearest code.
    void check(const std::vector<float>& values) {
        const Nearest nearest(format_of<T>());
        int mismatches = 0;
        for (const float x : values)
            if (T(x).bits() != nearest(x) && mismatches++ < 5)
                ADD_FAILURE() << std::hexfloat << x << " (0x" << std::hex << bits_of(x) << ") becomes 0x"
                              << unsigned(T(x).bits()) << ", must be 0x" << nearest(x);
        EXPECT_EQ(mismatches, 0);
    }
};
using Float8Types = ::testing::Types<simt::e4m3, simt::e5m2>;
TYPED_TEST_SUITE(Float8, Float8Types);

TYPED_TEST(Float8, TakesOneByte) {
    EXPECT_EQ(sizeof(TypeParam), 1u);
    EXPECT_TRUE(std::is_trivially_copyable_v<TypeParam> && std::is_trivially_default_constructible_v<TypeParam>);
    // As CUDA's: a kernel that relies on an implicit conversion would compile for one machine only.
    EXPECT_FALSE((std::is_convertible_v<TypeParam, float> || std::is_convertible_v<float, TypeParam>));
    EXPECT_FALSE((std::is_constructible_v<TypeParam, double>)) << "rounded twice, on the way through float";
}

TYPED_TEST(Float8, EveryCodeHasItsValueAndComesBack) {
    for (unsigned code = 0; code < 256; ++code) {
        const double expected = value_of(format_of<TypeParam>(), code);
        const float value = float(TypeParam::from_bits(std::uint8_t(code)));
        if (std::isnan(expected)) {
            EXPECT_EQ(bits_of(value), 0x7fffffffu) << code << ": CUDA's NaN";
            EXPECT_EQ(TypeParam(value).bits(), 0x7f) << code;
            continue;
        }
        EXPECT_EQ(bits_of(value), bits_of(float(expected))) << code;
        EXPECT_EQ(double(value), expected) << code;
        if (std::isfinite(expected)) {
            EXPECT_EQ(TypeParam(value).bits(), code);
        }
    }
}

TYPED_TEST(Float8, RoundsAtEveryBoundary) { this->check(around_each_boundary(format_of<TypeParam>())); }
TYPED_TEST(Float8, RoundsSpecialValues) { this->check(special_values()); }
TYPED_TEST(Float8, RoundsEveryHalf) { this->check(every_half()); }
TYPED_TEST(Float8, RoundsRandomValues) { this->check(random_values(1'000'000)); }

// In numbers, so that a mistake in the oracle would show.
TEST(Float8Rounding, IsWhatThePtxIsaSays) {
    using simt::e4m3, simt::e5m2;
    EXPECT_EQ(float(e4m3(17.0f)), 16) << "between 16 and 18: ties go to even";
    EXPECT_EQ(float(e4m3(19.0f)), 20);
    EXPECT_EQ(float(e5m2(9.0f)), 8) << "between 8 and 10";
    EXPECT_EQ(float(e5m2(11.0f)), 12);
    EXPECT_EQ(float(e4m3(0x1p-10f)), 0) << "half of the smallest";
    EXPECT_EQ(float(e4m3(0x1.8p-9f)), 0x1p-8f);
    EXPECT_EQ(float(e5m2(0x1.000002p-17f)), 0x1p-16f);
    EXPECT_EQ(e4m3(-0x1p-30f).bits(), 0x80) << "zero keeps its sign";
    EXPECT_EQ(float(e4m3(1e9f)), 448);
    EXPECT_EQ(float(e4m3(-INFINITY)), -448);
    EXPECT_EQ(float(e5m2(65504.0f)), 57344) << "the largest f16";
    EXPECT_EQ(float(e5m2(INFINITY)), 57344) << "satfinite, though there is an infinity";
    EXPECT_EQ(e5m2(-NAN).bits(), 0x7f);
}

// --- kernels on both machines ---------------------------------------------------------------------------------------

/// Rows of four, the last filled up with zeros.
torch::Tensor rows_of_four(std::vector<float> values) {
    values.resize((values.size() + 3) / 4 * 4);
    const torch::Tensor rows = torch::empty({int64_t(values.size()) / 4, 4}, torch::kFloat32);
    std::memcpy(rows.data_ptr<float>(), values.data(), values.size() * sizeof(float));  // keeps every bit of a NaN
    return rows;
}

simt::TensorArgument codes_argument(const torch::Tensor& codes, simt::ElementType type) {
    simt::TensorArgument argument = raw_argument("codes", codes);
    argument.type = type;
    return argument;
}

TEST(Float8Kernels, EncodeAsTheDefinitionSays) {
    for (const Format& f : kFormats) {
        std::vector<float> values = special_values();
        for (const std::vector<float>& more : {around_each_boundary(f), every_half(), random_values(20'000)})
            values.insert(values.end(), more.begin(), more.end());
        const torch::Tensor in = rows_of_four(values);
        const int64_t rows = in.size(0);
        ASSERT_NE(rows % 128, 0) << "the last block should be a part of one";

        const torch::Tensor expected = torch::empty({rows, 4}, torch::kUInt8);
        const Nearest nearest(f);
        std::transform(in.data_ptr<float>(), in.data_ptr<float>() + in.numel(), expected.data_ptr<std::uint8_t>(),
                       [&](float x) { return std::uint8_t(nearest(x)); });
        for (const torch::Device device : machines()) {
            SCOPED_TRACE(device.str() + ", " + std::string(name_of(f.type)));
            const torch::Tensor floats = in.to(device), codes = torch::full({rows, 4}, 0x55, torch::kUInt8).to(device),
                                packed = torch::full({rows}, -1, torch::kInt32).to(device),
                                stored = torch::full({rows}, -1, torch::kInt32).to(device);
            run_on(device, cpu::launch_encode, cuda::launch_encode,
                   EncodeTrial{.values = raw_argument("values", floats),
                               .codes = codes_argument(codes, f.type),
                               .packed = raw_argument("packed", packed),
                               .stored = raw_argument("stored", stored)});
            EXPECT_TRUE(same_bits(codes, expected));
            EXPECT_TRUE(same_bits(packed, expected.view(torch::kInt32).flatten()));
            EXPECT_TRUE(same_bits(stored, expected.view(torch::kInt32).flatten()));
        }
    }
}

TEST(Float8Kernels, DecodeAsTheDefinitionSays) {
    for (const Format& f : kFormats) {
        // Every code in every place of a register, beside different neighbours.
        const torch::Tensor codes = torch::empty({256, 4}, torch::kUInt8);
        const torch::Tensor floats = torch::empty({256, 4}, torch::kFloat32);
        const torch::Tensor halves = torch::empty({256, 4}, torch::kInt16);
        for (unsigned row = 0; row < 256; ++row)
            for (unsigned i = 0; i < 4; ++i) {
                const unsigned code = (row + 75 * i) % 256;
                const double value = value_of(f, code);
                codes[row][i] = int(code);
                const std::uint32_t bits = std::isnan(value) ? 0x7fffffffu : bits_of(float(value));
                std::memcpy(floats.data_ptr<float>() + row * 4 + i, &bits, sizeof(bits));
                halves.data_ptr<std::int16_t>()[row * 4 + i] =
                    std::isnan(value) ? 0x7fff : std::int16_t(c10::Half(float(value)).x);
            }
        for (const torch::Device device : machines()) {
            SCOPED_TRACE(device.str() + ", " + std::string(name_of(f.type)));
            const torch::Tensor in = codes.to(device), values = torch::zeros_like(floats).to(device),
                                unpacked = torch::zeros_like(floats).to(device),
                                registers = torch::full({256, 2}, -1, torch::kInt32).to(device);
            run_on(device, cpu::launch_decode, cuda::launch_decode,
                   DecodeTrial{.codes = codes_argument(in, f.type),
                               .values = raw_argument("values", values),
                               .unpacked = raw_argument("unpacked", unpacked),
                               .halves = raw_argument("halves", registers)});
            EXPECT_TRUE(same_bits(values, floats));
            EXPECT_TRUE(same_bits(unpacked, floats));
            EXPECT_TRUE(same_bits(registers, halves.view(torch::kInt32)));
        }
    }
}

}  // namespace
}  // namespace ladder
