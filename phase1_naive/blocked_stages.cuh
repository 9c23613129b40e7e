#pragma once

#include "common/attention/online_softmax.cuh"
#include "common/attention/row_tile.cuh"
#include "common/attention/warp_reduce.cuh"
#include "common/attention/watch.cuh"
#include "common/simt/simt.h"

namespace ladder::SIMT_MACHINE {

// The stages that schemes A and B share. All sizes are known only at launch, hence SharedMatrix and not SharedTile.

inline constexpr int kPatch = 4;                ///< rows and columns of a result that a thread works on at once
inline constexpr int kMaxBlockedThreads = 512;  ///< of a block: twice as many would get 64 registers each, too few
inline constexpr int kKeysInTurn = 32;          ///< keys that are added up before their sum joins those before

/// A result of rows x columns, cut into patches of 4 x 4 elements, one a thread at a time. The rows of a patch lie
/// `down` apart and its columns `across` apart, so that neighbouring threads own neighbouring columns.
struct Patches {
    int rows, columns;  ///< of the result

    /// Patches along a column, along a row, and in all.
    __host__ __device__ int down() const { return (rows + kPatch - 1) / kPatch; }
    __host__ __device__ int across() const { return (columns + kPatch - 1) / kPatch; }
    __host__ __device__ int count() const { return down() * across(); }
};

/// The 4 x 4 elements of a result that one thread works on.
struct Patch {
    int first_row, first_column, down, across;  ///< its first element, and how far its rows and columns lie apart

    /// Patch `number` of those `of` a result, row by row.
    __device__ Patch(const Patches& of, int number)
        : first_row(number / of.across()), first_column(number % of.across()), down(of.down()), across(of.across()) {}

    /// Beyond the edge of the result where 4 does not divide it.
    __device__ int row(int i) const { return first_row + i * down; }
    __device__ int column(int j) const { return first_column + j * across; }
};

/// Where to read when `index` may lie beyond the edge: any element will do, since its result is not stored.
__device__ inline int inside(int index, int extent) { return index < extent ? index : extent - 1; }

/// Threads of a block: one for each patch of O_i [B_r, D], so that all of O_i is in registers at once, up to 512
/// threads. That is B_r = 64 at D = 128.
inline int blocked_threads(int block_rows, int head_dim) {
    const int whole_warps = (Patches{block_rows, head_dim}.count() + 31) / 32 * 32;
    constexpr int least = 128;
    return whole_warps < least ? least : whole_warps > kMaxBlockedThreads ? kMaxBlockedThreads : whole_warps;
}

/// to(0 … rows - 1, :) = from(first_row …, :), all threads together. `vectorized`: as in copy_tile.
template <class T>
__device__ void copy_rows(const simt::SharedMatrix<T>& to, const simt::GlobalTensor<const T, 2>& from, int first_row,
                          int rows, bool vectorized) {
    const int columns = to.columns();
    if (vectorized) {
        using Wide = simt::WideVector<T>;
        const int per_row = columns / simt::kVectorWidth<T>;
        for (int i = threadIdx.x; i < rows * per_row; i += blockDim.x) {
            const int r = i / per_row, c = i % per_row * simt::kVectorWidth<T>;
            const Wide elements = from.template vec<Wide>(first_row + r, c);
            to.template vec<Wide>(r, c) = elements;
        }
    } else {
        for (int i = threadIdx.x; i < rows * columns; i += blockDim.x) {
            const T element = from(first_row + i / columns, i % columns);
            to(i / columns, i % columns) = element;
        }
    }
}

/// How far the row of a key is turned in shared memory: its column d lies at (d + turn) mod D.
///
/// Neighbouring lanes read neighbouring keys, all at the same column d. Rows lie D elements apart, so for D = 64 or 128
/// the lanes would all meet in one bank. Each row is therefore turned by four bytes, a bank, more than the row before.
/// Padding the rows would cure that too, but here every byte of padding costs keys. The keys of a patch are turned
/// alike, so that one counter finds a column in all four. Rows of an odd number of banks stay as they are: 32 of them
/// already begin in 32 different banks. So do rows that end in the middle of a bank.
template <class T>
__device__ int turn(const simt::SharedMatrix<T>& K, int key) {
    constexpr int elements_per_bank = 4 / int(sizeof(T));
    if (K.columns() % (2 * elements_per_bank) != 0) return 0;
    return key % Patches{kPatch, K.rows()}.across() * elements_per_bank % K.columns();
}

/// K in shared memory, with its rows turned, all threads together, `Width` elements of `from` at once.
template <int Width, class T>
__device__ void copy_turned_by(const simt::SharedMatrix<T>& K, const simt::GlobalTensor<const T, 2>& from) {
    using Piece = simt::Vector<T, Width>;
    const int columns = K.columns(), per_row = columns / Width;
    for (int i = threadIdx.x; i < K.rows() * per_row; i += blockDim.x) {
        const int key = i / per_row, column = i % per_row * Width;
        const Piece piece = from.template vec<Piece>(key, column);
        int at = (column + turn(K, key)) % columns;
#pragma unroll
        for (int e = 0; e < Width; ++e) {
            K(key, at) = piece.element[e];
            at = at + 1 == columns ? 0 : at + 1;
        }
    }
}

/// The same, in pieces of 16 bytes where rows are `vectorized`: see copy_tile.
template <class T>
__device__ void copy_turned(const simt::SharedMatrix<T>& K, const simt::GlobalTensor<const T, 2>& from,
                            bool vectorized) {
    if (vectorized)
        copy_turned_by<simt::kVectorWidth<T>>(K, from);
    else
        copy_turned_by<1>(K, from);
}

/// S_i = scale Q_i K^T, for the first `rows` rows. Dot products over many columns are added up in parts: every addition
/// rounds to a digit of the sum so far, and short sums lose less than one long one.
///
/// Every dot product goes through the columns in the same order. Lanes that start at columns of their own and go round
/// would keep clear of one another's banks without turned rows, but then equal keys would get scores that differ in
/// the last digit of a float, and that can decide to which of two 16-bit numbers a score is rounded.
template <class T>
__device__ void multiply_scores(const simt::SharedMatrix<T>& S_i, const simt::SharedMatrix<T>& Q_i,
                                const simt::SharedMatrix<T>& K, int rows, float scale) {
    const int head_dim = K.columns(), key_length = K.rows();
    const Patches patches{rows, key_length};
    for (int number = threadIdx.x; number < patches.count(); number += blockDim.x) {
        const Patch patch(patches, number);
        int at = turn(K, patch.first_column);  // where column d of the four keys lies
        float s[kPatch][kPatch] = {};
        for (int first = 0; first < head_dim; first += kColumnsInTurn) {
            const int left = head_dim - first, columns = left < kColumnsInTurn ? left : kColumnsInTurn;
            float part[kPatch][kPatch] = {};
            for (int d = first; d < first + columns; ++d) {
                float q[kPatch], k[kPatch];
#pragma unroll
                for (int i = 0; i < kPatch; ++i) q[i] = float(Q_i(inside(patch.row(i), rows), d));
#pragma unroll
                for (int j = 0; j < kPatch; ++j) k[j] = float(K(inside(patch.column(j), key_length), at));
#pragma unroll
                for (int i = 0; i < kPatch; ++i)
#pragma unroll
                    for (int j = 0; j < kPatch; ++j) part[i][j] += q[i] * k[j];
                at = at + 1 == head_dim ? 0 : at + 1;
            }
#pragma unroll
            for (int i = 0; i < kPatch; ++i)
#pragma unroll
                for (int j = 0; j < kPatch; ++j) s[i][j] += part[i][j];
        }
#pragma unroll
        for (int i = 0; i < kPatch; ++i)
#pragma unroll
            for (int j = 0; j < kPatch; ++j)
                if (patch.row(i) < rows && patch.column(j) < key_length)
                    S_i(patch.row(i), patch.column(j)) = T(scale * s[i][j]);
    }
}

/// P_i = exp(S_i - m) in the place of S_i, one warp a row; LSE = m + log l. The division by l waits until O_i.
template <class T>
__device__ void softmax_rows(const simt::SharedMatrix<T>& S_i, const simt::GlobalTensor<float, 1>& LSE, int first_query,
                             int rows) {
    const int lane = int(threadIdx.x) % 32, key_length = S_i.columns();
    for (int row = int(threadIdx.x) / 32; row < rows; row += int(blockDim.x) / 32) {
        float m = -INFINITY;
        for (int key = lane; key < key_length; key += 32) {
            const float score = float(S_i(row, key));
            m = fmaxf(m, score);
            watch_score(first_query + row, key, score);
        }
        m = warp_max(m);
        watch_maximum(first_query + row, m);

        const float m_safe = safe_maximum(m);
        float l = 0.0f;
        for (int key = lane; key < key_length; key += 32) {
            const float p = __expf(float(S_i(row, key)) - m_safe);
            l += p;
            S_i(row, key) = T(p);
        }
        l = warp_sum(l);
        watch_sum(first_query + row, l);
        if (lane == 0) LSE(first_query + row) = m + logf(l);
    }
}

/// A patch of O_i = P_i V, and the sums of its rows of P_i.
///
/// The sums are taken again here, of the probabilities as rounded to T, rather than kept from the softmax: that takes
/// no shared memory, and the weights p / l of a row then add up to 1 whatever the rounding did.
struct OutputPatch {
    float o[kPatch][kPatch] = {};  ///< P_i V, not yet divided
    float l[kPatch] = {};          ///< sums of the rows of P_i

    /// Adds P_i(:, first_key … first_key + keys - 1) V_j(0 … keys - 1, :), in parts of kKeysInTurn keys.
    template <class T>
    __device__ __forceinline__ void add_product(const Patch& patch, const simt::SharedMatrix<T>& P_i,
                                                const simt::SharedMatrix<T>& V_j, int first_key, int keys, int rows) {
        const int head_dim = V_j.columns();
        for (int first = 0; first < keys; first += kKeysInTurn) {
            const int left = keys - first, end = left < kKeysInTurn ? keys : first + kKeysInTurn;
            float o_part[kPatch][kPatch] = {}, l_part[kPatch] = {};
#pragma unroll 2
            for (int key = first; key < end; ++key) {
                float p[kPatch], v[kPatch];
#pragma unroll
                for (int i = 0; i < kPatch; ++i) p[i] = float(P_i(inside(patch.row(i), rows), first_key + key));
#pragma unroll
                for (int j = 0; j < kPatch; ++j) v[j] = float(V_j(key, inside(patch.column(j), head_dim)));
#pragma unroll
                for (int i = 0; i < kPatch; ++i) {
                    l_part[i] += p[i];
#pragma unroll
                    for (int j = 0; j < kPatch; ++j) o_part[i][j] += p[i] * v[j];
                }
            }
#pragma unroll
            for (int i = 0; i < kPatch; ++i) {
                l[i] += l_part[i];
#pragma unroll
                for (int j = 0; j < kPatch; ++j) o[i][j] += o_part[i][j];
            }
        }
    }

    /// Where every score of a row is -inf this is 0 / 0: NaN, as softmax has it.
    template <class T>
    __device__ void store(const Patch& patch, const simt::GlobalTensor<T, 2>& O, int first_query, int rows) const {
#pragma unroll
        for (int i = 0; i < kPatch; ++i)
#pragma unroll
            for (int j = 0; j < kPatch; ++j)
                if (patch.row(i) < rows && patch.column(j) < O.extent(1))
                    O(first_query + patch.row(i), patch.column(j)) = T(o[i][j] / l[i]);
    }
};

}  // namespace ladder::SIMT_MACHINE
