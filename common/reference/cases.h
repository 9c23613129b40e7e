#pragma once

#include <vector>

#include "common/reference/inputs.h"

namespace ladder::reference {

/// The unmasked cases that every phase runs. Batches, heads, lengths, head dims, layouts and dtypes have values below,
/// at and above the constants of the kernels, and every pair of two such values comes together in some case
/// (pairwise.h): not their product, so that the whole list stays small enough for the CPU machine (see kMaxTotalWork).
/// Also every remainder that the keys can leave in a tile, every family in every dtype, and given scales.
///
/// Every tensor has a layout of its own.
std::vector<AttentionCase> standard_cases();

/// The same under both causal masks, with rows that see no key among them. Fewer head dims, and no given scales.
std::vector<AttentionCase> causal_cases();

/// The first of every `n` cases: for a check that costs more than one call, or that needs fewer.
std::vector<AttentionCase> every(std::size_t n, const std::vector<AttentionCase>& cases);

/// Upper limit on the sum of work() over each list: about a second on the CPU machine.
inline constexpr int64_t kMaxTotalWork = 60'000'000;

}  // namespace ladder::reference
