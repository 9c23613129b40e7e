// Kernels that would take the program with them: stacks used up, stray pointers, exceptions. Each must end in a
// diagnosis; and what happens outside of kernels stays as it was.

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <string>

#include "common/simt/memory/sanitizers.h"
#include "tests/simt/faulty_kernels.h"

namespace simt::testing {
namespace {

class Crash : public ::testing::Test {
  protected:
    void SetUp() override {
        if (kHasSanitizer) GTEST_SKIP() << "a sanitizer reports these itself, and ends the program";
    }
};
using CrashDeathTest = Crash;

/// So many bytes of local memory, all of them used.
template <std::size_t bytes>
[[gnu::noinline]] int use_locals(int seed) {
    volatile unsigned char local[bytes];
    for (std::size_t i = bytes; i-- > 0;) local[i] = static_cast<unsigned char>(seed + int(i));
    return local[bytes / 2];
}

/// The same, of which only the far end is used.
template <std::size_t bytes>
[[gnu::noinline]] int use_first_of_locals(int seed) {
    volatile unsigned char local[bytes];
    local[0] = static_cast<unsigned char>(seed);
    return local[0];
}

/// Calls itself so many times, with so many bytes each.
template <std::size_t bytes>
[[gnu::noinline]] int recurse(int depth) {
    volatile unsigned char local[bytes];
    local[0] = static_cast<unsigned char>(depth);
    const int below = depth == 0 ? 0 : recurse<bytes>(depth - 1);
    return below + local[0];
}

TEST(Stack, HoldsWhatCudaAllows) {
    for (int repeat = 0; repeat < 3; ++repeat) {
        int sum = 0;
        expect_clean({.grid = 2, .block = 64}, [&sum] {
            const int mine = use_locals<(512 << 10) - 1024>(int(threadIdx.x));
            __syncthreads();
            if (blockIdx.x == 0) sum += mine >= 0;
        });
        EXPECT_EQ(sum, 64);
        expect_clean({.block = 3}, [] { recurse<1024>(400); });
    }
}

TEST(Stack, ManyDeepOnesDoNotStayInMemory) {
    const auto resident_pages = [] {
        long all = 0, resident = 0;
        std::FILE* const file = std::fopen("/proc/self/statm", "r");
        EXPECT_EQ(std::fscanf(file, "%ld %ld", &all, &resident), 2);
        std::fclose(file);
        return resident;
    };
    const Workers one(1);
    expect_machine_still_works();
    const long before = resident_pages();
    expect_clean({.block = 512}, [] { use_locals<300 << 10>(1); });
    const long bytes = (resident_pages() - before) * ::sysconf(_SC_PAGESIZE);
    EXPECT_LT(bytes, 32 << 20);
}

template <std::size_t bytes>
void expect_overflow(int depth) {
    expect_fault({.block = 96},
                 [depth] {
                     __syncthreads();  // @last barrier
                     if (is_thread(37)) recurse<bytes>(depth);
                 },
                 {.fault = Fault::stack_overflow,
                  .first = {37},
                  .says = {"thread 37 has used up its stack of 576 KiB", "512 KiB of local memory",
                           "the last barrier of the block was at " + place("last barrier")}});
}

TEST_F(Crash, RecursionWithoutEnd) {
    expect_overflow<16>(std::numeric_limits<int>::max());
    expect_overflow<3000>(std::numeric_limits<int>::max());
    expect_overflow<60'000>(std::numeric_limits<int>::max());
}

TEST_F(Crash, MoreLocalsThanThereAre) {
    expect_fault({.block = 64}, [] { use_locals<600 << 10>(1); },
                 {.fault = Fault::stack_overflow, .first = {0}, .says = {"576 KiB"}});
    // A frame so large lies beyond the guard, where other threads have their stacks, or the program anything else.
    for (const unsigned thread : {0u, 1u, 63u})
        expect_fault({.block = 64},
                     [=] {
                         if (is_thread(thread)) use_first_of_locals<8 << 20>(1);
                     },
                     {.fault = Fault::stack_overflow, .first = {int(thread)}, .says = {"576 KiB"}});
}

TEST_F(Crash, NullPointers) {
    int* volatile null = nullptr;
    for (const bool write : {false, true})
        expect_fault({.grid = 2, .block = 64},
                     [=] {
                         if (blockIdx.x == 0 || threadIdx.x < 33) return;
                         if (write)
                             *null = 1;
                         else
                             (void)*static_cast<volatile int*>(null);
                     },
                     {.fault = Fault::stray_pointer, .block = {1, 0, 0}, .first = {33}, .says = {"it is null"}});
    expect_fault({.block = 1}, [=] { null[12] = 1; },
                 {.fault = Fault::stray_pointer, .first = {0}, .says = {"null, with an offset of 48 bytes"}});
    void (*volatile function)() = nullptr;
    expect_fault({.block = 1}, [=] { function(); },
                 {.fault = Fault::stray_pointer, .first = {0}, .says = {"it is null"}});
}

TEST_F(Crash, TensorWithoutMemory) {
    const auto nothing = global_tensor<float, 1>(
        TensorArgument{.name = "nothing", .data = nullptr, .rank = 1, .extents = {64}, .strides = {1}});
    volatile float sink = 0.0f;
    expect_fault({.block = 1}, [&] { sink = nothing(20); },
                 {.fault = Fault::stray_pointer, .first = {0}, .says = {"null, with an offset of 80 bytes"}});
}

TEST_F(Crash, MemoryThatWasFreed) {
    constexpr std::size_t bytes = 1 << 20;
    void* const memory = ::mmap(nullptr, 3 * bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    float* const data = static_cast<float*>(memory) + bytes / sizeof(float);
    const auto freed = global_tensor<float, 1>(
        TensorArgument{.name = "freed", .data = data, .rank = 1, .extents = {bytes / sizeof(float)}, .strides = {1}});
    expect_clean({.block = 1}, [=] { freed(7) = 1.0f; });
    ::munmap(memory, 3 * bytes);
    expect_fault(
        {.block = 1}, [=] { freed(7) = 1.0f; },
        {.fault = Fault::stray_pointer, .first = {0}, .says = {"it lies in freed, whose memory is no longer"}});
    expect_fault({.block = 1}, [=] { *static_cast<volatile float*>(data - 8); },
                 {.fault = Fault::stray_pointer, .first = {0}, .says = {"32 bytes before the tensor freed"}});
}

TEST_F(Crash, MemoryThatOnlyViewsReach) {
    std::array<float, 8> memory{1, 2, 3, 4, 5, 6, 7, 8};
    void* const closed = ::mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(closed, MAP_FAILED);
    const auto view = [&](const char* name) {
        return global_tensor<float, 1>({.name = name, .data = closed, .rank = 1, .extents = {8}, .strides = {1}});
    };
    const auto tensor = view("closed");
    const auto way = reinterpret_cast<std::uintptr_t>(memory.data()) - reinterpret_cast<std::uintptr_t>(closed);
    beyond_views[std::size_t(tensor_id("closed"))] = std::ptrdiff_t(way);
    expect_clean({.block = 1}, [=] {
        tensor(0) = float(tensor(1)) + tensor(2);
        tensor(1) += 1.0f;
        tensor(2) *= 2.0f;
        atomic_add(tensor(3), 1.0f);
    });
    EXPECT_EQ(memory, (std::array<float, 8>{5, 3, 6, 5, 5, 6, 7, 8}));
    const Expected stray{
        .fault = Fault::stray_pointer, .first = {0}, .says = {"whose memory only a view of that tensor reaches"}};
    expect_fault(
        {.block = 1}, [=] { *static_cast<volatile float*>(closed) = 1.0f; }, stray);
    const auto other = view("other");
    expect_fault(
        {.block = 1}, [=] { other(0) = 1.0f; }, stray);
    beyond_views = {};
    ::munmap(closed, 4096);
}

void nothing() {}

TEST(Launch, IsTheHosts) {
    expect_fault({.block = 2}, [] { launch("inner", {}, nothing); },
                 {.fault = Fault::unsupported, .first = {0}, .says = {"launches a kernel from inside a kernel"}});
}

TEST_F(Crash, AddressesThatAreNone) {
    for (const std::uintptr_t address : {std::uintptr_t{0x7000'0000'0000'0000}, ~std::uintptr_t{0} - 7}) {
        volatile int* volatile stray = reinterpret_cast<int*>(address);
        expect_fault({.block = 1}, [=] { *stray = 1; },
                     {.fault = Fault::stray_pointer, .first = {0}, .says = {"follows a pointer to"}});
    }
}

TEST_F(Crash, MemoryThatMayNotBeWritten) {
    void* const memory = ::mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    volatile int* const constant = static_cast<int*>(memory);
    expect_clean({.block = 1}, [=] { (void)*constant; });
    expect_fault({.block = 1}, [=] { *constant = 1; }, {.fault = Fault::stray_pointer, .first = {0}});
    ::munmap(memory, 4096);
}

TEST_F(Crash, StackOfAnotherThread) {
    expect_fault({.block = 64},
                 [] {
                     if (!is_thread(20)) return;
                     volatile char local[8] = {};
                     volatile char* volatile far = local;
                     far[-(600 << 10)] = 1;  // below this thread's own
                 },
                 {.fault = Fault::stack_overflow, .first = {20}});
}

TEST_F(Crash, InsideALibrary) {
    const char* volatile text = nullptr;
    volatile std::size_t length = 0;
    expect_fault({.block = 2}, [&] { length = std::strlen(text); }, {.fault = Fault::stray_pointer, .first = {0}});
}

TEST_F(Crash, DivisionByZero) {
#ifndef __x86_64__
    GTEST_SKIP() << "this processor gives 0";
#endif
    volatile int zero = 0, result = 0;
    expect_fault({.block = 8},
                 [&] {
                     if (is_thread(5)) result = 7 / zero;
                 },
                 {.fault = Fault::exception, .first = {5}, .says = {"divides an integer by zero"}});
    volatile int minus_one = -1, least = std::numeric_limits<int>::min();
    expect_fault({.block = 8}, [&] { result = least % minus_one; },
                 {.fault = Fault::exception, .first = {0}, .says = {"the least one by -1"}});
}

TEST_F(Crash, OnSeveralWorkersAgainAndAgain) {
    const Workers several(4);
    int* volatile null = nullptr;
    for (int repeat = 0; repeat < 50; ++repeat) {
        const auto found = fault_of({.grid = 32, .block = 256}, [=] {
            __syncthreads();
            if (blockIdx.x >= 3 && threadIdx.x == 100) *null = 1;
        });
        ASSERT_TRUE(found);
        EXPECT_EQ(found->report().block[0], 3u);
        EXPECT_EQ(found->report().first.thread, 100);
        EXPECT_FALSE(found->report().calls.empty());
    }
    expect_machine_still_works();
}

struct Complaint {};

TEST(Exception, IsReportedWithItsWords) {
    expect_fault({.grid = 3, .block = 64},
                 [] {
                     __syncthreads();  // @before the throw
                     if (blockIdx.x == 2 && threadIdx.x == 41) throw std::out_of_range("no such row");
                 },
                 {.fault = Fault::exception,
                  .block = {2, 0, 0},
                  .first = {41},
                  .says = {"thread 41 throws std::out_of_range, \"no such row\"", "device code has no exceptions",
                           "the last barrier of the block was at " + place("before the throw")}});
    expect_fault({.block = 1}, [] { (void)std::string(3, 'x').at(5); },
                 {.fault = Fault::exception, .first = {0}, .says = {"std::out_of_range"}});
    expect_fault({.block = 1}, [] { throw Complaint(); },
                 {.fault = Fault::exception, .first = {0}, .says = {"no std::exception"}});
    expect_fault({.block = 1}, [] { throw 7; }, {.fault = Fault::exception, .first = {0}});
}

TEST(Exception, ThatTheKernelCatchesIsItsOwn) {
    int caught = 0;
    expect_clean({.block = 40}, [&caught] {
        try {
            if (threadIdx.x % 2) throw Complaint();
        } catch (const Complaint&) {
            ++caught;
        }
        __syncthreads();
    });
    EXPECT_EQ(caught, 20);
}

TEST(Exception, ManyInARowLeaveTheMachineSound) {
    const Workers several(3);
    for (int repeat = 0; repeat < 50; ++repeat)
        EXPECT_TRUE(fault_of({.grid = 4, .block = 64}, [] { throw std::runtime_error("again"); }));
    expect_machine_still_works();
}

TEST_F(CrashDeathTest, OutsideOfKernelsNothingChanges) {
    expect_machine_still_works();
    int* volatile null = nullptr;
    EXPECT_EXIT(*null = 1, ::testing::KilledBySignal(SIGSEGV), "");
    EXPECT_EXIT(::raise(SIGSEGV), ::testing::KilledBySignal(SIGSEGV), "");
    EXPECT_EXIT((run({.block = 1}, [] { ::raise(SIGBUS); }), ::_exit(0)), ::testing::KilledBySignal(SIGBUS), "")
        << "somebody sent it, no pointer raised it";
}

void say_and_leave(int) {
    constexpr char words[] = "the handler of old\n";
    (void)!::write(STDERR_FILENO, words, sizeof(words) - 1);
    ::_exit(3);
}

TEST_F(CrashDeathTest, HandlersOfTheProgramHearWhatIsNotOfKernels) {
    ::testing::FLAGS_gtest_death_test_style = "threadsafe";  // in a process that has launched nothing yet
    int* volatile null = nullptr;
    EXPECT_EXIT(
        {
            ::signal(SIGSEGV, say_and_leave);
            (void)fault_of({.block = 1}, [=] { *null = 1; });
            *null = 1;
        },
        ::testing::ExitedWithCode(3), "the handler of old");
}

}  // namespace
}  // namespace simt::testing
