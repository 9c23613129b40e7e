// Threads that meet on one line, in a helper that different calls have led them to; and code that only looks so, since
// a compiler has made several copies of one call.

#include <gtest/gtest.h>

#include <unistd.h>

#include <array>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <random>
#include <set>

#include "common/simt/report/source_columns.h"
#include "common/simt/report/source_lines.h"
#include "tests/simt/faulty_kernels.h"

namespace simt::testing {
namespace {

constexpr unsigned kWholeWarp = 0xffffffffu;

[[gnu::always_inline]] inline int inlined_sum(int x) {
    for (int step = 16; step > 0; step /= 2) x += __shfl_xor_sync(kWholeWarp, x, step);  // @shuffle of the inlined
    return x;
}
[[gnu::noinline]] int called_sum(int x) {
    for (int step = 16; step > 0; step /= 2) x += __shfl_xor_sync(kWholeWarp, x, step);
    return x;
}
[[gnu::noinline]] int called_sum_of_called(int x) { return called_sum(x + 1) + 1; }
[[gnu::noinline]] int called_sum_of_inlined(int x) { return inlined_sum(x + 1) + 1; }
[[gnu::always_inline]] inline int inlined_sum_of_called(int x) { return called_sum(x + 1) + 1; }
[[gnu::always_inline]] inline int inlined_sum_of_inlined(int x) { return inlined_sum(x + 1) + 1; }
[[gnu::noinline]] void called_barrier() { __syncthreads(); }
[[gnu::always_inline]] inline void inlined_barrier() { __syncthreads(); }
[[gnu::noinline]] void called_vote() { __syncthreads_or(1); }
[[gnu::always_inline]] inline void inlined_vote() { __syncthreads_or(1); }

/// What a test's kernel knows when it runs, and its compiler does not.
int thread() {
    static volatile int offset = 0;
    return int(threadIdx.x) + offset;
}
void use(int value) {
    [[maybe_unused]] static volatile int sink;
    sink = value;
}

/// The machine asks addr2line for the lines of its own code, which one for another processor does not know
/// (tests/arm64).
bool lines_are_known() { return !source_lines(reinterpret_cast<std::uintptr_t>(&called_sum)).empty(); }

/// Faults that are seen where lines are known.
class Parting : public ::testing::Test {
    void SetUp() override {
        if (!lines_are_known()) GTEST_SKIP() << "addr2line does not know the lines of this program";
    }
};

// Where they are not, the tests of Parting are passed over, all of them.
TEST(SourceLines, OfThisProgramAreKnown) {
#ifdef __aarch64__
    GTEST_SKIP() << "the processor may be imitated, and addr2line that of another one";
#else
    EXPECT_TRUE(lines_are_known()) << "addr2line (binutils) is missing, or this was compiled without -g1";
#endif
}

template <class Helper>
void expect_parted(Helper helper) {
    expect_fault({},
                 [=] {
                     const int x = thread();  // and no compiler makes one call of these two:
                     if (x < 16)
                         use(helper(x));  // @lower half calls
                     else
                         use(2 - helper(3 * x));  // @upper half calls
                 },
                 {.fault = Fault::collective_divergence,
                  .first = {16, "upper half calls"},
                  .second = {0, "lower half calls"},
                  .says = {"lane 16 calls", "both stand at", "led there by different calls"}});
}

TEST_F(Parting, InAnInlinedHelper) {
    expect_parted([](int x) __attribute__((always_inline)) { return inlined_sum(x); });
}
TEST_F(Parting, InACalledHelper) {
    expect_parted([](int x) __attribute__((always_inline)) { return called_sum(x); });
}
TEST_F(Parting, InALambda) {
    expect_parted([](int x) { return x + __shfl_xor_sync(kWholeWarp, x, 1); });
}
TEST_F(Parting, InAVote) {
    expect_parted([](int x) { return int(__ballot_sync(kWholeWarp, x & 1)); });
}
TEST_F(Parting, InAHelperOfAHelper) {
    expect_parted([](int x) { return called_sum_of_called(x); });
    expect_parted([](int x) { return called_sum_of_inlined(x); });
    expect_parted([](int x) { return inlined_sum_of_called(x); });
    expect_parted([](int x) { return inlined_sum_of_inlined(x); });
}
TEST_F(Parting, ThroughAPointer) {
    int (*volatile const sum)(int) = called_sum;
    expect_parted([&sum](int x) { return sum(x); });
}
TEST_F(Parting, InAMatrixInstruction) {
    expect_parted([](int x) {
        FragmentA<f16> a{};
        FragmentB<f16> b{};
        FragmentC c{};
        c.element[0] = float(x);  // not the same for both calls: clang would make one of them
        mma_m16n8k16(c, a, b, c);
        return x + int(c.element[0]);
    });
}

TEST_F(Parting, OneHelperWithAndWithoutAnotherAround) {
    expect_fault(
        {},
        [] {
            int x = thread();
            if (x < 16)
                x = called_sum(x);  // @bare helper
            else
                x = called_sum_of_called(x);  // @helper around it
            use(x);
        },
        {.fault = Fault::collective_divergence, .first = {16, "helper around it"}, .second = {0, "bare helper"}});
}

TEST_F(Parting, StaleWordsOnTheStackDeceiveNobody) {
    // All lanes have come by both paths before, so that each finds the words of both on its stack.
    const auto found = fault_of({}, [] {
        const int lane = thread();
        int x = called_sum_of_called(lane);
        x = called_sum(x);
        if (lane < 16)
            x = called_sum_of_called(x);  // @path of before
        else
            x = called_sum(x);  // @another path of before
        use(x);
    });
    ASSERT_TRUE(found);
    EXPECT_EQ(found->report().fault, Fault::collective_divergence);
    const std::set parted{found->report().first.site.text(), found->report().second.site.text()};
    EXPECT_EQ(parted, (std::set{place("path of before"), place("another path of before")}));
}

TEST_F(Parting, BeforeALoopAndInIt) {
    for (int (*const sum)(int) : {+[](int x) { return called_sum(x); }, +[](int x) { return inlined_sum(x); }})
        expect_fault(
            {},
            [=] {
                int x = thread(), rounds = 4;
                if (x < 16) {
                    x = sum(x);  // @before the loop
                    --rounds;
                }
                for (int i = 0; i < rounds; ++i) x = sum(x);  // @in the loop
                use(x);
            },
            {.fault = Fault::collective_divergence, .first = {16, "in the loop"}, .second = {0, "before the loop"}});
}

/// All on one line: the columns tell.
template <class Kernel>
void expect_parted_on_one_line(const char* what, Kernel kernel, Fault fault = Fault::collective_divergence) {
    const auto found = fault_of({}, kernel);
    ASSERT_TRUE(found) << what;
    EXPECT_EQ(found->report().fault, fault) << what << found->what();
    EXPECT_EQ(found->report().first.site.text(), found->report().second.site.text()) << what;
    EXPECT_NE(std::string(found->what()).find("led there by different calls"), std::string::npos) << found->what();
}

[[gnu::always_inline]] inline int shifted(int x) { return x + __shfl_xor_sync(kWholeWarp, x, 1); }
#define SUM_IN_A_MACRO(x) inlined_sum(x)

// clang makes one call of two that take equally many arguments wherever it can, and then they are one.
#ifdef __clang__
#define WHERE_CALLS_STAY_TWO(name) TEST_F(Parting, DISABLED_##name)
#else
#define WHERE_CALLS_STAY_TWO(name) TEST_F(Parting, name)
#endif

// clang-format off
TEST_F(Parting, OnOneLine) {
    expect_parted_on_one_line("direct", [] { const int x = thread(); use(x < 16 ? __shfl_xor_sync(kWholeWarp, x, 1) : __shfl_xor_sync(kWholeWarp, 3 * x, 1)); });
    expect_parted_on_one_line("inlined", [] { const int x = thread(); use(x < 16 ? shifted(x) : shifted(3 * x)); });
    expect_parted_on_one_line("and more", [] { const int x = thread(); use(x < 16 ? shifted(x) : 2 - shifted(3 * x)); });
    expect_parted_on_one_line("barrier", [] { const int x = thread(); x < 16 ? (use(1), __syncthreads()) : (__syncthreads(), use(2)); }, Fault::barrier_divergence);
}
WHERE_CALLS_STAY_TWO(OfLoopsOnOneLine) {
    expect_parted_on_one_line("inlined", [] { const int x = thread(); use(x < 16 ? inlined_sum(x) : inlined_sum(3 * x)); });
    expect_parted_on_one_line("called", [] { const int x = thread(); use(x < 16 ? called_sum(x) : called_sum(3 * x)); });
    expect_parted_on_one_line("of inlined", [] { const int x = thread(); use(x < 16 ? inlined_sum_of_inlined(x) : inlined_sum_of_inlined(3 * x)); });
    expect_parted_on_one_line("of called", [] { const int x = thread(); use(x < 16 ? called_sum_of_called(x) : called_sum_of_called(3 * x)); });
    expect_parted_on_one_line("macro", [] { const int x = thread(); use(x < 16 ? SUM_IN_A_MACRO(x) : SUM_IN_A_MACRO(3 * x)); });
    expect_parted_on_one_line("if", [] { int x = thread(); if (x < 16) x = inlined_sum(x); else x = 2 - inlined_sum(3 * x); use(x); });
    expect_parted_on_one_line("blocks", [] { int x = thread(); if (x < 16) { x = called_sum(x); use(x); } else { use(x); x = called_sum(3 * x); } use(x); });
    expect_parted_on_one_line("or", [] { int x = thread(); use((x < 16 && inlined_sum(x) > 3) || inlined_sum(x + 1) > 5); });
    expect_parted_on_one_line("switch", [] { int x = thread(); switch (x % 2) { case 0: x = called_sum(x); break; default: x = called_sum(5 - x); } use(x); });
}
TEST(NoParting, OnOneLine) {
    expect_clean({.block = 64}, [] { int x = thread(); for (int i = 0; i < 3; ++i) { if ((x + i) % 3 == 0) use(x); x += shifted(x) + inlined_sum(x); } use(x); });
    expect_clean({.block = 64}, [] { const int x = thread(); use(x < 32 ? inlined_sum(x) : inlined_sum(3 * x)); use(inlined_sum(x % 32 < 16 ? x : 3 * x)); });
    expect_clean({.block = 64}, [] { int x = thread(); const bool low = x % 32 < 16; if (low) x += 5; else x *= 3; x += shifted(x); if (low) use(x); use(inlined_sum(x) + called_sum(x)); if (!low) use(x); });
}
// clang-format on

[[gnu::noinline]] std::uintptr_t where_it_returns_to() {
    use(1);
    return reinterpret_cast<std::uintptr_t>(__builtin_return_address(0));
}
[[gnu::always_inline]] inline std::uintptr_t inlined_once() {
    const std::uintptr_t address = where_it_returns_to();  // @innermost call
    use(2);
    return address;
}
// clang-format off
[[gnu::always_inline]] inline std::uintptr_t inlined_twice() {
    return     inlined_once();  // @inner call
}
[[gnu::noinline]] std::uintptr_t around_all() {
    use(3);  const std::uintptr_t address     =     inlined_twice();  // @outer call
    use(4);
    return address;
}
// clang-format on

TEST(SourceLines, HaveColumnsFromTheInsideOut) {
    if (!lines_are_known()) GTEST_SKIP() << "addr2line does not know the lines of this program";
    const std::vector<SourceLine>& lines = source_lines(around_all() - 1);
    ASSERT_GE(lines.size(), 3u);
    const std::array<std::array<std::string, 2>, 3> calls{{{"where_it_returns_to()", "innermost call"},
                                                           {"inlined_once()", "inner call"},
                                                           {"inlined_twice()", "outer call"}}};
    for (std::size_t i = 0; i < calls.size(); ++i) {
        const unsigned number = line_of("parting_test.cpp", calls[i][1]);
        EXPECT_EQ(lines[i].site.line(), number);
        std::ifstream source(LADDER_SOURCE_DIR "/tests/simt/parting_test.cpp");
        std::string text;
        for (unsigned n = 0; n < number; ++n) std::getline(source, text);
        // Compilers disagree on which letter of a call it is.
        const std::size_t first = text.find(calls[i][0]) + 1;
        EXPECT_GE(lines[i].column, first) << text;
        EXPECT_LT(lines[i].column, first + calls[i][0].size()) << text;
    }
}

TEST(SourceColumns, OfFilesWithoutThemAreUnknown) {
    EXPECT_TRUE(source_columns("/no/such/file", 0x1000).empty());
    EXPECT_TRUE(source_columns(LADDER_SOURCE_DIR "/tests/simt/parting_test.cpp", 0x1000).empty());
}

TEST(SourceColumns, DamagedFilesDoNoHarm) {
    std::ifstream self("/proc/self/exe", std::ios::binary);
    const std::string program{std::istreambuf_iterator<char>(self), {}};
    const std::string file = ::testing::TempDir() + "damaged_" + std::to_string(::getpid()) + "_";
    std::mt19937 random(7);
    for (int repeat = 0; repeat < 8; ++repeat) {
        std::string damaged = program;
        // The debug information stands in the last part of a file.
        for (int i = 0; i < 2000; ++i) damaged[damaged.size() / 2 + random() % (damaged.size() / 2)] = char(random());
        if (repeat % 2) damaged.resize(damaged.size() - random() % (damaged.size() / 4));
        const std::string name = file + std::to_string(repeat);
        std::ofstream(name, std::ios::binary) << damaged;
        for (int i = 0; i < 4; ++i) EXPECT_LE(source_columns(name, random() % program.size()).size(), 10000u);
        std::remove(name.c_str());
    }
}

template <class Helper>
void expect_parted_at_barrier(Helper helper, const std::string& call = "__syncthreads()") {
    expect_fault({.block = 64},
                 [=] {
                     if (thread() < 40) {
                         use(1);
                         helper();  // @first 40 wait
                         use(thread());
                     } else {
                         helper();  // @others wait
                         use(2);
                     }
                 },
                 {.fault = Fault::barrier_divergence,
                  .first = {40, "others wait"},
                  .second = {0, "first 40 wait"},
                  .says = {"thread 40 is at one " + call + ", thread 0 at another", "both stand at"}});
}

TEST_F(Parting, AtABarrier) {
    expect_parted_at_barrier([] { called_barrier(); });
    expect_parted_at_barrier([] { inlined_barrier(); });
    expect_parted_at_barrier([] { __syncthreads(); });
}
TEST_F(Parting, AtAVoteOfTheBlock) {
    expect_parted_at_barrier([] { called_vote(); }, "__syncthreads_or()");
    expect_parted_at_barrier([] { inlined_vote(); }, "__syncthreads_or()");
    expect_parted_at_barrier([] { __syncthreads_count(1); }, "__syncthreads_count()");
}

// --- Right code that looks like it ----------------------------------------------------------------------------------

TEST(NoParting, OneHelperSeveralTimesInTurnIsFine) {
    expect_clean({.block = 64}, [] {
        int x = thread();
        for (int i = 0; i < 3; ++i) {
            x = called_sum(x) + inlined_sum(x);
            called_barrier();
            x = called_sum_of_called(x) + inlined_sum_of_inlined(x);
            inlined_barrier();
        }
        use(x);
    });
}

TEST(NoParting, WarpsMayPart) {
    expect_clean({.block = 64}, [] {
        const int x = thread();
        use(x < 32 ? called_sum(x) : called_sum(5 * x));
        if (x < 32)
            use(inlined_sum(x));
        else
            use(inlined_sum(2 * x));
    });
}

TEST(NoParting, LanesOfDifferentMasksMayPart) {
    const auto sum = [](unsigned mask, int x) {
        for (int step = 8; step > 0; step /= 2) x += __shfl_xor_sync(mask, x, step);
        return x;
    };
    expect_clean({}, [=] {
        const int x = thread();
        if (x < 16)
            use(sum(0xffffu, x));
        else
            use(sum(0xffff0000u, x));
    });
}

TEST(NoParting, OneCallAfterABranchThatDecidedItsArgumentIsFine) {
    // A compiler may carry the call into both branches: it knows there what comes next.
    expect_clean({.block = 64}, [] {
        int x = thread();
        const bool low = x % 32 < 16;
        if (low)
            x += 5;
        else
            x *= 3;
        x += __shfl_xor_sync(kWholeWarp, x, 1);
        if (low) use(x);
        __syncthreads();
        if (low) use(x);
        use(called_sum(low ? x : 2 * x));
        if (!low) use(x);
        use(inlined_sum(low ? x : 2 * x));
        if (low) use(x);
    });
}

TEST(NoParting, CopiesOfALoopsBodyAreFine) {
    // Lanes stand in different rounds of one loop, whether it is unrolled or not.
    expect_clean({}, [] {
        int x = thread();
        for (int i = 0; i < 2; ++i)
            if ((x < 16) == (i == 0)) x = 2 * x + __shfl_sync(kWholeWarp, x, 0) - x;
        use(x);
    });
    expect_clean({}, [] {
        int x = thread();
        for (int i = 0; i < 4; ++i) {
            if (x % 32 < 8 && i == 1) use(x);
            x += __shfl_xor_sync(kWholeWarp, x, 1 << i);
        }
        use(x);
    });
    expect_clean({}, [] {
        int x = thread();
        int i = x < 16 ? 0 : 1;
        do {
            x += __any_sync(kWholeWarp, x);
            if (i == 0) use(x);
        } while (++i < (thread() < 16 ? 3 : 4));
        use(x);
    });
}

TEST(NoParting, LanesWithStacksOfDifferentDepthAreFine) {
    expect_clean({}, [] {
        const auto bytes = std::size_t(16 + 64 * (thread() % 4));
        auto* const scratch = static_cast<volatile char*>(__builtin_alloca(bytes));
        scratch[0] = 1;
        use(called_sum(scratch[0]));
        __syncthreads();
    });
}

}  // namespace
}  // namespace simt::testing
