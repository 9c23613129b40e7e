#pragma once

#include <gtest/gtest.h>

#include "common/reference/checks.h"

namespace ladder::reference {

// Dot products in wide tiles, of D = 64 and 128: their sums start over half way (common/attention/wide_tile.cuh). On a
// GPU that has no shared memory for such tiles, nothing is run and the checks pass.

/// The second half of a dot product is not rounded to the digits of the first: where the first is 200 and the second 64
/// times 2^-18, the score is 200 + 2^-12, and LSE shows it.
::testing::AssertionResult second_halves_count(const AttentionEntry& entry);

/// A key whose first half is 10^7 and whose second half takes all of it back does not round its neighbours' scores to
/// the digits of 10^7.
::testing::AssertionResult outliers_spare_their_neighbours(const AttentionEntry& entry);

}  // namespace ladder::reference
