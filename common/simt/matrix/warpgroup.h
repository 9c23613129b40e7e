#pragma once

#include "common/simt/language/warpgroup_threads.h"

#if !defined(__CUDACC__)
#include "common/simt/language/cuda_names.h"
#endif

namespace simt {

/// Which way the k of a product runs through an operand in shared memory.
enum class Major {
    k,   ///< along the rows of its tile: A [m, k] and B^T [n, k], as Q_i and K_j lie
    mn,  ///< down the rows: A^T [k, m] and B [k, n], as V_j lies
};

/// Where the elements of D [64, N], the result of a warpgroup's product, are: element i of thread t (PTX ISA, "Register
/// Fragments for wgmma.mma_async.m64nNk16", D). Warp w has rows 16 w to 16 w + 15; in it lanes hold each group of eight
/// columns as they hold the C of mma.m16n8k16 (fragments.h).
struct AccumulatorLayout {
    /// Its row in D.
    __host__ __device__ static constexpr int row(int thread, int i) {
        return thread % kWarpgroup / 32 * 16 + thread % 32 / 4 + i / 2 % 2 * 8;
    }
    /// Its column in D.
    __host__ __device__ static constexpr int column(int thread, int i) { return i / 4 * 8 + thread % 4 * 2 + i % 2; }
};

}  // namespace simt
