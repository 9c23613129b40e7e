#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "common/simt/device/architecture_cuda.h"
#include "common/simt/matrix/fragments.h"

namespace simt {
inline namespace cuda {

/// ldmatrix() and ldmatrix_trans(), which say what it does.
template <bool transposed, class Fragment, class V>
__device__ __forceinline__ void load_matrices(Fragment& fragment, const V& row) {
    constexpr int matrices = LdmatrixOf<Fragment, V>::matrices;
    if constexpr (kHasFeature<Feature::ldmatrix>) {
        const auto address = static_cast<unsigned>(__cvta_generic_to_shared(&row));
        std::uint32_t r[matrices];
        if constexpr (matrices == 1 && !transposed)
            asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(r[0]) : "r"(address) : "memory");
        else if constexpr (matrices == 1)
            asm volatile("ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%0}, [%1];"
                         : "=r"(r[0])
                         : "r"(address)
                         : "memory");
        else if constexpr (matrices == 2 && !transposed)
            asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
                         : "=r"(r[0]), "=r"(r[1])
                         : "r"(address)
                         : "memory");
        else if constexpr (matrices == 2)
            asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
                         : "=r"(r[0]), "=r"(r[1])
                         : "r"(address)
                         : "memory");
        else if constexpr (!transposed)
            asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                         : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                         : "r"(address)
                         : "memory");
        else
            asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                         : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                         : "r"(address)
                         : "memory");
        std::memcpy(&fragment, r, sizeof(fragment));
    } else {
        refuse("ldmatrix: not in the architecture that this kernel was compiled for");
    }
}

/// Reads 8x8 matrices of 16-bit elements from shared memory, one for each 32-bit register of `fragment`: 1, 2 or 4.
/// Each row of a matrix is 16 bytes at an address of its own, a multiple of 16: lanes 0 to 7 pass the rows of the first
/// matrix, lanes 8 to 15 those of the second, and so on. What lanes beyond the last matrix pass is not read, but must
/// be a row inside the tile. All 32 lanes of the warp must take part.
///
/// Lane l gets elements 2(l % 4) and 2(l % 4) + 1 of row l / 4: the layout of mma's operands. See fragments.h for the
/// row that each lane passes to fill one of those. Needs Feature::ldmatrix.
///
///     simt::ldmatrix(a, Q_i.vec<Wide>(row + lane % 16, column + lane / 16 * 8));
///
/// ldmatrix orders nothing: if another lane wrote the row, a barrier must lie between. It takes one pass over shared
/// memory for each matrix whose eight rows lie in different banks; rows at a pitch that is a multiple of 128 bytes all
/// lie in the same four, and take eight.
template <class Fragment, class V>
__device__ __forceinline__ void ldmatrix(Fragment& fragment, const V& row) {
    load_matrices<false>(fragment, row);
}

/// The same with each matrix transposed: lane l gets elements 2(l % 4) and 2(l % 4) + 1 of column l / 4.
template <class Fragment, class V>
__device__ __forceinline__ void ldmatrix_trans(Fragment& fragment, const V& row) {
    load_matrices<true>(fragment, row);
}

/// D = A B + C on the tensor cores, with A [16, 16] and B [16, 8] of T = f16 or bf16, C and D [16, 8] of float; `d` and
/// `c` may be the same. All 32 lanes of the warp must take part. Layout: fragments.h. Needs Feature::mma.
///
/// Products are exact. They are summed in at least single precision, in an order and with a rounding that PTX leaves
/// open (PTX ISA, mma). Whatever they are, each of the 16 additions loses at most 2^-23 of
/// the sum of magnitudes, so
///
///     |d - (c + sum a b)|  <=  16 * 2^-23 * (|c| + sum |a b|).
///
/// Real tensor cores align a block of products and c to the largest exponent and cut off what lies below its last bit
/// (Fasi et al. 2021, doi 10.7717/peerj-cs.330; Khattak and Mikaitis 2025, arXiv 2512.07004). That differs from float
/// additions in the last bits, but keeps the bound.
template <class T>
__device__ __forceinline__ void mma_m16n8k16(FragmentC& d, const FragmentA<T>& a, const FragmentB<T>& b,
                                             const FragmentC& c) {
    static_assert(std::is_same_v<T, __half> || std::is_same_v<T, __nv_bfloat16>, "mma multiplies f16 or bf16");
    if constexpr (!kHasFeature<Feature::mma>)
        refuse("mma.m16n8k16: not in the architecture that this kernel was compiled for");
    else if constexpr (std::is_same_v<T, __half>)
        asm volatile(
            "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
            "{%10, %11, %12, %13};"
            : "=f"(d.element[0]), "=f"(d.element[1]), "=f"(d.element[2]), "=f"(d.element[3])
            : "r"(a.registers[0]), "r"(a.registers[1]), "r"(a.registers[2]), "r"(a.registers[3]), "r"(b.registers[0]),
              "r"(b.registers[1]), "f"(c.element[0]), "f"(c.element[1]), "f"(c.element[2]), "f"(c.element[3]));
    else
        asm volatile(
            "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
            "{%10, %11, %12, %13};"
            : "=f"(d.element[0]), "=f"(d.element[1]), "=f"(d.element[2]), "=f"(d.element[3])
            : "r"(a.registers[0]), "r"(a.registers[1]), "r"(a.registers[2]), "r"(a.registers[3]), "r"(b.registers[0]),
              "r"(b.registers[1]), "f"(c.element[0]), "f"(c.element[1]), "f"(c.element[2]), "f"(c.element[3]));
}

/// D += A B.
template <class T>
__device__ __forceinline__ void mma_m16n8k16(FragmentC& d, const FragmentA<T>& a, const FragmentB<T>& b) {
    mma_m16n8k16(d, a, b, d);
}

/// Two floats, rounded to the nearest T = f16 or bf16, in one register: `low` in the lower half.
template <class T>
__device__ __forceinline__ std::uint32_t pack(float low, float high) {
    std::uint32_t bits;
    if constexpr (std::is_same_v<T, __half>) {
        const __half2 pair = __floats2half2_rn(low, high);
        std::memcpy(&bits, &pair, sizeof(bits));
    } else {
        static_assert(std::is_same_v<T, __nv_bfloat16>, "a register holds two f16 or two bf16");
        const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
        std::memcpy(&bits, &pair, sizeof(bits));
    }
    return bits;
}

}  // namespace cuda
}  // namespace simt
