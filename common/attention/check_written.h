#pragma once

#include <torch/types.h>

#include "common/attention/options.h"

namespace ladder {

/// Throws simt::MachineError (partial_write) unless kernels have written every element of `result`, which allocate()
/// gave: says how many are missing, which is the first and the last of them, and what they have in common. Call it
/// before an entry returns. Only the checked CPU machine knows, and says nothing while it is lenient.
void check_written(const char* entry, const char* name, const torch::Tensor& result);

/// The same for O and LSE.
void check_written(const char* entry, const AttentionResult& result);

}  // namespace ladder
