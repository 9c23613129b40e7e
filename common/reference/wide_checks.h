#pragma once

#include <gtest/gtest.h>

#include <cstdint>

#include "common/reference/checks.h"

namespace ladder::reference {

// Dot products in wide tiles: their sums are shifted by half of the row's maximum (common/attention/wide_tile.cuh).

/// A dot product of D equal terms that adds up to 256 is as exact as one that stops at 128, though one sum from 0 on
/// would round every term beyond. Three in four keys, the first, score 0, so that the maximum comes late.
::testing::AssertionResult large_sum_stays_exact(const AttentionEntry& entry, int64_t head_dim, torch::Device device);

/// A key whose first half is 10^7 and whose second half takes that back, and 1000 more, does not round its neighbours'
/// scores to the digits of 10^7.
::testing::AssertionResult outliers_spare_their_neighbours(const AttentionEntry& entry, int64_t head_dim,
                                                           torch::Device device);

}  // namespace ladder::reference
