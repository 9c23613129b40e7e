#pragma once

#include <vector>

#include "common/reference/large_device.h"

namespace ladder::reference {

/// The same cases in float32, those that kernels of register tiles (common/attention/register_tile.cuh) take: D <= 128. On a
/// GPU, only those that it has the shared memory for.
std::vector<AttentionCase> register_tile_cases(const std::vector<AttentionCase>& cases);

/// A head dim for each size of tile, 16, 64 and 128; likewise.
std::vector<int64_t> register_tile_head_dims();

}  // namespace ladder::reference
