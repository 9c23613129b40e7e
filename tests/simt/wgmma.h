#pragma once

// What wgmma.cuh and its test agree on.

#include "common/simt/language/swizzle.h"
#include "common/simt/views/tensor_argument.h"

namespace ladder {

/// Where a product finds its A.
enum class SourceOfA {
    k_major,   ///< in shared memory, as rows of A
    mn_major,  ///< in shared memory, as rows of A^T
    registers,
};

/// The rows of two warpgroups, and the k of a trial's products.
inline constexpr int kTrialRows = 128, kTrialDepth = 128;

/// d = a b, or d = a b + c, by two warpgroups of 64 rows each, in steps of one product. B lies in the second stage of a
/// ring, and the first holds NaN.
struct ProductTrial {
    simt::TensorArgument a;  ///< [128, 128] of f16, bf16, e4m3 or e5m2; mn-major: transposed
    simt::TensorArgument b;  ///< [N, 128], k-major; else [128, N]
    simt::TensorArgument c;  ///< [128, N], f32
    simt::TensorArgument d;  ///< the same
    SourceOfA source = SourceOfA::k_major;
    bool b_is_k_major = true;
    bool accumulate = false;
    simt::Swizzle swizzle = simt::Swizzle::b128;
    int n = 96;
    void* stream = nullptr;
};

/// o = round(q k^T) v, by one warpgroup that keeps the rounded scores in registers.
struct ScoresTrial {
    simt::TensorArgument q;  ///< [64, 64], f16 or bf16
    simt::TensorArgument k;  ///< [64, 64]
    simt::TensorArgument v;  ///< [64, 64]
    simt::TensorArgument o;  ///< [64, 64], f32
    void* stream = nullptr;
};

/// Writes four 8x8 matrices of 16-bit elements with one stmatrix, in one block of one warp.
struct StmatrixTrial {
    simt::TensorArgument registers;  ///< [32, 4], 32 bits of each lane
    simt::TensorArgument rows;  ///< [32, 8], 16-bit patterns: what lies in the tile then; -1 where nothing was written
    int matrices = 4;           ///< 1, 2 or 4
    bool transposed = false;
    void* stream = nullptr;
};

/// Which lanes elect_one() names, of the two warps of a block.
struct ElectionTrial {
    simt::TensorArgument elected;  ///< [2], i32: how many lanes of each warp
    void* stream = nullptr;
};

/// A producer gives registers back, and two consumers claim them.
struct RegisterTrial {
    simt::TensorArgument out;  ///< [384], i32: thread * thread
    void* stream = nullptr;
};

}  // namespace ladder
