#pragma once

#include "common/distributed/group.h"
#include "phase9_ring/ring.h"
#include "phase9_ring/step.h"

namespace ladder {

/// A way to share out attention over a sequence: both passes.
struct SharedAttention {
    AttentionResult (*forward)(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                               const distributed::Group& group, const RingOptions& options);
    AttentionGradients (*backward)(const LossOfQueries& loss, const torch::Tensor& k, const torch::Tensor& v,
                                   const distributed::Group& group, const RingOptions& options);
};

/// Runs the forward pass, and lets autograd run the backward pass. `how` must live as long as the program.
AttentionResult with_autograd(const SharedAttention& how, const torch::Tensor& q, const torch::Tensor& k,
                              const torch::Tensor& v, const distributed::Group& group, const RingOptions& options);

}  // namespace ladder
