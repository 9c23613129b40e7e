#pragma once

#include <cstdint>

#include "common/simt/device/architecture_cuda.h"

namespace simt {
inline namespace cuda {

/// stmatrix() and stmatrix_trans(), which say what it does.
template <bool transposed, class V, class... Register>
__device__ __forceinline__ void store_matrices(V& row, Register... r) {
    static_assert(sizeof(V) == 16, "a row of a matrix is 16 bytes: pass tile.vec<WideVector<T>>(row, column)");
    static_assert(sizeof...(r) == 1 || sizeof...(r) == 2 || sizeof...(r) == 4, "stmatrix writes 1, 2 or 4 matrices");
    if constexpr (kHasFeature<Feature::tma>) {
        const std::uint32_t address = shared_address(&row);
        const std::uint32_t of[] = {r...};
        if constexpr (sizeof...(r) == 1 && !transposed)
            asm volatile("stmatrix.sync.aligned.m8n8.x1.shared.b16 [%0], {%1};"
                         :
                         : "r"(address), "r"(of[0])
                         : "memory");
        else if constexpr (sizeof...(r) == 1)
            asm volatile("stmatrix.sync.aligned.m8n8.x1.trans.shared.b16 [%0], {%1};"
                         :
                         : "r"(address), "r"(of[0])
                         : "memory");
        else if constexpr (sizeof...(r) == 2 && !transposed)
            asm volatile("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%0], {%1, %2};"
                         :
                         : "r"(address), "r"(of[0]), "r"(of[1])
                         : "memory");
        else if constexpr (sizeof...(r) == 2)
            asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1, %2};"
                         :
                         : "r"(address), "r"(of[0]), "r"(of[1])
                         : "memory");
        else if constexpr (!transposed)
            asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
                         :
                         : "r"(address), "r"(of[0]), "r"(of[1]), "r"(of[2]), "r"(of[3])
                         : "memory");
        else
            asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};"
                         :
                         : "r"(address), "r"(of[0]), "r"(of[1]), "r"(of[2]), "r"(of[3])
                         : "memory");
    } else {
        refuse("stmatrix: not in the architecture that this kernel was compiled for");
    }
}

/// Writes 8x8 matrices of 16-bit elements to shared memory, one for each register passed: 1, 2 or 4. ldmatrix()
/// backwards: lanes 0 to 7 pass the rows of the first matrix, lanes 8 to 15 those of the second, and so on; lane l
/// gives elements 2(l % 4) and 2(l % 4) + 1 of row l / 4 of each. All 32 lanes of the warp take part. (PTX ISA,
/// stmatrix.)
///
///     simt::stmatrix(O_i.vec<Wide>(row + lane % 16, column + lane / 16 * 8), bits[0], bits[1], bits[2], bits[3]);
template <class V, class... Register>
__device__ __forceinline__ void stmatrix(V& row, Register... registers) {
    store_matrices<false>(row, registers...);
}

/// The same with each matrix transposed: lane l gives elements 2(l % 4) and 2(l % 4) + 1 of column l / 4.
template <class V, class... Register>
__device__ __forceinline__ void stmatrix_trans(V& row, Register... registers) {
    store_matrices<true>(row, registers...);
}

}  // namespace cuda
}  // namespace simt
