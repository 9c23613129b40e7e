#pragma once

// What atomics.cuh and its test agree on.

#include "common/simt/views/tensor_argument.h"

namespace ladder {

inline constexpr int kAtomicThreads = 96, kBins = 40, kTileElements = 64;

using Wide = unsigned long long;

/// What the kernels take; each uses some of it.
struct AtomicTrial {
    simt::TensorArgument in{};       ///< [n] int32, float32 or of 64 bits
    simt::TensorArgument out{};      ///< what comes out
    simt::TensorArgument partial{};  ///< [blocks] of the type of `in`: a workspace
    simt::TensorArgument counter{};  ///< [2] int32 or of 64 bits, zeros
    int blocks = 1;
    bool with_fences = false;  ///< relaxed accesses and fences, where there are releases and acquires otherwise
    bool backwards = false;    ///< blocks hand over to those before them; launch_wide, _exchange: acquires alone
    void* stream = nullptr;
};

}  // namespace ladder
