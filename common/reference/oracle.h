#pragma once

#include <optional>

#include "common/attention/options.h"
#include "common/torch/torch.h"

namespace ladder::reference {

/// Attention in float64 with plain matrix products and a plain softmax: what every kernel is held against.
///
///   q [B, Hq, Sq, D]   k, v [B, Hkv, Sk, D]   Hq a multiple of Hkv; query head h reads kv head h / (Hq / Hkv)
///
/// Takes any floating dtype, any strides and any device, and returns `out` and `lse` in float64 on the device of q.
///
/// `kv_lengths` [B] (int32 or int64, any device): in sequence b the keys j >= kv_lengths[b] do not exist, and both
/// causal alignments count from that length instead of Sk.
///
/// What unusual inputs give:
///   - A row that sees no key: out 0, lse -inf.
///   - A key that a row does not see contributes nothing to that row, not even the NaN in it (in K or in V).
///   - A row that sees keys whose scores are all -inf: out NaN (torch::softmax gives 0 / 0 there), lse -inf.
///   - A row that sees a score of +inf: out NaN, lse +inf. A NaN score: both NaN.
///   - Otherwise V enters as p * v, so p = 0 times an infinite v is NaN.
///
/// Throws c10::Error when the shapes do not fit each other.
AttentionResult attention_oracle(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                 const AttentionOptions& options = {},
                                 const std::optional<torch::Tensor>& kv_lengths = {});

/// Softmax over the last dimension, in float64.
torch::Tensor softmax_oracle(const torch::Tensor& x);

/// log(sum(exp(x))) over the last dimension, in float64: the shape of x without its last dimension.
torch::Tensor logsumexp_oracle(const torch::Tensor& x);

}  // namespace ladder::reference
