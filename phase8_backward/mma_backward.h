#pragma once

#include "phase8_backward/backward.h"

namespace ladder {

/// What plain_backward() does, on tensor cores: the same arguments, the same promises, for float16 and bfloat16. Throws
/// std::invalid_argument for float32 as well, and where the device has no mma.sync or cp.async (compute
/// capability 8.0).
///
/// P and dS are rounded to the dtype of q, as operands of the products that dV, dK and dQ are; all sums are in float32.
AttentionGradients mma_backward(const torch::Tensor& dout, const torch::Tensor& q, const torch::Tensor& k,
                                const torch::Tensor& v, const torch::Tensor& out, const torch::Tensor& lse,
                                const AttentionOptions& options = {}, const BackwardOptions& backward_options = {},
                                const std::optional<torch::Tensor>& dlse = {});

/// Throws as mma_backward() does where it takes no q of that dtype, or none on that device.
void check_mma_backward(const torch::Tensor& q);

/// What its kernels move to and from global memory for such a problem. An atomic addition counts as a write.
GlobalBytes mma_backward_bytes(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                               const AttentionOptions& options = {}, const BackwardOptions& backward_options = {},
                               bool has_dlse = false);

}  // namespace ladder
