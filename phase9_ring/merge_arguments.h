#pragma once

#include <cstdint>

#include "common/simt/views/tensor_argument.h"

namespace ladder {

/// A merge of two partial results of the same rows in plain numbers: what the host hands to either machine.
struct MergeArguments {
    simt::TensorArgument out_before;  ///< [B, H, S, D] float32, or that of out_part
    simt::TensorArgument lse_before;  ///< [B, H, S] float32
    simt::TensorArgument out_part;    ///< [B, H, S, D] of any element type
    simt::TensorArgument lse_part;    ///< [B, H, S] float32
    simt::TensorArgument out;         ///< [B, H, S, D], either too; may be out_before
    simt::TensorArgument lse;         ///< [B, H, S] float32; may be lse_before
    void* stream = nullptr;           ///< cudaStream_t of the caller

    /// The sizes, read off the shapes above.
    std::int64_t batch() const { return out.extents[0]; }
    std::int64_t heads() const { return out.extents[1]; }
    std::int64_t rows() const { return out.extents[2]; }
    std::int64_t head_dim() const { return out.extents[3]; }
};

}  // namespace ladder
