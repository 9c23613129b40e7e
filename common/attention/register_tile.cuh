#pragma once

#include <type_traits>

#include "common/attention/row_tile.cuh"
#include "common/simt/simt.h"

namespace ladder::SIMT_MACHINE {

/// Tiles for float32 on CUDA cores, as large as registers and shared memory allow.
///
/// A multiply-add takes two numbers from shared memory unless registers hold them. With R rows and C columns a thread,
/// R + C numbers serve R C multiply-adds: 8 + 8 serve 64, where 4 + 4 (row_tile.cuh's usual size) serve 16. Below that,
/// shared memory sets the pace, not the multipliers.
///
/// For D > 64 the 64 floats of O_i a thread take twice the threads, and 64 scores a thread twice the keys. All of P_ij
/// would then find no room in shared memory; it goes there in parts of 32 keys.
template <int D>
struct RegisterTiles {
    static constexpr bool narrow = D <= 64;                ///< which of the two shapes it is
    static constexpr int B_r = 128;                        ///< queries
    static constexpr int B_c = narrow ? 64 : 128;          ///< keys
    static constexpr int threads = narrow ? 128 : 256;     ///< of a block
    static constexpr int lanes_per_row = narrow ? 8 : 16;  ///< so 8 x 8 scores, and at most 8 x 8 of O_i, a thread
    static constexpr int resident = narrow ? 2 : 1;  ///< blocks on a multiprocessor that registers must suffice for
    static constexpr int part = narrow ? B_c : 32;   ///< keys whose probabilities are in shared memory at a time
    static constexpr int parts = B_c / part;         ///< of a tile

    static constexpr int pad = simt::kVectorWidth<float>;  ///< 16 bytes, which move each row four banks on
    static constexpr int row_pitch = D + pad;              ///< of Q_i and K_j, of which lanes read different rows
    static constexpr int score_pitch = part + (narrow ? pad : 16);  ///< of P_ij: its writers meet in no bank
    /// Of a block.
    static constexpr std::size_t shared_bytes =
        simt::shared_bytes<float>(B_r, row_pitch) + simt::shared_bytes<float>(B_c, row_pitch) +
        simt::shared_bytes<float>(B_c, D) + simt::shared_bytes<float>(B_r, score_pitch);
};

/// As RowOwner: eight lanes share a row, four rows lie side by side. But neighbouring lanes share a row, and lanes two
/// apart share a column:
///
///              lane of the row:   0  1  2  3  4  5  6  7
///   rows 0, 4, 8, …       lanes   0  1  4  5 16 17 20 21
///   rows 1, 5, 9, …       lanes   2  3  6  7 18 19 22 23
///   rows 2, 6, 10, …      lanes   8  9 12 13 24 25 28 29
///   rows 3, 7, 11, …      lanes  10 11 14 15 26 27 30 31
///
/// Or sixteen lanes share a row, and two rows lie side by side:
///
///              lane of the row:   0  1  2  3  4  5  6  7  8  …
///   rows 0, 2, 4, …       lanes   0  1  4  5  8  9 12 13 16  …
///   rows 1, 3, 5, …       lanes   2  3  6  7 10 11 14 15 18  …
///
/// Where lanes in pairs read the same 16 bytes, shared memory serves 16 lanes at a time instead of 8. Here that holds
/// for rows of Q_i and P_ij (pairs of neighbours) and for rows of K_j and V_j (lanes two apart).
template <int B_r, int Threads, int Lanes = 8>
struct PairedRowOwner {
    static_assert(Lanes == 8 || Lanes == 16);
    static constexpr int lanes_per_row = Lanes;                 ///< neighbours along a row
    static constexpr int row_step = 32 / Lanes;                 ///< from one row of a thread to the next
    static constexpr int rows_per_warp = B_r / (Threads / 32);  ///< neighbours
    static constexpr int rows = rows_per_warp / row_step;       ///< rows per thread
    static_assert(rows >= 1 && rows * row_step * (Threads / 32) == B_r, "B_r must fill every warp's lanes");

    int first_row;  ///< of this thread
    int lane;       ///< its place among those of its rows

    __device__ PairedRowOwner() {
        const int l = int(threadIdx.x) % 32;
        first_row = int(threadIdx.x) / 32 * rows_per_warp + (l >> 1 & 1);
        if constexpr (Lanes == 8) {
            first_row += 2 * (l >> 3 & 1);
            lane = (l & 1) + 2 * (l >> 2 & 1) + 4 * (l >> 4);
        } else {
            lane = (l & 1) + 2 * (l >> 2);
        }
    }
    /// The i-th of this thread's rows of the tile.
    __device__ int row(int i) const { return first_row + row_step * i; }

    /// Over the lanes that share a row. All of them get the result.
    __device__ static float row_max(float x) {
        x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
        if constexpr (Lanes == 16) x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 8));
        x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 4));
        return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 16));
    }
    __device__ static float row_sum(float x) {
        x += __shfl_xor_sync(0xffffffffu, x, 1);
        if constexpr (Lanes == 16) x += __shfl_xor_sync(0xffffffffu, x, 8);
        x += __shfl_xor_sync(0xffffffffu, x, 4);
        return x + __shfl_xor_sync(0xffffffffu, x, 16);
    }
};

/// P(row i, :) = part `part` of the tile's probabilities, of which this thread holds P_of_thread.
template <class Owner, int Columns, int B_r, int Part, int Pitch>
__device__ __forceinline__ void store_part(const simt::SharedTile<float, B_r, Part, Pitch>& P, const Owner& owner,
                                           const float (&P_of_thread)[Owner::rows][Columns], int part) {
    constexpr int lanes = Owner::lanes_per_row, columns = Part / lanes;
#pragma unroll
    for (int i = 0; i < Owner::rows; ++i)
#pragma unroll
        for (int j = 0; j < columns; ++j) P(owner.row(i), owner.lane + lanes * j) = P_of_thread[i][part * columns + j];
}

/// scale = sign * magnitude with a magnitude above 0. The sign goes into Q_i, where it costs no rounding, so that the
/// largest score is also the largest before the magnitude is multiplied into it; and so that no score, not even -inf,
/// meets a factor of 0.
struct SignedScale {
    float sign;       ///< -1, 0 or 1
    float magnitude;  ///< above 0

    /// Parts `scale`.
    __device__ explicit SignedScale(float scale)
        : sign(scale > 0.0f   ? 1.0f
               : scale < 0.0f ? -1.0f
                              : 0.0f),
          magnitude(scale == 0.0f ? 1.0f : fabsf(scale)) {}
};

/// Q_i = sign Q, through registers, all `Threads` threads of the block together. 16 bytes at a time where rows are
/// `wide`, and eight times that under way: a block has nothing else to do before its first tile is there.
///
/// Why not all of the scale? Each product would round it anew. Where scores are near 1000, as many of them are in one
/// test, a row's weights would be off by 1e-4.
template <int Threads, int Rows, int Columns, int Pitch>
__device__ __forceinline__ void load_signed(const simt::SharedTile<float, Rows, Columns, Pitch>& Q_i,
                                            const simt::GlobalTensor<const float, 2>& Q, int first_row, float sign,
                                            bool wide) {
    const int length = int(Q.extent(0)), head_dim = int(Q.extent(1));
    const auto load = [&]<class Piece>(std::type_identity<Piece>) {
        constexpr int width = sizeof(Piece) / sizeof(float), per_row = Columns / width,
                      rows_at_once = Threads / per_row;
        static_assert(rows_at_once * per_row == Threads && Rows % rows_at_once == 0);
        const int r = threadIdx.x / per_row, c = threadIdx.x % per_row * width;
#pragma unroll 8
        for (int i = r; i < Rows; i += rows_at_once) {
            Piece q{};
            if (first_row + i < length && c < head_dim) q = Q.template vec<Piece>(first_row + i, c);
#pragma unroll
            for (int e = 0; e < width; ++e) q.element[e] *= sign;
            Q_i.template vec<Piece>(i, c) = q;
        }
    };
    if (wide)
        load(std::type_identity<simt::WideVector<float>>());
    else
        load(std::type_identity<simt::Vector<float, 1>>());
}

/// What a lane's old sums are worth when the row's maximum, an exponent of 2, rises from m_old to m_new. Equality is
/// asked first, so that inf - inf is never computed. (A lane's part of l_i may be 0 where another's is infinite, so a
/// factor of infinity, which would do no harm to the whole sum, must not arise.)
__device__ __forceinline__ float rescale_factor(float m_old, float m_new) {
    return m_old == m_new ? 1.0f : simt::fast_exp2(m_old - m_new);
}

/// O(row, :) = factor O_i of the thread's columns of that row, 16 bytes at a time where rows are `wide`.
template <int D, int Lanes = 8>
__device__ __forceinline__ void store_row(const simt::GlobalTensor<float, 2>& O, int row, const float (&O_i)[D / Lanes],
                                          int lane, float factor, bool wide) {
    constexpr int width = kRowVector<float, D, Lanes>;
    const int head_dim = int(O.extent(1));
#pragma unroll
    for (int n = 0; n < D / Lanes / width; ++n) {
        const int column = output_column<float, D, Lanes>(lane, n);
        simt::Vector<float, width> o;
#pragma unroll
        for (int e = 0; e < width; ++e) o.element[e] = O_i[n * width + e] * factor;
        if (wide) {
            if (column < head_dim) O.template vec<simt::Vector<float, width>>(row, column) = o;
        } else {
#pragma unroll
            for (int e = 0; e < width; ++e)
                if (column + e < head_dim) O(row, column + e) = o.element[e];
        }
    }
}

}  // namespace ladder::SIMT_MACHINE
