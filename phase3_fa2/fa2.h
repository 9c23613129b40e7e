#pragma once

#include "common/attention/arguments.h"
#include "common/attention/options.h"

namespace ladder {

/// FlashAttention-2, forward (Dao 2023, Algorithm 1): softmax(scale Q K^T) V, with the log-sum-exp of each row.
///
///   q     [B, Hq, Sq, D]    float32, float16 or bfloat16; D <= 256; last dimension contiguous
///   k, v  [B, Hkv, Sk, D]   Hq a multiple of Hkv
///
/// Runs on the device that holds the tensors, with the kernel of fa2_tiled.cuh where that can run, and with that of
/// fa2.cuh otherwise. (The tiles of the former depend on how many blocks there are, and so may the last bits of a
/// sequence's result on the size of its batch.) Throws std::invalid_argument on bad input, before anything is launched.
AttentionResult fa2_forward(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                            const AttentionOptions& options = {});

/// The same with the kernel of fa2.cuh, always.
AttentionResult fa2_plain_forward(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                  const AttentionOptions& options = {});

/// The same with the kernel of fa2_tiled.cuh, always: float32. Throws std::invalid_argument for anything else, and for
/// a device with too little shared memory; std::runtime_error for one without asynchronous copies.
AttentionResult fa2_tiled_forward(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                  const AttentionOptions& options = {});

/// What each of them moves between its kernel and global memory for such a problem.
GlobalBytes fa2_forward_bytes(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                              const AttentionOptions& options = {});
GlobalBytes fa2_plain_bytes(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                            const AttentionOptions& options = {});
GlobalBytes fa2_tiled_bytes(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                            const AttentionOptions& options = {});

}  // namespace ladder
