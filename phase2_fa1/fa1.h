#pragma once

#include "common/attention/arguments.h"
#include "common/attention/options.h"
#include "phase2_fa1/fa1_tiles.h"

namespace ladder {

/// FlashAttention as first published (Dao et al. 2022, Algorithm 1): softmax(scale Q K^T) V, with the log-sum-exp of
/// each row.
///
///   q     [B, Hq, Sq, D]    float32, float16 or bfloat16; D <= 256; last dimension contiguous
///   k, v  [B, Hkv, Sk, D]   Hq a multiple of Hkv
///
/// Runs on the device that holds the tensors. Throws std::invalid_argument on bad input, and where the smallest tiles
/// do not fit the device's shared memory, before anything is launched.
///
/// Two kernels do this, in the same order of loops. fa1_tiled is for float32 with D <= 128 on a device with
/// asynchronous copies and, at D = 64, 173056 bytes of shared memory for a block. All else goes to fa1.
AttentionResult fa1_forward(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                            const AttentionOptions& options = {});

/// The plain kernel of the two (fa1.cuh), whose tile sizes follow from the device's shared memory, see fa1_tiles().
AttentionResult fa1_plain_forward(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                  const AttentionOptions& options = {});

/// The largest head dimension that the faster one takes: with more, its tiles would not fit the registers.
inline constexpr int64_t kWidestFa1Tile = 128;

/// The faster one (fa1_tiled.cuh). Throws std::invalid_argument where it cannot run.
AttentionResult fa1_tiled_forward(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                  const AttentionOptions& options = {});

/// What each moves between its kernel and global memory for such a problem, on the device that holds q.
GlobalBytes fa1_forward_bytes(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                              const AttentionOptions& options = {});
GlobalBytes fa1_plain_bytes(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                            const AttentionOptions& options = {});
GlobalBytes fa1_tiled_bytes(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                            const AttentionOptions& options = {});

}  // namespace ladder
