#pragma once

#include "common/reference/inputs.h"
#include "common/torch/torch.h"

namespace ladder::reference {

/// What reaches the results of a case from a loss: standard normal numbers that depend on the case's seed, the same on
/// every device.
struct LossGradients {
    torch::Tensor dout;  ///< [B, Hq, Sq, D], dtype of the case, in the layout of its q
    torch::Tensor dlse;  ///< [B, Hq, Sq], float32
};

/// Builds them. Layouts that share memory between heads or sequences share dout's as well.
LossGradients make_loss_gradients(const AttentionCase& problem, torch::Device device);

/// All that a backward pass is given: the inputs of a case, what a perfect forward pass made of them, rounded to their
/// dtypes, and what reaches that from a loss.
struct BackwardInputs {
    torch::Tensor q, k, v;     ///< as make_inputs() makes them
    torch::Tensor out, lse;    ///< of attention_oracle(): dtype of the case, and float32
    torch::Tensor dout;        ///< [B, Hq, Sq, D], dtype of the case
    torch::Tensor dlse;        ///< [B, Hq, Sq], float32
    AttentionOptions options;  ///< of the case
};

/// Builds them.
BackwardInputs make_backward_inputs(const AttentionCase& problem, torch::Device device);

}  // namespace ladder::reference
