// What each of the newer instructions moves: copies by TMA, products of a warpgroup, stmatrix, atomics. One launch for
// each case, written down as JSON; common/records/compare_instructions_with_ncu.py holds it against Nsight Compute.
//
//   instruction_counts --device cpu|cuda --json FILE [CASE…]

#include <algorithm>
#include <cstdio>
#include <exception>
#include <functional>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <vector>

#include "common/attention/machine.h"
#include "common/cli/launch_json.h"
#include "common/simt/device/device_profile.h"
#include "common/torch/torch.h"
#include "tests/simt/atomics.h"
#include "tests/simt/raw_argument.h"
#include "tests/simt/tma.h"
#include "tests/simt/wgmma.h"

namespace ladder {

// tma.cuh, wgmma.cuh and atomics.cuh, compiled once per machine.
namespace cpu {
void launch_tma(const TmaTrial&);
void launch_bulk(const BulkTrial&);
void launch_product(const ProductTrial&);
void launch_scores(const ScoresTrial&);
void launch_stmatrix(const StmatrixTrial&);
void launch_histogram(const AtomicTrial&);
void launch_sum_and_max(const AtomicTrial&);
void launch_last_block(const AtomicTrial&);
void launch_tile_counter(const AtomicTrial&);
void launch_claim(const AtomicTrial&);
void launch_wide(const AtomicTrial&);
}  // namespace cpu
namespace cuda {
[[gnu::weak]] void launch_tma(const TmaTrial&);
[[gnu::weak]] void launch_bulk(const BulkTrial&);
[[gnu::weak]] void launch_product(const ProductTrial&);
[[gnu::weak]] void launch_scores(const ScoresTrial&);
[[gnu::weak]] void launch_stmatrix(const StmatrixTrial&);
[[gnu::weak]] void launch_histogram(const AtomicTrial&);
[[gnu::weak]] void launch_sum_and_max(const AtomicTrial&);
[[gnu::weak]] void launch_last_block(const AtomicTrial&);
[[gnu::weak]] void launch_tile_counter(const AtomicTrial&);
[[gnu::weak]] void launch_claim(const AtomicTrial&);
[[gnu::weak]] void launch_wide(const AtomicTrial&);
}  // namespace cuda

namespace {

using simt::Swizzle;
using What = TmaTrial::What;

/// A launch, in words, and the tensors that the tensor memory accelerator moves; threads access the others.
struct Case {
    std::string name;
    std::vector<std::string> by_tma;
    std::function<void(torch::Device)> launch;
};

struct TmaCase {
    std::string name;
    torch::ScalarType type;
    std::vector<int64_t> sizes;
    std::vector<int64_t> strides;  ///< in elements
    std::array<int, 4> box;
    TmaPath path;
    Swizzle swizzle = Swizzle::b128;
    std::array<int, 4> steps{1, 1, 1, 1};
    std::vector<What> what{What::load, What::store, What::add};
};

const char* const kVerbs[] = {"load", "store", "add"};

Case tma_case(const TmaCase& c, What what) {
    return {std::string("tma_") + kVerbs[int(what)] + ", " + c.name, {"tensor"}, [c, what](torch::Device device) {
                constexpr int64_t tiles = 6;
                TmaTrial t;
                t.what = what;
                t.path = c.path;
                t.box = c.box;
                t.steps = c.steps;
                t.swizzle = c.swizzle;
                const int columns = tma_columns(c.swizzle, int(elementSize(c.type)));
                const torch::TensorOptions options = torch::TensorOptions(c.type).device(device);
                const torch::Tensor whole = torch::zeros({c.sizes[0] * c.strides[0] + 256}, options);
                const torch::Tensor panels = torch::zeros({tiles, kTmaRows, columns}, options);
                t.tensor = raw_argument("tensor", whole.as_strided(c.sizes, c.strides));
                t.tiles = raw_argument("tiles", panels);
                run_on(device, cpu::launch_tma, cuda::launch_tma, t);
            }};
}

std::vector<Case> tma_cases() {
    constexpr auto f32 = torch::kFloat32, f16 = torch::kFloat16, bf16 = torch::kBFloat16;
    const std::vector<What> loads{What::load};
    const std::vector<TmaCase> cases = {
        {"rows of 256 bytes", bf16, {144, 128}, {128, 1}, {24}, {{0, 0}, {24, 0}}},
        {"rows of 128 bytes", bf16, {144, 64}, {64, 1}, {24}, {{0, 0}, {24, 0}}, Swizzle::b64},
        {"rows of 64 bytes", bf16, {144, 32}, {32, 1}, {24}, {{0, 0}, {24, 0}}, Swizzle::b32},
        {"rows of 64 bytes, unswizzled", f32, {144, 16}, {16, 1}, {24}, {{0, 0}, {24, 0}}, Swizzle::none},
        {"from the middle of a sector on", bf16, {144, 144}, {144, 1}, {24}, {{0, 8}, {24, 0}}},
        {"from the middle of a sector on, 32 bytes at a time",
         bf16,
         {144, 48},
         {48, 1},
         {24},
         {{0, 8}, {24, 0}},
         Swizzle::b32},
        {"rows 80 bytes apart", bf16, {144, 40}, {40, 1}, {24}, {{0, 0}, {24, 0}}, Swizzle::b32},
        {"rows 176 bytes apart", bf16, {144, 88}, {88, 1}, {24}, {{0, 8}, {24, 0}}, Swizzle::b64},
        {"over the end of rows and columns", bf16, {130, 88}, {128, 1}, {24}, {{0, 0}, {24, 0}}},
        {"before the first row and column",
         bf16,
         {130, 88},
         {128, 1},
         {24},
         {{-10, -8}, {24, 0}},
         Swizzle::b128,
         {1, 1, 1, 1},
         loads},
        {"every other row", f32, {288, 64}, {64, 1}, {48}, {{0, 0}, {48, 0}}, Swizzle::b128, {2, 1, 1, 1}},
        {"of rank 3", f16, {18, 8, 64}, {8 * 64, 64, 1}, {3, 8}, {{0, 0, 0}, {3, 0, 0}}, Swizzle::b64},
        {"of rank 4",
         f16,
         {12, 3, 4, 32},
         {3 * 4 * 32, 4 * 32, 32, 1},
         {2, 3, 4},
         {{0, 0, 0, 0}, {2, 0, 0, 0}},
         Swizzle::none},
    };
    std::vector<Case> all;
    for (const TmaCase& c : cases)
        for (const What what : c.what) all.push_back(tma_case(c, what));
    all.push_back(
        {"bulk_load and bulk_add", {"x", "sum"}, [](torch::Device device) {
             const torch::Tensor x = torch::zeros({kBulkElements}, torch::TensorOptions().device(device));
             const torch::Tensor y = torch::zeros_like(x), sum = torch::zeros_like(x);
             run_on(device, cpu::launch_bulk, cuda::launch_bulk,
                    BulkTrial{.x = raw_argument("x", x), .y = raw_argument("y", y), .sum = raw_argument("sum", sum)});
         }});
    return all;
}

struct ProductCase {
    const char* name;
    simt::ElementType type;
    SourceOfA source;
    bool b_is_k_major;
    Swizzle swizzle;
    int n;
};

Case product_case(const ProductCase& c) {
    return {std::string("wgmma, ") + c.name, {}, [c](torch::Device device) {
                const bool narrow = c.type == simt::ElementType::e4m3;
                const torch::TensorOptions options =
                    torch::TensorOptions(narrow ? torch::kUInt8 : torch::kFloat16).device(device);
                const torch::Tensor a = torch::zeros({kTrialRows, kTrialDepth}, options);
                const torch::Tensor b = c.b_is_k_major ? torch::zeros({c.n, kTrialDepth}, options)
                                                       : torch::zeros({kTrialDepth, c.n}, options);
                const torch::Tensor sums = torch::zeros({kTrialRows, c.n}, torch::TensorOptions().device(device));
                const torch::Tensor out = torch::zeros_like(sums);
                ProductTrial t{.a = raw_argument("A", a),
                               .b = raw_argument("B", b),
                               .c = raw_argument("C", sums),
                               .d = raw_argument("D", out),
                               .source = c.source,
                               .b_is_k_major = c.b_is_k_major,
                               .swizzle = c.swizzle,
                               .n = c.n};
                t.a.type = t.b.type = c.type;
                run_on(device, cpu::launch_product, cuda::launch_product, t);
            }};
}

std::vector<Case> product_cases() {
    constexpr auto f16 = simt::ElementType::f16, e4m3 = simt::ElementType::e4m3;
    constexpr auto k = SourceOfA::k_major, mn = SourceOfA::mn_major, registers = SourceOfA::registers;
    std::vector<Case> all;
    for (const ProductCase& c : std::initializer_list<ProductCase>{
             {"A and B k-major, n 96, 128 bytes", f16, k, true, Swizzle::b128, 96},
             {"A and B k-major, n 96, 64 bytes", f16, k, true, Swizzle::b64, 96},
             {"A and B k-major, n 96, 32 bytes", f16, k, true, Swizzle::b32, 96},
             {"A k-major, B mn-major, n 96", f16, k, false, Swizzle::b128, 96},
             {"A and B mn-major, n 96", f16, mn, false, Swizzle::b128, 96},
             {"A in registers, B k-major, n 96", f16, registers, true, Swizzle::b128, 96},
             {"A in registers, B mn-major, n 96", f16, registers, false, Swizzle::b128, 96},
             {"A and B k-major, n 8", f16, k, true, Swizzle::b128, 8},
             {"A and B k-major, n 64", f16, k, true, Swizzle::b128, 64},
             {"A and B k-major, n 128", f16, k, true, Swizzle::b128, 128},
             {"A and B k-major, n 256", f16, k, true, Swizzle::b128, 256},
             {"A in registers, B mn-major, n 256", f16, registers, false, Swizzle::b128, 256},
             {"8-bit A and B k-major, n 96", e4m3, k, true, Swizzle::b128, 96},
             {"8-bit A in registers, B k-major, n 96", e4m3, registers, true, Swizzle::b128, 96}})
        all.push_back(product_case(c));
    all.push_back({"wgmma, a chain of two", {}, [](torch::Device device) {
                       const auto matrix = [&](torch::ScalarType type) {
                           return torch::zeros({64, 64}, torch::TensorOptions(type).device(device));
                       };
                       const torch::Tensor q = matrix(torch::kFloat16), key = matrix(torch::kFloat16),
                                           v = matrix(torch::kFloat16), o = matrix(torch::kFloat32);
                       run_on(device, cpu::launch_scores, cuda::launch_scores,
                              ScoresTrial{.q = raw_argument("Q", q),
                                          .k = raw_argument("K", key),
                                          .v = raw_argument("V", v),
                                          .o = raw_argument("O", o)});
                   }});
    for (const int matrices : {1, 2, 4})
        for (const bool transposed : {false, true})
            all.push_back(
                {"stmatrix, x" + std::to_string(matrices) + (transposed ? ", transposed" : ""),
                 {},
                 [matrices, transposed](torch::Device device) {
                     const torch::Tensor in = torch::zeros({32, 4}, torch::TensorOptions(torch::kInt32).device(device));
                     const torch::Tensor rows =
                         torch::zeros({32, 8}, torch::TensorOptions(torch::kInt16).device(device));
                     run_on(device, cpu::launch_stmatrix, cuda::launch_stmatrix,
                            StmatrixTrial{.registers = raw_argument("registers", in),
                                          .rows = raw_argument("rows", rows),
                                          .matrices = matrices,
                                          .transposed = transposed});
                 }});
    return all;
}

using LaunchAtomics = void(const AtomicTrial&);

Case atomic_case(const char* name, torch::ScalarType type, int n, int blocks, LaunchAtomics* on_cpu,
                 LaunchAtomics* on_cuda) {
    return {name, {}, [=](torch::Device device) {
                const torch::TensorOptions options = torch::TensorOptions(type).device(device);
                // Of every kind as many, a stride apart: neighbouring lanes meet neither in a bin nor in a bank.
                const torch::Tensor in = (torch::arange(n, torch::kInt32) * 7 % kBins).to(options);
                const torch::Tensor out = torch::zeros({std::max(n, kBins)}, options);
                const torch::Tensor partial = torch::zeros({blocks}, options);
                const torch::Tensor counter = torch::zeros({2}, torch::TensorOptions(torch::kInt32).device(device));
                run_on(device, on_cpu, on_cuda,
                       AtomicTrial{.in = raw_argument("in", in),
                                   .out = raw_argument("out", out),
                                   .partial = raw_argument("partial", partial),
                                   .counter = raw_argument("counter", counter),
                                   .blocks = blocks});
            }};
}

std::vector<Case> atomic_cases() {
    constexpr auto i32 = torch::kInt32, f32 = torch::kFloat32;
    return {
        atomic_case("atomics, a histogram", i32, 960, 2, cpu::launch_histogram, cuda::launch_histogram),
        atomic_case("atomics, sum and maximum", f32, 192, 2, cpu::launch_sum_and_max, cuda::launch_sum_and_max),
        atomic_case("atomics, the last block", f32, 960, 5, cpu::launch_last_block, cuda::launch_last_block),
        atomic_case("atomics, tiles drawn", i32, 960, 1, cpu::launch_tile_counter, cuda::launch_tile_counter),
        atomic_case("atomics of 64 bits", torch::kInt64, 96, 1, cpu::launch_wide, cuda::launch_wide),
        atomic_case("atomics, claims and exchanges", i32, 1, 1, cpu::launch_claim, cuda::launch_claim),
    };
}

/// Of all cases, or of those whose names begin with one of `wanted`.
void run(const std::string& device_name, const std::string& file, const std::vector<std::string>& wanted) {
    const torch::Device device(device_name);
    if (device.is_cuda() && !cuda::launch_tma)
        throw std::runtime_error("this program was built without CUDA: build it with a libtorch that has it");
    const simt::ScopedCpuDevice hopper(simt::device_from(simt::device_profile("h200")));
    cli::Json cases = cli::Json::array();
    for (std::vector<Case> (*const some)() : {tma_cases, product_cases, atomic_cases})
        for (const Case& c : some()) {
            const auto asks_for_it = [&](const std::string& name) { return c.name.starts_with(name); };
            if (!wanted.empty() && std::ranges::none_of(wanted, asks_for_it)) continue;
            simt::LaunchLog log;
            c.launch(device);
            for (const simt::LaunchRecord& record : log.records())
                cases.push_back({{"case", c.name}, {"by_tma", c.by_tma}, {"launch", cli::json_of(record)}});
        }
    torch::zeros({1}, torch::TensorOptions().device(device)).cpu();  // all launches have ended
    cli::write_json({{"device", device_name}, {"cases", cases}}, file);
}

}  // namespace
}  // namespace ladder

int main(int count, char** words) {
    const std::vector<std::string> arguments(words + 1, words + count);
    if (arguments.size() < 4 || arguments[0] != "--device" || arguments[2] != "--json") {
        std::fprintf(stderr, "usage: instruction_counts --device cpu|cuda --json FILE [CASE…]\n");
        return 2;
    }
    try {
        ladder::run(arguments[1], arguments[3], {arguments.begin() + 4, arguments.end()});
    } catch (const std::exception& problem) {
        std::fprintf(stderr, "instruction_counts: %s\n", problem.what());
        return 1;
    }
}
