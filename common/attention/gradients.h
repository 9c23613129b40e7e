#pragma once

#include "common/torch/torch.h"

namespace ladder {

/// What the backward pass of attention returns.
struct AttentionGradients {
    torch::Tensor dq;  ///< [B, Hq, Sq, D]; 0 for rows that see no key

    /// [B, Hkv, Sk, D]: the sums over the query heads that read a key-value head.
    torch::Tensor dk;
    torch::Tensor dv;
};

}  // namespace ladder
