#pragma once

#include <vector>

#include "common/classroom/judge/parts.h"

namespace ladder::classroom::phase6_tensor_cores {

/// Mistakes about who holds what in the fragments of a warp: the four lanes that share a row have two neighbouring
/// columns of each eight, and of a fragment's four elements two are of another row, eight below.
std::vector<AttentionMistake> fragment_mistakes();

}  // namespace ladder::classroom::phase6_tensor_cores
