#pragma once

#include "common/attention/arguments.h"
#include "common/attention/options.h"

namespace ladder {

/// FlashAttention-2, forward, with a causal mask or without one: softmax(scale Q K^T + mask) V, with the log-sum-exp of
/// each row (Dao 2023, section 3.1.1).
///
///   q             [B, Hq, Sq, D]    float32, float16 or bfloat16; D <= 256; last dimension contiguous
///   k, v          [B, Hkv, Sk, D]   Hq a multiple of Hkv; Sq and Sk may differ either way
///   options.mask  none, causal_bottom_right or causal_top_left (see Mask); rows that see no key give out 0, lse -inf
///
/// What a query may not see does not reach its row, NaN and infinities included.
///
/// Runs on the device that holds the tensors, with the kernel of causal_tiled.cuh where that can run, and with that of
/// causal.cuh otherwise. (The tiles of the former depend on how many blocks there are, and so may the last bits of a
/// sequence's result on the size of its batch.) Throws std::invalid_argument on bad input, and when the device has too
/// little shared memory for the head dimension, before anything is launched.
AttentionResult causal_forward(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                               const AttentionOptions& options = {});

/// The same with the kernel of causal.cuh, always. Rows with scores beyond 1.5 10^9 may become NaN there (README.md,
/// "exp2, and one FMA for a score").
AttentionResult causal_plain_forward(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                     const AttentionOptions& options = {});

/// The same with the kernel of causal_tiled.cuh, always: float32. Throws std::invalid_argument for anything else, and
/// for a device with too little shared memory; std::runtime_error for one without asynchronous copies.
AttentionResult causal_tiled_forward(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                     const AttentionOptions& options = {});

/// What each of them moves between its kernel and global memory for such a problem.
GlobalBytes causal_forward_bytes(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                 const AttentionOptions& options = {});
GlobalBytes causal_plain_bytes(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                               const AttentionOptions& options = {});
GlobalBytes causal_tiled_bytes(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                               const AttentionOptions& options = {});

}  // namespace ladder
