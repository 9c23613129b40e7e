#pragma once

#include <optional>

#include "common/attention/gradients.h"
#include "common/attention/options.h"
#include "common/torch/torch.h"

namespace ladder::reference {

/// The gradients of plain attention in float64, by PyTorch's autograd: what every backward kernel is held against.
///
///   dout  [B, Hq, Sq, D]  the loss's gradient with respect to the output
///   dlse  [B, Hq, Sq]     with respect to the log-sum-exp; absent: the loss does not look at it
///
/// q, k, v as in attention_oracle, and finite. Returns float64 on the device of q. Rows that see no key get 0 in dq and
/// add nothing to dk and dv. Throws c10::Error when the shapes do not fit each other.
AttentionGradients gradient_oracle(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                   const torch::Tensor& dout, const AttentionOptions& options = {},
                                   const std::optional<torch::Tensor>& dlse = {});

/// The same as plain PyTorch computes it in the dtype of q, FlashAttention's yardstick for gradients: each step works
/// in float32 and rounds to that dtype, S = Q K^T, S * scale, P = softmax(S), dV = P^T dO, dP = dO V^T,
/// dS = P (dP - rowsum(P dP) + dLSE), its product with the scale, dQ = dS K, dK = dS^T Q. Sums over grouped heads are
/// taken in float32. Returns the dtype of q.
AttentionGradients gradients_low_precision(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                           const torch::Tensor& dout, const AttentionOptions& options = {},
                                           const std::optional<torch::Tensor>& dlse = {});

}  // namespace ladder::reference
