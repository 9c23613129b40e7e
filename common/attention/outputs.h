#pragma once

#include "common/attention/options.h"
#include "common/torch/torch.h"

namespace ladder {

/// Uninitialised memory for an output or a workspace: what a kernel writes in full needs no zeros first. While a
/// PoisonOutputs is alive it is filled with NaN (integers with 127, a NaN among 8-bit codes), so that an element that
/// the kernel forgets shows. On the CPU, the machine watches this memory while the tensor lives: a kernel that reads an
/// element which no kernel has written is diagnosed. Host code that writes into it itself says so with
/// simt::note_host_write().
torch::Tensor allocate(torch::IntArrayRef sizes, const torch::TensorOptions& options);

/// The harness's switch; counts, so scopes may nest.
class PoisonOutputs {
  public:
    PoisonOutputs();
    ~PoisonOutputs();
    PoisonOutputs(const PoisonOutputs&) = delete;
    PoisonOutputs& operator=(const PoisonOutputs&) = delete;
};

/// Throws simt::MachineError (partial_write) unless kernels have written every element of `result`, which allocate()
/// gave: says how many are missing, which is the first and the last of them, and what they have in common. Call it
/// before an entry returns. Only the checked CPU machine knows, and says nothing while it is lenient.
void check_written(const char* entry, const char* name, const torch::Tensor& result);

/// The same for O and LSE.
void check_written(const char* entry, const AttentionResult& result);

}  // namespace ladder
