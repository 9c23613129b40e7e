#pragma once

#include "common/attention/arguments.h"
#include "common/attention/options.h"

namespace ladder {

/// FlashAttention-2, forward, on tensor cores: softmax(scale Q K^T + mask) V, with the log-sum-exp of each row (Dao
/// 2023, Algorithm 1 and section 3.1.1).
///
///   q             [B, Hq, Sq, D]    float16 or bfloat16; D <= 256; last dimension contiguous
///   k, v          [B, Hkv, Sk, D]   Hq a multiple of Hkv; Sq and Sk may differ either way
///   options.mask  none, causal_bottom_right or causal_top_left (see Mask); rows that see no key give out 0, lse -inf
///
/// What a query may not see does not reach its row, NaN and infinities included.
///
/// Runs on the device that holds the tensors, with the kernel of mma_pipelined.cuh. Throws std::invalid_argument on bad
/// input, float32 among it, and std::runtime_error for a device without mma.m16n8k16, before anything is launched.
AttentionResult mma_forward(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                            const AttentionOptions& options = {});

/// The same with the kernel of mma.cuh.
AttentionResult mma_plain_forward(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                  const AttentionOptions& options = {});

/// What each of them moves between its kernel and global memory for such a problem.
GlobalBytes mma_forward_bytes(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                              const AttentionOptions& options = {});
GlobalBytes mma_plain_bytes(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                            const AttentionOptions& options = {});

}  // namespace ladder
