#pragma once

#include "phase8_backward/backward.h"

namespace ladder {

/// The gradients of attention on Hopper: as plain_backward(), with the tensor memory accelerator and products of
/// warpgroups (FlashAttention-3: Shah et al. 2024, Algorithm 3), for float16 and bfloat16 and head dimensions up to
/// 128.
///
/// Blocks add to dQ in no order, so dq does not repeat to the bit; dk and dv do. What is not finite may reach gradients
/// of queries and keys in the same tile, under a mask too, as in FlashAttention.
///
/// Throws as plain_backward() does, std::invalid_argument for float32 and larger head dimensions, and
/// std::runtime_error on a device without Feature::wgmma.
AttentionGradients hopper_backward(const torch::Tensor& dout, const torch::Tensor& q, const torch::Tensor& k,
                                   const torch::Tensor& v, const torch::Tensor& out, const torch::Tensor& lse,
                                   const AttentionOptions& options = {}, const std::optional<torch::Tensor>& dlse = {});

}  // namespace ladder
