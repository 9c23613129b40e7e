#pragma once

#include <chrono>

#include "common/fuzz/trial.h"
#include "common/torch/torch.h"

namespace ladder::fuzz {

/// The smallest problem found that still fails, and how.
struct Shrunk {
    Problem problem = {};  ///< the smallest found; it fails
    Outcome outcome = {};  ///< how it fails
    int trials = 0;        ///< problems that were tried on the way
    bool finished = true;  ///< nothing simpler fails in the same way; false when time ran out
    bool repeats = true;   ///< it failed in the same way when it was tried again
};

/// Makes a failing problem smaller for as long as it still fails in the same way (Outcome::kind): options back to their
/// defaults, plainer numbers and layouts, then each size down, first to the small and the telling ones (1, 2, 3, the
/// edges of tiles), then by halves, quarters and so on to single steps. Greedy: one field at a time, and over again
/// until nothing helps.
///
/// @param failure  how `problem` failed; throws std::invalid_argument if it did not
Shrunk shrink(const Entry& entry, const Problem& problem, const Outcome& failure, torch::Device device,
              std::chrono::milliseconds time_limit);

}  // namespace ladder::fuzz
