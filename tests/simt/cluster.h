#pragma once

// What cluster.cuh and its test agree on.

#include "common/simt/views/tensor_argument.h"

namespace ladder {

inline constexpr int kClusterThreads = 96;  ///< of a block: the first warp loads, the others take what has come
inline constexpr int kClusterRows = 64, kClusterColumns = 32;  ///< of a tile

/// What the kernels take; each uses some of it.
struct ClusterTrial {
    simt::TensorArgument in{};   ///< float32
    simt::TensorArgument out{};  ///< float32
    int blocks = 2;              ///< of the grid
    int cluster = 2;             ///< of these, in each cluster: 1, 2, 4 or 8
    void* stream = nullptr;
};

}  // namespace ladder
