// The fuzzer is worth what it finds: each planted mistake must be found soon, made as small as it goes, and printed as
// a test with the right fields. An entry without a mistake must give no report.

#include <gtest/gtest.h>

#include <cmath>
#include <memory>

#include "common/attention/machine.h"
#include "common/fuzz/run.h"
#include "common/fuzz/test_text.h"
#include "common/reference/checks.h"
#include "tests/fuzz/planted.h"

namespace ladder::fuzz {
namespace {

const Request kRequest{.seed = 1, .problems = 2000, .time = Seconds(60), .shrinking_time = Seconds(60)};

class PlantedMistakes : public ::testing::TestWithParam<Planted> {};

TEST_P(PlantedMistakes, IsFoundMadeSmallAndFailsAgain) {
    const Planted& planted = GetParam();
    const Result result = run({&planted.entry, 1}, kRequest);
    ASSERT_EQ(result.findings.size(), 1u) << "not found in " << result.problems << " problems";
    const Shrunk& smallest = result.findings.front().smallest;
    EXPECT_EQ(smallest.outcome.kind, planted.kind);
    if (!planted.smallest.empty()) {
        EXPECT_EQ(describe(smallest.problem), planted.smallest) << "drawn: " << describe(result.findings.front().drawn);
    }
    EXPECT_TRUE(smallest.finished);
    for (const std::string& line : planted.lines)
        EXPECT_NE(result.findings.front().test.find(line), std::string::npos) << "\"" << line << "\" is missing in\n"
                                                                              << result.findings.front().test;
    // Whatever the shrinker gave back fails, in the way that was reported.
    EXPECT_TRUE(smallest.repeats);
    const Outcome again = try_problem(planted.entry, smallest.problem, torch::kCPU);
    EXPECT_EQ(again.verdict, Verdict::failed);
    EXPECT_EQ(again.kind, smallest.outcome.kind);
}

INSTANTIATE_TEST_SUITE_P(Table, PlantedMistakes, ::testing::ValuesIn(planted_mistakes()), reference::ByName{});

TEST(Fuzz, HonestEntriesGiveNoReport) {
    for (const Form form :
         {Form::attention, Form::softmax, Form::decode, Form::backward, Form::eight_bits, Form::shared}) {
        const Entry entry = honest_entry(form);
        const Result result = run({&entry, 1}, {.seed = 5, .problems = 400});
        EXPECT_EQ(result.problems, 400u);
        for (const Finding& finding : result.findings)
            ADD_FAILURE() << describe(finding.drawn) << ": " << finding.smallest.outcome.report;
        EXPECT_GT(result.tallies.front().bad_calls, 0u);
        EXPECT_GT(result.tallies.front().problems, 300u);
    }
}

// A refusal that is right is no failure, and counts on its own.
TEST(Fuzz, RefusalForWantOfSharedMemoryIsTakenAtItsWord) {
    Entry entry = honest_entry();
    entry.call = [honest = entry.call](const Operands& t, const Problem& p) {
        const AttentionResult right = honest(t, p);
        const std::size_t needed = std::size_t(t.k.numel()) * 4;
        if (needed > std::size_t(simt::cpu_device().shared_bytes_per_block_optin))
            throw std::invalid_argument(
                "planted: required " + std::to_string(needed) + " bytes of shared memory per block, limit " +
                std::to_string(simt::cpu_device().shared_bytes_per_block_optin) + " bytes on it; use less");
        return right;
    };
    const Result result = run({&entry, 1}, {.seed = 3, .problems = 300});
    EXPECT_TRUE(result.findings.empty()) << result.findings.front().smallest.outcome.report;
    EXPECT_GT(result.tallies.front().too_large, 10u);
    EXPECT_EQ(result.problems,
              result.tallies.front().problems + result.tallies.front().too_large + result.tallies.front().bad_calls);
}

// Found by ./ladder fuzz --device cuda --seed 20261253 --problem 4164: a batch whose rows are not aligned, of which the
// last sequence alone is.
TEST(Fuzz, RowsThatAreReadOtherwiseMayBeAddedUpOtherwise) {
    Problem problem;
    problem.attention = {.batch = 5, .key_length = 2, .head_dim = 36};
    problem.attention.layouts.q = reference::Layout::padded_heads;
    problem.property = Property::ignores_batch_neighbours;
    const auto last_digit_changed_where = [](bool aligned) {
        Entry entry = honest_entry();
        entry.call = [=, honest = entry.call](const Operands& t, const Problem& p) {
            AttentionResult result = honest(t, p);
            if (tensor_argument("q", t.q).rows_aligned_to_16_bytes() == aligned)
                result.lse = at::nextafter(result.lse, result.lse + 1);
            return result;
        };
        return entry;
    };
    EXPECT_EQ(try_problem(last_digit_changed_where(true), problem, torch::kCPU).verdict, Verdict::passed);
    problem.attention.layouts.q = reference::Layout::contiguous;
    EXPECT_EQ(try_problem(last_digit_changed_where(true), problem, torch::kCPU).verdict, Verdict::passed);
}

TEST(Fuzz, FailureThatComesAndGoesIsSaidToDoSo) {
    const auto calls = std::make_shared<int>(0);
    Entry entry = honest_entry();
    entry.call = [=, honest = entry.call](const Operands& t, const Problem& p) {
        const AttentionResult result = honest(t, p);
        if (++*calls == 10) result.out.fill_(NAN);
        return result;
    };
    const Result result = run({&entry, 1}, kRequest);
    ASSERT_EQ(result.findings.size(), 1u);
    const Finding& finding = result.findings.front();
    EXPECT_FALSE(finding.smallest.repeats);
    EXPECT_EQ(describe(finding.smallest.problem), describe(finding.drawn)) << "nothing smaller failed";
}

TEST(Fuzz, ShrinkingRefusesAProblemThatDidNotFail) {
    EXPECT_TRUE(reference::throws_mentioning(
        [] { shrink(honest_entry(), {}, Outcome{}, torch::kCPU, std::chrono::seconds(1)); }, {"did not fail"}));
}

TEST(Fuzz, ShrinkingStopsWhenItsTimeIsUp) {
    const Planted planted = planted_mistakes().front();
    Problem problem;
    problem.attention.key_length = 300;
    const Outcome failure = try_problem(planted.entry, problem, torch::kCPU);
    ASSERT_EQ(failure.verdict, Verdict::failed);
    const Shrunk smallest = shrink(planted.entry, problem, failure, torch::kCPU, std::chrono::milliseconds(0));
    EXPECT_FALSE(smallest.finished);
    EXPECT_EQ(describe(smallest.problem), describe(problem));
    EXPECT_TRUE(smallest.repeats);
}

TEST(FuzzRun, TimeEndsIt) {
    const Entry entry = honest_entry();
    const Result result = run({&entry, 1}, {.seed = 1, .time = Seconds(0.2)});
    EXPECT_GT(result.problems, 0u);
    EXPECT_GE(result.seconds, 0.2);
    EXPECT_LT(result.seconds, 5.0);
}

TEST(FuzzRun, WatcherEndsIt) {
    const Entry entry = honest_entry();
    const Result result =
        run({&entry, 1}, {.seed = 1}, [](const Result& r, const std::string&) { return r.problems < 7; });
    EXPECT_EQ(result.problems, 7u);
}

TEST(FuzzRun, StopsAtTheFirstFailureUnlessToldToGoOn) {
    const Planted planted = planted_mistakes().front();
    EXPECT_EQ(run({&planted.entry, 1}, kRequest).failures, 1u);
    Request request{.seed = 1, .problems = 60, .keep_going = true};
    const Result result = run({&planted.entry, 1}, request);
    EXPECT_EQ(result.problems, 60u);
    EXPECT_GT(result.failures, 10u);
    EXPECT_EQ(result.findings.size(), 1u) << "one for each entry and kind";
    EXPECT_EQ(result.tallies.front().failures, result.failures);
}

TEST(FuzzRun, ProblemsOfOtherPhasesArePassedOver) {
    std::vector<Entry> entries{honest_entry(), honest_entry(Form::softmax)};
    entries[1].phase = 4;
    const Result result = run(entries, {.seed = 1, .problems = 20, .phases = {4}});
    EXPECT_EQ(result.problems, 20u);
    EXPECT_EQ(result.tallies[0].problems + result.tallies[0].bad_calls, 0u);
    EXPECT_TRUE(reference::throws_mentioning([&] { run(entries, {.phases = {2}}); }, {"no entry"}));
}

TEST(FuzzRun, ProblemsOfOtherEntriesArePassedOver) {
    std::vector<Entry> entries{honest_entry(), honest_entry(Form::softmax)};
    entries[1].name = "other";
    const Result result = run(entries, {.seed = 1, .problems = 20, .entries = {"other"}});
    EXPECT_EQ(result.problems, 20u);
    EXPECT_EQ(result.tallies[0].problems + result.tallies[0].bad_calls, 0u);
    EXPECT_TRUE(reference::throws_mentioning([&] { run(entries, {.entries = {"neither"}}); }, {"no entry"}));
}

}  // namespace
}  // namespace ladder::fuzz
