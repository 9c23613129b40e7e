#pragma once

#include <gtest/gtest.h>

#include "common/reference/checks.h"

namespace ladder::reference {

// Dot products in wide tiles, of D = 64 and 128: their sums start over half way (common/attention/wide_tile.cuh). On a
// GPU that has no shared memory for such tiles, nothing is run and the checks pass.

/// The second half of a dot product is not rounded to the digits of the first: where the first is 200 and the second D
/// / 2 times 2^-18, LSE shows the second.
::testing::AssertionResult second_halves_count(const AttentionEntry& entry);

/// A key whose first half is 10^7 and whose second half takes that back, and 1000 more, does not round its neighbours'
/// scores to the digits of 10^7.
::testing::AssertionResult outliers_spare_their_neighbours(const AttentionEntry& entry);

}  // namespace ladder::reference
