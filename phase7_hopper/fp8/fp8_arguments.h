#pragma once

#include "common/attention/arguments.h"
#include "common/simt/views/tensor_argument.h"

namespace ladder {

/// What is to become of a tensor [B, H, S, d] of 16 bits: codes [B, H, S, D] of 8, and an exponent for each block of
/// rows.
struct QuantizationArguments {
    simt::TensorArgument x;               ///< [B, H, S, d]
    simt::TensorArgument codes;           ///< [B, H, S, D], e4m3 or e5m2; D >= d
    simt::TensorArgument exponents;       ///< [B, H, blocks], int
    int block_rows = 0;                   ///< that share an exponent: 64 or 128
    int smallest_exponent = 0;            ///< of a block
    float factor = 1.0f;                  ///< that all elements are multiplied by: 1, -1 or 0
    bool rotates = false;                 ///< rows are multiplied by a Hadamard matrix with random signs
    simt::TensorArgument cosines, sines;  ///< [positions, d / 2], float32: of a rotary embedding; rank 0 without one
    int first_position = 0;               ///< of row 0
    void* stream = nullptr;               ///< cudaStream_t of the caller
};

/// One problem in 8 bits: q, k and v are codes, of as many columns as a kernel is compiled for. The scale is positive:
/// quantizing Q takes care of its sign.
struct Fp8Arguments : AttentionArguments {
    simt::TensorArgument q_exponents;  ///< [B, Hq, blocks of 64 rows]
    simt::TensorArgument k_exponents;  ///< [B, Hkv, blocks of 128 rows]
    simt::TensorArgument v_exponents;  ///< [B, Hkv, blocks of 128 rows]
};

}  // namespace ladder
