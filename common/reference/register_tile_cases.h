#pragma once

#include <vector>

#include "common/attention/check.h"
#include "common/reference/large_device.h"

namespace ladder::reference {

/// What a block of the kernels of register tiles (common/attention/register_tile.cuh) needs at most, besides
/// FlashAttention-1's.
inline constexpr std::size_t kMostRegisterTileBytes = 203792;

/// The same cases in float32, up to a head dimension, as kernels of register tiles take them. None on a GPU that has
/// not `shared_bytes` of shared memory for a block.
std::vector<AttentionCase> register_tile_cases(const std::vector<AttentionCase>& cases,
                                               int64_t widest_head_dim = kMaxHeadDim,
                                               std::size_t shared_bytes = kMostRegisterTileBytes);

/// A head dim for each size of tile, 16, 64, 96, 128 and 256; likewise.
std::vector<int64_t> register_tile_head_dims(int64_t widest_head_dim = kMaxHeadDim,
                                             std::size_t shared_bytes = kMostRegisterTileBytes);

}  // namespace ladder::reference
