#pragma once

#include <torch/types.h>

#include <string>

#include "common/attention/check.h"

namespace ladder {

/// The largest head dimension that phase 2's kernel of register tiles (fa1_tiled.cuh) takes. Those of phases 3 and 4
/// take every one.
inline constexpr int64_t kWidestWideHeadDim = 128;

/// Whether a kernel of register tiles can run this problem: float32, and a device with asynchronous copies and
/// `shared_bytes` of shared memory per block. Where it can it pays: it has tiles as small as those of the plain
/// kernels.
bool wide_tiles_pay(const torch::Tensor& q, std::size_t shared_bytes);

/// Throws std::invalid_argument unless a kernel of register tiles can run on q: float32, D <= widest, and a device with
/// asynchronous copies (compute capability 8.0) and `shared_bytes` of shared memory per block.
void check_wide_tiles(const std::string& kernel, const torch::Tensor& q, std::size_t shared_bytes,
                      int64_t widest = kMaxHeadDim);

}  // namespace ladder
