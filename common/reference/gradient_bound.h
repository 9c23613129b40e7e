#pragma once

#include <optional>

#include "common/attention/gradients.h"
#include "common/attention/options.h"
#include "common/torch/torch.h"

namespace ladder::reference {

/// How far float32 gradients may lie from the oracle, element by element and in float64: derived from the roundings of
/// a plain kernel, which is given O and LSE as a float32 forward pass leaves them, and makes one sum of each element.
/// docs/numerics.md has the derivation. Arguments as in gradient_oracle.
AttentionGradients gradient_bound(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                  const torch::Tensor& dout, const AttentionOptions& options = {},
                                  const std::optional<torch::Tensor>& dlse = {});

}  // namespace ladder::reference
