// Attention in 8 bits on Hopper, from one source on a GPU of compute capability 9.0 and on the CPU machine: blocks with
// scales, rotated rows, V transposed on the way. The oracle is attention in float64 on what the codes stand for, so
// that only what the kernel adds is bounded; what quantizing costs is measured in errors_test.cpp.

#include "phase7_hopper/fp8/hopper_fp8.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/attention/machine.h"
#include "common/reference/block_inputs.h"
#include "common/reference/oracle.h"
#include "common/reference/rotary_tables.h"
#include "common/reference/test_device.h"
#include "common/simt/device/device.h"
#include "common/simt/device/device_profile.h"
#include "common/simt/machine/schedule.h"
#include "common/simt/report/launch_log.h"
#include "phase7_hopper/fp8/test_codes.h"

namespace ladder {
namespace {

using namespace reference;
using fp8::values_of_k, fp8::values_of_q, fp8::values_of_v, fp8::rms;

torch::Tensor with_outliers(const std::vector<std::int64_t>& sizes, torch::ScalarType dtype = torch::kBFloat16) {
    return fp8::with_outliers(sizes, dtype).to(test_device());
}

struct Problem {
    std::int64_t query_heads, kv_heads, query_length, key_length, head_dim;
    Mask mask = Mask::none;
    std::optional<double> scale = {};
    Fp8Options how = {};
    torch::ScalarType dtype = torch::kBFloat16;
    double values_times = 1.0;
};

std::string describe(const Problem& p) {
    return std::to_string(p.query_heads) + " heads on " + std::to_string(p.kv_heads) + ", " +
           std::to_string(p.query_length) + " x " + std::to_string(p.key_length) + ", D " + std::to_string(p.head_dim) +
           ", mask " + std::to_string(int(p.mask)) + (p.how.rotated ? ", rotated" : "") +
           (p.how.values == ValueCodes::e5m2 ? ", values in e5m2" : "");
}

void check_tensors(const Problem& p, const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v) {
    EXPECT_TRUE(fp8::agrees_with_its_codes(q, k, v, {.scale = p.scale, .mask = p.mask}, p.how)) << describe(p);
}

void check(const Problem& p) {
    const simt::ScopedCpuDevice imitated(simt::device_from(simt::device_profile("h100")));
    torch::manual_seed(7);
    const auto drawn = [&](std::int64_t heads, std::int64_t length) {
        return with_outliers({2, heads, length, p.head_dim}, p.dtype);
    };
    const torch::Tensor q = drawn(p.query_heads, p.query_length), k = drawn(p.kv_heads, p.key_length);
    check_tensors(p, q, k, drawn(p.kv_heads, p.key_length) * p.values_times);
}

bool can_run() {
    if (!test_device().is_cuda() || device_limits(test_device()).has_feature(simt::Feature::wgmma)) return true;
    not_run_on_gpu("needs wgmma");
    return false;
}

constexpr Fp8Options kPlain{.rotated = false};
constexpr Fp8Options kE5m2{.values = ValueCodes::e5m2};

TEST(HopperFp8, AgreesWithFloat64OnWhatTheCodesStandFor) {
    if (!can_run()) return;
    for (const std::int64_t D : {64, 128, 256}) {
        check({1, 1, 64, 128, D});
        check({2, 1, 200, 300, D});
        check({2, 2, 70, 260, D, Mask::causal_bottom_right, {}, kPlain});
        check({2, 2, 260, 130, D, Mask::causal_top_left, {}, kE5m2, torch::kFloat16});
    }
    check({1, 1, 90, 200, 40});  // columns that no tensor has
    check({2, 1, 70, 150, 96});
    check({1, 1, 70, 150, 129});  // an odd number of them
    check({1, 1, 1, 1000, 128});
    check({1, 1, 1, 1, 1});
}

TEST(HopperFp8, RowsThatSeeNothing) {
    if (!can_run()) return;
    const Problem p{2, 2, 100, 50, 64, Mask::causal_bottom_right};
    check(p);
    const simt::ScopedCpuDevice imitated(simt::device_from(simt::device_profile("h100")));
    const torch::Tensor q = with_outliers({1, 1, 100, 64}), k = with_outliers({1, 1, 50, 64});
    const AttentionResult result = hopper_fp8_forward(q, k, k, {.scale = {}, .mask = p.mask});
    EXPECT_EQ(result.out.slice(2, 0, 50).abs().max().item<float>(), 0.0f);
    EXPECT_TRUE((result.lse.slice(2, 0, 50) == -INFINITY).all().item<bool>());
}

TEST(HopperFp8, ScalesOfAnySign) {
    if (!can_run()) return;
    check({1, 1, 130, 256, 64, Mask::none, -0.2});
    check({1, 1, 130, 256, 64, Mask::causal_top_left, 0.0});
    check({1, 1, 70, 200, 64, Mask::none, 3.0});
}

TEST(HopperFp8, BlocksOfAllSizes) {
    if (!can_run()) return;
    check({1, 1, 64, 300, 64, Mask::none, {}, {}, torch::kBFloat16, 1e20});
    check({1, 1, 64, 300, 64, Mask::none, {}, {}, torch::kBFloat16, 1e-20});
    // Each block of values, and of keys, thousands of times as large as the one before, and the other way round.
    const simt::ScopedCpuDevice imitated(simt::device_from(simt::device_profile("h100")));
    torch::manual_seed(11);
    for (const double sign : {1.0, -1.0}) {
        const torch::Tensor q = with_outliers({2, 1, 64, 64}), k = with_outliers({2, 1, 500, 64});
        const torch::Tensor v = with_outliers({2, 1, 500, 64});
        const torch::Tensor size = torch::pow(2.0, sign * torch::arange(500).div(128, "floor") * 9).view({500, 1});
        const Problem p{1, 1, 64, 500, 64};
        check_tensors(p, q, k, (v * size.to(v.device())).to(v.scalar_type()));
        check_tensors(p, q, (k * size.sqrt().sqrt().to(k.device())).to(k.scalar_type()), v);
    }
}

TEST(HopperFp8, ScoresThatAreAllNegativeOrRise) {
    if (!can_run()) return;
    const simt::ScopedCpuDevice imitated(simt::device_from(simt::device_profile("h100")));
    torch::manual_seed(12);
    const torch::Tensor q = torch::rand({2, 1, 70, 64}).to(torch::kBFloat16).to(test_device());
    const torch::Tensor k = (torch::rand({2, 1, 400, 64}) + 0.5).to(torch::kBFloat16).to(test_device());
    const torch::Tensor v = with_outliers({2, 1, 400, 64});
    const Problem p{1, 1, 70, 400, 64, Mask::none, {}, kPlain};
    check_tensors(p, q, -k, v);
    // Tiles are visited from the last to the first: these maxima rise with each of them, those fall.
    const torch::Tensor slope = torch::linspace(4.0, 0.1, 400).view({400, 1}).to(torch::kBFloat16).to(k.device());
    check_tensors(p, q, k * slope, v);
    check_tensors(p, q, k * slope.flip(0), v);
    check_tensors(p, q, -k * slope, v);
}

TEST(HopperFp8, StridesOfAnyKind) {
    if (!can_run()) return;
    const simt::ScopedCpuDevice imitated(simt::device_from(simt::device_profile("h100")));
    torch::manual_seed(13);
    const torch::Tensor packed = with_outliers({2, 3, 90, 2, 2 * 64 + 3});
    const auto part = [&](int which) {
        return packed.select(1, which).transpose(1, 2).slice(3, 1 + which, 65 + which);
    };
    check_tensors({2, 2, 90, 90, 64, Mask::causal_top_left}, part(0), part(1), part(2));
}

TEST(HopperFp8, OrdersAreAllRight) {
    if (test_device().is_cuda()) return;
    for (const std::uint64_t seed : {1, 2, 3}) {
        const simt::ScopedOrder order(seed);
        check({1, 1, 200, 400, 64, Mask::causal_bottom_right});
    }
}

TEST(HopperFp8, RepeatsBitwise) {
    if (!can_run()) return;
    const simt::ScopedCpuDevice imitated(simt::device_from(simt::device_profile("h100")));
    const torch::Tensor q = with_outliers({1, 2, 200, 64}), k = with_outliers({1, 1, 300, 64});
    const AttentionResult one = hopper_fp8_forward(q, k, k), two = hopper_fp8_forward(q, k, k);
    EXPECT_TRUE(torch::equal(one.out, two.out));
    EXPECT_TRUE(torch::equal(one.lse, two.lse));
}

TEST(HopperFp8, MovesWhatTheFormulaSays) {
    if (test_device().is_cuda() || !simt::cpu_machine_checks()) return;
    const simt::ScopedCpuDevice imitated(simt::device_from(simt::device_profile("h100")));
    const RotaryTables tables = rotary_tables(520, 40, test_device());
    const Fp8Options turned{.rotary = Rotary{tables.cosines, tables.sines, 260}};
    for (const Mask mask : {Mask::none, Mask::causal_bottom_right, Mask::causal_top_left})
        for (const std::int64_t D : {40, 128, 200})
            for (const auto& [queries, keys] : {std::pair{70, 330}, {260, 130}}) {
                const torch::Tensor q = with_outliers({1, 2, queries, D}), k = with_outliers({1, 1, keys, D});
                const AttentionOptions options{.scale = {}, .mask = mask};
                const Fp8Options how = D == 40 ? turned : Fp8Options();
                const simt::LaunchLog log(simt::LaunchLog::Detail::bytes);
                hopper_fp8_forward(q, k, k, options, how);
                GlobalBytes moved;
                for (const simt::LaunchRecord& launch : log.records()) {
                    moved.read += launch.counters.global_bytes_read();
                    moved.written += launch.counters.global_bytes_written();
                }
                const GlobalBytes expected = hopper_fp8_forward_bytes(q, k, k, options, how);
                EXPECT_EQ(moved.read, expected.read) << queries << " x " << keys << ", D " << D << ", " << int(mask);
                EXPECT_EQ(moved.written, expected.written) << queries << " x " << keys << ", D " << D;
            }
}

// The codes are as near to the numbers as codes can be, rotated, turned, in blocks of all sizes; and what is not finite
// stays where it may be.
TEST(HopperFp8, KeepsItsBounds) {
    if (!can_run()) return;
    const simt::ScopedCpuDevice imitated(simt::device_from(simt::device_profile("h100")));
    AttentionCase problem{.query_heads = 2, .query_length = 70, .key_length = 300};
    const auto keeps = [&](const BlockSizes& sizes, const Fp8Options& how, const auto& change) {
        const auto [q, k, v] = make_block_inputs(problem, sizes, fp8::kKeyRows, test_device());
        change(q, k, v);
        EXPECT_TRUE(fp8::keeps_its_bounds(q, k, v, problem.options, how)) << problem;
    };
    const auto nothing = [](const auto&...) {};
    for (const auto& [dtype, D] : {std::pair{torch::kFloat16, 40}, {torch::kBFloat16, 129}, {torch::kBFloat16, 256}}) {
        problem.dtype = dtype;
        problem.head_dim = D;
        keeps({.outliers = true}, {}, nothing);
        keeps({.key_growth = -1, .value_growth = 2}, kPlain, nothing);
        keeps({.key_growth = 1, .value_growth = -2}, kE5m2, nothing);
    }
    problem.head_dim = 64;
    const RotaryTables tables = rotary_tables(300, 64, test_device());
    keeps({.outliers = true}, {.rotary = Rotary{tables.cosines, tables.sines, 230}}, nothing);
    keeps({}, {.rotated = false, .rotary = Rotary{tables.cosines, tables.sines, 0}}, nothing);
    for (const Mask mask : {Mask::none, Mask::causal_bottom_right}) {
        problem.options.mask = mask;
        keeps({}, {}, [](const auto& q, const auto&, const auto&) { q[0][1][33][5].fill_(INFINITY); });
        keeps({}, {}, [](const auto&, const auto& k, const auto&) { k[0][0][250][5].fill_(NAN); });
        keeps({}, {}, [](const auto&, const auto&, const auto& v) { v[0][0][40][63].fill_(-INFINITY); });
    }
}

TEST(HopperFp8, RotaryEmbeddingIsFused) {
    if (!can_run()) return;
    const simt::ScopedCpuDevice imitated(simt::device_from(simt::device_profile("h100")));
    torch::manual_seed(14);
    const std::int64_t D = 40, queries = 70, keys = 130, first = keys - queries;
    const torch::Tensor q = with_outliers({1, 2, queries, D}), k = with_outliers({1, 2, keys, D});
    const torch::Tensor angles =
        torch::arange(keys).view({keys, 1}) * torch::pow(1e4, -torch::arange(0, D, 2).to(torch::kFloat32) / double(D));
    const torch::Tensor cosines = angles.cos().to(q.device()), sines = angles.sin().to(q.device());
    const auto turned = [&](const torch::Tensor& x, std::int64_t from) {
        const torch::Tensor x64 = x.to(torch::kFloat64), even = x64.slice(3, 0, D, 2), odd = x64.slice(3, 1, D, 2);
        const torch::Tensor c = cosines.slice(0, from, from + x.size(2)), s = sines.slice(0, from, from + x.size(2));
        return torch::stack({even * c - odd * s, even * s + odd * c}, 4).reshape(x.sizes());
    };
    const Fp8Operands codes =
        quantize_to_8_bits(q, k, k, {}, {.rotated = false, .rotary = Rotary{cosines, sines, first}});
    for (const auto& [got, expected] :
         {std::pair{values_of_q(codes), turned(q, first)}, {values_of_k(codes), turned(k, 0)}})
        EXPECT_LE(rms(got.slice(3, 0, D) - expected), 0.04 * rms(expected));
    // Angles and the rotation together leave the products as they are.
    const AttentionOptions options{.scale = {}, .mask = Mask::causal_bottom_right};
    const torch::Tensor out = hopper_fp8_forward(q, k, k, options, {.rotary = Rotary{cosines, sines, first}}).out;
    const torch::Tensor expected = attention_oracle(turned(q, first), turned(k, 0), k.to(torch::kFloat64), options).out;
    EXPECT_LE(rms(out.to(torch::kFloat64) - expected), 0.1 * rms(expected));
}

TEST(HopperFp8, BlocksAreRoundedToTheNearestCode) {
    if (!can_run()) return;
    const simt::ScopedCpuDevice imitated(simt::device_from(simt::device_profile("h100")));
    torch::manual_seed(5);
    const torch::Tensor x = with_outliers({1, 2, 200, 100}) * 37.0;
    x[0][0][3][5].fill_(1.95 * 2048.0);  // has a larger mantissa than the largest code
    for (const ValueCodes type : {ValueCodes::e4m3, ValueCodes::e5m2}) {
        const int mantissa = type == ValueCodes::e4m3 ? 3 : 2;
        const Fp8Operands codes = quantize_to_8_bits(x, x, x, {}, {.rotated = false, .values = type});
        const torch::Tensor x64 = x.to(torch::kFloat64), values = values_of_v(codes);
        EXPECT_EQ(values.slice(3, 100).abs().max().item<double>(), 0.0);
        const torch::Tensor step = torch::pow(2.0, codes.v_exponents.to(torch::kFloat64))
                                       .repeat_interleave(128, 2)
                                       .slice(2, 0, 200)
                                       .unsqueeze(-1);
        const torch::Tensor error = (values.slice(3, 0, 100) - x64).abs();
        const torch::Tensor half_a_step =
            torch::maximum(x64.abs() * std::ldexp(1.0, -mantissa - 1), step * std::ldexp(1.0, -10));
        EXPECT_TRUE((error <= half_a_step).all().item<bool>());
        // The largest of each block uses the upper half of what the codes reach.
        const double largest_code = type == ValueCodes::e4m3 ? 448.0 : 57344.0;
        const torch::Tensor largest = (values / step).abs();
        EXPECT_GT(largest.slice(2, 0, 128).max().item<double>(), 0.46 * largest_code);
        EXPECT_LE(largest.max().item<double>(), largest_code);
    }
}

TEST(HopperFp8, WhatIsInfiniteBecomesNaN) {
    if (!can_run()) return;
    const simt::ScopedCpuDevice imitated(simt::device_from(simt::device_profile("h100")));
    torch::Tensor x = with_outliers({1, 1, 64, 64});
    x[0][0][3][5].fill_(INFINITY);
    const torch::Tensor values = values_of_q(quantize_to_8_bits(x, x, x, {}, {.rotated = false}));
    EXPECT_EQ(values.isnan().sum().item<std::int64_t>(), 1);
    EXPECT_TRUE(values[0][0][3][5].isnan().item<bool>());
}

std::string refusal(const std::function<void()>& call) {
    try {
        call();
    } catch (const std::exception& error) {
        return error.what();
    }
    return "nothing was refused";
}

TEST(HopperFp8, RefusesInWords) {
    if (!can_run()) return;
    using ::testing::HasSubstr;
    const torch::Tensor q = with_outliers({1, 1, 8, 64}), odd = with_outliers({1, 1, 8, 33});
    const torch::Tensor table = torch::zeros({8, 32}, q.options().dtype(torch::kFloat32));
    if (!test_device().is_cuda()) {
        const simt::ScopedCpuDevice ampere(simt::device_from(simt::device_profile("a100")));
        const std::string words = refusal([&] { hopper_fp8_forward(q, q, q); });
        EXPECT_THAT(words, HasSubstr("wgmma"));
        EXPECT_THAT(words, HasSubstr("mma_forward"));
    }
    const simt::ScopedCpuDevice imitated(simt::device_from(simt::device_profile("h100")));
    const torch::Tensor wide = q.to(torch::kFloat32);
    EXPECT_THAT(refusal([&] { hopper_fp8_forward(wide, wide, wide); }), HasSubstr("float16 and bfloat16"));
    const auto with_table = [&](const torch::Tensor& x, const torch::Tensor& cosines, std::int64_t first) {
        return refusal([&] { hopper_fp8_forward(x, x, x, {}, {.rotary = Rotary{cosines, table, first}}); });
    };
    EXPECT_THAT(with_table(odd, table, 0), HasSubstr("even"));
    EXPECT_THAT(with_table(q, table, 1), HasSubstr("at least 9 positions"));
    EXPECT_THAT(with_table(q, table, -1), HasSubstr("first_query is -1"));
    EXPECT_THAT(with_table(q, table.to(torch::kFloat64), 0), HasSubstr("float32"));
    EXPECT_THAT(with_table(q, torch::Tensor(), 0), HasSubstr("undefined"));
}

}  // namespace
}  // namespace ladder
