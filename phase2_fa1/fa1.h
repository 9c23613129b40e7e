#pragma once

#include "common/attention/global_bytes.h"
#include "common/attention/options.h"
#include "phase2_fa1/fa1_tiles.h"

namespace ladder {

/// FlashAttention as first published (Dao et al. 2022, Algorithm 1): softmax(scale Q K^T) V, with the log-sum-exp of
/// each row.
///
///   q     [B, Hq, Sq, D]    float32, float16 or bfloat16; D <= 256; last dimension contiguous
///   k, v  [B, Hkv, Sk, D]   Hq a multiple of Hkv
///
/// Tile sizes follow from the device's shared memory, see fa1_tiles(). Runs on the device that holds the tensors.
/// Throws std::invalid_argument on bad input, and where the smallest tiles do not fit the device's shared memory,
/// before anything is launched.
AttentionResult fa1_forward(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                            const AttentionOptions& options = {});

/// What fa1_forward moves between its kernel and global memory for such a problem, on the device that holds q.
GlobalBytes fa1_forward_bytes(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                              const AttentionOptions& options = {});

}  // namespace ladder
