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

}  // namespace ladder::reference
