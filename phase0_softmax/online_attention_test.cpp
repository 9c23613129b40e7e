#include "phase0_softmax/online_attention.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "common/attention/allocate.h"
#include "common/reference/checks.h"
#include "common/reference/test_device.h"
#include "common/simt/launch_log.h"

namespace ladder {
namespace {

using namespace reference;

const PoisonOutputs poison_outputs;  // an element that is never written stays NaN

/// The standard cases with few scores: here a warp spends five shuffles on each, which the CPU machine takes its time
/// for.
std::vector<AttentionCase> small_cases() {
    std::vector<AttentionCase> cases = standard_cases();
    std::erase_if(
        cases, [](const AttentionCase& c) { return c.batch * c.query_heads * c.query_length * c.key_length > 10'000; });
    return cases;
}

class OnlineAttentionStandard : public ::testing::TestWithParam<AttentionCase> {};

TEST_P(OnlineAttentionStandard, MatchesReference) {
    EXPECT_TRUE(matches_reference(online_attention, GetParam(), test_device()));
}

INSTANTIATE_TEST_SUITE_P(Cases, OnlineAttentionStandard, ::testing::ValuesIn(standard_cases()), ByName{});

TEST(OnlineAttention, RefusesBadInput) {
    for (const BadInput& bad : bad_inputs(test_device()))
        EXPECT_TRUE(throws_mentioning([&] { online_attention(bad.q, bad.k, bad.v, bad.options); }, bad.mentions))
            << bad.name;
}

TEST(OnlineAttention, NextCallWorksAfterAnError) {
    const AttentionCase fine = standard_cases().front();
    const auto [q, k, v] = make_inputs(fine, test_device());
    EXPECT_ANY_THROW(online_attention(q, k.to(torch::kFloat64), v));
    EXPECT_TRUE(matches_reference(online_attention, fine, test_device()));
}

TEST(OnlineAttention, RunsRepeatBitwise) {
    for (const AttentionCase& problem : small_cases()) {
        const auto [q, k, v] = make_inputs(problem, test_device());
        const AttentionResult first = online_attention(q, k, v, problem.options),
                              second = online_attention(q, k, v, problem.options);
        EXPECT_TRUE(first.out.equal(second.out) && first.lse.equal(second.lse)) << problem.name;
    }
}

TEST(OnlineAttention, NonFiniteInputsGiveWhatTheReferenceGives) {
    const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
    for (const float poison : {inf, -inf, nan})
        for (const int argument : {0, 1, 2}) {
            const torch::Tensor q = torch::rand({1, 2, 5, 16}) + 0.5, k = torch::rand({1, 2, 40, 16}) + 0.5,
                                v = torch::rand({1, 2, 40, 16});
            const torch::Tensor on_device[] = {q.to(test_device()), k.to(test_device()), v.to(test_device())};
            on_device[argument][0][1][3][7].fill_(poison);
            const AttentionResult result = online_attention(on_device[0], on_device[1], on_device[2]);
            const Comparison verdict = compare_attention(result, on_device[0], on_device[1], on_device[2]);
            EXPECT_TRUE(verdict.passed) << "argument " << argument << ", " << poison << ": " << verdict.report;
        }
}

// Every score of query row 3 is -inf: softmax has no answer, and neither may the kernel invent one.
TEST(OnlineAttention, RowOfNegativeInfinitiesIsNaN) {
    const torch::Tensor q = torch::ones({1, 1, 8, 16}, test_device()), k = torch::ones({1, 1, 70, 16}, test_device());
    q[0][0][3].fill_(-std::numeric_limits<float>::infinity());
    const AttentionResult result = online_attention(q, k, k);
    EXPECT_TRUE(result.out[0][0][3].isnan().all().item<bool>());
    EXPECT_TRUE(result.out[0][0][4].isfinite().all().item<bool>());
    EXPECT_EQ(result.lse[0][0][3].item<float>(), -std::numeric_limits<float>::infinity());
}

TEST(OnlineAttention, RunsOnTheCallersRowsOnly) {
    const torch::Tensor q = torch::randn({2, 3, 50, 24}, test_device());
    const AttentionResult whole = online_attention(q, q, q);
    const AttentionResult alone = online_attention(q.slice(0, 1, 2), q.slice(0, 1, 2), q.slice(0, 1, 2));
    EXPECT_TRUE(whole.out.slice(0, 1, 2).equal(alone.out)) << "a neighbour in the batch changed the answer";
}

// The formula that the tour prints on the GPU is what the CPU machine counts.
TEST(OnlineAttention, MovesWhatTheFormulaSays) {
    if (!test_device().is_cpu()) return;  // nothing counts on the GPU
    for (const AttentionCase& problem : small_cases()) {
        const auto [q, k, v] = make_inputs(problem, torch::kCPU);
        const simt::LaunchLog log;
        online_attention(q, k, v, problem.options);
        const GlobalBytes expected = online_attention_bytes(q, k, v);
        EXPECT_EQ(log.total().global_bytes_read(), expected.read) << problem.name;
        EXPECT_EQ(log.total().global_bytes_written(), expected.written) << problem.name;
    }
}

// The sum over keys has no order: K and V permuted together still give the right answer.
TEST(OnlineAttention, OrderOfKeysDoesNotMatter) {
    for (const AttentionCase& problem :
         {AttentionCase{.query_length = 9, .key_length = 131, .family = Family::rising_scores},
          AttentionCase{.query_length = 9, .key_length = 131, .dtype = torch::kFloat16}}) {
        const auto [q, k, v] = make_inputs(problem, test_device());
        const torch::Tensor order = (torch::arange(131, test_device()) * 50 + 7).remainder(131);
        const AttentionResult result = online_attention(q, k.index_select(2, order), v.index_select(2, order));
        const Comparison verdict = compare_attention(result, q, k, v);
        EXPECT_TRUE(verdict.passed) << verdict.report;
    }
}

TEST(OnlineAttention, NeedsNoSharedMemoryAndNoBarrier) {
    const torch::Tensor q = torch::randn({2, 3, 9, 64}, test_device());
    const simt::LaunchLog log;
    online_attention(q, q, q);
    ASSERT_EQ(log.records().size(), 1u);
    const simt::LaunchRecord& launch = log.records().front();
    EXPECT_EQ(launch.blocks(), 2u * 3 * 3) << "four query rows to a block";
    EXPECT_EQ(launch.shared_bytes_per_block, 0u);
    EXPECT_EQ(launch.counters.block_barriers, 0u);
}

}  // namespace
}  // namespace ladder
