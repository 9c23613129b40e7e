#pragma once

#include <functional>

#include "common/torch/torch.h"

namespace ladder::cli {

struct Timing {
    double median_milliseconds;
    int runs;
};

/// One call by the wall clock: for the CPU machine, where a call ends when its kernels have, and where time is the
/// interpreter's and no measurement of a GPU.
Timing time_once(const std::function<void()>& call);

/// CUDA events around each of several calls, after a warm-up; host work between a call's launches is included. Throws
/// std::runtime_error in a build without CUDA.
Timing time_on_gpu(const std::function<void()>& call, torch::Device device);

}  // namespace ladder::cli
