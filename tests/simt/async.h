#pragma once

// What async.cuh and its test agree on.

#include "common/simt/views/tensor_argument.h"

namespace ladder {

/// Copies a matrix through a ring of shared tiles, with asynchronous copies. What lies beyond the matrix arrives as
/// zeros.
struct PipelineTrial {
    simt::TensorArgument in;   ///< [rows, columns], columns <= kPipelineColumns
    simt::TensorArgument out;  ///< [ceil(rows / kPipelineRows) * kPipelineRows, kPipelineColumns]
    int element_bytes = 4;     ///< 2 or 4
    int copy_bytes = 16;       ///< of one copy: 4, 8 or 16
    bool through_l1 = false;   ///< for 16 bytes: `.ca` instead of `.cg`
    int stages = 2;            ///< tiles in the ring: 1, 2 or 3
    void* stream = nullptr;
};

inline constexpr int kPipelineRows = 16;     ///< of a tile
inline constexpr int kPipelineColumns = 32;  ///< of a tile
inline constexpr int kPipelineThreads = 96;

}  // namespace ladder
