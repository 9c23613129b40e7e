// Votes of a whole block: __syncthreads_count(), __syncthreads_or() and __syncthreads_and(). Each is a barrier.

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "common/simt/report/leniency.h"
#include "tests/simt/faulty_kernels.h"

namespace simt::testing {
namespace {

/// One warp, some, and a last one that is not full.
constexpr unsigned kBlocks[] = {1, 7, 32, 33, 96, 100, 1024};

struct Answers {
    int count, any, all;
    friend bool operator==(const Answers&, const Answers&) = default;
};

/// What each thread is told if thread t says says_yes[t].
std::vector<Answers> answers_to(const std::vector<int>& says_yes) {
    std::vector<Answers> answers(says_yes.size());
    run({.block = unsigned(says_yes.size())}, [&] {
        const int yes = says_yes[threadIdx.x];
        Answers& mine = answers[threadIdx.x];
        mine.count = __syncthreads_count(yes);
        mine.any = __syncthreads_or(yes);
        mine.all = __syncthreads_and(yes);
    });
    return answers;
}

void expect_all_are_told(const std::vector<int>& says_yes, const Answers& expected, const char* who) {
    const std::vector<Answers> answers = answers_to(says_yes);
    for (std::size_t t = 0; t < answers.size(); ++t)
        ASSERT_EQ(answers[t], expected) << who << " of " << says_yes.size() << " say yes; thread " << t << " hears "
                                        << answers[t].count << ", " << answers[t].any << ", " << answers[t].all;
}

TEST(BlockVote, EveryThreadHearsTheSame) {
    for (const unsigned threads : kBlocks) {
        expect_all_are_told(std::vector<int>(threads, 0), {0, 0, 0}, "none");
        expect_all_are_told(std::vector<int>(threads, 1), {int(threads), 1, 1}, "all");
        if (threads == 1) continue;
        for (const unsigned one : {0u, threads / 2, threads - 1}) {
            std::vector<int> says_yes(threads, 0);
            says_yes[one] = 1;
            expect_all_are_told(says_yes, {1, 1, 0}, "one");
            for (int& yes : says_yes) yes = !yes;
            expect_all_are_told(says_yes, {int(threads) - 1, 1, 0}, "all but one");
        }
    }
}

TEST(BlockVote, AnythingButZeroIsYes) {
    expect_all_are_told({-1, 2, 1 << 31, 256}, {4, 1, 1}, "all");
    expect_all_are_told({0, 2, 0, 256}, {2, 1, 0}, "two");
}

TEST(BlockVote, ThreadsOfABlockInThreeDimensions) {
    int wrong = 0;
    run({.block = dim3(5, 3, 4)}, [&wrong] { wrong += __syncthreads_count(threadIdx.y == 1) != 20; });
    EXPECT_EQ(wrong, 0);
}

TEST(BlockVote, OneAfterAnother) {
    constexpr int kVotes = 200, kThreads = 70;
    std::mt19937 random(3);
    std::vector<std::vector<int>> says_yes(kVotes, std::vector<int>(kThreads));
    std::vector<int> expected(kVotes);
    for (int v = 0; v < kVotes; ++v)
        for (int& yes : says_yes[v]) expected[v] += yes = random() % 3 == 0;
    int wrong = 0;
    run({.grid = 3, .block = kThreads}, [&] {
        for (int v = 0; v < kVotes; ++v) {
            if (v % 5 == 0) __syncthreads();
            const int yes = says_yes[v][threadIdx.x];
            const int said = v % 3 == 0   ? __syncthreads_count(yes)
                             : v % 3 == 1 ? __syncthreads_or(yes)
                                          : __syncthreads_and(yes);
            wrong += said != (v % 3 == 0 ? expected[v] : v % 3 == 1 ? expected[v] > 0 : expected[v] == kThreads);
        }
    });
    EXPECT_EQ(wrong, 0);
}

TEST(BlockVote, AVoteThatFailedLeavesNothingToTheNextBlock) {
    EXPECT_TRUE(fault_of({.block = 64}, [] {
        if (threadIdx.x < 63) __syncthreads_count(1);
    }));
    expect_all_are_told(std::vector<int>(64, 0), {0, 0, 0}, "none");
}

/// Each warp writes a row of shared memory, and every thread reads what another warp wrote after `meet(yes)`.
template <class Meet>
auto reads_the_next_warps_row(Meet meet) {
    return [meet] {
        const auto rows = SharedArena().tile<int, 3, 32>("rows");
        const int warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32;
        rows(warp, lane) = lane;
        meet(lane == 0);
        [[maybe_unused]] const int read = rows((warp + 1) % 3, lane);
        meet(lane == 1);
        rows(warp, 31 - lane) = read;
    };
}

TEST(BlockVote, OrdersWhatComesBeforeAndAfter) {
    const Shape shape{.block = 96, .shared_bytes = 96 * sizeof(int)};
    expect_clean(shape, reads_the_next_warps_row([](int yes) { __syncthreads_or(yes); }));
    expect_clean(shape, reads_the_next_warps_row([](int yes) { __syncthreads_and(yes); }));
    expect_clean(shape, reads_the_next_warps_row([](int yes) { __syncthreads_count(yes); }));
    EXPECT_TRUE(fault_of(shape, reads_the_next_warps_row([](int yes) { __any_sync(0xffffffffu, yes); })))
        << "without a barrier it is a race";
}

TEST(BlockVote, OrdersGlobalMemory) {
    Buffer<float> buffer("x", {64});
    const auto x = buffer.view<1>();
    expect_clean({.block = 64}, [x] {
        x(threadIdx.x) = float(__syncthreads_count(1));
        __syncthreads_or(0);
        x(63 - threadIdx.x) = 2;
    });
}

TEST(BlockVote, CountsAsABarrier) {
    const LaunchLog log;
    run({.grid = 2, .block = 64}, [] {
        __syncthreads_or(1);
        __syncthreads_count(1);
        __syncthreads();
    });
    EXPECT_EQ(log.records()[0].counters.block_barriers, 2u * 3);
}

TEST(BlockVote, AVoteAndAPlainBarrierAreTwo) {
    expect_fault({.block = 64},
                 [] {
                     if (threadIdx.x < 40)
                         __syncthreads();  // @plain barrier
                     else
                         __syncthreads_or(1);  // @vote
                 },
                 {.fault = Fault::barrier_divergence,
                  .first = {40, "vote"},
                  .second = {0, "plain barrier"},
                  .says = {"thread 40 is at __syncthreads_or(), thread 0 at __syncthreads()", "none stands for"}});
    expect_fault({.block = 64},
                 [] {
                     if (threadIdx.x < 40)
                         __syncthreads_count(1);  // @first vote
                     else
                         __syncthreads();  // @barrier after it
                 },
                 {.fault = Fault::barrier_divergence,
                  .first = {40, "barrier after it"},
                  .second = {0, "first vote"},
                  .says = {"thread 40 is at __syncthreads(), thread 0 at __syncthreads_count()"}});
}

TEST(BlockVote, TwoKindsAreTwoEvenOnOneLine) {
    expect_fault({.block = 64},
                 [] {
                     threadIdx.x < 40 ? __syncthreads_or(1) : __syncthreads_and(1);  // @both kinds
                 },
                 {.fault = Fault::barrier_divergence,
                  .first = {40, "both kinds"},
                  .second = {0, "both kinds"},
                  .says = {"thread 40 is at __syncthreads_and(), thread 0 at __syncthreads_or()"}});
}

TEST(BlockVote, TwoLinesAreTwoVotes) {
    expect_fault({.block = 64},
                 [] {
                     if (threadIdx.x < 40)
                         __syncthreads_or(1);  // @one line
                     else
                         __syncthreads_or(1);  // @other line
                 },
                 {.fault = Fault::barrier_divergence,
                  .first = {40, "other line"},
                  .second = {0, "one line"},
                  .says = {"thread 40 is at one __syncthreads_or(), thread 0 at another",
                           "must reach the same __syncthreads_or()"}});
}

TEST(BlockVote, WithoutAThreadThatHasReturned) {
    expect_fault({.block = 64},
                 [] {
                     if (is_thread(0)) return;
                     __syncthreads_and(1);  // @vote without thread 0
                 },
                 {.fault = Fault::barrier_divergence,
                  .first = {1, "vote without thread 0"},
                  .says = {"thread 1 is at __syncthreads_and()", "1 threads of the block have already returned"}});
    expect_fault({.block = 64},
                 [] {
                     if (is_thread(63)) return;
                     __syncthreads_count(1);  // @vote without thread 63
                 },
                 {.fault = Fault::barrier_divergence,
                  .first = {0, "vote without thread 63"},
                  .says = {"thread 63 has returned", "thread 0 waits at __syncthreads_count()"}});
}

TEST(BlockVote, AmongLanesThatMeetElsewhere) {
    const auto found = fault_of({}, [] {
        if (threadIdx.x == 0) __syncthreads_or(1);
        __syncwarp();
    });
    ASSERT_TRUE(found);
    EXPECT_EQ(found->report().fault, Fault::deadlock);
    EXPECT_NE(std::string(found->what()).find("1 of 32 threads wait at __syncthreads_or()"), std::string::npos)
        << found->what();
}

TEST(BlockVote, StaysOneOnALenientMachine) {
    const ScopedLeniency lenient;
    int wrong = 0;
    run({.block = 96}, [&wrong] { wrong += __syncthreads_count(threadIdx.x < 50) != 50; });
    EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace simt::testing
