#include "phase3_fa2/fa2.h"

#include <gtest/gtest.h>

#include <limits>

#include "common/attention/allocate.h"
#include "common/reference/checks.h"
#include "common/reference/test_device.h"
#include "common/simt/launch_log.h"

namespace ladder {
namespace {

using namespace reference;

const PoisonOutputs poison_outputs;  // an element that is never written stays NaN

class Fa2Standard : public ::testing::TestWithParam<AttentionCase> {};

TEST_P(Fa2Standard, MatchesReference) { EXPECT_TRUE(matches_reference(fa2_forward, GetParam(), test_device())); }

INSTANTIATE_TEST_SUITE_P(Cases, Fa2Standard, ::testing::ValuesIn(standard_cases()), ByName{});

TEST(Fa2, RefusesBadInput) {
    for (const BadInput& bad : bad_inputs(test_device()))
        EXPECT_TRUE(throws_mentioning([&] { fa2_forward(bad.q, bad.k, bad.v, bad.options); }, bad.mentions))
            << bad.name;
}

TEST(Fa2, NextCallWorksAfterAnError) {
    const AttentionCase fine = standard_cases().front();
    const auto [q, k, v] = make_inputs(fine, test_device());
    EXPECT_ANY_THROW(fa2_forward(q, k.to(torch::kFloat64), v));
    EXPECT_TRUE(matches_reference(fa2_forward, fine, test_device()));
}

TEST(Fa2, RunsRepeatBitwise) {
    for (const AttentionCase& problem : standard_cases()) {
        const auto [q, k, v] = make_inputs(problem, test_device());
        const AttentionResult first = fa2_forward(q, k, v, problem.options),
                              second = fa2_forward(q, k, v, problem.options);
        EXPECT_TRUE(first.out.equal(second.out) && first.lse.equal(second.lse)) << problem.name;
    }
}

TEST(Fa2, NonFiniteInputsGiveWhatTheReferenceGives) {
    const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
    for (const float poison : {inf, -inf, nan})
        for (const int argument : {0, 1, 2}) {
            const torch::Tensor q = torch::rand({1, 2, 5, 16}) + 0.5, k = torch::rand({1, 2, 40, 16}) + 0.5,
                                v = torch::rand({1, 2, 40, 16});
            const torch::Tensor on_device[] = {q.to(test_device()), k.to(test_device()), v.to(test_device())};
            on_device[argument][0][1][3][7].fill_(poison);
            const AttentionResult result = fa2_forward(on_device[0], on_device[1], on_device[2]);
            const Comparison verdict = compare_attention(result, on_device[0], on_device[1], on_device[2]);
            EXPECT_TRUE(verdict.passed) << "argument " << argument << ", " << poison << ": " << verdict.report;
        }
}

// Every score of query row 3 is -inf: softmax has no answer, and neither may the kernel invent one.
TEST(Fa2, RowOfNegativeInfinitiesIsNaN) {
    const torch::Tensor q = torch::ones({1, 1, 8, 16}, test_device()), k = torch::ones({1, 1, 70, 16}, test_device());
    q[0][0][3].fill_(-std::numeric_limits<float>::infinity());
    const AttentionResult result = fa2_forward(q, k, k);
    EXPECT_TRUE(result.out[0][0][3].isnan().all().item<bool>());
    EXPECT_TRUE(result.out[0][0][4].isfinite().all().item<bool>());
    EXPECT_EQ(result.lse[0][0][3].item<float>(), -std::numeric_limits<float>::infinity());
}

TEST(Fa2, RunsOnTheCallersRowsOnly) {
    const torch::Tensor q = torch::randn({2, 3, 50, 24}, test_device());
    const AttentionResult whole = fa2_forward(q, q, q);
    const AttentionResult alone = fa2_forward(q.slice(0, 1, 2), q.slice(0, 1, 2), q.slice(0, 1, 2));
    EXPECT_TRUE(whole.out.slice(0, 1, 2).equal(alone.out)) << "a neighbour in the batch changed the answer";
}

// The formula that the tour prints on the GPU is what the CPU machine counts.
TEST(Fa2, MovesWhatTheFormulaSays) {
    if (!test_device().is_cpu()) return;  // nothing counts on the GPU
    for (const AttentionCase& problem : standard_cases()) {
        const auto [q, k, v] = make_inputs(problem, torch::kCPU);
        const simt::LaunchLog log;
        fa2_forward(q, k, v, problem.options);
        const GlobalBytes expected = fa2_forward_bytes(q, k, v);
        EXPECT_EQ(log.total().global_bytes_read(), expected.read) << problem.name;
        EXPECT_EQ(log.total().global_bytes_written(), expected.written) << problem.name;
    }
}

}  // namespace
}  // namespace ladder
