#pragma once

#include <functional>
#include <optional>

#include "common/attention/gradients.h"
#include "common/attention/options.h"
#include "common/reference/per_head.h"
#include "common/torch/torch.h"

namespace ladder::reference {

/// What reaches the results of one query head from the loss.
struct HeadGradients {
    torch::Tensor dout;     ///< [Sq, D]
    torch::Tensor dlse;     ///< [Sq]; zeros where the loss does not look at the log-sum-exp
    AttentionResult given;  ///< what a forward pass made of the head, [Sq, D] and [Sq]; undefined where nobody asks
    int64_t query_heads;    ///< that share the head's keys and values
};

/// The gradients of one query head, by whatever method: dq [Sq, D], dk and dv [Sk, D].
using DifferentiateHead = std::function<AttentionGradients(const Head&, const HeadGradients&)>;

/// Calls `differentiate` for each batch and query head, and gathers its results: dk and dv are summed over the query
/// heads that share a key-value head. All is in `work_dtype`. `given` may be undefined tensors. Throws c10::Error when
/// the shapes do not fit each other.
AttentionGradients differentiate_each_head(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                           const torch::Tensor& dout, const AttentionOptions& options,
                                           const std::optional<torch::Tensor>& dlse, const AttentionResult& given,
                                           torch::ScalarType work_dtype, const DifferentiateHead& differentiate);

}  // namespace ladder::reference
