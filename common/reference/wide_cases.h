#pragma once

#include <vector>

#include "common/reference/wide_device.h"

namespace ladder::reference {

/// The same cases in float32, those that kernels of wide tiles (common/attention/wide_tile.cuh) take: D <= 128. On a
/// GPU, only those that it has the shared memory for.
std::vector<AttentionCase> wide_cases(const std::vector<AttentionCase>& cases);

}  // namespace ladder::reference
