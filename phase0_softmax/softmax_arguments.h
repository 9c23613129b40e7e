#pragma once

#include "common/simt/views/tensor_argument.h"
#include "phase0_softmax/resident_row.h"

namespace ladder {

/// A softmax over rows in plain numbers: what a host entry hands to the launch function of either machine.
struct SoftmaxArguments {
    simt::TensorArgument x;  ///< [rows, N]
    simt::TensorArgument y;  ///< [rows, N], the dtype of x
    void* stream = nullptr;  ///< cudaStream_t of the caller; the CPU machine has no streams

    /// The sizes, read off the shapes above.
    std::int64_t rows() const { return x.extents[0]; }
    std::int64_t columns() const { return x.extents[1]; }
};

/// The same, and how resident_softmax.cuh keeps a row.
struct ResidentSoftmaxArguments : SoftmaxArguments {
    ResidentRow plan{};  ///< of every block
};

}  // namespace ladder
