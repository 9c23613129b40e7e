#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

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
    /// Rows from `first` on.
    struct Part {
        std::int64_t first = 0;
        AttentionResult of;
    };

    /// Adds the part that waits to the sum, which has that dtype from now on if rows had to be merged.
    void add_waiting(torch::ScalarType sum_dtype);
    bool has_met(const Part& part) const;

    torch::Tensor q_;
    AttentionResult sum_;  ///< undefined before the first part; in the dtype of q until rows are merged
    std::vector<std::pair<std::int64_t, std::int64_t>> met_;  ///< rows that met keys: from, to
    std::optional<Part> waiting_;  ///< for the next part: the sum with the last one is to be rounded at once
};

/// What merges of so many parts of all rows move: each like `part`, one after another.
GlobalBytes merge_bytes(const AttentionResult& part, int parts);

}  // namespace ladder
