#pragma once

#include <vector>

#include "common/reference/inputs.h"

namespace ladder::reference {

/// The unmasked cases that every phase runs: lengths around every tile size, Sq != Sk both ways, several batches and
/// heads, grouped and multi-query heads, head dims 1 to 256, every dtype, family and layout, and given scales.
///
/// Not a product of all these but one case for each thing that can go wrong, so that the whole list stays small enough
/// for the CPU machine (see kMaxTotalWork).
std::vector<AttentionCase> standard_cases();

/// Every mask with Sq below, at and above Sk, including rows that see no key.
std::vector<AttentionCase> causal_cases();

/// Upper limit on the sum of work() over each list: about a second on the CPU machine.
inline constexpr int64_t kMaxTotalWork = 60'000'000;

}  // namespace ladder::reference
