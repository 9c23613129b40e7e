// The wrong kernels that docs/cpu_machine.md shows, one for each diagnosis. The page takes their source from here, and
// each test holds the message on the page against what the machine says.

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <stdexcept>

#include "common/attention/machine.h"
#include "common/attention/outputs.h"
#include "common/simt/device/device.h"
#include "tests/simt/testing.h"

namespace ladder {
namespace {

using simt::Fault;
using simt::GlobalTensor;
using simt::SharedArena;
using simt::testing::Shape;

constexpr unsigned kWholeWarp = 0xffffffffu;

/// y(t) is x(t) less the number to its left.
__global__ void differences(GlobalTensor<const float, 1> x, GlobalTensor<float, 1> y) {
    const auto row = SharedArena().tile<float, 1, 64>("row");
    const int t = threadIdx.x;
    row(0, t) = x(t);
    float left = 0.0f;
    if (t > 0) left = row(0, t - 1);
    y(t) = float(row(0, t)) - left;
}

/// y(t) is the number to the right of x(t).
__global__ void shift_left(GlobalTensor<const float, 1> x, GlobalTensor<float, 1> y) {
    const auto row = SharedArena().tile<float, 1, 64>("row");
    const int t = threadIdx.x;
    row(0, t) = x(t);
    y(t) = row(0, (t + 1) % 64);
}

/// y = 2 x, in blocks of 64.
__global__ void twice(GlobalTensor<const float, 1> x, GlobalTensor<float, 1> y) {
    const int i = 64 * blockIdx.x + threadIdx.x;
    y(i) = 2.0f * float(x(i));
}

/// Each thread reads the first four numbers of its row.
__global__ void row_starts(GlobalTensor<const float, 2> x, GlobalTensor<float, 2> y) {
    const float4 start = x.vec<float4>(threadIdx.x, 0);
    y(threadIdx.x, 0) = start.x;
}

/// The block reverses x.
__global__ void reverse(GlobalTensor<const float, 1> x, GlobalTensor<float, 1> y, int length) {
    const auto row = SharedArena().tile<float, 1, 64>("row");
    const int t = threadIdx.x;
    if (t >= length) return;
    row(0, t) = x(t);
    __syncthreads();
    y(length - 1 - t) = row(0, t);
}

/// Lanes exchange their numbers: the lower half with a neighbour, the upper half with the next but one.
__global__ void exchange(GlobalTensor<const float, 1> x, GlobalTensor<float, 1> y) {
    float z = x(threadIdx.x);
    if (threadIdx.x < 16)
        z = __shfl_xor_sync(kWholeWarp, z, 1);
    else
        z = __shfl_xor_sync(kWholeWarp, z, 2);
    y(threadIdx.x) = z;
}

/// The sum over each eight neighbours, by shuffles among eight lanes.
__global__ void sums_of_eight(GlobalTensor<const float, 1> x, GlobalTensor<float, 1> y) {
    float sum = x(threadIdx.x);
    for (int step = 1; step < 8; step *= 2) sum += __shfl_xor_sync(0xffu, sum, step);
    y(threadIdx.x) = sum;
}

/// The first thread waits at a barrier for the others, which wait for it in a shuffle.
__global__ void maxima(GlobalTensor<const float, 1> x, GlobalTensor<float, 1> y) {
    if (threadIdx.x == 0) __syncthreads();
    float largest = x(threadIdx.x);
    for (int step = 1; step < 32; step *= 2) largest = fmaxf(largest, __shfl_xor_sync(kWholeWarp, largest, step));
    y(threadIdx.x) = largest;
}

/// total(0) = the sum of x, which has a number for each block.
__global__ void sum_of_blocks(GlobalTensor<const float, 1> x, GlobalTensor<float, 1> total) {
    total(0) += float(x(blockIdx.x));
}

/// y = the sum of the columns of x, a thread for each row.
__global__ void row_sums(GlobalTensor<const float, 2> x, GlobalTensor<float, 1> y) {
    for (int column = 0; column < x.extent(1); ++column) y(threadIdx.x) += float(x(threadIdx.x, column));
}

/// Two tiles, in a launch that asked for one.
__global__ void two_tiles(GlobalTensor<float, 1> y) {
    SharedArena arena;
    const auto K_j = arena.tile<float, 16, 32>("K_j");
    const auto V_j = arena.tile<float, 16, 32>("V_j");
    y(threadIdx.x) = K_j.rows() + V_j.rows();
}

/// y = x, through shared memory, filled by asynchronous copies.
__global__ void copy_and_use(GlobalTensor<const float, 2> x, GlobalTensor<float, 2> y) {
    const auto row = SharedArena().tile<float, 1, 128>("row");
    const int column = 4 * threadIdx.x;
    simt::copy_async(row.vec<float4>(0, column), x.vec<float4>(0, column));
    simt::commit_copies();
    y(0, column) = row(0, column);
}

/// Fetches a tile that nobody uses.
__global__ void copy_and_leave(GlobalTensor<const float, 2> x) {
    const auto row = SharedArena().tile<float, 1, 128>("row");
    const int column = 4 * threadIdx.x;
    simt::copy_async(row.vec<float4>(0, column), x.vec<float4>(0, column));
}

/// y = x - 1, with two arenas.
__global__ void two_arenas(GlobalTensor<const float, 1> x, GlobalTensor<float, 1> y) {
    const auto row = SharedArena().tile<float, 1, 64>("row");
    const auto ones = SharedArena().tile<float, 1, 32>("ones");
    const int t = threadIdx.x;
    row(0, t) = x(t);
    ones(0, t / 2) = 1.0f;
    y(t) = float(row(0, t)) - float(ones(0, t / 2));
}

/// Each block says that it has come, and waits for the other one.
__global__ void meet_the_other_block(GlobalTensor<float, 1> come) {
    come(blockIdx.x) = 1.0f;
    while (come(1 - blockIdx.x) == 0.0f) {
    }
}

/// y(t) = the number of halvings that lead from t + 3 to 1.
__device__ float halvings(float x) { return x == 1.0f ? 0.0f : 1.0f + halvings(x / 2.0f); }
__global__ void logarithms(GlobalTensor<float, 1> y) { y(threadIdx.x) = halvings(float(threadIdx.x) + 3.0f); }

/// y = x, through a raw pointer that the host has forgotten to set.
__global__ void copy_from(const float* x, GlobalTensor<float, 1> y) { y(threadIdx.x) = x[threadIdx.x]; }

/// y = 1 / (x - 1).
__global__ void inverses(GlobalTensor<const float, 1> x, GlobalTensor<float, 1> y) {
    const float divisor = float(x(threadIdx.x)) - 1.0f;
    if (divisor == 0.0f) throw std::domain_error("division by zero");
    y(threadIdx.x) = 1.0f / divisor;
}

/// A tensor with a value in each element, as a kernel sees it.
template <int Rank>
struct Values {
    Values(const char* name, std::vector<int64_t> sizes) : tensor(torch::ones(sizes)), name_(name) {}
    template <class T = float>
    GlobalTensor<T, Rank> view() const {
        return simt::global_tensor<T, Rank>(tensor_argument(name_, tensor));
    }
    torch::Tensor tensor;

  private:
    const char* name_;
};

/// A result that no kernel has written yet.
template <int Rank>
struct Result : Values<Rank> {
    Result(const char* name, std::vector<int64_t> sizes) : Values<Rank>(name, sizes) {
        this->tensor = allocate(sizes, torch::TensorOptions());
    }
};

/// With one space wherever the text has any space: the page wraps long lines.
std::string squeezed(const std::string& text) {
    std::istringstream words(text);
    std::string all;
    for (std::string word; words >> word;) all += (all.empty() ? "" : " ") + word;
    return all;
}

const std::string& page() {
    static const std::string text = [] {
        std::ostringstream all;
        all << std::ifstream(LADDER_SOURCE_DIR "/docs/cpu_machine.md").rdbuf();
        return squeezed(all.str());
    }();
    return text;
}

/// The page shows this message, in a block of its own.
void expect_on_page(const std::string& message) {
    const bool is_there = page().find("``` " + squeezed(message) + " ```") != std::string::npos;
    EXPECT_TRUE(is_there) << "docs/cpu_machine.md does not show:\n" << message;
}

template <class Run>
void expect_fault_on_page(Fault fault, Run run) {
    try {
        run();
        ADD_FAILURE() << "nothing was found wrong";
    } catch (const simt::MachineError& error) {
        EXPECT_EQ(error.report().fault, fault);
        expect_on_page(error.what());
    }
}

template <class... Parameters, class... Arguments>
void expect_on_page(Fault fault, const char* name, const Shape& shape, void (*kernel)(Parameters...),
                    Arguments... arguments) {
    expect_fault_on_page(fault, [&] { simt::launch(name, config_of(shape), kernel, arguments...); });
}

const Values<1> x("x", {100}), y("y", {100});
constexpr std::size_t kRow = 64 * sizeof(float);

TEST(MachinePage, Race) {
    expect_on_page(Fault::race, "differences", {.block = 64, .shared_bytes = kRow}, differences, x.view<const float>(),
                   y.view());
}

TEST(MachinePage, UninitialisedRead) {
    expect_on_page(Fault::uninitialised_read, "shift_left", {.block = 64, .shared_bytes = kRow}, shift_left,
                   x.view<const float>(), y.view());
}

TEST(MachinePage, OutOfBounds) {
    expect_on_page(Fault::out_of_bounds, "twice", {.grid = 2, .block = 64}, twice, x.view<const float>(), y.view());
}

TEST(MachinePage, Misaligned) {
    const Values<2> odd_rows("x", {4, 25}), starts("y", {4, 1});
    expect_on_page(Fault::misaligned, "row_starts", {.block = 4}, row_starts, odd_rows.view<const float>(),
                   starts.view());
}

TEST(MachinePage, BarrierDivergence) {
    expect_on_page(Fault::barrier_divergence, "reverse", {.block = 64, .shared_bytes = kRow}, reverse,
                   x.view<const float>(), y.view(), 40);
}

TEST(MachinePage, CollectiveDivergence) {
    expect_on_page(Fault::collective_divergence, "exchange", {.block = 32}, exchange, x.view<const float>(), y.view());
}

TEST(MachinePage, InvalidCollective) {
    expect_on_page(Fault::invalid_collective, "sums_of_eight", {.block = 32}, sums_of_eight, x.view<const float>(),
                   y.view());
}

TEST(MachinePage, Deadlock) {
    expect_on_page(Fault::deadlock, "maxima", {.block = 32}, maxima, x.view<const float>(), y.view());
}

TEST(MachinePage, GlobalRace) {
    const Values<1> total("total", {1});
    expect_on_page(Fault::global_race, "sum_of_blocks", {.grid = 3, .block = 1}, sum_of_blocks, x.view<const float>(),
                   total.view());
}

TEST(MachinePage, UnwrittenRead) {
    const Values<2> rows("x", {64, 8});
    const Result<1> sums("y", {64});
    expect_on_page(Fault::unwritten_read, "row_sums", {.block = 64}, row_sums, rows.view<const float>(), sums.view());
}

TEST(MachinePage, PartialWrite) {
    const Result<1> doubled("y", {100});
    expect_fault_on_page(Fault::partial_write, [&] {
        simt::launch("twice", config_of(Shape{.grid = 100 / 64, .block = 64}), twice, x.view<const float>(),
                     doubled.view());
        check_written("twice", "y", doubled.tensor);
    });
}

TEST(MachinePage, ArenaOverflow) {
    expect_on_page(Fault::arena_overflow, "two_tiles", {.block = 32, .shared_bytes = 16 * 32 * sizeof(float)},
                   two_tiles, y.view());
}

TEST(MachinePage, ArenaOverlap) {
    expect_on_page(Fault::arena_overlap, "two_arenas", {.block = 64, .shared_bytes = 64 * sizeof(float)}, two_arenas,
                   x.view<const float>(), y.view());
}

TEST(MachinePage, AsynchronousCopies) {
    const Values<2> row("x", {1, 128}), copy("y", {1, 128});
    const Shape shape{.block = 32, .shared_bytes = 128 * sizeof(float)};
    expect_on_page(Fault::copy_in_flight, "copy_and_use", shape, copy_and_use, row.view<const float>(), copy.view());
    expect_on_page(Fault::copy_not_awaited, "copy_and_leave", shape, copy_and_leave, row.view<const float>());
    const simt::ScopedCpuDevice turing(simt::device_from(simt::device_profile("t4")));
    expect_on_page(Fault::unsupported, "copy_and_leave", shape, copy_and_leave, row.view<const float>());
}

TEST(MachinePage, Endless) {
    const simt::ScopedBudget half_a_second({.seconds = 0.5});
    const simt::ScopedCpuWorkers one(1);
    const Values<1> come("come", {2});
    come.tensor.zero_();
    expect_on_page(Fault::endless, "meet_the_other_block", {.grid = 2, .block = 1}, meet_the_other_block, come.view());
}

TEST(MachinePage, WhatWouldEndTheProgram) {
    if (simt::kHasSanitizer) GTEST_SKIP() << "a sanitizer reports these itself, and ends the program";
    expect_on_page(Fault::stack_overflow, "logarithms", {.block = 64}, logarithms, y.view());
    expect_on_page(Fault::stray_pointer, "copy_from", {.block = 64}, copy_from, static_cast<const float*>(nullptr),
                   y.view());
    expect_on_page(Fault::exception, "inverses", {.block = 64}, inverses, x.view<const float>(), y.view());
}

TEST(MachinePage, RefusedLaunch) {
    try {
        simt::launch("two_tiles", config_of(Shape{.block = 32, .shared_bytes = 110'000}), two_tiles, y.view());
        ADD_FAILURE() << "the launch was accepted";
    } catch (const simt::LaunchError& error) {
        expect_on_page(error.what());
    }
}

// The last enumerator is `exception`.
TEST(MachinePage, ShowsEveryDiagnosis) {
    for (int fault = 0; fault <= int(Fault::exception); ++fault) {
        const std::string name(name_of(Fault(fault)));
        const bool is_there = page().find("``` " + name + " in ") != std::string::npos;
        EXPECT_TRUE(is_there) << "docs/cpu_machine.md shows no " << name;
    }
}

}  // namespace
}  // namespace ladder
