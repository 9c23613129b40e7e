// What the machine asks of the processor and the system under it: stacks, the switch between them, rounding.

#include <unistd.h>
#include <unwind.h>

#include <array>
#include <cerrno>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <stdexcept>
#include <string>

#include "tests/simt/testing.h"

namespace simt::testing {
namespace {

std::uintptr_t address(const void* p) { return reinterpret_cast<std::uintptr_t>(p); }

/// Whether a program may read the byte at `p`, which the system is asked in order not to crash.
bool readable(const void* p) {
    int pipe_ends[2];
    if (::pipe(pipe_ends) != 0) throw std::runtime_error("no pipe to be had");
    const bool was_read = ::write(pipe_ends[1], p, 1) == 1;
    EXPECT_TRUE(was_read || errno == EFAULT);
    ::close(pipe_ends[0]);
    ::close(pipe_ends[1]);
    return was_read;
}

TEST(Stacks, HaveAGuardBelowWhateverTheSizeOfAPage) {
    const std::size_t page = std::size_t(::sysconf(_SC_PAGESIZE));
    if (const char* asked_of_qemu = std::getenv("QEMU_PAGESIZE")) {
        EXPECT_EQ(page, std::stoul(asked_of_qemu));
    }
    FiberStacks stacks;
    stacks.reserve(5);
    EXPECT_GE(stacks.usable_bytes(), std::size_t{128} << 10);
    for (int fiber = 0; fiber < 5; ++fiber) {
        const auto* const bottom = static_cast<const std::byte*>(stacks.bottom_of(fiber));
        EXPECT_EQ(address(bottom) % page, 0u);
        EXPECT_TRUE(readable(bottom));
        EXPECT_FALSE(readable(bottom - 1));
        EXPECT_FALSE(readable(bottom - page));
        const auto* const top = static_cast<const std::byte*>(stacks.top_of(fiber));
        EXPECT_EQ(address(top) % 16, 0u);
        EXPECT_TRUE(readable(top - 1));
        EXPECT_LE(top, bottom + stacks.usable_bytes());
    }
}

TEST(Threads, StartOnAlignedStacks) {
    std::array<std::uintptr_t, 64> frames{};
    run({.block = 64}, [&] { frames[threadIdx.x] = address(__builtin_frame_address(0)); });
    for (const std::uintptr_t frame : frames) EXPECT_EQ(frame % 16, 0u);
}

/// More values than a processor has registers for, those kept across calls among them.
template <class T>
std::array<T, 40> values_of(unsigned thread) {
    std::array<T, 40> values;
    for (unsigned i = 0; i < values.size(); ++i) values[i] = T(thread * 64 + i);
    return values;
}

TEST(Threads, KeepTheirRegistersWhileOthersRun) {
    std::array<int, 64> wrong{};
    run({.block = 64}, [&] {
        auto whole = values_of<std::uint64_t>(threadIdx.x);
        auto real = values_of<double>(threadIdx.x);
        for (int round = 0; round < 3; ++round) {
            // Changed between the switches, so that no compiler takes them from elsewhere afterwards.
            for (auto& value : whole) value += 1;
            for (auto& value : real) value += 1;
            __syncthreads();
            (void)__shfl_xor_sync(0xffffffffu, whole[0], 1);
        }
        const auto first_whole = values_of<std::uint64_t>(threadIdx.x);
        const auto first_real = values_of<double>(threadIdx.x);
        for (std::size_t i = 0; i < whole.size(); ++i)
            wrong[threadIdx.x] += (whole[i] != first_whole[i] + 3) + (real[i] != first_real[i] + 3);
    });
    for (const int count : wrong) EXPECT_EQ(count, 0);
}

struct Backtrace {
    int frames = 0;
    std::uintptr_t outermost = 0;  ///< where its frame ends
};

_Unwind_Reason_Code add_frame(_Unwind_Context* frame, void* backtrace) {
    auto& result = *static_cast<Backtrace*>(backtrace);
    result.outermost = _Unwind_GetCFA(frame);
    return ++result.frames < 100 ? _URC_NO_REASON : _URC_END_OF_STACK;
}

Backtrace backtrace_on_new_stack;
StackPointer test_stack, new_stack;

void look_around() {
    _Unwind_Backtrace(add_frame, &backtrace_on_new_stack);
    switch_stack(&new_stack, test_stack);
    __builtin_unreachable();
}

TEST(Stacks, CallsEndWhereTheStackBegins) {
    FiberStacks stacks;
    stacks.reserve(1);
    new_stack = prepare_stack(stacks.top_of(0), look_around);
    switch_stack(&test_stack, new_stack);
    EXPECT_GT(backtrace_on_new_stack.frames, 0);
    EXPECT_GT(backtrace_on_new_stack.outermost, address(stacks.bottom_of(0)));
    EXPECT_LE(backtrace_on_new_stack.outermost, address(stacks.top_of(0)));
}

TEST(Arithmetic, AProductAndASumRoundTwiceUnlessFused) {
    // x² = 1 + 2^-11 + 2^-24, whose last part a float cannot hold.
    volatile float volatile_x = 1.0f + 0x1p-12f, volatile_rounded = 1.0f + 0x1p-11f;
    const float x = volatile_x, rounded = volatile_rounded;
    float apart = -1.0f, fused = -1.0f, intrinsic = -1.0f;
    run({.block = 1}, [&] {
        apart = x * x - rounded;
        fused = fmaf(x, x, -rounded);
        intrinsic = __fmul_rn(x, x) - rounded;
    });
    EXPECT_EQ(apart, 0.0f);
    EXPECT_EQ(fused, 0x1p-24f);
    EXPECT_EQ(intrinsic, 0.0f);
}

}  // namespace
}  // namespace simt::testing
