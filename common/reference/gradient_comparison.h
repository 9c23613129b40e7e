#pragma once

#include <optional>

#include "common/attention/gradients.h"
#include "common/attention/options.h"
#include "common/reference/comparison.h"
#include "common/torch/torch.h"

namespace ladder::reference {

/// A verdict on each gradient.
struct GradientComparisons {
    Comparison dq;  ///< of Q
    Comparison dk;  ///< of K
    Comparison dv;  ///< of V
};

/// What the gradients of a problem must be, worked out once, for gradients that kernels made of `given`, the results of
/// a forward pass. In float32 each element must keep to gradient_bound(); in 16 bits FlashAttention's rule for
/// gradients holds:
///
///   max|actual - oracle| <= 3 * max|low_precision - oracle| + eps(dtype) * max|oracle| + max(float32 bound)
class ExpectedGradients {
  public:
    /// Arguments as in gradient_oracle.
    ExpectedGradients(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                      const AttentionResult& given, const torch::Tensor& dout, const AttentionOptions& options = {},
                      const std::optional<torch::Tensor>& dlse = {});

    /// `passed` and `report` cover dq, dk and dv; the numbers are those of the gradient that comes closest to its
    /// bound.
    Comparison compare(const AttentionGradients& actual) const;

    /// Each for itself.
    GradientComparisons compare_each(const AttentionGradients& actual) const;

    /// By the oracle, in float64.
    const AttentionGradients& oracle() const { return oracle_; }

  private:
    AttentionGradients oracle_;
    AttentionGradients bound_;  ///< in float32
    AttentionGradients fair_;   ///< in 16 bits: by plain torch; undefined in float32
};

/// Holds gradients against that.
Comparison compare_gradients(const AttentionGradients& actual, const torch::Tensor& q, const torch::Tensor& k,
                             const torch::Tensor& v, const AttentionResult& given, const torch::Tensor& dout,
                             const AttentionOptions& options = {}, const std::optional<torch::Tensor>& dlse = {});

}  // namespace ladder::reference
