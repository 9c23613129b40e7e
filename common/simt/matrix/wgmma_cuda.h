#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <cstdint>
#include <type_traits>

#include "common/simt/device/architecture_cuda.h"
#include "common/simt/matrix/matrix_descriptor.h"
#include "common/simt/matrix/tensor_core_cuda.h"
#include "common/simt/matrix/warpgroup.h"
#include "common/simt/matrix/wgmma_texts_cuda.h"
#include "common/simt/views/views_cuda.h"

// Products of a warpgroup, 128 threads, on the tensor cores of Hopper: D [64, N] += A [64, K] B [K, N], with K = 16
// elements of 16 bits or 32 of 8 (PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions": wgmma). They need
// Feature::wgmma, which code for sm_90a alone has.
//
// B lies in shared memory, A there or in registers, D in registers. The products go on while the threads do other
// things:
//
//     simt::begin_products(S);                       // what the threads did to these registers is done
//     for (int k = 0; k < D / 16; ++k)
//         simt::multiply(S, simt::k_major(Q_i, 64 * warpgroup, 16 * k), simt::k_major(K_j, 0, 16 * k), k != 0);
//     simt::commit_products();                       // these make a group
//     …                                              // S and the tiles belong to the tensor cores
//     simt::wait_products<0>(S);                     // all groups but the 0 newest are done: S may be read
//
// From multiply() to the wait, nobody may read or write the accumulator or A's registers, nor write the tiles; other
// threads may write the tiles only once a barrier tells them that the wait is over. All threads of the warpgroup call
// all of these, with the same operands.
//
// Tiles that were written by ordinary stores need show_to_async() and a barrier before a product reads them; what TMA
// brought needs only the wait for its barrier.

namespace simt {
inline namespace cuda {

/// What a kernel says on a device that lacks them.
inline constexpr const char* kNoWgmma = "wgmma: not in the architecture that this kernel was compiled for";

/// A thread's part of D [64, N], an accumulator: element i stands in row(thread, i), column(thread, i). i is a constant
/// wherever it is used, in an unrolled loop: registers have no index.
template <int N>
class Accumulator : public AccumulatorLayout {
  public:
    static_assert(N % 8 == 0 && 8 <= N && N <= 256, "wgmma has columns by eights, up to 256");
    static constexpr int size = N / 2;  ///< elements of a thread

    /// Element i.
    __device__ __forceinline__ float& operator[](int i) { return elements[i]; }
    /// Its value.
    __device__ __forceinline__ float operator[](int i) const { return elements[i]; }

    float elements[size];  ///< for the instructions
};

/// A thread's part of A [64, 16] (of 8-bit elements [64, 32]) in registers: four of 32 bits, dealt out as FragmentA is
/// among the lanes of each warp, which has 16 rows.
template <class T>
class OperandA {
  public:
    /// Register r becomes `bits`: two elements of 16 bits, or four of 8.
    __device__ __forceinline__ void set(int r, std::uint32_t bits) { registers[r] = bits; }
    /// Register r.
    __device__ __forceinline__ std::uint32_t operator[](int r) const { return registers[r]; }

    std::uint32_t registers[4];  ///< for the instructions
};

/// Columns [16 k, 16 k + 16) of an accumulator, rounded to T of 16 bits, as the operand A of the next product: every
/// thread has the elements that it needs.
template <class T, int N>
__device__ __forceinline__ OperandA<T> to_operand(const Accumulator<N>& s, int k) {
    static_assert(sizeof(T) == 2, "8-bit operands want four neighbours to a thread: they are not the accumulator's");
    OperandA<T> operand;
#pragma unroll
    for (int r = 0; r < 4; ++r) operand.set(r, pack<T>(s[8 * k + 2 * r], s[8 * k + 2 * r + 1]));
    return operand;
}

/// An operand in shared memory: the 64 bits that tell the tensor cores where it lies (PTX ISA, "Matrix Descriptor
/// Format"), made by k_major() and mn_major(). In 16 bytes: bits 0 to 13 the address, 16 to 29 the distance of panels
/// (of the mn-major kind; else unused), 32 to 45 that of groups of eight rows; bits 62 and 63 the swizzle, 1 for 128
/// bytes, 2 for 64, 3 for 32.
template <class T, Major major>
class MatrixOperand {
  public:
    /// The descriptor, for the instructions.
    __device__ __forceinline__ std::uint64_t bits() const { return bits_; }
    /// Of bits that no tile vouches for.
    __device__ __forceinline__ static MatrixOperand from_bits(std::uint64_t bits) { return MatrixOperand(bits); }

  private:
    __device__ __forceinline__ explicit MatrixOperand(std::uint64_t bits) : bits_(bits) {}
    std::uint64_t bits_;
};

/// The descriptor of the element (row, column) of a panel tile and what follows it.
template <class Tile>
__device__ __forceinline__ std::uint64_t descriptor(const Tile& tile, int row, int column) {
    return descriptor_of<Tile>(shared_address(tile.data()), row, column);
}

/// Rows of a tile from `row` on, a multiple of 8, as an operand whose k runs along them from `column` on, a multiple of
/// 16 bytes' elements: 64 rows as A, N rows as B^T. Q_i and K_j in Q K^T.
template <class Tile>
__device__ __forceinline__ auto k_major(const Tile& tile, int row, int column) {
    return MatrixOperand<typename Tile::Element, Major::k>::from_bits(descriptor(tile, row, column));
}

/// Rows of a tile from `row` on, a multiple of 8, as an operand whose k they are: 16 rows, and 64 columns as A^T or N
/// as B, from `column` on, where a panel begins. V_j in P V. 16-bit elements only.
template <class Tile>
__device__ __forceinline__ auto mn_major(const Tile& tile, int row, int column) {
    static_assert(sizeof(typename Tile::Element) == 2, "8-bit operands are k-major");
    return MatrixOperand<typename Tile::Element, Major::mn>::from_bits(descriptor(tile, row, column));
}

/// How PTX names the products of T.
template <class T>
struct ProductKind;
/// Those of f16.
template <>
struct ProductKind<__half> {
    static constexpr char types[] = "k16.f32.f16.f16";  ///< k, and the types of D, A and B
};
/// Those of bf16.
template <>
struct ProductKind<__nv_bfloat16> {
    static constexpr char types[] = "k16.f32.bf16.bf16";  ///< k, and the types of D, A and B
};
/// Those of e4m3.
template <>
struct ProductKind<__nv_fp8_e4m3> {
    static constexpr char types[] = "k32.f32.e4m3.e4m3";  ///< k, and the types of D, A and B
};
/// Those of e5m2.
template <>
struct ProductKind<__nv_fp8_e5m2> {
    static constexpr char types[] = "k32.f32.e5m2.e5m2";  ///< k, and the types of D, A and B
};

/// The end of the instruction: nothing is negated; A and B as they lie, or transposed (the mn-major ones).
struct NoTransposition {
    static constexpr char text[] = ", 1, 1";  ///< of 8-bit operands, which cannot be transposed
};
/// The same for 16-bit operands in shared memory.
template <Major a, Major b>
struct Transposition {
    /// Scales of A and B, then whether each is transposed.
    static constexpr char text[] = {
        ',', ' ', '1', ',', ' ', '1', ',', ' ', a == Major::mn ? '1' : '0', ',', ' ', b == Major::mn ? '1' : '0', '\0'};
};
/// The same where A comes from registers, as it is.
template <Major b>
struct TranspositionOfB {
    /// Scales of A and B, then whether B is transposed.
    static constexpr char text[] = {',', ' ', '1', ',', ' ', '1', ',', ' ', b == Major::mn ? '1' : '0', '\0'};
};

/// Nothing, that the compiler takes for a change of these registers: what stands before it is not moved behind it.
template <int N>
__device__ __forceinline__ void pin(Accumulator<N>& accumulator) {
#pragma unroll
    for (int i = 0; i < N / 2; ++i) asm volatile("" : "+f"(accumulator.elements[i]) : : "memory");
}
template <class T>
__device__ __forceinline__ void pin(OperandA<T>& operand) {
#pragma unroll
    for (int r = 0; r < 4; ++r) asm volatile("" : "+r"(operand.registers[r]) : : "memory");
}
template <class X, int Count>
__device__ __forceinline__ void pin(X (&several)[Count]) {
#pragma unroll
    for (int i = 0; i < Count; ++i) pin(several[i]);
}

/// Before the first multiply(), and again after the threads have changed a register that a product uses: the
/// accumulators and operands named, or arrays of them, are ready. (PTX ISA, wgmma.fence.)
template <class... Registers>
__device__ __forceinline__ void begin_products(Registers&... registers) {
    (pin(registers), ...);
    if constexpr (kHasFeature<Feature::wgmma>)
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    else
        refuse(kNoWgmma);
}

/// D += A B, or D = A B where not `accumulate`, begun and not done: commit_products() and wait_products() follow. A
/// from shared memory or from registers. Several into one accumulator follow one another without a fence. Products are
/// exact; sums as in mma_m16n8k16(). Those of 8-bit elements keep fewer bits (docs/numerics.md).
template <int N, class T, Major a_major, Major b_major>
__device__ __forceinline__ void multiply(Accumulator<N>& d, MatrixOperand<T, a_major> a, MatrixOperand<T, b_major> b,
                                         bool accumulate) {
    if constexpr (!kHasFeature<Feature::wgmma>)
        refuse(kNoWgmma);
    else if constexpr (sizeof(T) == 1)
        wgmma<ProductKind<T>, NoTransposition>(d.elements, a.bits(), b.bits(), accumulate);
    else
        wgmma<ProductKind<T>, Transposition<a_major, b_major>>(d.elements, a.bits(), b.bits(), accumulate);
}
template <int N, class T, Major b_major>
__device__ __forceinline__ void multiply(Accumulator<N>& d, const OperandA<T>& a, MatrixOperand<T, b_major> b,
                                         bool accumulate) {
    if constexpr (!kHasFeature<Feature::wgmma>)
        refuse(kNoWgmma);
    else if constexpr (sizeof(T) == 1)
        wgmma<ProductKind<T>, NoTransposition>(d.elements, a.registers, b.bits(), accumulate);
    else
        wgmma<ProductKind<T>, TranspositionOfB<b_major>>(d.elements, a.registers, b.bits(), accumulate);
}

/// Closes the group of products begun since the last.
__device__ __forceinline__ void commit_products() {
    if constexpr (kHasFeature<Feature::wgmma>)
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    else
        refuse(kNoWgmma);
}

/// Waits until at most the `allowed` newest groups are under way. Name the accumulators and operands whose products are
/// done then, and which may be touched again.
template <int allowed, class... Registers>
__device__ __forceinline__ void wait_products(Registers&... registers) {
    static_assert(0 <= allowed && allowed <= 7);
    if constexpr (kHasFeature<Feature::wgmma>)
        asm volatile("wgmma.wait_group.sync.aligned %0;" : : "n"(allowed) : "memory");
    else
        refuse(kNoWgmma);
    (pin(registers), ...);
}

}  // namespace cuda
}  // namespace simt
