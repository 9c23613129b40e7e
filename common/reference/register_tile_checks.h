#pragma once

#include <gtest/gtest.h>

#include <cstdint>

#include "common/reference/checks.h"

namespace ladder::reference {

// What kernels of register tiles (common/attention/register_tile.cuh) owe to scores of any size.

/// For a causal entry: a key with a huge score, in the tile where rows that see it and rows that do not share a warp,
/// does not change a bit of those that do not.
::testing::AssertionResult hidden_keys_change_nothing(const AttentionEntry& entry, int64_t head_dim,
                                                      torch::Device device);

/// A key whose first half is 10^7 and whose second half takes that back, and 1000 more, does not round its neighbours'
/// scores to the digits of 10^7.
::testing::AssertionResult outliers_spare_their_neighbours(const AttentionEntry& entry, int64_t head_dim,
                                                           torch::Device device);

/// Scores up to 2^15, whose maximum creeps up or down from tile to tile while older tiles still count: all weights must
/// be on one scale, to the last digit of the maximum.
::testing::AssertionResult large_scores_stay_right(const AttentionEntry& entry, int64_t head_dim, Mask mask,
                                                   torch::Device device);

}  // namespace ladder::reference
