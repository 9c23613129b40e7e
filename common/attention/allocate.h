#pragma once

#include <torch/types.h>

namespace ladder {

/// Uninitialised memory for an output or a workspace: what a kernel writes in full needs no zeros first. While a
/// PoisonOutputs is alive it is filled with NaN, so that an element that the kernel forgets shows.
torch::Tensor allocate(torch::IntArrayRef sizes, const torch::TensorOptions& options);

/// The harness's switch; counts, so scopes may nest.
class PoisonOutputs {
  public:
    PoisonOutputs();
    ~PoisonOutputs();
    PoisonOutputs(const PoisonOutputs&) = delete;
    PoisonOutputs& operator=(const PoisonOutputs&) = delete;
};

}  // namespace ladder
