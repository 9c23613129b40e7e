#include "phase0_softmax/online_attention.h"

#include <gtest/gtest.h>

#include <vector>

#include "common/attention/outputs.h"
#include "common/reference/entry_checks.h"
#include "common/reference/test_device.h"
#include "common/simt/report/launch_log.h"

namespace ladder {
namespace {

using namespace reference;

const PoisonOutputs poison_outputs;  // an element that is never written stays NaN

/// Some standard cases, with few scores: here a warp spends five shuffles on each, which the CPU machine takes its time
/// for.
std::vector<AttentionCase> small_cases() {
    std::vector<AttentionCase> cases = every(8, standard_cases());
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
    EXPECT_TRUE(refuses_bad_input(online_attention));
    EXPECT_TRUE(refuses_bad_input(online_attention_bytes));
}

TEST(OnlineAttention, WorksAfterAnError) {
    EXPECT_TRUE(works_after_an_error(online_attention, standard_cases().front()));
}

TEST(OnlineAttention, RepeatsBitwise) { EXPECT_TRUE(repeats_bitwise(online_attention, small_cases())); }

TEST(OnlineAttention, AgreesOnNonFiniteInput) { EXPECT_TRUE(agrees_on_non_finite_input(online_attention)); }

TEST(OnlineAttention, RowOfNegativeInfinitiesIsNaN) {
    EXPECT_TRUE(row_of_negative_infinities_is_nan(online_attention));
}

TEST(OnlineAttention, IgnoresBatchNeighbours) { EXPECT_TRUE(ignores_batch_neighbours(online_attention)); }

TEST(OnlineAttention, IgnoresKeyOrder) { EXPECT_TRUE(ignores_key_order(online_attention)); }

TEST(OnlineAttention, MovesWhatTheFormulaSays) {
    EXPECT_TRUE(moves_what_the_formula_says(online_attention, online_attention_bytes, small_cases()));
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
