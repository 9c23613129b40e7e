// Attention in 8 bits on Hopper, from one source on a GPU of compute capability 9.0 and on the CPU machine: blocks with
// scales, rotated rows, V transposed on the way. The oracle is attention in float64 on what the codes stand for, so
// that only what the kernel adds is bounded; what quantising costs is measured apart.

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "common/attention/machine.h"
#include "common/reference/oracle.h"
#include "common/reference/test_device.h"
#include "common/simt/device/device_profile.h"
#include "common/simt/machine/schedule.h"
#include "tests/hopper_fp8/hopper_fp8.h"

namespace ladder {
namespace {

using namespace reference;

constexpr int kQueryRows = 64, kKeyRows = 128;  // of a block
constexpr std::int64_t kColumns[] = {64, 128, 256};

std::int64_t compiled_columns(std::int64_t head_dim) {
    for (const std::int64_t columns : kColumns)
        if (head_dim <= columns) return columns;
    return 0;
}

simt::TensorArgument argument(const char* name, const torch::Tensor& tensor, simt::ElementType type) {
    simt::TensorArgument a{.name = name, .data = tensor.data_ptr(), .type = type, .rank = int(tensor.dim())};
    for (int i = 0; i < a.rank; ++i) {
        a.extents[i] = tensor.size(i);
        a.strides[i] = tensor.stride(i);
    }
    return a;
}

/// The 256 numbers of e4m3, by the table of the standard: s eeee mmm.
torch::Tensor numbers_of_codes() {
    std::vector<double> numbers;
    for (int code = 0; code < 256; ++code) {
        const int e = code >> 3 & 15, m = code & 7;
        const double magnitude = (code & 127) == 127 ? NAN : e == 0 ? std::ldexp(m, -9) : std::ldexp(8 + m, e - 10);
        numbers.push_back(code < 128 ? magnitude : -magnitude);
    }
    return torch::tensor(numbers, torch::kFloat64);
}

/// Blocks of codes with an exponent each, as quantize_blocks_kernel makes them.
struct Quantized {
    torch::Tensor codes, exponents;
    int block_rows;

    /// What they stand for, in float64.
    torch::Tensor values() const {
        const torch::Tensor scale = torch::pow(2.0, exponents.to(torch::kFloat64));
        const torch::Tensor numbers = numbers_of_codes()
                                          .to(codes.device())
                                          .index_select(0, codes.reshape(-1).to(torch::kInt64))
                                          .view(codes.sizes());
        return numbers * scale.repeat_interleave(block_rows, 2).slice(2, 0, codes.size(2)).unsqueeze(-1);
    }
};

Quantized quantize(const torch::Tensor& x, int block_rows, bool rotates, float factor = 1.0f) {
    const std::int64_t columns = compiled_columns(x.size(3)), blocks = (x.size(2) + block_rows - 1) / block_rows;
    const auto on = torch::TensorOptions(x.device());
    Quantized q{torch::full({x.size(0), x.size(1), x.size(2), columns}, 0x7f, on.dtype(torch::kUInt8)),
                torch::full({x.size(0), x.size(1), blocks}, 127, on.dtype(torch::kInt32)), block_rows};
    run_on<QuantizationArguments>(x.device(), cpu::launch_hopper_fp8_quantization, cuda::launch_hopper_fp8_quantization,
                                  {.x = argument("X", x, simt::ElementType::bf16),
                                   .codes = argument("codes", q.codes, simt::ElementType::e4m3),
                                   .exponents = argument("exponents", q.exponents, simt::ElementType::i32),
                                   .factor = factor,
                                   .rotates = rotates,
                                   .block_rows = block_rows,
                                   .stream = nullptr});
    return q;
}

struct Problem {
    std::int64_t query_heads, kv_heads, query_length, key_length, head_dim;
    Mask mask = Mask::none;
    float scale = 0.0f;  ///< 0: one over the root of the head dimension
};

std::string describe(const Problem& p) {
    return std::to_string(p.query_heads) + " heads on " + std::to_string(p.kv_heads) + ", " +
           std::to_string(p.query_length) + " x " + std::to_string(p.key_length) + ", D " + std::to_string(p.head_dim) +
           ", mask " + std::to_string(int(p.mask));
}

torch::Tensor drawn(std::vector<std::int64_t> sizes) {
    torch::Tensor x = torch::randn(sizes, torch::kFloat32);
    // FlashAttention-3's inputs with outliers (section 4.3): one in a thousand is ten times as large.
    x += torch::randn(sizes) * 10.0 * (torch::rand(sizes) < 0.001);
    return x.to(torch::kBFloat16).to(test_device());
}

double rms(const torch::Tensor& x) { return x.square().mean().sqrt().item<double>(); }

/// Runs the problem and holds O and LSE against float64. `rms_error`: against what the tensors were before they were
/// quantised.
void check(const Problem& p, bool rotates = true, double* rms_error = nullptr) {
    SCOPED_TRACE(describe(p));
    const simt::ScopedCpuDevice imitated(simt::device_from(simt::device_profile("h100")));
    torch::manual_seed(7);
    const torch::Tensor q = drawn({2, p.query_heads, p.query_length, p.head_dim});
    const torch::Tensor k = drawn({2, p.kv_heads, p.key_length, p.head_dim});
    const torch::Tensor v = drawn({2, p.kv_heads, p.key_length, p.head_dim});
    const float scale = p.scale != 0.0f ? p.scale : 1.0f / std::sqrt(float(p.head_dim));
    const Quantized Q = quantize(q, kQueryRows, rotates, scale < 0.0f ? -1.0f : 1.0f);
    const Quantized K = quantize(k, kKeyRows, rotates), V = quantize(v, kKeyRows, false);

    const torch::Tensor out = torch::full_like(q, NAN);
    const torch::Tensor lse = torch::full({2, p.query_heads, p.query_length}, NAN, q.options().dtype(torch::kFloat32));
    Fp8Arguments f{.a = attention_arguments(q, k, v, out, lse, {.scale = scale, .mask = p.mask}),
                   .q_exponents = argument("Q exponents", Q.exponents, simt::ElementType::i32),
                   .k_exponents = argument("K exponents", K.exponents, simt::ElementType::i32),
                   .v_exponents = argument("V exponents", V.exponents, simt::ElementType::i32)};
    f.a.q = argument("Q", Q.codes, simt::ElementType::e4m3);
    f.a.k = argument("K", K.codes, simt::ElementType::e4m3);
    f.a.v = argument("V", V.codes, simt::ElementType::e4m3);
    f.a.scale = std::abs(scale);
    const OnDevice here(q.device());
    f.a.stream = here.stream();
    (q.device().is_cuda() ? cuda::launch_hopper_fp8 : cpu::launch_hopper_fp8)(f);

    const AttentionOptions options{.scale = std::abs(scale), .mask = p.mask};
    const torch::Tensor q64 = Q.values(), k64 = K.values(), v64 = V.values();
    const AttentionResult exact = attention_oracle(q64, k64, v64, options);
    const torch::Tensor o64 = exact.out.slice(3, 0, p.head_dim);
    const torch::Tensor error = (out.to(torch::kFloat64) - o64).abs();

    // A weight is rounded to 3 bits of mantissa, 2^-4 of it at most, or to multiples of 2^-9 where it is small, as
    // fractions of the 2^6 that the largest has: 2^-16. A score errs by what the tensor cores' 13 bits lose of the
    // magnitudes |q| |k|, in each of D / 32 steps, and so do sums of weights times values.
    const torch::Tensor magnitudes = attention_oracle(q64, k64, v64.abs(), options).out.slice(3, 0, p.head_dim);
    const auto grouped = [&](const torch::Tensor& x) { return x.repeat_interleave(p.query_heads / p.kv_heads, 1); };
    const torch::Tensor of_scores = torch::matmul(q64.abs(), grouped(k64.abs()).transpose(2, 3)).amax(3, true) *
                                    std::abs(scale) * std::ldexp(1.0, -12);
    const torch::Tensor all_values = grouped(v64.abs().sum(2, true)).slice(3, 0, p.head_dim);
    const torch::Tensor bound = (std::ldexp(1.0, -4) + 2 * of_scores.expm1() + std::ldexp(1.0, -8)) * magnitudes +
                                std::ldexp(1.0, -16) * all_values + std::ldexp(1.0, -8) * o64.abs() + 1e-30;
    EXPECT_FALSE(out.isnan().any().item<bool>());
    EXPECT_LE((error / bound).max().item<double>(), 1.0);
    // The roundings of many keys are independent: their sum is far below the bound. This is what a wrong order of keys,
    // columns or scales cannot keep to.
    EXPECT_LE(rms(error), 0.05 * rms(o64) + 1e-30);

    const torch::Tensor exact_lse = exact.lse, seen = exact_lse.isfinite();
    EXPECT_TRUE(torch::equal(seen, lse.isfinite()));
    const torch::Tensor lse_error = (lse.to(torch::kFloat64) - exact_lse).abs() - of_scores.squeeze(3) - 1e-4;
    EXPECT_FALSE(((lse_error > 0) & seen).any().item<bool>());

    if (rms_error) {
        const torch::Tensor original = attention_oracle(q.to(torch::kFloat64), k.to(torch::kFloat64),
                                                        v.to(torch::kFloat64), {.scale = scale, .mask = p.mask})
                                           .out;
        *rms_error = rms(out.to(torch::kFloat64) - original);
    }
}

bool can_run() {
    if (!test_device().is_cuda() || device_limits(test_device()).has_feature(simt::Feature::wgmma)) return true;
    not_run_on_gpu("needs wgmma");
    return false;
}

TEST(HopperFp8, AgreesWithFloat64OnWhatTheCodesStandFor) {
    if (!can_run()) return;
    for (const std::int64_t D : {64, 128, 256}) {
        check({1, 1, 64, 128, D});
        check({2, 1, 200, 300, D});
        check({2, 2, 70, 260, D, Mask::causal_bottom_right});
        check({2, 2, 260, 130, D, Mask::causal_top_left});
    }
    check({2, 2, 100, 50, 64, Mask::causal_bottom_right});  // rows that see nothing
    check({1, 1, 90, 200, 40});                             // columns that no tensor has
    check({1, 1, 1, 1000, 128});
    check({1, 1, 130, 256, 64, Mask::none, -0.2f});
}

TEST(HopperFp8, OrdersAreAllRight) {
    if (test_device().is_cuda()) return;
    for (const std::uint64_t seed : {1, 2, 3}) {
        const simt::ScopedOrder order(seed);
        check({1, 1, 200, 400, 64, Mask::causal_bottom_right});
    }
}

TEST(HopperFp8, RotationTakesTheOutliersAway) {
    if (!can_run()) return;
    double plain = 0.0, rotated = 0.0;
    const Problem p{2, 2, 256, 1024, 128};
    check(p, false, &plain);
    check(p, true, &rotated);
    EXPECT_LT(rotated, 0.75 * plain);
    EXPECT_LT(rotated, 0.0125);
    RecordProperty("rms_error_plain", std::to_string(plain));
    RecordProperty("rms_error_rotated", std::to_string(rotated));
}

TEST(HopperFp8, BlocksAreRoundedToTheNearestCode) {
    const simt::ScopedCpuDevice imitated(simt::device_from(simt::device_profile("h100")));
    torch::manual_seed(5);
    const torch::Tensor x = drawn({1, 2, 200, 100}) * 37.0;
    const Quantized q = quantize(x, kKeyRows, false);
    const torch::Tensor x64 = x.to(torch::kFloat64), values = q.values();
    EXPECT_EQ(values.slice(3, 100).abs().max().item<double>(), 0.0);
    const torch::Tensor step =
        torch::pow(2.0, q.exponents.to(torch::kFloat64)).repeat_interleave(kKeyRows, 2).slice(2, 0, 200).unsqueeze(-1);
    const torch::Tensor error = (values.slice(3, 0, 100) - x64).abs();
    EXPECT_TRUE(
        (error <= torch::maximum(x64.abs() * std::ldexp(1.0, -4), step * std::ldexp(1.0, -10))).all().item<bool>());
    // The largest of each block uses the upper half of what the codes reach.
    const torch::Tensor largest = (values / step).abs();
    EXPECT_GT(largest.slice(2, 0, kKeyRows).max().item<double>(), 224.0 * 0.93);
    EXPECT_LE(largest.max().item<double>(), 448.0);
}

TEST(HopperFp8, WhatIsInfiniteBecomesNaN) {
    const simt::ScopedCpuDevice imitated(simt::device_from(simt::device_profile("h100")));
    torch::Tensor x = drawn({1, 1, 64, 64});
    x[0][0][3][5].fill_(INFINITY);
    const torch::Tensor values = quantize(x, kQueryRows, false).values();
    EXPECT_EQ(values.isnan().sum().item<std::int64_t>(), 1);
    EXPECT_TRUE(values[0][0][3][5].isnan().item<bool>());
}

}  // namespace
}  // namespace ladder
