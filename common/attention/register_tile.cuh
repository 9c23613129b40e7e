#pragma once

#include <cstdint>
#include <type_traits>

#include "common/attention/copy_tile.cuh"
#include "common/attention/online_softmax.cuh"
#include "common/attention/watch.cuh"
#include "common/simt/simt.h"

namespace ladder::SIMT_MACHINE {

/// Tiles for float32 on CUDA cores, as large as registers allow.
///
/// Both products of attention are sums of outer products, a column times a row:
///
///     S_ij = sum over columns d of Q_i(:, d) K_j(:, d)^T       O_i = sum over keys k of P_ij(:, k) V_j(k, :)
///
/// A thread holds R rows by C columns of such a sum in registers. For each outer product it reads R + C numbers from
/// shared memory, and R C multiply-adds use them: 8 + 8 serve 64, where row_tile.cuh's usual 4 + 4 serve 16. Below
/// that, shared memory sets the pace, not the multipliers.
///
/// Q_i, K_j and P_ij lie transposed in shared memory, so that the 16 bytes which a lane reads at once are numbers of
/// one outer product.
///
/// A thread has eight rows. Eight lanes share one, or sixteen where a row of O_i is too long for that. Tiles of 64
/// queries are for problems with too few tiles of 128 for all multiprocessors, and for some short masked ones
/// (with_register_tiles).
template <int Queries, int D>
struct RegisterTiles {
    static constexpr int B_r = Queries;                                    ///< queries: 128 or 64
    static constexpr int head_dim = D;                                     ///< that it is compiled for
    static constexpr int lanes_per_row = B_r == 128 && D <= 96 ? 8 : 16;   ///< so O_i takes at most 8 x 16 floats
    static constexpr int B_c = lanes_per_row == 8 || D == 256 ? 64 : 128;  ///< keys
    static constexpr int threads = B_r * lanes_per_row / 8;                ///< of a block: 128 or 256
    static constexpr int resident =
        threads == 128 ? 2 : 1;  ///< blocks on a multiprocessor that registers must suffice for

    static constexpr int pad = simt::kVectorWidth<float>;  ///< a copy that transposes writes to 32 banks
    static constexpr int query_pitch = B_r + pad;          ///< of Q_i and P_ij, transposed
    static constexpr int key_pitch = B_c + pad;            ///< of K_j, transposed

    /// K_j and V_j come in slices (slice_ring.cuh): 32 columns of K_j, and as many keys of V_j as take no more room, a
    /// power of two.
    static constexpr int columns_per_slice = 32;
    static constexpr int slice_floats = columns_per_slice * key_pitch;  ///< of one
    /// Of V_j.
    static constexpr int keys_per_slice = D == 32 ? 64 : D == 96 && lanes_per_row == 8 ? 16 : D == 256 ? 8 : 32;
    static constexpr int slots = resident == 1 ? 4 : 2;                   ///< for slices
    static constexpr int barriers = slots == 4 ? 2 : 0;                   ///< in shared memory
    static constexpr int slices_of_keys = D / columns_per_slice;          ///< of K_j
    static constexpr int slices = slices_of_keys + B_c / keys_per_slice;  ///< of K_j and V_j together
    static_assert(keys_per_slice * D <= slice_floats && keys_per_slice <= B_c && D % columns_per_slice == 0);

    /// Of a block: Q_i, P_ij, the slots and the barriers.
    static constexpr std::size_t shared_bytes =
        simt::shared_bytes<float>(D, query_pitch) + simt::shared_bytes<float>(B_c, query_pitch) +
        simt::shared_bytes<float>(slots, slice_floats) + barriers * sizeof(std::uint64_t);
};

/// Of N numbers side by side: four, or two where fours do not make up N.
template <int N>
inline constexpr int kReadAtOnce = N % 4 == 0 ? 4 : 2;

/// Which rows and columns of a block's tile a thread holds. Each warp owns B_r / warps rows for good. `Lanes` lanes
/// share a row, and neighbouring groups of four rows lie side by side, as do groups of four columns:
///
///     8 lanes to a row            lane of the row:   0  1  2  3  4  5  6  7
///       rows  0 …  3, 16 … 19     lanes              0  1  8  9 16 17 24 25
///       rows  4 …  7, 20 … 23     lanes              2  3 10 11 18 19 26 27
///       rows  8 … 11, 24 … 27     lanes              4  5 12 13 20 21 28 29
///       rows 12 … 15, 28 … 31     lanes              6  7 14 15 22 23 30 31
///
///     16 lanes to a row           lane of the row:   0  1  2  3  4  5  6  7  8  …
///       rows  0 …  3,  8 … 11     lanes              0  1  4  5  8  9 12 13 16  …
///       rows  4 …  7, 12 … 15     lanes              2  3  6  7 10 11 14 15 18  …
///
/// Where lanes in pairs read the same 16 bytes, shared memory serves 16 lanes at a time instead of 8. Here neighbours
/// share rows, and lanes two apart share columns.
template <int B_r, int Threads, int Lanes>
struct TileOwner {
    static_assert(Lanes == 8 || Lanes == 16);
    static constexpr int lanes_per_row = Lanes;                 ///< neighbours along a row
    static constexpr int rows_per_warp = B_r / (Threads / 32);  ///< neighbours
    static constexpr int rows = rows_per_warp * Lanes / 32;     ///< rows per thread
    static_assert(rows % 4 == 0 && rows * (32 / Lanes) * (Threads / 32) == B_r, "B_r must fill every warp's lanes");

    int first_row;  ///< of this thread
    int lane;       ///< its place among those of its rows

    __device__ TileOwner() {
        const int l = int(threadIdx.x) % 32;
        first_row = first_row_of_warp();
        if constexpr (Lanes == 8) {
            first_row += 4 * (l >> 1 & 3);
            lane = (l & 1) + 2 * (l >> 3);
        } else {
            first_row += 4 * (l >> 1 & 1);
            lane = (l & 1) + 2 * (l >> 2);
        }
    }
    /// Of the rows that its warp owns.
    __device__ int first_row_of_warp() const { return int(threadIdx.x) / 32 * rows_per_warp; }
    /// The i-th of this thread's rows of the tile: they rise with i.
    __device__ int row(int i) const { return first_row + i / 4 * 4 * (32 / Lanes) + i % 4; }
    /// The j-th of this thread's `Columns` columns, in groups that it reads at once.
    template <int Columns>
    __device__ int column(int j) const {
        constexpr int group = kReadAtOnce<Columns>;
        return (j / group * Lanes + lane) * group + j % group;
    }

    /// Over the lanes that share a row. All of them get the result.
    __device__ static float row_max(float x) {
        x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
        if constexpr (Lanes == 16) x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 4));
        x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 8));
        return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 16));
    }
    __device__ static float row_sum(float x) {
        x += __shfl_xor_sync(0xffffffffu, x, 1);
        if constexpr (Lanes == 16) x += __shfl_xor_sync(0xffffffffu, x, 4);
        x += __shfl_xor_sync(0xffffffffu, x, 8);
        return x + __shfl_xor_sync(0xffffffffu, x, 16);
    }
};

/// A matrix whose rows, Pitch floats apart, lie in row `slot` of a tile.
template <int Pitch, class Slots>
struct Slice {
    const Slots& slots;  ///< one in a row
    int slot;            ///< which one

    /// Elements of the matrix from (row, column) on, as SharedTile::vec() has them of a tile.
    template <class V>
    __device__ __forceinline__ decltype(auto) vec(int row, int column) const {
        return slots.template vec<V>(slot, row * Pitch + column);
    }
};

/// What row `slot` of `slots` holds, with rows Pitch floats apart.
template <int Pitch, class Slots>
__device__ __forceinline__ Slice<Pitch, Slots> slice(const Slots& slots, int slot) {
    return {slots, slot};
}

/// The numbers that a thread needs of row k of `tile` for one outer product: N of them, at column(0), column(1), …
template <int N, class Tile, class Column>
__device__ __forceinline__ void read_factor(float (&factor)[N], const Tile& tile, int k, const Column& column) {
    constexpr int width = kReadAtOnce<N>;
#pragma unroll
    for (int n = 0; n < N; n += width) {
        const simt::Vector<float, width> numbers = tile.template vec<simt::Vector<float, width>>(k, column(n));
#pragma unroll
        for (int e = 0; e < width; ++e) factor[n + e] = numbers.element[e];
    }
}

/// One outer product's factors, of row k of A^T and row l of B.
template <class Owner, int Columns, class A, class B>
__device__ __forceinline__ void read_factors(float (&of_rows)[Owner::rows], float (&of_columns)[Columns],
                                             const Owner& owner, const A& A_transposed, int k, const B& b, int l) {
    read_factor(of_rows, A_transposed, k, [&](int i) { return owner.row(i); });
    read_factor(of_columns, b, l, [&](int j) { return owner.template column<Columns>(j); });
}

/// sum[i][j] += of_rows[i] of_columns[j].
///
/// A multiply-add takes three numbers, and the registers' two banks deliver one each in a clock: of neighbours, one
/// factor must stay. So the rows are walked to and fro, and at each turn the other factor stays.
template <int Rows, int Columns>
__device__ __forceinline__ void add_outer_product(float (&sum)[Rows][Columns], const float (&of_rows)[Rows],
                                                  const float (&of_columns)[Columns]) {
#pragma unroll
    for (int j = 0; j < Columns; ++j)
#pragma unroll
        for (int n = 0; n < Rows; ++n) {
            const int i = j % 2 == 0 ? n : Rows - 1 - n;
            sum[i][j] += of_rows[i] * of_columns[j];
        }
}

/// sum[i][j] += A(row i, first + k) B(k, column j) for all k < count. `Unroll` of them are written out, so that the
/// compiler can read ahead.
template <int Unroll, class Owner, int Columns, class A, class B>
__device__ __forceinline__ void add_outer_products(float (&sum)[Owner::rows][Columns], const Owner& owner,
                                                   const A& A_transposed, int first, const B& b, int count) {
#pragma unroll Unroll
    for (int k = 0; k < count; ++k) {
        float of_rows[Owner::rows], of_columns[Columns];
        read_factors(of_rows, of_columns, owner, A_transposed, first + k, b, k);
        add_outer_product(sum, of_rows, of_columns);
    }
}

/// P(key, row) = P_of_thread, the thread's part of P_ij: transposed, as the second product reads it.
template <class Owner, int Columns, class Tile>
__device__ __forceinline__ void store_transposed(const Tile& P, const Owner& owner,
                                                 const float (&P_of_thread)[Owner::rows][Columns]) {
    using Vector = simt::Vector<float, 4>;
#pragma unroll
    for (int j = 0; j < Columns; ++j)
#pragma unroll
        for (int i = 0; i < Owner::rows; i += 4) {
            Vector p;
#pragma unroll
            for (int e = 0; e < 4; ++e) p.element[e] = P_of_thread[i + e][j];
            P.template vec<Vector>(owner.template column<Columns>(j), owner.row(i)) = p;
        }
}

/// Begins to copy tile(d, r) = matrix(first_row + r, first_column + d), for Rows rows and Columns columns: element by
/// element, for no asynchronous copy transposes more. Zero beyond the matrix. Eight neighbouring threads take 32 bytes
/// of a row, and four such rows at once go to 32 banks.
template <int Threads, int Rows, int Columns, class Tile>
__device__ __forceinline__ void copy_transposed_async(const Tile& tile,
                                                      const simt::GlobalTensor<const float, 2>& matrix, int first_row,
                                                      int first_column) {
    using Element = simt::Vector<float, 1>;
    constexpr int neighbours = 8, rows_at_once = Threads / neighbours;
    static_assert(Rows % rows_at_once == 0 && Columns % neighbours == 0);
    const int d = threadIdx.x % neighbours, r = threadIdx.x / neighbours;
    // As wide as an address: a row's columns are then offsets in instructions.
    const std::int64_t row = first_row + r, column = first_column + d;
    if (first_row + Rows <= int(matrix.extent(0)) && first_column + Columns <= int(matrix.extent(1))) {
        const auto from = matrix.rows_from(row);
        // More than 64 columns in a loop over parts of 32. Where all columns are constants, the compiler works out an
        // address for each copy, seven instructions in all; from a part that it does not know, copies lie at constant
        // distances and take two or three. Up to 32 are written out: each instruction is fetched once for a block.
        constexpr int at_once = Columns < 32 ? Columns : 32;
        static_assert(Columns % at_once == 0);
#pragma unroll 2
        for (int part = 0; part < Columns; part += at_once)
#pragma unroll 4
            for (int i = 0; i < Rows; i += rows_at_once)
#pragma unroll
                for (int c = 0; c < at_once; c += neighbours)
                    simt::copy_async(tile.template vec<Element>(part + d + c, r + i),
                                     from.template vec<Element>(i, column + part + c));
    } else {
#pragma unroll 1
        for (int i = 0; i < Rows; i += rows_at_once)
#pragma unroll 4
            for (int c = 0; c < Columns; c += neighbours)
                simt::copy_async_or_zero(tile.template vec<Element>(d + c, r + i), matrix, row + i, column + c);
    }
}

/// Multiplies what the calling thread has copied by copy_transposed_async, and waited for, with `factor`.
template <int Threads, int Rows, int Columns, class Tile>
__device__ __forceinline__ void multiply_own_copies(const Tile& tile, float factor) {
    for (int r = threadIdx.x / 8; r < Rows; r += Threads / 8)
        for (int d = threadIdx.x % 8; d < Columns; d += 8) tile(d, r) = factor * float(tile(d, r));
}

/// One tile's step of online softmax: S_ij becomes P_ij, weights under the maximum of all scores so far, and the
/// thread's rows of m_i, l_i and O_i follow. A key that a query does not see has a score of -inf.
///
/// m_i is an exponent of 2. l_i sums this lane's columns only: the lanes of a row are added up once, at the end.
template <class Owner, int Columns, int OutputColumns>
__device__ __forceinline__ void softmax_step(float (&S_ij)[Owner::rows][Columns], float (&m_i)[Owner::rows],
                                             float (&l_i)[Owner::rows], float (&O_i)[Owner::rows][OutputColumns],
                                             const Owner& owner, const SignedScale& scale, int first_query,
                                             int first_key) {
#pragma unroll
    for (int i = 0; i < Owner::rows; ++i) {
        float m_tile = -INFINITY;
#pragma unroll
        for (int j = 0; j < Columns; ++j) m_tile = fmaxf(m_tile, S_ij[i][j]);
        const float m_new = fmaxf(m_i[i], Owner::row_max(m_tile) * scale.exponent);
        const float subtracted = safe_maximum(m_new), rescale = simt::fast_exp2(merge_exponent(m_i[i], m_new));

        float l_tile = 0.0f;
#pragma unroll
        for (int j = 0; j < Columns; ++j) {
            watch_score(first_query + owner.row(i), first_key + owner.template column<Columns>(j),
                        S_ij[i][j] * scale.magnitude);
            S_ij[i][j] = simt::fast_exp2(fmaf(S_ij[i][j], scale.exponent, -subtracted));
            l_tile += S_ij[i][j];
        }
        m_i[i] = m_new;
        l_i[i] = rescale * l_i[i] + l_tile;
        watch_state(first_query + owner.row(i), m_i[i], l_i[i], owner.lane);
        watch_rescale(first_query + owner.row(i), rescale, owner.lane);
#pragma unroll
        for (int c = 0; c < OutputColumns; ++c) O_i[i][c] *= rescale;
    }
}

/// O(row, :) = factor O_i of the thread's columns of that row, Width of them at a time.
template <int Width, class Owner, int Columns>
__device__ __forceinline__ void store_row(const simt::GlobalTensor<float, 2>& O, int row, const float (&O_i)[Columns],
                                          const Owner& owner, float factor) {
    using Vector = simt::Vector<float, Width>;
#pragma unroll
    for (int n = 0; n < Columns; n += Width) {
        const int column = owner.template column<Columns>(n);
        Vector o;
#pragma unroll
        for (int e = 0; e < Width; ++e) o.element[e] = O_i[n + e] * factor;
        if (column < int(O.extent(1))) O.template vec<Vector>(row, column) = o;
    }
}

/// Stores the thread's rows: O_i / l_i, and LSE_i = ln 2 (m_i + log2 l_i). Row 0 of the tile is row `first_query` of O.
/// `vectorized`: as copy_tile has it, of the rows of O; several columns are then stored at a time.
/// `sees_any(row)`: whether that row of the tile sees a key; where it does not, O is 0.
template <class Owner, int Columns, class SeesAny>
__device__ __forceinline__ void store_results(const simt::GlobalTensor<float, 2>& O,
                                              const simt::GlobalTensor<float, 1>& LSE,
                                              const float (&O_i)[Owner::rows][Columns], const float (&m_i)[Owner::rows],
                                              const float (&l_i)[Owner::rows], const Owner& owner, int first_query,
                                              bool vectorized, const SeesAny& sees_any) {
    // First for all rows what each of them waits for: side by side, their waits overlap. __fdividef() is 0 from 2^126
    // on, but l_i is 0, not finite, or at most the number of keys.
    float factor[Owner::rows], lse[Owner::rows];
#pragma unroll
    for (int i = 0; i < Owner::rows; ++i) {
        const float l = Owner::row_sum(l_i[i]);  // by all lanes, before those of rows that do not exist leave
        // Where a row sees keys and every score is -inf, this becomes 0 * (1 / 0): NaN, as softmax has it.
        factor[i] = sees_any(owner.row(i)) ? __fdividef(1.0f, l) : 0.0f;
        lse[i] = kLn2 * (m_i[i] + log2f(l));  // from powers of 2 back to powers of e
    }
    const auto store = [&]<int width>(std::integral_constant<int, width>) {
#pragma unroll
        for (int i = 0; i < Owner::rows; ++i) {
            const int query = first_query + owner.row(i);
            if (query >= int(O.extent(0))) continue;
            store_row<width>(O, query, O_i[i], owner, factor[i]);
            if (owner.lane == 0) LSE(query) = lse[i];
        }
    };
    if (vectorized)
        store(std::integral_constant<int, kReadAtOnce<Columns>>());
    else
        store(std::integral_constant<int, 1>());
}

}  // namespace ladder::SIMT_MACHINE
