#pragma once

// What tensor_core.cuh and its test agree on.

#include "common/simt/views/tensor_argument.h"

namespace ladder {

/// Reads four 8x8 matrices of 16-bit elements with one ldmatrix, in one block of one warp.
struct LdmatrixTrial {
    simt::TensorArgument rows;  ///< [32, 8], 16-bit patterns
    simt::TensorArgument out;   ///< [32, 4], 32-bit registers of each lane
    int matrices = 4;           ///< 1, 2 or 4
    bool transposed = false;
    void* stream = nullptr;
};

/// How the operands of an mma come into registers.
enum class Loading {
    by_hand,         ///< each lane reads the elements that the layout gives it
    ldmatrix,        ///< A from its rows, B from the rows of B^T
    ldmatrix_trans,  ///< A from its rows, B from its own rows
};

/// d[i] = a[i] b[i] + c[i], one 16x8x16 product in each block.
struct MmaTrial {
    simt::TensorArgument a;  ///< [count, 16, 16], f16 or bf16
    simt::TensorArgument b;  ///< [count, 16, 8], of the same type
    simt::TensorArgument c;  ///< [count, 16, 8], f32
    simt::TensorArgument d;  ///< [count, 16, 8], f32
    Loading loading = Loading::ldmatrix;
    void* stream = nullptr;
};

/// o[i] = round(q[i] k[i]^T) v[i], as a warp of an attention kernel does it: the rounded scores stay in registers.
struct AttentionTrial {
    simt::TensorArgument q;  ///< [count, 16, 16], f16 or bf16
    simt::TensorArgument k;  ///< [count, 16, 16]
    simt::TensorArgument v;  ///< [count, 16, 16]
    simt::TensorArgument o;  ///< [count, 16, 16], f32
    void* stream = nullptr;
};

/// The scores q k^T in the registers where the product leaves them, and what to_a() makes of these.
struct OperandTrial {
    simt::TensorArgument q;       ///< [16, 16], f16 or bf16
    simt::TensorArgument k;       ///< [16, 16]
    simt::TensorArgument scores;  ///< [32, 8], f32: of each lane the elements of one accumulator, then of its neighbour
    simt::TensorArgument operand;  ///< [32, 4], 32-bit registers of each lane
    void* stream = nullptr;
};

/// Every 16 x 16 block of a tile as ldmatrix gives it to the lanes, through an ArrangedTile.
struct ArrangedTrial {
    simt::TensorArgument tile;  ///< [32, D], f16 or bf16, D one of MmaHeadDims
    simt::TensorArgument
        registers;  ///< [3, 2 D / 16, 32, 4]: block(), block_of_columns(), block() transposed; blocks by rows
    bool swizzled = false;
    void* stream = nullptr;
};

/// out[i] = pack(in[i, 0], in[i, 1])
struct PackTrial {
    simt::TensorArgument in;   ///< [count, 2], f32
    simt::TensorArgument out;  ///< [count], 32-bit registers
    simt::ElementType type = simt::ElementType::f16;
    void* stream = nullptr;
};

}  // namespace ladder
