// ldmatrix and mma.sync do the same on both machines: layouts bit for bit, sums within the documented bound.
//
// `--gtest_output=json:FILE` records the largest deviation from a sum in float64, in units of the bound.

#include "tests/simt/tensor_core.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <string>

#include "tests/simt/on_device.h"

namespace ladder {

// tensor_core.cuh, compiled once per machine.
namespace cpu {
void launch_ldmatrix(const LdmatrixTrial&);
void launch_mma(const MmaTrial&);
void launch_attention(const AttentionTrial&);
void launch_operand(const OperandTrial&);
void launch_arranged(const ArrangedTrial&);
void launch_pack(const PackTrial&);
}  // namespace cpu
namespace cuda {
[[gnu::weak]] void launch_ldmatrix(const LdmatrixTrial&);
[[gnu::weak]] void launch_mma(const MmaTrial&);
[[gnu::weak]] void launch_attention(const AttentionTrial&);
[[gnu::weak]] void launch_operand(const OperandTrial&);
[[gnu::weak]] void launch_arranged(const ArrangedTrial&);
[[gnu::weak]] void launch_pack(const PackTrial&);
}  // namespace cuda

namespace {

constexpr std::array kTypes{torch::kFloat16, torch::kBFloat16};
constexpr std::array kLoadings{Loading::by_hand, Loading::ldmatrix, Loading::ldmatrix_trans};

torch::Tensor integers(int64_t limit, at::IntArrayRef sizes, torch::ScalarType type) {
    return torch::randint(-limit, limit + 1, sizes, torch::kFloat64).to(type);
}

// --- ldmatrix -------------------------------------------------------------------------------------------------------

/// The registers as the PTX ISA describes them: lane 8m + i passes the address of row i of matrix m, and lane l gets
/// elements 2(l % 4), 2(l % 4) + 1 of row l / 4; transposed, of column l / 4.
torch::Tensor expected_registers(const torch::Tensor& rows, int matrices, bool transposed) {
    const torch::Tensor registers = torch::full({32, 4}, -1, torch::kInt32);
    const auto element = [&, row = rows.accessor<int16_t, 2>()](int m, int i, int j) {
        return std::uint16_t(transposed ? row[((8 * m + j) * 5 + 3) % 32][i] : row[((8 * m + i) * 5 + 3) % 32][j]);
    };
    auto out = registers.accessor<int32_t, 2>();
    for (int lane = 0; lane < 32; ++lane)
        for (int m = 0; m < matrices; ++m) {
            const int i = lane / 4, j = lane % 4 * 2;
            out[lane][m] = std::int32_t(element(m, i, j) | std::uint32_t{element(m, i, j + 1)} << 16);
        }
    return registers;
}

TEST(Ldmatrix, GivesEachLaneWhatThePtxIsaSays) {
    if (not_run_before_ampere()) return;
    for (const int matrices : {1, 2, 4})
        for (const bool transposed : {false, true})
            for (const torch::Device device : machines()) {
                SCOPED_TRACE(device.str() + ", x" + std::to_string(matrices) + (transposed ? ".trans" : ""));
                const torch::Tensor rows = torch::randint(-32768, 32768, {32, 8}, torch::kInt16);
                const torch::Tensor in = rows.to(device),
                                    out = torch::full({32, 4}, -1, in.options()).to(torch::kInt32);
                run_on(device, cpu::launch_ldmatrix, cuda::launch_ldmatrix,
                       LdmatrixTrial{.rows = raw_argument("rows", in),
                                     .out = raw_argument("out", out),
                                     .matrices = matrices,
                                     .transposed = transposed});
                EXPECT_TRUE(same_bits(out, expected_registers(rows, matrices, transposed)));
            }
}

// --- mma ------------------------------------------------------------------------------------------------------------

struct Problem {
    torch::Tensor a, b, c;

    torch::Tensor exact() const { return products().sum(2) + c.to(torch::kFloat64); }
    /// 16 additions, each of which loses at most 2^-23 of the sum of magnitudes: see tensor_core_cuda.h.
    torch::Tensor bound() const {
        return (products().abs().sum(2) + c.to(torch::kFloat64).abs()) * (16 * std::exp2(-23));
    }

  private:
    torch::Tensor products() const {  // [count, 16, 16, 8]; exact, which a library's matmul need not be
        return a.to(torch::kFloat64).unsqueeze(3) * b.to(torch::kFloat64).unsqueeze(1);
    }
};

torch::Tensor product(const Problem& p, Loading loading, torch::Device device) {
    const torch::Tensor a = p.a.to(device), b = p.b.to(device), c = p.c.to(device), d = torch::full_like(c, NAN);
    run_on(device, cpu::launch_mma, cuda::launch_mma,
           MmaTrial{.a = raw_argument("A", a),
                    .b = raw_argument("B", b),
                    .c = raw_argument("C", c),
                    .d = raw_argument("D", d),
                    .loading = loading});
    return d.cpu();
}

TEST(Mma, MultipliesSmallIntegersExactly) {
    if (not_run_before_ampere()) return;
    for (const torch::ScalarType type : kTypes)
        for (const Loading loading : kLoadings)
            for (const torch::Device device : machines()) {
                SCOPED_TRACE(device.str() + ", " + toString(type) + ", loading " + std::to_string(int(loading)));
                const Problem p{integers(100, {16, 16, 16}, type), integers(100, {16, 16, 8}, type),
                                integers(1000, {16, 16, 8}, torch::kFloat32)};
                EXPECT_TRUE(torch::equal(product(p, loading, device), p.exact().to(torch::kFloat32)));
            }
}

/// Inputs that try the rounding in different ways.
struct Family {
    const char* name;
    std::function<Problem(torch::ScalarType)> make;
};

constexpr int64_t kProblems = 128;

const std::array<Family, 4> kFamilies{{
    {"normal",
     [](torch::ScalarType type) -> Problem {
         return {torch::randn({kProblems, 16, 16}).to(type), torch::randn({kProblems, 16, 8}).to(type),
                 torch::randn({kProblems, 16, 8})};
     }},
    {"positive",  // nothing cancels: a rounding towards zero shows in full
     [](torch::ScalarType type) -> Problem {
         return {torch::rand({kProblems, 16, 16}).to(type), torch::rand({kProblems, 16, 8}).to(type),
                 torch::rand({kProblems, 16, 8})};
     }},
    {"wide",  // products between 2^-16 and 2^16
     [](torch::ScalarType type) -> Problem {
         const auto spread = [](at::IntArrayRef sizes) {
             return torch::randn(sizes) * torch::exp2(torch::rand(sizes) * 16 - 8);
         };
         return {spread({kProblems, 16, 16}).to(type), spread({kProblems, 16, 8}).to(type), spread({kProblems, 16, 8})};
     }},
    {"cancelling",  // c takes the whole sum away, but for its rounding
     [](torch::ScalarType type) -> Problem {
         Problem p{torch::randn({kProblems, 16, 16}).to(type), torch::randn({kProblems, 16, 8}).to(type),
                   torch::zeros({kProblems, 16, 8})};
         p.c = -p.exact().to(torch::kFloat32);
         return p;
     }},
}};

TEST(Mma, StaysWithinTheDocumentedBound) {
    if (not_run_before_ampere()) return;
    for (const torch::ScalarType type : kTypes)
        for (const Family& family : kFamilies) {
            const Problem p = family.make(type);
            std::vector<torch::Tensor> results;
            for (const torch::Device device : machines()) {
                const std::string what =
                    std::string(device.is_cuda() ? "cuda" : "cpu") + "_" + toString(type) + "_" + family.name;
                results.push_back(product(p, Loading::ldmatrix, device));
                const auto deviation =
                    ((results.back().to(torch::kFloat64) - p.exact()).abs() / p.bound()).max().item<double>();
                RecordProperty(what, std::to_string(deviation));
                EXPECT_TRUE(deviation <= 1) << what << ": " << deviation << " times the bound";
            }
            if (results.size() == 2) {
                const auto apart =
                    ((results[0] - results[1]).to(torch::kFloat64).abs() / p.bound()).max().item<double>();
                const std::string what = std::string("cpu_against_cuda_") + toString(type) + "_" + family.name;
                RecordProperty(what, std::to_string(apart));
                EXPECT_TRUE(apart <= 2) << what << ": " << apart << " times the bound";
            }
        }
}

TEST(Mma, KeepsInfinitiesAndNaN) {
    if (not_run_before_ampere()) return;
    constexpr float inf = std::numeric_limits<float>::infinity();
    for (const torch::ScalarType type : kTypes)
        for (const torch::Device device : machines()) {
            SCOPED_TRACE(device.str() + ", " + toString(type));
            Problem p{torch::ones({1, 16, 16}, type), torch::ones({1, 16, 8}, type), torch::zeros({1, 16, 8})};
            p.a[0][3][5] = inf;
            p.a[0][4][0] = -inf;
            p.a[0][6][15] = NAN;
            p.b[0][5][2] = 0;    // inf * 0
            p.c[0][4][7] = inf;  // -inf + inf
            EXPECT_TRUE(torch::allclose(product(p, Loading::ldmatrix, device).to(torch::kFloat64), p.exact(), 0, 0,
                                        /*equal_nan=*/true));
        }
}

// --- tiles of attention ---------------------------------------------------------------------------------------------

/// Two 16-bit elements of a tile, [row][column] and [other_row][other_column], the first in the lower half.
std::int32_t two_of(const torch::TensorAccessor<int16_t, 2>& tile, int row, int column, int other_row,
                    int other_column) {
    return std::int32_t(std::uint16_t(tile[row][column]) | std::uint32_t{std::uint16_t(tile[other_row][other_column])}
                                                               << 16);
}

/// What every lane needs of every 16 x 16 block, as the PTX ISA has the operands of mma.m16n8k16: of A the block
/// itself; of two operands B side by side, first the block as B^T, then the block as B.
torch::Tensor expected_operands(const torch::Tensor& bits) {
    const int columns = int(bits.size(1)), blocks = 2 * columns / 16;
    const torch::Tensor registers = torch::empty({3, blocks, 32, 4}, torch::kInt32);
    auto out = registers.accessor<int32_t, 4>();
    const auto tile = bits.accessor<int16_t, 2>();
    for (int block = 0; block < blocks; ++block)
        for (int lane = 0; lane < 32; ++lane)
            for (int i = 0; i < 4; ++i) {
                const int row = block / (columns / 16) * 16, column = block % (columns / 16) * 16;
                const int group = lane / 4, pair = lane % 4 * 2;
                const int a_row = row + group + i % 2 * 8, a_column = column + pair + i / 2 * 8;
                const int k = pair + i % 2 * 8, n = group + i / 2 * 8;
                out[0][block][lane][i] = two_of(tile, a_row, a_column, a_row, a_column + 1);
                out[1][block][lane][i] = two_of(tile, row + n, column + k, row + n, column + k + 1);
                out[2][block][lane][i] = two_of(tile, row + k, column + n, row + k + 1, column + n);
            }
    return registers;
}

TEST(ArrangedTile, GivesEveryLaneItsElementsOfTheOperands) {
    if (not_run_before_ampere()) return;
    for (const int64_t columns : {32, 64, 96, 128, 192, 256})
        for (const torch::ScalarType type : kTypes)
            for (const bool swizzled : {false, true})
                for (const torch::Device device : machines()) {
                    SCOPED_TRACE(device.str() + ", " + toString(type) + ", " + std::to_string(columns) +
                                 (swizzled ? " columns, swizzled" : " columns, plain"));
                    // All different; as patterns of bits, which nothing here adds up or rounds.
                    const torch::Tensor bits = torch::arange(32 * columns, torch::kInt16).view({32, columns});
                    const torch::Tensor tile = bits.to(device),
                                        registers = torch::full({3, 2 * columns / 16, 32, 4}, -1, tile.options())
                                                        .to(torch::kInt32);
                    run_on(device, cpu::launch_arranged, cuda::launch_arranged,
                           ArrangedTrial{.tile = raw_argument("tile", tile.view(type)),
                                         .registers = raw_argument("registers", registers),
                                         .swizzled = swizzled});
                    EXPECT_TRUE(same_bits(registers, expected_operands(bits)));
                }
}

// --- from one product to the next -----------------------------------------------------------------------------------

// Why P_ij never leaves the registers: of every lane, the scores that a product leaves in two neighbouring accumulators
// are those whose weights the next product wants from it, in this order.
TEST(ToA, FindsInEachLaneWhatTheNextProductWantsOfIt) {
    if (not_run_before_ampere()) return;
    for (const torch::ScalarType type : kTypes)
        for (const torch::Device device : machines()) {
            SCOPED_TRACE(device.str() + ", " + toString(type));
            // Score (row, column) is 16 row + column, and both types hold it: q is the identity, k the transpose.
            const torch::Tensor S = torch::arange(256).to(torch::kFloat32).view({16, 16});
            const torch::Tensor q = torch::arange(16).unsqueeze(1).eq(torch::arange(16)).to(type).to(device);
            const torch::Tensor k = S.t().contiguous().to(type).to(device);
            const torch::Tensor scores = torch::full({32, 8}, NAN, S.options()).to(device);
            const torch::Tensor operand = torch::full({32, 4}, -1, torch::kInt32).to(device);
            run_on(device, cpu::launch_operand, cuda::launch_operand,
                   OperandTrial{.q = raw_argument("Q", q),
                                .k = raw_argument("K", k),
                                .scores = raw_argument("S", scores),
                                .operand = raw_argument("P", operand)});
            const torch::Tensor left = scores.cpu(), elements = operand.cpu().view(type).to(torch::kFloat32);
            for (int lane = 0; lane < 32; ++lane) {
                // PTX ISA, "Matrix Fragments for mma.m16n8k16 with floating point type".
                const int group = lane >> 2, in_group = lane % 4;
                for (int i = 0; i < 8; ++i) {
                    const int accumulator = i / 4, c = i % 4;
                    const int c_row = c < 2 ? group : group + 8, c_column = 8 * accumulator + in_group * 2 + (c & 1);
                    EXPECT_EQ(left[lane][i].item<float>(), float(16 * c_row + c_column))
                        << "lane " << lane << ", c" << c << " of accumulator " << accumulator;
                    const int a_row = i < 2 || (4 <= i && i < 6) ? group : group + 8;
                    const int a_column = in_group * 2 + (i & 1) + (i < 4 ? 0 : 8);
                    EXPECT_EQ(elements[lane][i].item<float>(), float(16 * a_row + a_column))
                        << "lane " << lane << ", a" << i;
                    EXPECT_EQ(elements[lane][i].item<float>(), left[lane][i].item<float>())
                        << "lane " << lane << ": a" << i << " is not what lay in c" << c << " of accumulator "
                        << accumulator;
                }
            }
        }
}

TEST(ToA, FeedsOneProductToTheNext) {
    if (not_run_before_ampere()) return;
    for (const torch::ScalarType type : kTypes)
        for (const torch::Device device : machines()) {
            SCOPED_TRACE(device.str() + ", " + toString(type));
            const torch::Tensor q = integers(2, {8, 16, 16}, type), k = integers(2, {8, 16, 16}, type),
                                v = integers(8, {8, 16, 16}, type);
            const torch::Tensor Q = q.to(device), K = k.to(device), V = v.to(device),
                                O = torch::full({8, 16, 16}, NAN, Q.options().dtype(torch::kFloat32));
            run_on(device, cpu::launch_attention, cuda::launch_attention,
                   AttentionTrial{.q = raw_argument("Q", Q),
                                  .k = raw_argument("K", K),
                                  .v = raw_argument("V", V),
                                  .o = raw_argument("O", O)});
            const torch::Tensor scores = torch::matmul(q.to(torch::kFloat64), k.to(torch::kFloat64).transpose(1, 2));
            EXPECT_TRUE(torch::equal(O.cpu(), torch::matmul(scores, v.to(torch::kFloat64)).to(torch::kFloat32)));
        }
}

TEST(Pack, RoundsBothHalvesToTheNearest) {
    if (not_run_before_ampere()) return;
    constexpr float inf = std::numeric_limits<float>::infinity();
    // Ties, the largest and smallest values of f16 and what lies beyond them, and random bits.
    const torch::Tensor special = torch::tensor({0.0f, -0.0f, 1.0f + 0x1p-11f, 1.0f + 0x3p-11f, 1.0f + 0x1p-8f,
                                                 1.0f + 0x3p-8f, 65504.0f, 65519.0f, 65520.0f, -1e30f, 0x1p-24f,
                                                 0x1p-25f, 0x1.8p-25f, 0x1p-14f, 3.4e38f, 1e-40f, inf, -inf});
    const torch::Tensor random = torch::randint(0, 0x7f800000, {1006}, torch::kInt32).view(torch::kFloat32);
    const torch::Tensor in = torch::concat({special, random}).view({-1, 2}).contiguous();
    for (const torch::ScalarType type : kTypes)
        for (const torch::Device device : machines()) {
            SCOPED_TRACE(device.str() + ", " + toString(type));
            const torch::Tensor values = in.to(device), out = torch::full({in.size(0)}, -1, torch::kInt32).to(device);
            run_on(device, cpu::launch_pack, cuda::launch_pack,
                   PackTrial{.in = raw_argument("in", values),
                             .out = raw_argument("out", out),
                             .type = type == torch::kFloat16 ? simt::ElementType::f16 : simt::ElementType::bf16});
            EXPECT_TRUE(same_bits(out, in.to(type).view(torch::kInt32).flatten()));
        }
}

}  // namespace
}  // namespace ladder
