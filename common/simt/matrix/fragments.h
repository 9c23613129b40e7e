#pragma once

// Registers of the tensor-core instruction mma.m16n8k16, and who holds what. Included after the machine, which brings
// __host__ and __device__.

#include <cstdint>
#include <type_traits>

namespace simt {

// D = A B + C, with A [16, 16], B [16, 8], C and D [16, 8], is spread over the 32 lanes of a warp. A lane belongs to
// group g = lane / 4, and is number t = lane % 4 in it. A register of A or B holds two 16-bit elements, neighbours
// along k, the one with the lower k in the lower half. (PTX ISA, "Matrix Fragments for mma.m16n8k16 with floating point
// type", where g is groupID and t is threadID_in_group.)
//
// clang-format off
//
//   A             k 2t, 2t+1    k 2t+8, 2t+9       B              n g       C, D          n 2t    n 2t+1
//   row g            a[0]           a[2]           k 2t, 2t+1     b[0]      row g         c[0]     c[1]
//   row g + 8        a[1]           a[3]           k 2t+8, 2t+9   b[1]      row g + 8     c[2]     c[3]
//
//   who holds C   columns  0, 1   2, 3   4, 5   6, 7
//   rows 0,  8     lanes     0      1      2      3
//   rows 1,  9               4      5      6      7
//   ...
//   rows 7, 15              28     29     30     31
//
// clang-format on
//
// Both halves of A, columns 0 to 7 and 8 to 15, are dealt out like C, and so is each half of B transposed. Hence a warp
// that has the scores S = Q K^T in two fragments of C has them where the product P V wants its operand A: see to_a().
//
// ldmatrix fills A and B from shared memory. An 8x8 matrix has eight rows of 16 bytes, whose addresses eight lanes
// pass: lanes 0 to 7 those of matrix 0, which becomes register 0, lanes 8 to 15 those of matrix 1, and so on. Lane l
// receives elements 2(l % 4) and 2(l % 4) + 1 of row l / 4 of each (PTX ISA, ldmatrix). With Wide = WideVector<T>, and
// `lane` the number of the calling lane, the block of a tile that begins at (row, column) is read by
//
// clang-format off
//
//   A, from [m, k]               ldmatrix(a, tile.vec<Wide>(row + lane % 16, column + lane / 16 * 8))
//   B, from B^T [n, k] (K_j)     ldmatrix(b, tile.vec<Wide>(row + lane % 8, column + lane / 8 % 2 * 8))
//   two of them, n 0 to 15       ldmatrix(b, tile.vec<Wide>(row + lane % 8 + lane / 16 * 8, column + lane / 8 % 2 * 8))
//   B, from B [k, n] (V_j)       ldmatrix_trans(b, tile.vec<Wide>(row + lane % 16, column))
//   two of them, n 0 to 15       ldmatrix_trans(b, tile.vec<Wide>(row + lane % 16, column + lane / 16 * 8))
//
// clang-format on

/// A lane's part of A: four registers of two elements.
template <class T>
struct FragmentA {
    static_assert(sizeof(T) == 2, "mma.m16n8k16 multiplies f16 or bf16");
    std::uint32_t registers[4];  ///< the lower half of each is the element of the lower column

    /// Where element `i` of lane `lane` stands in A: element i is the (i % 2)-th of register i / 2.
    __host__ __device__ static constexpr int row(int lane, int i) { return lane / 4 + i / 2 % 2 * 8; }
    __host__ __device__ static constexpr int column(int lane, int i) { return lane % 4 * 2 + i % 2 + i / 4 * 8; }
};

/// A lane's part of B: two registers of two elements.
template <class T>
struct FragmentB {
    static_assert(sizeof(T) == 2, "mma.m16n8k16 multiplies f16 or bf16");
    std::uint32_t registers[2];  ///< the lower half of each is the element of the lower row

    /// Where element `i` of lane `lane` stands in B [k, n].
    __host__ __device__ static constexpr int row(int lane, int i) { return lane % 4 * 2 + i % 2 + i / 2 * 8; }
    __host__ __device__ static constexpr int column(int lane, int) { return lane / 4; }
};

/// A lane's part of C or D: two elements of each of two rows.
struct FragmentC {
    float element[4];  ///< two neighbours of one row, then two of the row eight below

    /// Where element `i` of lane `lane` stands in C.
    __host__ __device__ static constexpr int row(int lane, int i) { return lane / 4 + i / 2 * 8; }
    __host__ __device__ static constexpr int column(int lane, int i) { return lane % 4 * 2 + i % 2; }
};

/// Whether ldmatrix may fill an object of type F: 32-bit registers, a fragment of A or B, or an array of these.
template <class F>
inline constexpr bool kHoldsMatrices = std::is_same_v<std::remove_all_extents_t<F>, std::uint32_t>;
template <class T>
inline constexpr bool kHoldsMatrices<FragmentA<T>> = true;
template <class T>
inline constexpr bool kHoldsMatrices<FragmentB<T>> = true;
template <class T, int N>
inline constexpr bool kHoldsMatrices<FragmentB<T>[N]> = true;

/// An ldmatrix that fills an F from rows which the lanes see as V: one 8x8 matrix for each register of F.
template <class F, class V>
struct LdmatrixOf {
    static_assert(kHoldsMatrices<F>, "ldmatrix fills 32-bit registers, FragmentA, FragmentB, or an array of them");
    static_assert(sizeof(F) == 4 || sizeof(F) == 8 || sizeof(F) == 16, "ldmatrix reads 1, 2 or 4 matrices at once");
    static_assert(sizeof(V) == 16, "a row of a matrix is 16 bytes: pass tile.vec<WideVector<T>>(row, column)");
    /// How many it reads at once: 1, 2 or 4.
    static constexpr int matrices = sizeof(F) / 4;
};

}  // namespace simt
