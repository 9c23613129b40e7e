// Tensor maps that no driver would take, each refused in words; and where the elements of panel tiles lie.

#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <stdexcept>
#include <string>

#include "tests/simt/fault_checks.h"

namespace simt::testing {
namespace {

/// [2, 3, 50, 64] of 16-bit elements, at address 1024.
TensorArgument sound() {
    return {.name = "K",
            .data = reinterpret_cast<void*>(1024),
            .type = ElementType::f16,
            .rank = 4,
            .extents = {2, 3, 50, 64},
            .strides = {9600, 3200, 64, 1}};
}

template <class Make>
void expect_refused(Make make, const std::vector<std::string>& says) {
    try {
        make();
        ADD_FAILURE() << "accepted, against: " << says.front();
    } catch (const std::invalid_argument& error) {
        for (const std::string& words : says)
            EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << words << "\n" << error.what();
        EXPECT_TRUE(std::string(error.what()).starts_with("tensor map of K: ")) << error.what();
    }
}

/// A change of the sound argument that breaks a rule.
template <class Change>
void expect_argument_refused(Change change, const std::vector<std::string>& says) {
    expect_refused(
        [&] {
            TensorArgument argument = sound();
            change(argument);
            static_cast<void>(tensor_map<const f16, 4>(argument, {1, 1, 16, 64}, Swizzle::b128));
        },
        says);
}

void expect_box_refused(std::array<int, 4> box, Swizzle swizzle, const std::vector<std::string>& says,
                        std::array<int, 4> steps = {1, 1, 1, 1}) {
    expect_refused([&] { static_cast<void>(tensor_map<const f16, 4>(sound(), box, swizzle, steps)); }, says);
}

TEST(TensorMapRules, WhatIsSoundIsAccepted) {
    const auto map = tensor_map<const f16, 4>(sound(), {1, 1, 16, 64}, Swizzle::b128);
    EXPECT_EQ(map.shape().rows(), 16);
    EXPECT_EQ(map.shape().columns(), 64);
    EXPECT_EQ(map.shape().bytes(), 16u * 64 * 2);
    const auto wide = tensor_map<const f16, 4>(sound(), {2, 3, 256, 256}, Swizzle::none);
    EXPECT_EQ(wide.shape().rows(), 2 * 3 * 256);
    const auto tile = tile_map<const f16, 4, 32, 128, Swizzle::b64>(sound());
    EXPECT_EQ(tile.shape().box, (std::array{1, 1, 32, 32, 0}));
    const auto sparse = tensor_map<const f16, 4>(sound(), {1, 1, 15, 64}, Swizzle::b128, {1, 1, 8, 1});
    EXPECT_EQ(sparse.shape().rows(), 2);
}

TEST(TensorMapRules, ADimensionOfOneElementMayHaveAnyStride) {
    TensorArgument argument = sound();
    argument.extents[0] = 1;
    argument.strides[0] = 3;
    EXPECT_NO_THROW((tensor_map<const f16, 4>(argument, {1, 1, 16, 64}, Swizzle::b128)));
    argument = sound();
    argument.strides[1] = 0;  // and an expanded one has none
    EXPECT_NO_THROW((tensor_map<const f16, 4>(argument, {1, 1, 16, 64}, Swizzle::b128)));
}

TEST(TensorMapRules, AShapeOfItsOwn) {
    const TensorShape<5> split{{2, 3, 50, 2, 32}, {9600, 3200, 64, 32, 1}};
    const auto map = tensor_map<const f16, 5>(sound(), split, {1, 1, 8, 2, 32}, Swizzle::b64);
    EXPECT_EQ(map.shape().rank, 5);
    EXPECT_EQ(map.shape().rows(), 16);
}

TEST(TensorMapRules, TheTensor) {
    expect_argument_refused([](TensorArgument& a) { a.data = reinterpret_cast<void*>(1032); },
                            {"begins at a multiple of 16 bytes", "8 bytes beyond", "coordinates"});
    expect_argument_refused([](TensorArgument& a) { a.data = nullptr; }, {"no address"});
    expect_argument_refused([](TensorArgument& a) { a.rank = 3; },
                            {"as many dimensions as the tensor", "a map of 4 for a tensor of 3"});
    expect_argument_refused([](TensorArgument& a) { a.strides[2] = 66; },
                            {"multiples of 16 bytes", "stride of dimension 2 is 132 bytes"});
    expect_argument_refused([](TensorArgument& a) { a.strides[0] = std::int64_t{1} << 39; },
                            {"below 2^40 bytes", "stride of dimension 0 is 1099511627776 bytes"});
    expect_argument_refused([](TensorArgument& a) { a.strides[1] = -3200; },
                            {"at least 0", "stride of dimension 1 is -6400 bytes"});
    expect_argument_refused([](TensorArgument& a) { a.strides[3] = 2; }, {"side by side", "2 elements"});
    expect_argument_refused([](TensorArgument& a) { a.extents[1] = 0; },
                            {"1 to 2^32 elements", "extent of dimension 1 is 0"});
    expect_argument_refused([](TensorArgument& a) { a.extents[0] = (std::int64_t{1} << 32) + 1; },
                            {"extent of dimension 0 is 4294967297"});
}

TEST(TensorMapRules, TheBox) {
    expect_box_refused({1, 1, 257, 64}, Swizzle::b128, {"1 to 256 elements", "box of dimension 2 has 257"});
    expect_box_refused({1, 0, 16, 64}, Swizzle::b128, {"box of dimension 1 has 0"});
    expect_box_refused({1, 1, 16, 12}, Swizzle::none,
                       {"multiples of 16 bytes", "12 elements of 2 bytes, has 24 bytes"});
    expect_box_refused({1, 1, 16, 128}, Swizzle::b128,
                       {"128-byte swizzle", "at most 128 bytes", "has 256 bytes", "panels"});
    expect_box_refused({1, 1, 16, 64}, Swizzle::b64, {"64-byte swizzle", "at most 64 bytes"});
    expect_box_refused({1, 1, 16, 32}, Swizzle::b32, {"32-byte swizzle", "at most 32 bytes"});
    expect_box_refused({1, 1, 16, 64}, Swizzle::b128, {"1 to 8 elements", "step of dimension 2 is 9"}, {1, 1, 9, 1});
    expect_box_refused({1, 1, 16, 64}, Swizzle::b128, {"step of dimension 0 is 0"}, {0, 1, 1, 1});
    expect_box_refused({1, 1, 16, 64}, Swizzle::b128, {"the last dimension is 1", "is 2"}, {1, 1, 1, 2});
}

// --- panels ---------------------------------------------------------------------------------------------------------

/// The rule as the PTX ISA has it: bits of the address are exchanged by those three above.
template <Swizzle S, int Bits, class T>
void expect_addresses() {
    constexpr int R = 24, W = int(swizzle_span(S)) / int(sizeof(T)), C = 3 * W;
    using Layout = PanelLayout<int(sizeof(T)), R, C, S>;
    std::set<unsigned> places;
    for (int r = 0; r < R; ++r)
        for (int c = 0; c < C; ++c) {
            unsigned address = unsigned(c / W * R * int(swizzle_span(S)) + r * int(swizzle_span(S))) +
                               unsigned(c % W) * unsigned(sizeof(T));
            EXPECT_EQ(Layout::plain_offset(unsigned(r), unsigned(c)), address);
            for (int bit = 4; bit < 4 + Bits; ++bit) address ^= (address >> (bit + 3) & 1u) << bit;
            EXPECT_EQ(Layout::offset(unsigned(r), unsigned(c)), address) << r << ", " << c;
            places.insert(address);
        }
    EXPECT_EQ(places.size(), std::size_t(R * C));
}

TEST(Panels, LieWhereTheHardwareLooksForThem) {
    expect_addresses<Swizzle::b32, 1, std::uint16_t>();
    expect_addresses<Swizzle::b64, 2, std::uint16_t>();
    expect_addresses<Swizzle::b128, 3, std::uint16_t>();
    expect_addresses<Swizzle::b128, 3, float>();
    expect_addresses<Swizzle::b64, 2, std::uint8_t>();
}

constexpr Shape kPanels{.block = 64, .shared_bytes = 16 * 128 * sizeof(float)};
auto panels() { return SharedArena().panels<float, 16, 64, Swizzle::b128>("K_j"); }

TEST(Panels, KeepEveryElementApart) {
    std::vector<float> seen(16 * 64);
    const auto error = fault_of(kPanels, [&] {
        const int column = int(threadIdx.x);
        const auto tile = panels();
        for (int r = 0; r < 16; ++r) tile(r, column) = float(100 * r + column);
        __syncthreads();
        const auto half = tile.rows_from<8>(8);
        for (int r = 0; r < 8; ++r) seen[std::size_t(r * 64 + column)] = tile(r, 63 - column);
        for (int r = 0; r < 8; ++r) {
            const float4 four = half.vec<float4>(r, column / 4 * 4);
            seen[std::size_t((8 + r) * 64 + column)] = column % 4 == 0   ? four.x
                                                       : column % 4 == 1 ? four.y
                                                       : column % 4 == 2 ? four.z
                                                                         : four.w;
        }
    });
    ASSERT_FALSE(error) << error->what();
    for (int r = 0; r < 16; ++r)
        for (int c = 0; c < 64; ++c) EXPECT_EQ(seen[std::size_t(r * 64 + c)], 100 * r + (r < 8 ? 63 - c : c));
}

TEST(Panels, MessagesNameRowsAndColumns) {
    expect_fault(kPanels,
                 [] {
                     const auto tile = panels();
                     if (threadIdx.x == 3) tile(13, 37) = 1.0f;  // @panel write
                     float x = 0;
                     if (threadIdx.x == 50) x = tile(13, 37);  // @panel read
                     (void)x;
                 },
                 {.fault = Fault::race,
                  .first = {50, "panel read"},
                  .second = {3, "panel write"},
                  .says = {"thread 50 reads K_j(13, 37), which thread 3 wrote"}});
    expect_fault(kPanels,
                 [] {
                     const auto stage = panels().rows_from<8>(8);
                     const float x = stage(1, 62);  // @unwritten panel
                     (void)x;
                 },
                 {.fault = Fault::uninitialised_read,
                  .first = {0, "unwritten panel"},
                  .says = {"K_j(9, 62), which nobody has written"}});
}

TEST(Panels, HaveEnds) {
    expect_fault(kPanels,
                 [] {
                     panels()(3, 64) = 1.0f;  // @beyond the panels
                 },
                 {.fault = Fault::out_of_bounds,
                  .first = {0, "beyond the panels"},
                  .says = {"K_j(3, 64) lies outside the tile of 16 rows and 64 columns"}});
    expect_fault(kPanels,
                 [] {
                     panels().vec<float4>(3, 30) = make_float4(0, 0, 0, 0);  // @askew in a panel
                 },
                 {.fault = Fault::misaligned,
                  .first = {0, "askew in a panel"},
                  .says = {"K_j(3, 30) is not aligned to 16 bytes"}});
    expect_fault(kPanels,
                 [] {
                     panels().rows_from<8>(4)(0, 0) = 1.0f;  // @between patterns
                 },
                 {.fault = Fault::misaligned,
                  .first = {0, "between patterns"},
                  .says = {"K_j.rows_from<8>(4) begins between two patterns", "multiple of 8 rows"}});
    expect_fault(kPanels,
                 [] {
                     panels().rows_from<8>(16)(0, 0) = 1.0f;  // @a stage too far
                 },
                 {.fault = Fault::out_of_bounds,
                  .first = {0, "a stage too far"},
                  .says = {"K_j.rows_from<8>(16) lies outside the tile of 16 rows"}});
}

TEST(Panels, BeginAtMultiplesOf1024) {
    const auto carve = [](bool panels_first) {
        return [=] {
            SharedArena arena;
            if (!panels_first) arena.tile<float, 1, 4>("scale");
            const auto tile = arena.panels<float, 16, 32, Swizzle::b128>("K_j");  // @carved second
            if (panels_first) arena.tile<float, 1, 4>("scale");
            tile(0, int(threadIdx.x)) = 1.0f;
        };
    };
    const Shape shape{.shared_bytes = panel_bytes<float>(16, 32) + shared_bytes<float>(1, 4)};
    expect_clean(shape, carve(true));
    expect_fault(shape, carve(false),
                 {.fault = Fault::arena_overflow,
                  .first = {0, "carved second"},
                  .says = {"brings the total to 3072 bytes", "1008 are lost before it", "carve panel tiles first"}});
    expect_clean({.shared_bytes = 3072}, carve(false));
}

}  // namespace
}  // namespace simt::testing
