#pragma once

#include <cstdint>
#include <optional>

#include "common/attention/options.h"
#include "common/torch/torch.h"

namespace ladder::reference {

/// How far a float32 result may lie from the oracle, element by element: a bound that is derived from the roundings of
/// a plain kernel, which makes one sum of each score and one of each output. Nobody's result enters it.
/// docs/numerics.md has the derivation. It holds for scores up to 2^15, where it is narrow, grows with them, and from
/// 2^24 on says nothing more: float32 cannot tell neighbouring scores apart there.
struct ErrorBound {
    torch::Tensor out;  ///< of the output, [..., Sq, D] float64
    torch::Tensor lse;  ///< of the log-sum-exp, [..., Sq] float64
};

/// The bound for attention on these inputs; shapes, masks and lengths as in attention_oracle.
///
/// A row that sees no key must be exact. Where the oracle is not finite, the bound is of no use.
ErrorBound attention_bound(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                           const AttentionOptions& options = {}, const std::optional<torch::Tensor>& kv_lengths = {});

/// Roundings, in units of u, that a sum over `terms` keys or queries may add to each of its terms: one for each, and
/// what tiles add, or where there are many, what so many independent ones add up to.
torch::Tensor roundings_of_sum(const torch::Tensor& terms);

/// How far a score may lie from scale * q . k, whatever the order of its sum: [..., Sq, Sk] for q [..., Sq, D] and
/// k [..., Sk, D] in float64.
torch::Tensor score_errors(const torch::Tensor& q, const torch::Tensor& k, double scale);

/// The bound for whatever is made of such scores: softmax, times V.
///
/// @param scores  [..., Sq, Sk] float64, exact; -inf where a query does not see a key
/// @param errors  how far a kernel's scores may lie from those
/// @param v       [..., Sk, D] float64
ErrorBound bound_of_scores(const torch::Tensor& scores, const torch::Tensor& errors, const torch::Tensor& v);

/// The bound for softmax over the last dimension of x in float32, summed by 32 lanes in parts of 64 terms.
torch::Tensor softmax_bound(const torch::Tensor& x);

}  // namespace ladder::reference
