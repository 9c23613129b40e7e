#pragma once

#include "phase8_backward/backward.h"

namespace ladder {

/// The gradients of attention on Hopper: as plain_backward(), with the tensor memory accelerator and products of
/// warpgroups (FlashAttention-3: Shah et al. 2024, Algorithm 3), for float16 and bfloat16.
///
/// Head dimensions up to 128 have a kernel (hopper_backward.cuh), those up to 256 another (hopper_backward_wide.cuh).
/// dQ is added up by the kernel of dK and dV, `in_order` or by `atomics`; there is no second pass.
///
/// Throws as plain_backward() does, std::invalid_argument for float32, and std::runtime_error on a device without
/// Feature::wgmma.
AttentionGradients hopper_backward(const torch::Tensor& dout, const torch::Tensor& q, const torch::Tensor& k,
                                   const torch::Tensor& v, const torch::Tensor& out, const torch::Tensor& lse,
                                   const AttentionOptions& options = {},
                                   const BackwardOptions& backward_options = {.gather = DqGather::in_order},
                                   const std::optional<torch::Tensor>& dlse = {});

/// What its kernels move to and from global memory for such a problem, turns not counted. An addition counts as a
/// write.
GlobalBytes hopper_backward_bytes(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                  const AttentionOptions& options = {},
                                  const BackwardOptions& backward_options = {.gather = DqGather::in_order},
                                  bool has_dlse = false);

/// Throws as hopper_backward() does where it takes no q of that dtype, or none on that device.
void check_hopper_backward(const torch::Tensor& q);

}  // namespace ladder
