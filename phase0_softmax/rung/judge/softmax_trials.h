#pragma once

#include "common/classroom/judge/parts.h"

namespace ladder::classroom::phase0_softmax {

/// Softmax over rows.
ProblemKind softmax_problems();

}  // namespace ladder::classroom::phase0_softmax
