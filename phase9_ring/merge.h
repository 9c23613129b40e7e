#pragma once

#include <cstdint>
#include <optional>

#include "common/attention/arguments.h"
#include "common/attention/options.h"
#include "common/torch/torch.h"

namespace ladder {

/// Attention of some rows over the keys that they met so far, to which more come. However many come, it keeps one O and
/// one LSE, and what came last.
class SoFar {
  public:
    /// No keys yet, for queries q [B, Hq, S, D].
    explicit SoFar(const torch::Tensor& q);

    /// Adds what the rows from `first` on have of other keys: out [B, Hq, rows, D] in the dtype of q, lse [B, Hq, rows]
    /// float32. It keeps them, and may write to them.
    void merge(std::int64_t first, const AttentionResult& part);

    /// Of all keys that came: out [B, Hq, S, D] in the dtype of q, lse [B, Hq, S]; 0 and -inf in rows that met none.
    AttentionResult result();

  private:
    /// Rows that met nothing yet.
    AttentionResult nothing() const;
    /// Adds the part that waits, if one does, to the sum, which has that dtype from now on.
    void add_waiting(torch::ScalarType sum_dtype);

    torch::Tensor q_;
    AttentionResult sum_;  ///< undefined before the first part; in float32, but for one part alone
    /// A part of all rows waits for the next: the last one's sum is to be rounded at once.
    std::optional<AttentionResult> waiting_;
};

/// What merges of so many parts of all rows move: each like `part`, one after another.
GlobalBytes merge_bytes(const AttentionResult& part, int parts);

}  // namespace ladder
