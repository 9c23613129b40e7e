#pragma once

#include "common/attention/options.h"
#include "common/torch/torch.h"

namespace ladder {

/// Attention of some rows over the keys that they met so far, to which more come.
///
///   out  [B, Hq, S, D] float32; 0 before the first
///   lse  [B, Hq, S] float32; -inf before the first
struct SoFar {
    torch::Tensor out;  ///< of the rows
    torch::Tensor lse;  ///< of the rows

    /// Nothing, for queries q [B, Hq, S, D].
    explicit SoFar(const torch::Tensor& q);

    /// Adds what `rows` rows from `first` on have of other keys: out [B, Hq, rows, D] in the dtype of q, lse [B, Hq,
    /// rows] float32.
    void merge(std::int64_t first, const AttentionResult& part);
};

}  // namespace ladder
