#pragma once

#include "common/classroom/judge/parts.h"

namespace ladder::classroom::phase4_causal {

/// Where the stages of a loop over key tiles begin and end.
ProblemKind stage_problems();

}  // namespace ladder::classroom::phase4_causal
