#pragma once

#include <functional>
#include <vector>

#include "common/torch/torch.h"

namespace ladder::cli::bench {

/// How long to measure.
struct Effort {
    double seconds = 0.5;              ///< for all calls together, once warm
    int least_rounds = 5;              ///< even if that takes longer
    int most_rounds = 100;             ///< even if that takes less
    double sample_milliseconds = 0.2;  ///< where the fastest call is faster, it is repeated within a sample, and
                                       ///< with it all that take up to four times as long as this
    int most_calls_per_sample = 10;
};

/// What one of the calls took.
struct Samples {
    std::vector<double> milliseconds;  ///< per call, one for each round
    int calls_per_sample = 1;
};

/// Times `calls` in turns, so that whatever changes with time (clocks, temperature, a neighbour) touches all of them
/// alike: warm-up first, then rounds in which each call is sampled once. Each round draws an order of its own, since
/// who comes before may matter.
///
/// On a GPU a sample is the time between two CUDA events around the call's kernels. The GPU is kept waiting at the
/// start of a round until the host has queued all of it, so that the time which the host needs to prepare a call is not
/// counted. Before each sample other memory is read, four times what the L2 cache holds: data that was used before the
/// last call may still be there, if that call asked the cache not to keep its own. On the CPU a sample is wall-clock
/// time.
///
/// What a call throws, this throws. It must not be given calls that fail.
std::vector<Samples> time_interleaved(const std::vector<std::function<void()>>& calls, torch::Device device,
                                      const Effort& effort);

}  // namespace ladder::cli::bench
