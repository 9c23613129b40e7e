#pragma once

// A tensor of any type as the kernels of these tests take it.

#include "common/simt/views/tensor_argument.h"
#include "common/torch/torch.h"

namespace ladder {

/// The view of a matrix, or of a batch of them, of any type; rows may lie apart.
inline simt::TensorArgument raw_argument(const char* name, const torch::Tensor& tensor) {
    simt::TensorArgument argument{.name = name, .data = tensor.data_ptr(), .rank = int(tensor.dim())};
    if (tensor.scalar_type() == torch::kFloat16) argument.type = simt::ElementType::f16;
    if (tensor.scalar_type() == torch::kBFloat16) argument.type = simt::ElementType::bf16;
    for (int i = 0; i < argument.rank; ++i) {
        argument.extents[i] = tensor.size(i);
        argument.strides[i] = tensor.stride(i);
    }
    return argument;
}

}  // namespace ladder
