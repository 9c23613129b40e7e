#pragma once

#include <torch/types.h>

#include <cstdint>

#include "common/simt/views/tensor_argument.h"

namespace ladder::cli {

struct OverflowRequest {
    torch::Device device = torch::kCPU;
    simt::ElementType type = simt::ElementType::f16;
    std::int64_t head_dim = 128;
    std::int64_t block_rows = 64;
};

/// The overflow demo of phase 1, printed. Returns the exit code: 0 if the longest sequence that fits ran and gave the
/// right answer, and one key more was refused.
int run_overflow(const OverflowRequest& request);

}  // namespace ladder::cli
