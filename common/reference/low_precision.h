#pragma once

#include <optional>

#include "common/attention/options.h"
#include "common/torch/torch.h"

namespace ladder::reference {

/// Attention as plain torch calls would compute it in the dtype of q: the yardstick for how much error is fair.
///
/// Each step works in float32 and then rounds to that dtype: S = Q K^T, S * scale, P = softmax(S), O = P V. Rounding by
/// hand instead of calling 16-bit operators keeps it the same everywhere: libtorch 1.13 has no float16 product on the
/// CPU. For float32 this is ordinary float32 torch. Shapes, masks, lengths and unusual inputs as in attention_oracle.
///
/// Returns `out` in the dtype of q and `lse` in float32, both on the device of q.
AttentionResult attention_low_precision(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                        const AttentionOptions& options = {},
                                        const std::optional<torch::Tensor>& kv_lengths = {});

/// Softmax over the last dimension, computed in float32 and rounded to the dtype of x.
torch::Tensor softmax_low_precision(const torch::Tensor& x);

/// log(sum(exp(x))) over the last dimension, computed and returned in float32.
torch::Tensor logsumexp_low_precision(const torch::Tensor& x);

}  // namespace ladder::reference
