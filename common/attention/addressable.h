#pragma once

#include "common/torch/torch.h"

namespace ladder {

/// x [B, H, S, D] of 16-bit elements, or a copy of it that the tensor memory accelerator can address: in rows of whole
/// pieces of 16 bytes, filled up with zeros, whose distances are positive multiples of 16 bytes.
torch::Tensor made_addressable(const torch::Tensor& x);

}  // namespace ladder
