#pragma once

#include "common/attention/arguments.h"
#include "common/attention/options.h"

namespace ladder {

/// Attention in one pass over the keys, one query row at a time (Rabe and Staats 2021): softmax(scale Q K^T) V, with
/// the log-sum-exp of each row. No tiles and no shared memory: the seed that the later phases grow from.
///
///   q     [B, Hq, Sq, D]    float32, float16 or bfloat16; D <= 256; last dimension contiguous
///   k, v  [B, Hkv, Sk, D]   Hq a multiple of Hkv
///
/// Runs on the device that holds the tensors. Throws std::invalid_argument on bad input, before anything is launched.
AttentionResult online_attention(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                 const AttentionOptions& options = {});

/// What online_attention moves between its kernel and global memory for such a problem.
GlobalBytes online_attention_bytes(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                   const AttentionOptions& options = {});

}  // namespace ladder
