#pragma once

#include "common/classroom/judge/parts.h"

namespace ladder::classroom::phase5_decoding {

/// Few queries, and a cache with a length for each sequence.
ProblemKind decode_problems();

/// Partial results of attention, to be merged.
ProblemKind merge_problems();

/// The number of splits, to be chosen.
ProblemKind split_problems();

}  // namespace ladder::classroom::phase5_decoding
