#pragma once

// What float8.cuh and its test agree on.

#include "common/simt/views/tensor_argument.h"

namespace ladder {

/// Floats to codes, in every way that a kernel has.
struct EncodeTrial {
    simt::TensorArgument values;  ///< [count, 4], f32
    simt::TensorArgument codes;   ///< [count, 4], e4m3 or e5m2: each value converted by itself
    simt::TensorArgument packed;  ///< [count], 32-bit registers: pack() of each four values
    simt::TensorArgument stored;  ///< [count], 32-bit registers: four codes of a shared tile, read as one
    void* stream = nullptr;
};

/// And back.
struct DecodeTrial {
    simt::TensorArgument codes;     ///< [count, 4], e4m3 or e5m2
    simt::TensorArgument values;    ///< [count, 4], f32: each code converted by itself
    simt::TensorArgument unpacked;  ///< [count, 4], f32: unpack() of each two codes
    simt::TensorArgument halves;    ///< [count, 2], 32-bit registers: unpack_to_f16() of each two codes
    void* stream = nullptr;
};

}  // namespace ladder
