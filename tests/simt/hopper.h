#pragma once

// What hopper.cuh and its test agree on.

#include "common/simt/views/tensor_argument.h"

namespace ladder {

struct FencedSquares {
    simt::TensorArgument out;  ///< [128] int32: the squares of 0, 1, …
    void* stream = nullptr;
};

}  // namespace ladder
