#pragma once

#include "common/attention/global_bytes.h"
#include "common/attention/options.h"

namespace ladder {

/// FlashAttention-2, forward (Dao 2023, Algorithm 1): softmax(scale Q K^T) V, with the log-sum-exp of each row.
///
///   q     [B, Hq, Sq, D]    float32, float16 or bfloat16; D <= 256; last dimension contiguous
///   k, v  [B, Hkv, Sk, D]   Hq a multiple of Hkv
///
/// Runs on the device that holds the tensors. Throws std::invalid_argument on bad input, before anything is launched.
AttentionResult fa2_forward(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                            const AttentionOptions& options = {});

/// What fa2_forward moves between its kernel and global memory for such a problem.
GlobalBytes fa2_forward_bytes(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                              const AttentionOptions& options = {});

}  // namespace ladder
