#pragma once

#include <optional>

#include "common/attention/gradients.h"
#include "common/attention/options.h"
#include "common/torch/torch.h"

namespace ladder {

/// softmax(scale Q K^T + mask) V with the best rung for the dtype, the device and the shape (attention_choice() in
/// rungs.h says which, and why), forward and backward: autograd follows it.
///
///   q             [B, Hq, Sq, D]    float32, float16 or bfloat16; D <= 256; last dimension contiguous
///   k, v          [B, Hkv, Sk, D]   Hq a multiple of Hkv
///   options.mask  none, causal_bottom_right or causal_top_left
///
/// Returns out [B, Hq, Sq, D], dtype of q; rows that see no key are 0, and have gradient 0. The gradients repeat
/// bitwise. There is no second derivative: a backward pass through a backward pass throws std::runtime_error. Throws
/// std::invalid_argument on bad input.
torch::Tensor attention(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                        const AttentionOptions& options = {});

/// The same with the log-sum-exp of each row, lse [B, Hq, Sq] in float32, of which autograd follows both: what merges
/// attention over parts of the keys needs.
AttentionResult attention_with_lse(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                   const AttentionOptions& options = {});

/// The backward pass alone, with the best rung for it: the gradients of a loss with respect to q, k and v from those
/// with respect to out, dout [B, Hq, Sq, D] in any layout, and to lse, dlse [B, Hq, Sq], where the loss looks at that.
AttentionGradients attention_backward(const torch::Tensor& dout, const torch::Tensor& q, const torch::Tensor& k,
                                      const torch::Tensor& v, const torch::Tensor& out, const torch::Tensor& lse,
                                      const std::optional<torch::Tensor>& dlse = {},
                                      const AttentionOptions& options = {});

}  // namespace ladder
