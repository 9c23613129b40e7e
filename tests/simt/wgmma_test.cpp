// wgmma, stmatrix, elect.sync and setmaxnreg do the same on both machines: layouts exactly, sums within the documented
// bound.
//
// `--gtest_output=json:FILE` records the largest deviation from a sum in float64, in units of the bound.

#include "tests/simt/wgmma.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "common/simt/device/device_profile.h"
#include "tests/simt/on_device.h"

namespace ladder {

// wgmma.cuh, compiled once per machine.
namespace cpu {
void launch_product(const ProductTrial&);
void launch_scores(const ScoresTrial&);
void launch_stmatrix(const StmatrixTrial&);
void launch_election(const ElectionTrial&);
void launch_registers(const RegisterTrial&);
}  // namespace cpu
namespace cuda {
[[gnu::weak]] void launch_product(const ProductTrial&);
[[gnu::weak]] void launch_scores(const ScoresTrial&);
[[gnu::weak]] void launch_stmatrix(const StmatrixTrial&);
[[gnu::weak]] void launch_election(const ElectionTrial&);
[[gnu::weak]] void launch_registers(const RegisterTrial&);
}  // namespace cuda

namespace {

using simt::ElementType;
using simt::Swizzle;

/// While a test runs, the CPU machine imitates a Hopper.
class OnHopper : public ::testing::Test {
    const simt::ScopedCpuDevice device_{simt::device_from(simt::device_profile("h200"))};
};
using Wgmma = OnHopper;
using Stmatrix = OnHopper;
using Roles = OnHopper;

/// True on a GPU that is no Hopper; the test is then listed as not run.
bool not_run_without_wgmma() {
    const torch::Device device = reference::test_device();
    return device.is_cuda() && !device_limits(device).has_feature(simt::Feature::wgmma) &&
           reference::not_run_on_gpu("needs wgmma");
}

/// A matrix of a type that torch may not have: as it lies in memory, and what it means.
struct Matrix {
    ElementType type;
    torch::Tensor bits, values;  // values: float64
};

/// What a code of 8 bits means (OCP 8-bit Floating Point Specification), written down anew.
double value_of(unsigned code, ElementType type) {
    const int mantissa_bits = type == ElementType::e4m3 ? 3 : 2, bias = type == ElementType::e4m3 ? 7 : 15;
    const int exponent = int(code >> mantissa_bits & (0x7fu >> mantissa_bits)),
              mantissa = int(code & ((1u << mantissa_bits) - 1));
    const double magnitude = exponent == 0
                                 ? std::ldexp(mantissa, 1 - bias - mantissa_bits)
                                 : std::ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits);
    return code & 0x80 ? -magnitude : magnitude;
}

/// The finite code nearest to each value.
Matrix narrow_matrix_of(const torch::Tensor& values, ElementType type) {
    std::vector<std::pair<double, std::uint8_t>> codes;
    for (unsigned code = 0; code < 256; ++code)
        if ((code & 0x7f) < (type == ElementType::e4m3 ? 0x7fu : 0x7cu) && code != 0x80)
            codes.emplace_back(value_of(code, type), std::uint8_t(code));
    std::ranges::sort(codes);
    const torch::Tensor bits = torch::zeros(values.sizes(), torch::kUInt8), rounded = torch::zeros_like(values);
    const auto in = values.accessor<double, 2>();
    auto code = bits.accessor<std::uint8_t, 2>();
    auto value = rounded.accessor<double, 2>();
    for (int64_t r = 0; r < values.size(0); ++r)
        for (int64_t c = 0; c < values.size(1); ++c) {
            const auto above = std::ranges::lower_bound(codes, std::pair(in[r][c], std::uint8_t(0)));
            const auto nearest = above == codes.end()                                      ? above - 1
                                 : above == codes.begin()                                  ? above
                                 : above->first - in[r][c] < in[r][c] - (above - 1)->first ? above
                                                                                           : above - 1;
            value[r][c] = nearest->first;
            code[r][c] = nearest->second;
        }
    return {type, bits, rounded};
}

Matrix matrix_of(const torch::Tensor& values, ElementType type) {
    if (element_bytes(type) == 1) return narrow_matrix_of(values.to(torch::kFloat64), type);
    const torch::Tensor rounded = values.to(type == ElementType::f16 ? torch::kFloat16 : torch::kBFloat16);
    return {type, rounded, rounded.to(torch::kFloat64)};
}

/// As it lies in memory the other way round.
Matrix transposed(const Matrix& m) { return {m.type, m.bits.t().contiguous(), m.values.t().contiguous()}; }

torch::Tensor integers(int64_t limit, at::IntArrayRef sizes) {
    return torch::randint(-limit, limit + 1, sizes, torch::kFloat64);
}

struct Problem {
    Matrix a, b;      // [128, 128] and [128, n]
    torch::Tensor c;  // [128, n], float32

    torch::Tensor exact(bool accumulate) const {
        const torch::Tensor sum = torch::matmul(a.values, b.values);
        return accumulate ? sum + c.to(torch::kFloat64) : sum;
    }
    /// What lies between any order of additions and the exact sum: each of them loses at most 2^-23 of the sum of
    /// magnitudes, see tensor_core_cuda.h.
    torch::Tensor bound(bool accumulate) const {
        torch::Tensor magnitudes = torch::matmul(a.values.abs(), b.values.abs());
        if (accumulate) magnitudes += c.to(torch::kFloat64).abs();
        return magnitudes * (kTrialDepth * std::exp2(-23));
    }
};

Problem small_integers(ElementType type, int n) {
    return {matrix_of(integers(8, {kTrialRows, kTrialDepth}), type), matrix_of(integers(8, {kTrialDepth, n}), type),
            integers(1000, {kTrialRows, n}).to(torch::kFloat32)};
}

struct Layout {
    SourceOfA source = SourceOfA::k_major;
    bool b_is_k_major = true, accumulate = false;
    Swizzle swizzle = Swizzle::b128;

    std::string text() const {
        return std::string(source == SourceOfA::k_major    ? "A k-major"
                           : source == SourceOfA::mn_major ? "A mn-major"
                                                           : "A in registers") +
               (b_is_k_major ? ", B k-major, " : ", B mn-major, ") + name_of(swizzle) +
               (accumulate ? ", accumulating" : "");
    }
};

simt::TensorArgument argument_of(const char* name, const torch::Tensor& bits, ElementType type) {
    simt::TensorArgument argument = raw_argument(name, bits);
    argument.type = type;
    return argument;
}

torch::Tensor product(const Problem& p, const Layout& layout, torch::Device device) {
    const torch::Tensor a = (layout.source == SourceOfA::mn_major ? transposed(p.a) : p.a).bits.to(device),
                        b = (layout.b_is_k_major ? transposed(p.b) : p.b).bits.to(device), c = p.c.to(device),
                        d = torch::full_like(c, NAN);
    run_on(device, cpu::launch_product, cuda::launch_product,
           ProductTrial{.a = argument_of("A", a, p.a.type),
                        .b = argument_of("B", b, p.b.type),
                        .c = raw_argument("C", c),
                        .d = raw_argument("D", d),
                        .source = layout.source,
                        .b_is_k_major = layout.b_is_k_major,
                        .accumulate = layout.accumulate,
                        .swizzle = layout.swizzle,
                        .n = int(p.c.size(1))});
    return d.cpu();
}

std::vector<Layout> layouts_of(ElementType type) {
    std::vector<Layout> layouts;
    const bool narrow = element_bytes(type) == 1;
    for (const SourceOfA source : {SourceOfA::k_major, SourceOfA::mn_major, SourceOfA::registers})
        for (const bool b_is_k_major : {true, false})
            for (const Swizzle swizzle : {Swizzle::b32, Swizzle::b64, Swizzle::b128})
                for (const bool accumulate : {false, true})
                    if (!narrow || (b_is_k_major && source != SourceOfA::mn_major))
                        layouts.push_back({source, b_is_k_major, accumulate, swizzle});
    return layouts;
}

constexpr std::array kTypes{ElementType::f16, ElementType::bf16};
constexpr std::array kAllTypes{ElementType::f16, ElementType::bf16, ElementType::e4m3, ElementType::e5m2};

TEST_F(Wgmma, MultipliesSmallIntegersExactlyInEveryLayout) {
    if (not_run_without_wgmma()) return;
    for (const ElementType type : kAllTypes)
        for (const Layout& layout : layouts_of(type))
            for (const torch::Device device : machines()) {
                SCOPED_TRACE(device.str() + ", " + std::string(name_of(type)) + ", " + layout.text());
                const Problem p = small_integers(type, 96);
                EXPECT_TRUE(torch::equal(product(p, layout, device), p.exact(layout.accumulate).to(torch::kFloat32)));
            }
}

TEST_F(Wgmma, HasAnyNumberOfColumns) {
    if (not_run_without_wgmma()) return;
    for (const int n : {8, 16, 64, 80, 128, 176, 256})
        for (const Layout& layout : {Layout{}, Layout{.source = SourceOfA::registers, .b_is_k_major = false}})
            for (const torch::Device device : machines()) {
                SCOPED_TRACE(device.str() + ", " + std::to_string(n) + " columns, " + layout.text());
                const Problem p = small_integers(ElementType::f16, n);
                EXPECT_TRUE(torch::equal(product(p, layout, device), p.exact(false).to(torch::kFloat32)));
            }
}

TEST_F(Wgmma, StaysWithinTheDocumentedBound) {
    if (not_run_without_wgmma()) return;
    for (const ElementType type : kAllTypes)
        for (const bool positive : {false, true}) {  // nothing cancels: a rounding towards zero shows in full
            const auto draw = [&](at::IntArrayRef sizes) {
                return positive ? torch::rand(sizes, torch::kFloat64) : torch::randn(sizes, torch::kFloat64);
            };
            const Problem p{matrix_of(draw({kTrialRows, kTrialDepth}), type), matrix_of(draw({kTrialDepth, 96}), type),
                            draw({kTrialRows, 96}).to(torch::kFloat32)};
            for (const torch::Device device : machines())
                for (const Layout& layout : {Layout{.accumulate = true}, Layout{.source = SourceOfA::registers}}) {
                    const std::string what = std::string(device.is_cuda() ? "cuda_" : "cpu_") +
                                             std::string(name_of(type)) + (positive ? "_positive" : "_normal") +
                                             (layout.accumulate ? "_sum" : "");
                    const torch::Tensor apart =
                        (product(p, layout, device).to(torch::kFloat64) - p.exact(layout.accumulate)).abs();
                    // A GPU's sums of 8-bit products keep fewer bits: see docs/numerics.md.
                    const double coarser = device.is_cuda() && element_bytes(type) == 1 ? std::exp2(10) : 1;
                    const auto deviation = (apart / (p.bound(layout.accumulate) * coarser)).max().item<double>();
                    RecordProperty(what, std::to_string(deviation));
                    EXPECT_TRUE(deviation <= 1) << what << ": " << deviation << " times the bound";
                }
        }
}

TEST_F(Wgmma, KeepsInfinitiesAndNaN) {
    if (not_run_without_wgmma()) return;
    constexpr float inf = std::numeric_limits<float>::infinity();
    for (const ElementType type : kTypes)
        for (const torch::Device device : machines()) {
            SCOPED_TRACE(device.str() + ", " + std::string(name_of(type)));
            torch::Tensor a = torch::ones({kTrialRows, kTrialDepth}), b = torch::ones({kTrialDepth, 96});
            a[3][5] = inf;
            a[4][0] = -inf;
            a[70][15] = NAN;
            b[5][2] = 0;  // inf * 0
            Problem p{matrix_of(a, type), matrix_of(b, type), torch::zeros({kTrialRows, 96})};
            p.c[4][7] = inf;  // -inf + inf
            // Not p.exact(): a library's product may skip zeros.
            const torch::Tensor exact =
                (p.a.values.unsqueeze(2) * p.b.values.unsqueeze(0)).sum(1) + p.c.to(torch::kFloat64);
            EXPECT_TRUE(torch::allclose(product(p, {.accumulate = true}, device).to(torch::kFloat64), exact, 0, 0,
                                        /*equal_nan=*/true));
        }
}

TEST_F(Wgmma, FeedsOneProductToTheNextInRegisters) {
    if (not_run_without_wgmma()) return;
    for (const ElementType type : kTypes)
        for (const torch::Device device : machines()) {
            SCOPED_TRACE(device.str() + ", " + std::string(name_of(type)));
            // Scores are at most 64, which both types hold.
            const Matrix q = matrix_of(integers(1, {64, 64}), type), k = matrix_of(integers(1, {64, 64}), type),
                         v = matrix_of(integers(8, {64, 64}), type);
            const torch::Tensor Q = q.bits.to(device), K = k.bits.to(device), V = v.bits.to(device),
                                O = torch::full({64, 64}, NAN, Q.options().dtype(torch::kFloat32));
            run_on(device, cpu::launch_scores, cuda::launch_scores,
                   ScoresTrial{.q = raw_argument("Q", Q),
                               .k = raw_argument("K", K),
                               .v = raw_argument("V", V),
                               .o = raw_argument("O", O)});
            const torch::Tensor exact = torch::matmul(torch::matmul(q.values, k.values.t()), v.values);
            EXPECT_TRUE(torch::equal(O.cpu(), exact.to(torch::kFloat32)));
        }
}

// --- stmatrix -------------------------------------------------------------------------------------------------------

/// The rows as the PTX ISA describes them: lane 8m + i passes the address of row i of matrix m, and lane l gives
/// elements 2(l % 4), 2(l % 4) + 1 of row l / 4; transposed, of column l / 4.
torch::Tensor expected_rows(const torch::Tensor& registers, int matrices, bool is_transposed) {
    const torch::Tensor rows = torch::full({32, 8}, -1, torch::kInt16);
    auto out = rows.accessor<int16_t, 2>();
    const auto in = registers.accessor<int32_t, 2>();
    for (int lane = 0; lane < 32; ++lane)
        for (int m = 0; m < matrices; ++m)
            for (int half = 0; half < 2; ++half) {
                const int i = lane / 4, j = lane % 4 * 2 + half;
                const int row = is_transposed ? j : i, column = is_transposed ? i : j;
                out[((8 * m + row) * 5 + 3) % 32][column] = std::int16_t(std::uint32_t(in[lane][m]) >> (16 * half));
            }
    return rows;
}

TEST_F(Stmatrix, WritesWhatThePtxIsaSays) {
    if (not_run_without_wgmma()) return;
    for (const int matrices : {1, 2, 4})
        for (const bool is_transposed : {false, true})
            for (const torch::Device device : machines()) {
                SCOPED_TRACE(device.str() + ", x" + std::to_string(matrices) + (is_transposed ? ".trans" : ""));
                const torch::Tensor registers = torch::randint(
                    std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max(), {32, 4}, torch::kInt32);
                const torch::Tensor in = registers.to(device),
                                    rows = torch::zeros({32, 8}, in.options().dtype(torch::kInt16));
                run_on(device, cpu::launch_stmatrix, cuda::launch_stmatrix,
                       StmatrixTrial{.registers = raw_argument("registers", in),
                                     .rows = raw_argument("rows", rows),
                                     .matrices = matrices,
                                     .transposed = is_transposed});
                EXPECT_TRUE(same_bits(rows, expected_rows(registers, matrices, is_transposed)));
            }
}

// --- roles ----------------------------------------------------------------------------------------------------------

TEST_F(Roles, OneLaneOfEachWarpIsElected) {
    if (not_run_without_wgmma()) return;
    for (const torch::Device device : machines()) {
        const torch::Tensor elected = torch::zeros({2}, torch::TensorOptions(torch::kInt32).device(device));
        run_on(device, cpu::launch_election, cuda::launch_election,
               ElectionTrial{.elected = raw_argument("elected", elected)});
        EXPECT_TRUE(same_bits(elected, torch::ones({2}, torch::kInt32)));
    }
}

TEST_F(Roles, RegistersGoFromAProducerToItsConsumers) {
    if (not_run_without_wgmma()) return;
    for (const torch::Device device : machines()) {
        const torch::Tensor out = torch::zeros({384}, torch::TensorOptions(torch::kInt32).device(device));
        run_on(device, cpu::launch_registers, cuda::launch_registers, RegisterTrial{.out = raw_argument("out", out)});
        const torch::Tensor numbers = torch::arange(384, torch::kInt32);
        EXPECT_TRUE(same_bits(out, numbers * numbers));
    }
}

}  // namespace
}  // namespace ladder
