#pragma once

#include <optional>

#include "common/attention/gradients.h"
#include "common/attention/options.h"
#include "common/torch/torch.h"

namespace ladder::reference {

/// How far float32 gradients may lie from the oracle, element by element and in float64: derived from the roundings of
/// a plain kernel, which makes one sum of each element. What it was given of a forward pass, `given`, need not be
/// exact: by how much that moves a gradient is known, and allowed. docs/numerics.md has the derivation. Other arguments
/// as in gradient_oracle.
AttentionGradients gradient_bound(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                  const AttentionResult& given, const torch::Tensor& dout,
                                  const AttentionOptions& options = {}, const std::optional<torch::Tensor>& dlse = {});

}  // namespace ladder::reference
