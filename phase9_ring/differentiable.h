#pragma once

#include "common/distributed/group.h"
#include "phase9_ring/ring.h"
#include "phase9_ring/step.h"

namespace ladder {

/// A way to share out attention over a sequence: both passes.
struct SharedAttention {
    /// Of a rank's part of Q, K and V.
    using Forward = AttentionResult(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                    const distributed::Group& group, const RingOptions& options);
    /// Of what the loss says of its queries.
    using Backward = AttentionGradients(const LossOfQueries& loss, const torch::Tensor& k, const torch::Tensor& v,
                                        const distributed::Group& group, const RingOptions& options);

    Forward* forward;    ///< the one pass
    Backward* backward;  ///< the other
};

/// Runs the forward pass, and lets autograd run the backward pass. `how` must live as long as the program.
AttentionResult with_autograd(const SharedAttention& how, const torch::Tensor& q, const torch::Tensor& k,
                              const torch::Tensor& v, const distributed::Group& group, const RingOptions& options);

}  // namespace ladder
