#pragma once

#include "common/attention/arguments.h"
#include "common/simt/views/tensor_argument.h"

namespace ladder {

/// What is to become of a tensor [B, H, S, d] of bf16: codes of e4m3 [B, H, S, D] and an exponent for each block of
/// rows, 64 or 128.
struct QuantizationArguments {
    simt::TensorArgument x, codes, exponents;
    float factor;    ///< that all elements are multiplied by: 1, -1 or 0
    bool rotates;    ///< rows are multiplied by a Hadamard matrix with random signs
    int block_rows;  ///< that share an exponent
    void* stream;
};

/// One problem in 8 bits. The scale is positive: quantising Q takes care of its sign.
struct Fp8Arguments {
    AttentionArguments a;  ///< q, k and v of codes, of as many columns as a kernel is compiled for
    simt::TensorArgument q_exponents, k_exponents, v_exponents;  ///< [B, H, blocks]: of 64 rows, and of 128
};

// hopper_fp8.cuh, compiled once per machine.
namespace cpu {
void launch_hopper_fp8_quantization(const QuantizationArguments&);
void launch_hopper_fp8(const Fp8Arguments&);
}  // namespace cpu
namespace cuda {
[[gnu::weak]] void launch_hopper_fp8_quantization(const QuantizationArguments&);
[[gnu::weak]] void launch_hopper_fp8(const Fp8Arguments&);
}  // namespace cuda

}  // namespace ladder
