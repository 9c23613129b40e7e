#pragma once

#include <optional>

#include "common/attention/gradients.h"
#include "common/attention/options.h"
#include "common/reference/comparison.h"
#include "common/torch/torch.h"

namespace ladder::reference {

/// Holds gradients that a kernel made of `given`, the results of a forward pass, against the oracle. In float32 each
/// element must keep to gradient_bound(); in 16 bits FlashAttention's rule for gradients holds:
///
///   max|actual - oracle| <= 3 * max|low_precision - oracle| + eps(dtype) * max|oracle| + max(float32 bound)
///
/// `passed` and `report` cover dq, dk and dv; the numbers are those of the gradient that comes closest to its bound.
Comparison compare_gradients(const AttentionGradients& actual, const torch::Tensor& q, const torch::Tensor& k,
                             const torch::Tensor& v, const AttentionResult& given, const torch::Tensor& dout,
                             const AttentionOptions& options = {}, const std::optional<torch::Tensor>& dlse = {});

}  // namespace ladder::reference
