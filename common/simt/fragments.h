#pragma once

// Registers of the tensor-core instruction mma.m16n8k16, and who holds what. Included after the machine, which brings
// __host__ and __device__.

#include <cstdint>
#include <type_traits>

namespace simt {

// D = A B + C, with A [16, 16], B [16, 8], C and D [16, 8], spread over the 32 lanes of a warp. A lane belongs to group
// g = lane / 4 and is number t = lane % 4 in it. A register of A or B holds two 16-bit elements, neighbours along k,
// the one with the lower k in the lower half. (PTX ISA, "Matrix Fragments for mma.m16n8k16 with floating point type",
// where they are called groupID and threadID_in_group.)
//
// clang-format off
//
//   A        k: 2t, 2t+1   2t+8, 2t+9          B          n: g               C, D      n: 2t      2t+1
//   row g        a[0]        a[2]              k 2t, 2t+1    b[0]            row g        c[0]    c[1]
//   row g+8      a[1]        a[3]              k 2t+8, 2t+9  b[1]            row g+8      c[2]    c[3]
//
//   lanes of C    n  0  1   2  3   4  5   6  7      The left and the right half of A, and B transposed, look the same:
//   row 0, 8        L0 L0  L1 L1  L2 L2  L3 L3      so the scores S = Q K^T that a warp has in C fragments become the
//   row 1, 9        L4 L4  L5 L5  L6 L6  L7 L7      operand A of the product P V without leaving their lanes: to_a().
//   ...
//   row 7, 15       L28 .  .   .   .   .  . L31
//
// clang-format on
//
// ldmatrix fills such registers from rows of 16 bytes in shared memory. Each 8x8 matrix i takes its eight row addresses
// from lanes 8i to 8i+7, and lane l gets elements 2(l % 4) and the next of row l / 4, in register i (PTX ISA,
// ldmatrix). With `lane` the number of the calling lane, a block of 16-bit elements that starts at (row, column) of a
// tile is read as
//
// clang-format off
//
//   A from a row-major tile      ldmatrix(a, tile.vec<Wide>(row + lane % 16, column + lane / 16 * 8))
//   B from B^T, [n, k], as K_j   ldmatrix(b, tile.vec<Wide>(row + lane % 8,  column + lane / 8 % 2 * 8))
//     two of them, n 0..15       ldmatrix(b, tile.vec<Wide>(row + lane % 8 + lane / 16 * 8, column + lane / 8 % 2 * 8))
//   B from B,   [k, n], as V_j   ldmatrix_trans(b, tile.vec<Wide>(row + lane % 16, column))
//     two of them, n 0..15       ldmatrix_trans(b, tile.vec<Wide>(row + lane % 16, column + lane / 16 * 8))
//
// clang-format on

/// A lane's part of A: four registers of two elements.
template <class T>
struct FragmentA {
    std::uint32_t registers[4];

    /// Where element `i` of lane `lane` stands in A: element i is the (i % 2)-th of register i / 2.
    __host__ __device__ static constexpr int row(int lane, int i) { return lane / 4 + i / 2 % 2 * 8; }
    __host__ __device__ static constexpr int column(int lane, int i) { return lane % 4 * 2 + i % 2 + i / 4 * 8; }
};

/// A lane's part of B: two registers of two elements.
template <class T>
struct FragmentB {
    std::uint32_t registers[2];

    /// Where element `i` of lane `lane` stands in B [k, n].
    __host__ __device__ static constexpr int row(int lane, int i) { return lane % 4 * 2 + i % 2 + i / 2 * 8; }
    __host__ __device__ static constexpr int column(int lane, int) { return lane / 4; }
};

/// A lane's part of C or D: two elements of each of two rows.
struct FragmentC {
    float element[4];

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
    static constexpr int matrices = sizeof(F) / 4;
};

}  // namespace simt
