#pragma once

#include <gtest/gtest.h>

#include <cstdint>

#include "common/reference/checks.h"

namespace ladder::reference {

// Dot products in wide tiles: their sums are shifted by half of the row's maximum (common/attention/wide_tile.cuh).

/// A dot product that adds up to 256 is as exact as one that stops at 128, though one sum from 0 on would round nearly
/// every term: among the first keys of a row, where no maximum is known, among the last, and with the sign turned.
::testing::AssertionResult large_sums_stay_exact(const AttentionEntry& entry, int64_t head_dim, torch::Device device);

/// For a causal entry: a key with a huge score, in the tile where rows that see it and rows that do not share a warp,
/// does not change a bit of those that do not.
::testing::AssertionResult hidden_keys_change_nothing(const AttentionEntry& entry, int64_t head_dim,
                                                      torch::Device device);

/// No tile is computed a second time where scores are small, and some are where they are large: told by what is read
/// from shared memory. On the CPU machine only.
::testing::AssertionResult small_scores_are_computed_once(const AttentionEntry& entry, int64_t head_dim);

/// A key whose first half is 10^7 and whose second half takes that back, and 1000 more, does not round its neighbours'
/// scores to the digits of 10^7.
::testing::AssertionResult outliers_spare_their_neighbours(const AttentionEntry& entry, int64_t head_dim,
                                                           torch::Device device);

/// Scores of 10^9 and near the ends of float's range, first those of one sign and then those of the other: whatever is
/// computed of them on the way, the keys with the larger ones share the weight. A NaN among them makes the rows NaN.
::testing::AssertionResult huge_scores_are_weighed(const AttentionEntry& entry, int64_t head_dim, Mask mask,
                                                   torch::Device device);

/// Scores of 10^8, of which one is larger by a single float, 8, in a later tile: the old keys have a weight of e^-8
/// each, though a maximum of that size is rounded by several powers of 2 where the shift moves.
::testing::AssertionResult large_roundings_are_made_good(const AttentionEntry& entry, int64_t head_dim, Mask mask,
                                                         torch::Device device);

/// A maximum that creeps up from tile to tile moves the shift while older tiles still count: their weights and the new
/// ones must be on one scale, to the last digit of maxima up to 1500.
::testing::AssertionResult weights_agree_where_the_shift_moves(const AttentionEntry& entry, int64_t head_dim, Mask mask,
                                                               torch::Device device);

}  // namespace ladder::reference
