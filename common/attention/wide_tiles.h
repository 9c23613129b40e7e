#pragma once

#include <torch/types.h>

#include <string>

namespace ladder {

/// What the kernels of register tiles (register_tile.cuh) can take.
inline constexpr int64_t kWidestWideHeadDim = 128;

/// Whether a kernel of wide tiles can run this problem, and has blocks enough for every multiprocessor: with fewer,
/// smaller tiles finish sooner.
bool wide_tiles_pay(const torch::Tensor& q, std::size_t shared_bytes);

/// Throws std::invalid_argument unless a kernel of wide tiles can run on q: float32, D <= 128, and a device with
/// asynchronous copies (compute capability 8.0) and `shared_bytes` of shared memory per block.
void check_wide_tiles(const std::string& kernel, const torch::Tensor& q, std::size_t shared_bytes);

}  // namespace ladder
