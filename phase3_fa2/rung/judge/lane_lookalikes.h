#pragma once

#include <vector>

#include "common/classroom/judge/parts.h"

namespace ladder::classroom::phase3_fa2 {

/// Mistakes among the eight lanes that share a row (RowOwner, in common/attention/row_tile.cuh): each of them has
/// columns of its own, of the scores and of O.
std::vector<AttentionMistake> lane_mistakes();

}  // namespace ladder::classroom::phase3_fa2
