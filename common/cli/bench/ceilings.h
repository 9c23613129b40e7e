#pragma once

#include <vector>

#include "common/cli/bench/interleave.h"
#include "common/cli/bench/report.h"
#include "common/torch/torch.h"

namespace ladder::cli::bench {

/// What the device reaches when it does one thing only, by PyTorch's own operators: products of matrices in float32
/// (without tf32) and bfloat16, a copy, and a stream of reads, the fastest of several reductions. One that fails is
/// listed with the reason.
std::vector<Ceiling> measure_ceilings(torch::Device device, bool quick, const Effort& effort);

}  // namespace ladder::cli::bench
