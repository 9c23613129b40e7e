#pragma once

#include <optional>

#include "common/classroom/judge/attend.h"
#include "common/classroom/judge/trials.h"

namespace ladder::classroom {

/// An attention problem and what is known of the kernel that is to solve it.
struct AttentionQuestion {
    torch::Tensor q;               ///< [B, Hq, Sq, D]
    torch::Tensor k;               ///< [B, Hkv, Sk, D]
    torch::Tensor v;               ///< [B, Hkv, Sk, D]
    Form form = {};                ///< what is to be computed of them
    int64_t rows_per_tile = 0;     ///< B_r, for patterns; 0 if there is none
    int64_t keys_per_tile = 1;     ///< B_c, for known mistakes
    bool scores_kept = false;      ///< in the type of q, between two stages: no fair result is more exact
    bool weights_rounded = false;  ///< to the type of v, before they meet it: likewise
    bool garbage = false;          ///< the kernel found NaN in keys and values that no query sees
};

/// Holds `result` against attention in float64, by the rule of the reference harness. Nothing if it is right.
std::optional<Finding> examine_attention(const AttentionQuestion& question, const Attended& result);

}  // namespace ladder::classroom
