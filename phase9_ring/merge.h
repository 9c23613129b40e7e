#pragma once

#include <cstdint>

#include "common/attention/arguments.h"
#include "common/attention/options.h"
#include "common/torch/torch.h"

namespace ladder {

/// Attention of some rows over the keys that they met so far, to which more come. However many come, it keeps one O, in
/// float32, and one LSE.
class SoFar {
  public:
    /// No keys yet, for queries q [B, Hq, S, D].
    explicit SoFar(const torch::Tensor& q);

    /// Adds what the rows from `first` on have of other keys: out [B, Hq, rows, D] in the dtype of q, lse [B, Hq, rows]
    /// float32. It may keep them.
    void merge(std::int64_t first, const AttentionResult& part);

    /// Of all keys that came: out [B, Hq, S, D] in the dtype of q, lse [B, Hq, S]; 0 and -inf in rows that met none.
    AttentionResult result() const;

  private:
    /// Rows that met nothing yet.
    AttentionResult nothing() const;

    torch::Tensor q_;
    AttentionResult sum_;  ///< both float32; undefined before the first part
};

/// What merge() moves for a part of all rows, unless it is the first: it is kept as it is.
GlobalBytes merge_bytes(const AttentionResult& part);

}  // namespace ladder
