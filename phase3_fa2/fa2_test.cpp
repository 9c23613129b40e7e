#include "phase3_fa2/fa2.h"

#include <gtest/gtest.h>

#include "common/attention/allocate.h"
#include "common/reference/entry_checks.h"
#include "common/reference/test_device.h"

namespace ladder {
namespace {

using namespace reference;

const PoisonOutputs poison_outputs;  // an element that is never written stays NaN

class Fa2Standard : public ::testing::TestWithParam<AttentionCase> {};

TEST_P(Fa2Standard, MatchesReference) { EXPECT_TRUE(matches_reference(fa2_forward, GetParam(), test_device())); }

INSTANTIATE_TEST_SUITE_P(Cases, Fa2Standard, ::testing::ValuesIn(standard_cases()), ByName{});

TEST(Fa2, RefusesBadInput) {
    EXPECT_TRUE(refuses_bad_input(fa2_forward));
    EXPECT_TRUE(refuses_bad_input(fa2_forward_bytes));
}

TEST(Fa2, WorksAfterAnError) { EXPECT_TRUE(works_after_an_error(fa2_forward, standard_cases().front())); }

TEST(Fa2, RepeatsBitwise) { EXPECT_TRUE(repeats_bitwise(fa2_forward, standard_cases())); }

TEST(Fa2, AgreesOnNonFiniteInput) { EXPECT_TRUE(agrees_on_non_finite_input(fa2_forward)); }

TEST(Fa2, RowOfNegativeInfinitiesIsNaN) { EXPECT_TRUE(row_of_negative_infinities_is_nan(fa2_forward)); }

TEST(Fa2, IgnoresBatchNeighbours) { EXPECT_TRUE(ignores_batch_neighbours(fa2_forward)); }

TEST(Fa2, IgnoresKeyOrder) { EXPECT_TRUE(ignores_key_order(fa2_forward)); }

TEST(Fa2, MovesWhatTheFormulaSays) {
    EXPECT_TRUE(moves_what_the_formula_says(fa2_forward, fa2_forward_bytes, standard_cases()));
}

}  // namespace
}  // namespace ladder
