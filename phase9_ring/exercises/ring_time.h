#pragma once

#include <algorithm>

namespace ladder {

/// What a step of the ring consists of, in seconds.
struct StepTimes {
    double compute;  ///< for one rank's queries and one rank's keys
    double travel;   ///< of one rank's K and V to its neighbour
};

/// How long the forward pass over `ranks` ranks takes, without a mask, where K and V travel while ranks compute.
/// Nothing else takes time.
inline double ring_seconds(const StepTimes& step, int ranks) {
    // BEGIN SOLUTION time: steps that wait for the slower of the two, and one that waits for nobody
    return (ranks - 1) * std::max(step.compute, step.travel) + step.compute;
    //= return ranks * (step.compute + step.travel);
    // END SOLUTION time
}

/// The fewest positions a rank must hold so that travelling hides behind computing, for H heads of D, as many key-value
/// heads, on devices that compute `flops` a second and send `bytes` a second. `element` bytes a number.
inline double fewest_tokens_that_hide(double flops, double bytes, double element) {
    // BEGIN SOLUTION time: 4 H D n^2 / flops = 2 H D n element / bytes
    return element * flops / (2 * bytes);
    //= return flops / bytes;
    // END SOLUTION time
}

}  // namespace ladder
