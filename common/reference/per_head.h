#pragma once

#include <functional>
#include <limits>
#include <optional>

#include "common/attention/options.h"
#include "common/torch/torch.h"

namespace ladder::reference {

/// One query head and the keys that exist for it: attention as the textbook writes it, in two dimensions.
struct Head {
    torch::Tensor q;        ///< [Sq, D]
    torch::Tensor k;        ///< [Sk, D], Sk >= 1
    torch::Tensor v;        ///< [Sk, D]
    torch::Tensor visible;  ///< bool [Sq, Sk]: may query i see key j?
    double scale;           ///< factor on Q K^T
};

/// Attention of one head, by whatever method: out [Sq, D] and lse [Sq].
using AttendHead = std::function<AttentionResult(const Head&)>;

/// Checks the shapes, calls `attend` for each batch and query head, and gathers its `out` [Sq, D] and `lse` [Sq].
///
/// Keys past a sequence's length are cut off before `attend` sees them. A sequence without keys gets out 0 and
/// lse -inf without a call.
///
/// @param work_dtype  what q, k and v are converted to before the call
AttentionResult attend_each_head(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                 const AttentionOptions& options, const std::optional<torch::Tensor>& kv_lengths,
                                 torch::ScalarType work_dtype, torch::ScalarType out_dtype, const AttendHead& attend);

/// The score of a key that a query does not see.
inline constexpr double kHiddenScore = -std::numeric_limits<double>::infinity();

/// bool [query_length, key_length]: may query i see key j?
torch::Tensor visible_keys(Mask mask, int64_t query_length, int64_t key_length, torch::Device device);

/// Softmax over the visible scores of each row; rows that see nothing get 0 everywhere.
torch::Tensor softmax_of_visible(const torch::Tensor& scores, const torch::Tensor& visible);

/// Log-sum-exp over the visible scores of each row; -inf for rows that see nothing.
torch::Tensor logsumexp_of_visible(const torch::Tensor& scores, const torch::Tensor& visible);

/// P V, where an invisible key contributes nothing at all: 0 * NaN would be NaN, but that key is not part of the sum.
torch::Tensor weighted_sum(const torch::Tensor& weights, const torch::Tensor& v, const torch::Tensor& visible);

}  // namespace ladder::reference
