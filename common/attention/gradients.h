#pragma once

#include "common/torch/torch.h"

namespace ladder {

/// What the backward pass of attention returns.
struct AttentionGradients {
    torch::Tensor dq;  ///< [B, Hq, Sq, D]; 0 for rows that see no key
    torch::Tensor dk;  ///< [B, Hkv, Sk, D]: the sum over the query heads that read this key-value head
    torch::Tensor dv;  ///< [B, Hkv, Sk, D]: likewise
};

}  // namespace ladder
