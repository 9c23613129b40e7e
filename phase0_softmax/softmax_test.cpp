#include "phase0_softmax/softmax.h"

#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <optional>

#include "common/attention/check.h"
#include "common/attention/machine.h"
#include "common/attention/outputs.h"
#include "common/reference/checks.h"
#include "common/reference/test_device.h"
#include "common/simt/device/device.h"
#include "common/simt/device/device_profile.h"
#include "common/simt/report/launch_log.h"
#include "phase0_softmax/resident_row.h"

namespace ladder {
namespace {

using namespace reference;

const PoisonOutputs poison_outputs;  // an element that is never written stays NaN

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr std::array kDtypes{torch::kFloat32, torch::kFloat16, torch::kBFloat16};

/// One of the entries, and what it promises.
struct Entry {
    std::string name;
    torch::Tensor (*softmax)(const torch::Tensor&);
    GlobalBytes (*bytes)(const torch::Tensor&);
    std::optional<int> passes_that_read = std::nullopt;  ///< of global memory; none where that depends on the row
};

std::ostream& operator<<(std::ostream& stream, const Entry& entry) { return stream << entry.name; }

class Softmax : public ::testing::TestWithParam<Entry> {
  protected:
    static torch::Tensor softmax(const torch::Tensor& x) { return GetParam().softmax(x); }

    static ::testing::AssertionResult matches(const torch::Tensor& x) {
        const torch::Tensor before = x.clone(), y = softmax(x);
        const Comparison verdict = compare_softmax(y, x);
        if (!verdict.passed) return ::testing::AssertionFailure() << verdict.report;
        if (!x.equal(before) && !x.isnan().any().item<bool>())
            return ::testing::AssertionFailure() << "the input was written to";
        return ::testing::AssertionSuccess();
    }
};

INSTANTIATE_TEST_SUITE_P(Entries, Softmax,
                         ::testing::Values(Entry{"safe", safe_softmax, safe_softmax_bytes, 3},
                                           Entry{"online", online_softmax, online_softmax_bytes, 2},
                                           Entry{"block_plain", block_plain_softmax, block_plain_softmax_bytes, 2},
                                           Entry{"block", block_softmax, block_softmax_bytes}),
                         ByName{});

/// Standard normal; the same numbers for the same shape.
torch::Tensor normal(int64_t rows, int64_t columns) {
    return at::randn({rows, columns}, at::detail::createCPUGenerator(uint64_t(rows * 1'000'003 + columns)), at::kFloat);
}

/// Rows that each expose one kind of mistake, under a name.
std::vector<std::pair<std::string, torch::Tensor>> adversarial_rows(int64_t N) {
    const torch::Tensor noise = normal(3, N);
    const torch::Tensor ramp = torch::linspace(-30, 30, N).expand({3, N}) + noise * 1e-3;
    torch::Tensor huge = noise.clone();
    for (int64_t row = 0; row < 3; ++row) huge[row][(row * 7 + N - 1) % N] = 500;
    torch::Tensor holes = torch::where(noise > 0, noise, torch::full_like(noise, -kInfinity));
    holes.select(1, N / 2).fill_(0.25);
    torch::Tensor only_last = torch::full({3, N}, -kInfinity);
    only_last.select(1, N - 1).fill_(-2);
    return {{"equal", torch::full({3, N}, 1.5)},
            {"one huge logit", huge},
            {"huge negative logits", noise * 5000},
            {"near -1000", noise * 2 - 1000},
            {"ascending", ramp},
            {"descending", ramp.flip(1)},
            {"-inf entries", holes},
            {"all -inf but the last", only_last}};
}

TEST_P(Softmax, MatchesReferenceAtEveryLength) {
    for (const int64_t N : {1,   2,   3,   31,  32,  33,  63,  64,   65,   127,  128,  129,  255,  256,
                            257, 511, 512, 513, 519, 520, 521, 1000, 1024, 2048, 4095, 4096, 4097, 5000})
        for (const torch::ScalarType dtype : kDtypes)
            EXPECT_TRUE(matches(normal(3, N).mul(4).to(test_device(), dtype))) << "N " << N << ", " << dtype;
}

TEST_P(Softmax, MatchesReferenceAtEveryNumberOfRows) {
    for (const int64_t rows : {1, 2, 3, 4, 5, 7, 8, 33})
        EXPECT_TRUE(matches(normal(rows, 70).to(test_device()))) << rows << " rows";
}

TEST_P(Softmax, MatchesReferenceOnAdversarialRows) {
    for (const int64_t N : {1, 2, 33, 128, 1000, 4104})
        for (const torch::ScalarType dtype : kDtypes)
            for (const auto& [name, x] : adversarial_rows(N))
                EXPECT_TRUE(matches(x.to(test_device(), dtype))) << name << ", N " << N << ", " << dtype;
}

TEST_P(Softmax, MatchesReferenceOnLongRows) {
    for (const int64_t N : {131072, 131073})
        for (const torch::ScalarType dtype : {torch::kFloat32, torch::kFloat16})
            EXPECT_TRUE(matches(normal(2, N).to(test_device(), dtype))) << "N " << N << ", " << dtype;
    for (const auto& [name, x] : adversarial_rows(131072))
        EXPECT_TRUE(matches(x.slice(0, 0, 1).to(test_device()))) << name;
}

// Rows further apart than their length, with NaN between them; a base that is not aligned; one row over and over.
TEST_P(Softmax, TakesAnyDistanceBetweenRows) {
    for (const int64_t N : {1, 33, 64, 512})
        for (const int64_t gap : {1, 3, 8, 64})
            for (const int64_t offset : {0, 1, 8})
                for (const torch::ScalarType dtype : kDtypes) {
                    const torch::Tensor memory = torch::full({5, offset + N + gap}, NAN).to(test_device(), dtype);
                    const torch::Tensor x = memory.slice(1, offset, offset + N);
                    x.copy_(normal(5, N));
                    ASSERT_TRUE(matches(x)) << "N " << N << ", gap " << gap << ", offset " << offset << ", " << dtype;
                    EXPECT_TRUE(memory.slice(1, offset + N).isnan().all().item<bool>()) << "written between rows";
                }
    EXPECT_TRUE(matches(normal(1, 96).to(test_device()).expand({6, 96})));
    EXPECT_TRUE(matches(normal(2, 5).to(test_device()).t().slice(1, 0, 1))) << "a last dimension of 1, with stride 5";
}

TEST_P(Softmax, NonFiniteRowsGiveWhatTheReferenceGives) {
    for (const int64_t N : {1, 5, 32, 100, 4096})
        for (const double poison : {kInfinity, -kInfinity, std::numeric_limits<double>::quiet_NaN()})
            for (const int64_t column : {int64_t{0}, N / 2, N - 1}) {
                const torch::Tensor x = normal(4, N);
                x[1][column] = poison;
                x[3].fill_(poison);
                EXPECT_TRUE(matches(x.to(test_device()))) << poison << " at " << column << " of " << N;
            }
}

TEST_P(Softmax, RunsRepeatBitwise) {
    for (const int64_t N : {1, 33, 4096, 5001}) {
        const torch::Tensor x = normal(6, N).to(test_device());
        EXPECT_TRUE(softmax(x).equal(softmax(x))) << N;
    }
}

TEST_P(Softmax, RowsDoNotSeeTheirNeighbours) {
    const torch::Tensor x = normal(6, 1000).to(test_device());
    const torch::Tensor whole = softmax(x);
    for (int64_t row = 0; row < 6; ++row)
        EXPECT_TRUE(whole.slice(0, row, row + 1).equal(softmax(x.slice(0, row, row + 1)))) << "row " << row;
}

TEST_P(Softmax, EqualScoresGetEqualWeights) {
    for (const int64_t N : {3, 33, 1000, 4100}) {
        const torch::Tensor x = torch::full({2, N}, 0.3, test_device());
        const torch::Tensor y = softmax(x);
        EXPECT_TRUE(y.eq(y[0][0]).all().item<bool>()) << N;
    }
}

// The scores are multiples of 1/16, so adding 64 rounds nothing; then every step of the kernel must agree to the last
// bit.
TEST_P(Softmax, AddingAConstantToARowChangesNothing) {
    const torch::Tensor x = normal(3, 700).mul(16).round().div(16).to(test_device());
    EXPECT_TRUE(softmax(x).equal(softmax(x + 64)));
}

TEST_P(Softmax, ReadsEachElementOncePerPassAndNoMore) {
    if (not_run_without_counters()) return;
    for (const torch::ScalarType dtype : kDtypes)
        for (const auto& [rows, N] : {std::pair{1, 1}, {3, 33}, {5, 257}, {2, 4096}, {1, 131073}}) {
            const torch::Tensor x = normal(rows, N).to(dtype);
            const simt::LaunchLog log;
            softmax(x);
            const std::uint64_t matrix = std::uint64_t(rows) * N * x.element_size();
            const simt::Counters counters = log.total();
            ASSERT_EQ(counters.tensors.size(), 2u);
            const std::optional<int> passes = GetParam().passes_that_read;
            for (const simt::TensorTraffic& tensor : counters.tensors) {
                if (passes) {
                    EXPECT_EQ(tensor.bytes_read, tensor.tensor == "x" ? *passes * matrix : 0);
                }
                EXPECT_EQ(tensor.bytes_written, tensor.tensor == "y" ? matrix : 0);
            }
            const GlobalBytes formula = GetParam().bytes(x);
            EXPECT_EQ(counters.global_bytes_read(), formula.read);
            EXPECT_EQ(counters.global_bytes_written(), formula.written);
        }
}

// Neighbouring lanes read neighbouring elements: where rows are aligned, the 32-byte sectors that move are full.
TEST_P(Softmax, MovesFullSectorsOnly) {
    if (not_run_without_counters()) return;
    for (const torch::ScalarType dtype : kDtypes) {
        const torch::Tensor x = normal(4, 4096).to(dtype);
        const simt::LaunchLog log;
        softmax(x);
        for (const simt::TensorTraffic& tensor : log.total().tensors) {
            EXPECT_EQ(tensor.sectors_read * 32, tensor.bytes_read) << dtype;
            EXPECT_EQ(tensor.sectors_written * 32, tensor.bytes_written) << dtype;
        }
    }
}

// x is the first thing at fault in every message, with what it was.
TEST_P(Softmax, RefusesBadInput) {
    const torch::TensorOptions here = torch::TensorOptions().device(test_device());
    const torch::Tensor one = torch::zeros({1, 1}, here);
    const auto refuses = [](const torch::Tensor& x, std::vector<std::string> mentions) {
        mentions.push_back("x:");
        return throws_mentioning([&] { softmax(x); }, mentions) &&
               throws_mentioning([&] { GetParam().bytes(x); }, mentions);
    };
    EXPECT_TRUE(refuses(torch::Tensor(), {"undefined"}));
    EXPECT_TRUE(refuses(torch::zeros({2, 3}, here.dtype(torch::kFloat64)), {"Double", "float32"}));
    EXPECT_TRUE(refuses(torch::zeros({2, 3}, here.dtype(torch::kInt32)), {"Int", "float32"}));
    EXPECT_TRUE(refuses(torch::zeros({7}, here), {"[7]", "rank 1", "rank 2"}));
    EXPECT_TRUE(refuses(torch::zeros({2, 3, 4}, here), {"[2, 3, 4]", "rank 3", "rank 2"}));
    EXPECT_TRUE(refuses(torch::zeros({0, 4}, here), {"[0, 4]", "dimension 0"}));
    EXPECT_TRUE(refuses(torch::zeros({4, 0}, here), {"[4, 0]", "dimension 1"}));
    EXPECT_TRUE(refuses(torch::zeros({4, 6}, here).t(), {"stride 6", ".contiguous()"}));
    EXPECT_TRUE(refuses(torch::zeros({4, 6}, here).slice(1, 0, 6, 2), {"stride 2"}));
    EXPECT_TRUE(refuses(torch::zeros({2, 3}).to_sparse(), {"layout"}));
    EXPECT_TRUE(refuses(one.expand({kMaxLength + 1, 1}), {std::to_string(kMaxLength + 1), std::to_string(kMaxLength)}));
}

TEST_P(Softmax, NextCallWorksAfterAnError) {
    EXPECT_ANY_THROW(softmax(torch::zeros({2, 0}, test_device())));
    EXPECT_TRUE(matches(normal(3, 100).to(test_device())));
}

// What makes the block version fit for long rows: 16 warps to a row, one barrier, 128 bytes of shared memory.
TEST(BlockSoftmax, PutsAWholeBlockOnEachRow) {
    const torch::Tensor x = normal(3, 5000).to(test_device());
    const simt::LaunchLog log;
    block_plain_softmax(x);
    ASSERT_EQ(log.records().size(), 1u);
    const simt::LaunchRecord& launch = log.records().front();
    EXPECT_EQ(launch.blocks(), 3u);
    EXPECT_EQ(launch.block[0], 512u);
    EXPECT_EQ(launch.shared_bytes_per_block, 16 * 2 * sizeof(float));
    EXPECT_EQ(launch.counters.block_barriers, launch.counted ? 3u : 0u);
}

// ---- The next step: resident_softmax.cuh --------------------------------------------------------------------------

/// What a call of block_softmax launches on an imitated device.
std::string kernel_on(const char* profile, const torch::Tensor& x) {
    const simt::ScopedCpuDevice imitated(simt::device_from(simt::device_profile(profile)));
    const simt::LaunchLog log;
    block_softmax(x);
    return log.records()[0].kernel;
}

TEST(BlockSoftmax, TakesTheResidentKernelsWhereItCan) {
    if (not_run_on_gpu("it imitates other devices")) return;
    const torch::Tensor x = normal(3, 1008), longer = normal(2, 8196);
    EXPECT_EQ(kernel_on("rtx4090", x), "register_softmax_kernel");
    EXPECT_EQ(kernel_on("v100", x), "register_softmax_kernel");
    EXPECT_EQ(kernel_on("h100", x.slice(1, 4)), "register_softmax_kernel");     // rows start at 16 bytes
    EXPECT_EQ(kernel_on("h100", x.slice(1, 2, 1006)), "block_softmax_kernel");  // and these between
    EXPECT_EQ(kernel_on("h100", x.slice(1, 0, 1007)), "block_softmax_kernel");  // they end between
    EXPECT_EQ(kernel_on("h100", x.to(torch::kBFloat16).slice(1, 4)), "block_softmax_kernel");
    EXPECT_EQ(kernel_on("h100", longer), "resident_softmax_kernel");
    EXPECT_EQ(kernel_on("h100", longer.slice(1, 4)), "register_softmax_kernel");  // 32 KiB
    EXPECT_EQ(kernel_on("h100", longer.slice(1, 4).to(torch::kFloat16)), "register_softmax_kernel");
    EXPECT_EQ(kernel_on("t4", longer), "block_softmax_kernel");  // no asynchronous copies
}

TEST(ResidentSoftmax, RefusesWhatItCannotTake) {
    const auto message = [](const torch::Tensor& x) {
        EXPECT_TRUE(throws_mentioning([&] { resident_softmax_bytes(x); }, {"resident_softmax"}));
        try {
            resident_softmax(x);
        } catch (const std::exception& error) {
            return std::string(error.what());
        }
        return std::string("nothing was thrown");
    };
    EXPECT_EQ(message(torch::zeros({2, 5}, test_device())),
              "resident_softmax: the rows of x do not all start and end at multiples of 16 bytes; block_softmax takes "
              "them");
    if (test_device().is_cuda()) return;
    const simt::ScopedCpuDevice imitated(simt::device_from(simt::device_profile("v100")));
    EXPECT_NE(message(torch::zeros({2, 8196})).find("needs asynchronous copies (cp.async)"), std::string::npos);
}

// Rows at the ends of what so many warps hold, in registers and in shared memory.
TEST(ResidentSoftmax, MatchesReferenceAtEveryLength) {
    for (const int64_t chunks :
         {1, 2, 31, 33, 255, 256, 257, 511, 512, 513, 1023, 1024, 1025, 2047, 2048, 2049, 4096, 4097, 9000})
        for (const torch::ScalarType dtype : kDtypes) {
            const torch::Tensor x =
                normal(3, chunks * (dtype == torch::kFloat32 ? 4 : 8)).mul(4).to(test_device(), dtype);
            const Comparison verdict = compare_softmax(resident_softmax(x), x);
            EXPECT_TRUE(verdict.passed) << chunks << " chunks, " << dtype << ": " << verdict.report;
        }
}

TEST(ResidentSoftmax, MatchesReferenceOnAdversarialRows) {
    for (const int64_t N : {256, 5000, 9000, 20000})
        for (const torch::ScalarType dtype : kDtypes)
            for (const auto& [name, rows] : adversarial_rows(N)) {
                const torch::Tensor x = rows.to(test_device(), dtype);
                const Comparison verdict = compare_softmax(resident_softmax(x), x);
                EXPECT_TRUE(verdict.passed) << name << ", N " << N << ", " << dtype << ": " << verdict.report;
            }
}

// The device may have room for no column, for some or for all; no chunk may be lost or counted twice where the kept
// part ends, wherever in a round of the threads that is.
TEST(ResidentSoftmax, MatchesReferenceWhateverHasRoom) {
    if (not_run_on_gpu("a GPU's shared memory cannot be made smaller")) return;
    for (const int bytes : {256, 272, 528, 1024, 9000, 34000}) {
        simt::Device device = simt::cpu_device();
        device.shared_bytes_per_block = device.shared_bytes_per_block_optin = bytes;
        const simt::ScopedCpuDevice imitated(device);
        for (const int64_t N : {1024, 8192, 8200, 10000, 16384, 16392, 20000, 52000})
            for (const torch::ScalarType dtype : kDtypes) {
                const torch::Tensor x = normal(2, N).mul(4).to(dtype);
                const simt::LaunchLog log;
                const Comparison verdict = compare_softmax(resident_softmax(x), x);
                EXPECT_TRUE(verdict.passed) << bytes << " bytes, N " << N << ", " << dtype << ": " << verdict.report;
                const GlobalBytes formula = resident_softmax_bytes(x);
                if (!log.records()[0].counted) continue;
                EXPECT_EQ(log.total().global_bytes_read(), formula.read) << bytes << " bytes, N " << N;
                EXPECT_EQ(log.total().global_bytes_written(), formula.written);
            }
    }
}

TEST(ResidentSoftmax, ReadsARowThatFitsOnce) {
    const torch::Tensor x = normal(2, 4096).to(test_device());
    const uint64_t matrix = x.nbytes();
    EXPECT_EQ(resident_softmax_bytes(x).read, matrix);
    EXPECT_EQ(resident_softmax_bytes(x).written, matrix);
    const torch::Tensor longer = torch::zeros({1, 1 << 20}, test_device());
    const simt::Device device = device_limits(test_device());
    const ResidentRow plan = resident_row(device, simt::ElementType::f32, longer.size(1));
    const uint64_t kept = plan.kept_columns + plan.columns_beside;
    EXPECT_LT(kept, uint64_t(longer.size(1)));
    EXPECT_EQ(resident_softmax_bytes(longer).read, 2 * longer.nbytes() - kept * sizeof(float));
}

TEST(ResidentRow, FillsTheDeviceAndNoMore) {
    for (const simt::DeviceProfile& profile : simt::device_profiles())
        for (const simt::ElementType type : {simt::ElementType::f32, simt::ElementType::f16}) {
            const simt::Device device = device_from(profile);
            const int64_t bytes = int64_t(simt::element_bytes(type)), limit = device.shared_bytes_per_block_optin;
            for (int64_t columns = 8; columns <= 1 << 18; columns = columns * 3 / 2 / 8 * 8 + 8) {
                const ResidentRow row = resident_row(device, type, columns);
                SCOPED_TRACE(testing::Message()
                             << profile.name << ", " << columns << " columns of " << bytes << " bytes");
                EXPECT_LE(int64_t(row.shared_bytes), limit);
                EXPECT_EQ(row.kept_columns * bytes % 16, 0);
                EXPECT_LE(row.kept_columns, columns);
                if (row.keep == Keep::registers) {
                    EXPECT_EQ(row.kept_columns, columns);
                    EXPECT_LE(row.kept_columns * bytes, bytes_in_registers(row.warps));
                    continue;
                }
                EXPECT_GE(int64_t(row.shared_bytes), row.kept_columns * bytes + row.warps * 8);
                EXPECT_EQ(row.keep == Keep::both, row.kept_columns < columns && bytes == 4 && row.warps == kMostWarps);
                EXPECT_EQ(row.columns_beside * bytes,
                          row.keep == Keep::both
                              ? std::min((columns - row.kept_columns) * bytes, bytes_in_registers(row.warps))
                              : 0);
                if (row.kept_columns < columns) {
                    EXPECT_GT(int64_t(row.shared_bytes) + 16, limit) << "there is room left";
                }
            }
        }
}

// Short rows get one warp and no barrier, the longest ones all that a block can have.
TEST(ResidentSoftmax, HasTheWarpsThatItsRowIsWorth) {
    for (const auto& [columns, warps] : {std::pair{8, 1},
                                         {1024, 1},
                                         {1028, 2},
                                         {2048, 2},
                                         {2052, 4},
                                         {4096, 4},
                                         {4100, 8},
                                         {8192, 8},
                                         {8196, 16},
                                         {16384, 16},
                                         {16388, 32}}) {
        const torch::Tensor x = torch::zeros({2, columns}, test_device());
        const simt::LaunchLog log;
        resident_softmax(x);
        ASSERT_EQ(log.records().size(), 1u);
        const simt::LaunchRecord& launch = log.records().front();
        EXPECT_EQ(launch.blocks(), 2u);
        EXPECT_EQ(launch.block[0], 32u * warps) << columns << " columns";
        EXPECT_EQ(launch.counters.block_barriers, launch.counted && warps > 1 ? 2u : 0u);
    }
}

TEST(WarpSoftmax, NeedsNoSharedMemoryAndNoBarrier) {
    const torch::Tensor x = normal(9, 500).to(test_device());
    const simt::LaunchLog log;
    safe_softmax(x);
    online_softmax(x);
    for (const simt::LaunchRecord& launch : log.records()) {
        EXPECT_EQ(launch.blocks(), 3u) << "four rows to a block";
        EXPECT_EQ(launch.shared_bytes_per_block, 0u);
        EXPECT_EQ(launch.counters.block_barriers, 0u);
    }
}

}  // namespace
}  // namespace ladder
