#pragma once

#include "common/classroom/judge/parts.h"

namespace ladder::classroom::phase9_ring {

/// Partial results that come one after another, to be merged.
ProblemKind merge_problems();

/// Questions whose answers are numbers: positions in zigzag parts, keys that are seen in striped parts, times.
ProblemKind zigzag_problems();
ProblemKind striped_problems();
ProblemKind time_problems();

}  // namespace ladder::classroom::phase9_ring
