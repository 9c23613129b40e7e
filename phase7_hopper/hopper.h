#pragma once

#include "common/attention/arguments.h"
#include "common/attention/options.h"

namespace ladder {

/// FlashAttention-3, forward, with Hopper's instructions: softmax(scale Q K^T + mask) V, with the log-sum-exp of each
/// row (Shah et al. 2024).
///
///   q             [B, Hq, Sq, D]    float16 or bfloat16; D <= 256; last dimension contiguous
///   k, v          [B, Hkv, Sk, D]   Hq a multiple of Hkv; Sq and Sk may differ either way
///   options.mask  none, causal_bottom_right or causal_top_left (see Mask); rows that see no key give out 0, lse -inf
///
/// What a query may not see does not reach its row, NaN and infinities included.
///
/// A tensor that the tensor memory accelerator cannot address is copied first: one whose rows do not begin at multiples
/// of 16 bytes, which is so wherever D is no multiple of 8, and one that is expanded along its heads or sequences.
///
/// Runs on the device that holds the tensors. For head dimensions up to 128 with the kernel of hopper_parts.cuh;
/// beyond, and from 65 on where loops are short (short_loops.h), with that of hopper_overlapped.cuh. Throws
/// std::invalid_argument on bad input, float32 among it, and std::runtime_error for a device without wgmma, before
/// anything is launched; on other devices there is phase 6.
AttentionResult hopper_forward(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                               const AttentionOptions& options = {});

/// The same with the kernels of hopper.cuh, hopper_turns.cuh and hopper_overlapped.cuh.
AttentionResult hopper_plain_forward(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                     const AttentionOptions& options = {});
AttentionResult hopper_turns_forward(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                     const AttentionOptions& options = {});
AttentionResult hopper_overlapped_forward(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                          const AttentionOptions& options = {});

/// What each of them moves between its kernel and global memory for such a problem.
GlobalBytes hopper_forward_bytes(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                 const AttentionOptions& options = {});
GlobalBytes hopper_plain_bytes(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                               const AttentionOptions& options = {});
GlobalBytes hopper_turns_bytes(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                               const AttentionOptions& options = {});
GlobalBytes hopper_overlapped_bytes(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                    const AttentionOptions& options = {});

}  // namespace ladder
