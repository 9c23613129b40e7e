#pragma once

#include "common/attention/arguments.h"
#include "common/attention/options.h"
#include "phase1_naive/shared_need.h"

namespace ladder {

/// Three ways to softmax(scale Q K^T) V with the ordinary softmax, which wants whole rows of scores. All take
///
///   q     [B, Hq, Sq, D]    float32, float16 or bfloat16; D <= 256; last dimension contiguous
///   k, v  [B, Hkv, Sk, D]   Hq a multiple of Hkv
///
/// run on the device that holds the tensors, and throw std::invalid_argument on bad input, before anything is launched.
///
/// S is kept in the dtype of q, as plain PyTorch calls would keep it: in float16 a scaled score beyond 65504 is
/// infinite, and its row becomes NaN. The later phases never store a score, and have no such limit.

/// Standard attention (Dao et al. 2022, Algorithm 0): three kernels, with S and P [B, Hq, Sq, Sk] in global memory.
/// Throws std::runtime_error where there is no memory for S and P.
AttentionResult standard_attention(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                   const AttentionOptions& options = {});

/// Query rows of a block, B_r, unless the caller says otherwise.
inline constexpr int64_t kDefaultBlockRows = 64;

/// Scheme A: a block owns `block_rows` queries (1 to 1024) and keeps them, all keys, all values and its rows of scores
/// in shared memory. Throws std::invalid_argument where that does not fit the device; the message says what would.
AttentionResult q_blocked_attention(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                    const AttentionOptions& options = {}, int64_t block_rows = kDefaultBlockRows);

/// Scheme B: as scheme A, but the values come past in tiles of kValueTileRows.
AttentionResult qv_blocked_attention(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                     const AttentionOptions& options = {}, int64_t block_rows = kDefaultBlockRows);

/// What standard_attention moves between its kernels and global memory for such a problem.
GlobalBytes standard_attention_bytes(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                     const AttentionOptions& options = {});

/// Likewise, for q_blocked_attention and qv_blocked_attention. Also for problems that do not fit.
GlobalBytes q_blocked_bytes(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                            const AttentionOptions& options = {}, int64_t block_rows = kDefaultBlockRows);
GlobalBytes qv_blocked_bytes(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                             const AttentionOptions& options = {}, int64_t block_rows = kDefaultBlockRows);

}  // namespace ladder
