#pragma once

#include <optional>

#include "common/attention/arguments.h"
#include "common/torch/torch.h"

namespace ladder {

/// What a caller may choose; the defaults give plain scaled dot-product attention.
struct AttentionOptions {
    std::optional<double> scale = {};  ///< Factor on the scores Q K^T; 1 / sqrt(D) when absent.
    Mask mask = Mask::none;            ///< Only the phases that implement masks accept anything else.
};

/// What every attention entry returns.
struct AttentionResult {
    torch::Tensor out;  ///< [B, Hq, Sq, D], dtype of q. Rows that see no key are 0.
    torch::Tensor lse;  ///< [B, Hq, Sq] float32: log sum_j exp(scale q_i . k_j), natural log; -inf if no key is seen.
};

}  // namespace ladder
