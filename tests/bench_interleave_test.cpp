// How ./ladder bench takes its samples.

#include "common/cli/bench/interleave.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <thread>

#include "common/cli/bench/statistics.h"

namespace ladder::cli::bench {
namespace {

TEST(Interleaving, CallsTakeTurnsAndFastOnesAreRepeated) {
    std::string order;
    const auto slow = [&] {
        order += 's';
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
    };
    const auto fast = [&] { order += 'f'; };
    const Effort effort{
        .seconds = 0, .least_rounds = 12, .most_rounds = 20, .sample_milliseconds = 0.4, .most_calls_per_sample = 3};
    const std::vector<Samples> samples = time_interleaved({slow, fast}, torch::kCPU, effort);
    ASSERT_EQ(samples.size(), 2u);
    EXPECT_EQ(samples[0].calls_per_sample, 1);
    EXPECT_EQ(samples[1].calls_per_sample, 3);
    EXPECT_EQ(samples[0].milliseconds.size(), 12u) << "no time is left, so as few rounds as are allowed";
    EXPECT_EQ(samples[1].milliseconds.size(), 12u);
    bool slow_came_first = false, fast_came_first = false;
    for (std::size_t round = 1; round <= 12; ++round) {
        const std::string drawn = order.substr(order.size() - 4 * round, 4);
        slow_came_first |= drawn == "sfff";
        fast_came_first |= drawn == "fffs";
        EXPECT_TRUE(drawn == "sfff" || drawn == "fffs") << order;
    }
    EXPECT_TRUE(slow_came_first && fast_came_first) << order << ": each round draws an order of its own";
    EXPECT_GE(spread_of(samples[0].milliseconds).least, 2);
}

// What a sample takes around its calls must not make a difference between two of nearly equal speed.
TEST(Interleaving, AllThatAreRepeatedAreRepeatedAsOften) {
    const auto fast = [] { std::this_thread::sleep_for(std::chrono::microseconds(200)); };
    const auto faster = [] {};
    const Effort effort{.seconds = 0, .sample_milliseconds = 50, .most_calls_per_sample = 9};
    for (const Samples& samples : time_interleaved({fast, faster}, torch::kCPU, effort))
        EXPECT_EQ(samples.calls_per_sample, 9);
}

TEST(Interleaving, TimeIsPerCallNotPerSample) {
    const auto one_millisecond = [] { std::this_thread::sleep_for(std::chrono::milliseconds(1)); };
    const Effort effort{.seconds = 0, .sample_milliseconds = 1e6, .most_calls_per_sample = 8};
    const Samples samples = time_interleaved({one_millisecond}, torch::kCPU, effort).front();
    EXPECT_EQ(samples.calls_per_sample, 8);
    EXPECT_GE(spread_of(samples.milliseconds).least, 1);
    EXPECT_LT(spread_of(samples.milliseconds).least, 8);
}

TEST(Interleaving, StopsAtTheMostRounds) {
    int calls = 0;
    const Effort effort{.seconds = 100, .least_rounds = 1, .most_rounds = 6, .sample_milliseconds = 0};
    EXPECT_EQ(time_interleaved({[&] { ++calls; }}, torch::kCPU, effort).front().milliseconds.size(), 6u);
    EXPECT_EQ(calls, 6 + 3) << "three to get warm";
}

}  // namespace
}  // namespace ladder::cli::bench
