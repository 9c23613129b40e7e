#pragma once

#include "common/attention/arguments.h"
#include "common/attention/copy_tile.cuh"
#include "common/attention/dispatch.cuh"
#include "common/attention/forward_tensors.cuh"
#include "common/attention/online_softmax.cuh"
#include "common/attention/register_tile.cuh"
#include "common/attention/row_tile.cuh"
#include "common/attention/watch.cuh"
#include "phase2_fa1/fa1_arguments.h"

namespace ladder::SIMT_MACHINE {

inline constexpr int kFa1TiledKeys = 64;  ///< B_c

// clang-format off
/// FlashAttention, Algorithm 1, the next step: the same two loops in the same order, arranged for speed in float32.
///
/// Changed since fa1.cuh. A head still has one block, so more must come of each multiprocessor that has one:
///
///   - 16 warps instead of eight, and a key tile of 64 keys, whatever the device. So a thread's scores stay in registers,
///     4 rows by 8 keys (2 by 8 for D > 64), where fa1.cuh has 2 by 4 at a time: 12 numbers from shared memory serve 32
///     multiply-adds, where 6 served 8. For it O, l and m travel more often; memory has bandwidth to spare where few
///     blocks run;
///   - in the inner loop no warp waits for another. A warp copies its own rows of Q_i, and K_j, V_j are only read: the
///     two barriers of the block move to the outer loop;
///   - a warp's next rows of Q_i are under way (asynchronous copies) while it computes softmax and P_ij V_j;
///   - lanes are numbered so that their reads are shared in pairs (PairedRowOwner);
///   - weights are powers of 2, taken under m_new at once. Line 12 becomes O_i <- (old_sum O_i + P_ij V_j) / l_new with
///     old_sum = e^(m_i - m_new) l_i, so that P_ij V_j is added to O_i where it stands.
///
///   grid    x = Hq heads, y = B sequences
///   block   512 threads = 16 warps; a warp owns 16 rows of each query tile (8 for D > 64), eight lanes to a row; a row
///           belongs to the same lanes in every outer step: what a thread reads back from global memory it wrote itself
///
///   shared  K_j  [64, D]      64 (D + 4) 4      written once per outer step, read by all warps
///           V_j  [64, D]      64  D      4      likewise; no padding: lanes read one row together
///           Q_i  [B_r, D]    B_r (D + 4) 4      rows written and read by their own warp only
///           P_ij [B_r, 64]   B_r (64 + 4) 4     likewise
///           B_r = 256, and 128 for D > 64: 173056 bytes for D = 64, 168960 for D = 128
///
///   global  with T_c = ceil(Sk / 64) outer steps, as fa1.cuh: reads K, V once and Q T_c times; reads and writes O, l, m
///           between steps, T_c - 1 times each; the last step writes O and LSE
// clang-format on

/// Sizes of a block.
template <int D>
struct Fa1RegisterTiles {
    static constexpr int threads = 512;              ///< of a block
    static constexpr int B_r = D <= 64 ? 256 : 128;  ///< queries: at most 32 floats of O_i a thread
    static constexpr int B_c = kFa1TiledKeys;        ///< keys

    static constexpr int pad = simt::kVectorWidth<float>;  ///< 16 bytes, which move each row four banks on
    static constexpr int row_pitch = D + pad;              ///< of Q_i and K_j, of which lanes read different rows
    static constexpr int score_pitch = B_c + pad;          ///< of P_ij, likewise
    /// Shared memory of a block: K_j, V_j, Q_i and P_ij.
    static constexpr std::size_t shared_bytes =
        simt::shared_bytes<float>(B_c, row_pitch) + simt::shared_bytes<float>(B_c, D) +
        simt::shared_bytes<float>(B_r, row_pitch) + simt::shared_bytes<float>(B_r, score_pitch);
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
/// Where lanes in pairs read the same 16 bytes, shared memory serves 16 lanes at a time instead of 8. Here that holds
/// for rows of Q_i and P_ij (pairs of neighbours) and for rows of K_j and V_j (lanes two apart).
template <int B_r, int Threads>
struct PairedRowOwner {
    static constexpr int lanes_per_row = 8;                     ///< neighbours along a row
    static constexpr int row_step = 4;                          ///< from one row of a thread to the next
    static constexpr int rows_per_warp = B_r / (Threads / 32);  ///< neighbours
    static constexpr int rows = rows_per_warp / row_step;       ///< rows per thread
    static_assert(rows >= 1 && rows * row_step * (Threads / 32) == B_r, "B_r must fill every warp's lanes");

    int first_row;  ///< of this thread
    int lane;       ///< its place among those of its rows

    __device__ PairedRowOwner() {
        const int l = int(threadIdx.x) % 32;
        first_row = int(threadIdx.x) / 32 * rows_per_warp + (l >> 1 & 1) + 2 * (l >> 3 & 1);
        lane = (l & 1) + 2 * (l >> 2 & 1) + 4 * (l >> 4);
    }
    /// The i-th of this thread's rows of the tile.
    __device__ int row(int i) const { return first_row + row_step * i; }

    /// Over the lanes that share a row. All of them get the result.
    __device__ static float row_max(float x) {
        x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
        x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 4));
        return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 16));
    }
    __device__ static float row_sum(float x) {
        x += __shfl_xor_sync(0xffffffffu, x, 1);
        x += __shfl_xor_sync(0xffffffffu, x, 4);
        return x + __shfl_xor_sync(0xffffffffu, x, 16);
    }
};

/// K_j = sign K, through registers, all `Threads` threads of the block together. 16 bytes at a time where rows are
/// `vectorized`, and eight times that under way: a block has nothing else to do before its first tile is there.
///
/// Why not all of the scale? Each product would round it anew. Where scores are near 1000, as many of them are in one
/// test, a row's weights would be off by 1e-4.
template <int Threads, int Rows, int Columns, int Pitch>
__device__ __forceinline__ void load_signed(const simt::SharedTile<float, Rows, Columns, Pitch>& K_j,
                                            const simt::GlobalTensor<const float, 2>& K, int first_row, float sign,
                                            bool vectorized) {
    const int length = int(K.extent(0)), head_dim = int(K.extent(1));
    const auto load = [&]<class Piece>(std::type_identity<Piece>) {
        constexpr int width = sizeof(Piece) / sizeof(float), per_row = Columns / width,
                      rows_at_once = Threads / per_row;
        static_assert(rows_at_once * per_row == Threads && Rows % rows_at_once == 0);
        const int r = threadIdx.x / per_row, c = threadIdx.x % per_row * width;
#pragma unroll 8
        for (int i = r; i < Rows; i += rows_at_once) {
            Piece k{};
            if (first_row + i < length && c < head_dim) k = K.template vec<Piece>(first_row + i, c);
#pragma unroll
            for (int e = 0; e < width; ++e) k.element[e] *= sign;
            K_j.template vec<Piece>(i, c) = k;
        }
    };
    if (vectorized)
        load(std::type_identity<simt::WideVector<float>>());
    else
        load(std::type_identity<simt::Vector<float, 1>>());
}

/// Begins to copy the calling warp's rows of Q_i, the query tile that starts at row `first_query` of Q: a group of
/// asynchronous copies. Zero beyond the matrix.
template <class Owner, int B_r, int D, int Pitch>
__device__ __forceinline__ void fetch_own_rows(const simt::SharedTile<float, B_r, D, Pitch>& Q_i,
                                               const simt::GlobalTensor<const float, 2>& Q, int first_query,
                                               bool vectorized) {
    const int first_row = int(threadIdx.x) / 32 * Owner::rows_per_warp, lane = int(threadIdx.x) % 32;
    const auto copy = [&]<class Piece>(std::type_identity<Piece>) {
        constexpr int width = sizeof(Piece) / sizeof(float), per_row = D / width;
#pragma unroll(width > 1 ? 4 : 1)
        for (int i = lane; i < Owner::rows_per_warp * per_row; i += 32) {
            const int r = first_row + i / per_row, c = i % per_row * width;
            simt::copy_async_or_zero(Q_i.template vec<Piece>(r, c), Q, first_query + r, c);
        }
    };
    if (vectorized)
        copy(std::type_identity<simt::WideVector<float>>());
    else
        copy(std::type_identity<simt::Vector<float, 1>>());
    simt::commit_copies();
}

/// O_i = O(row, :), the thread's columns of that row, 16 bytes at a time where rows are `vectorized`: what store_row
/// wrote.
template <int D>
__device__ __forceinline__ void load_row(float (&O_i)[D / 8], const simt::GlobalTensor<float, 2>& O, int row, int lane,
                                         bool vectorized) {
    constexpr int width = kRowVector<float, D>;
    const int head_dim = int(O.extent(1));
#pragma unroll
    for (int n = 0; n < D / 8 / width; ++n) {
        const int column = output_column<float, D>(lane, n);
        simt::Vector<float, width> o{};
        if (vectorized) {
            if (column < head_dim) o = O.template vec<simt::Vector<float, width>>(row, column);
        } else {
#pragma unroll
            for (int e = 0; e < width; ++e)
                if (column + e < head_dim) o.element[e] = O(row, column + e);
        }
#pragma unroll
        for (int e = 0; e < width; ++e) O_i[n * width + e] = o.element[e];
    }
}

/// O(row, :) = factor O_i of the thread's columns of that row, 16 bytes at a time where rows are `vectorized`.
template <int D>
__device__ __forceinline__ void store_row(const simt::GlobalTensor<float, 2>& O, int row, const float (&O_i)[D / 8],
                                          int lane, float factor, bool vectorized) {
    constexpr int width = kRowVector<float, D>;
    const int head_dim = int(O.extent(1));
#pragma unroll
    for (int n = 0; n < D / 8 / width; ++n) {
        const int column = output_column<float, D>(lane, n);
        simt::Vector<float, width> o;
#pragma unroll
        for (int e = 0; e < width; ++e) o.element[e] = O_i[n * width + e] * factor;
        if (vectorized) {
            if (column < head_dim) O.template vec<simt::Vector<float, width>>(row, column) = o;
        } else {
#pragma unroll
            for (int e = 0; e < width; ++e)
                if (column + e < head_dim) O(row, column + e) = o.element[e];
        }
    }
}

template <int D>
__global__ void __launch_bounds__(Fa1RegisterTiles<D>::threads, 1)
    fa1_tiled_kernel(ForwardTensors<float> t, simt::GlobalTensor<float, 3> running_l,
                     simt::GlobalTensor<float, 3> running_m) {
    using Tiles = Fa1RegisterTiles<D>;
    constexpr int B_r = Tiles::B_r, B_c = Tiles::B_c;
    using Owner = PairedRowOwner<B_r, Tiles::threads>;

    const int b = blockIdx.y, h = blockIdx.x;
    const auto Q = t.Q.slice(b, h);
    const auto K = t.K.slice(b, t.kv_head(h));
    const auto V = t.V.slice(b, t.kv_head(h));
    const auto O = t.O.slice(b, h);
    const auto l = running_l.slice(b, h), m = running_m.slice(b, h), LSE = t.LSE.slice(b, h);
    const int query_length = int(Q.extent(0)), key_length = int(K.extent(0));

    simt::SharedArena arena;
    const auto K_j = arena.tile<float, B_c, D, Tiles::row_pitch>("K_j");
    const auto V_j = arena.tile<float, B_c, D>("V_j");
    const auto Q_i = arena.tile<float, B_r, D, Tiles::row_pitch>("Q_i");
    const auto P_ij = arena.tile<float, B_r, B_c, Tiles::score_pitch>("P_ij");

    const Owner owner;
    const int first_row_of_warp = int(threadIdx.x) / 32 * Owner::rows_per_warp;
    const SignedScale scale(t.scale);

    for (int first_key = 0; first_key < key_length; first_key += B_c) {
        const bool first_step = first_key == 0, last_step = first_key + B_c >= key_length;
        fetch_own_rows<Owner>(Q_i, Q, 0, t.vector_rows);
        load_signed<Tiles::threads>(K_j, K, first_key, scale.sign, t.vector_rows);
        copy_tile(V_j, V, first_key, t.vector_rows);
        __syncthreads();  // K_j and V_j are complete before anyone reads them

        for (int first_query = 0; first_query + first_row_of_warp < query_length; first_query += B_r) {
            simt::wait_copies<0>();
            __syncwarp();  // this warp's rows of Q_i are complete before its lanes read them, and its lanes are done
                           // with the old P_ij before they overwrite it
            float S_ij[Owner::rows][B_c / 8];
            multiply_transposed<D, 1>(S_ij, owner, Q_i, K_j);
            __syncwarp();  // all lanes are done with these rows of Q_i before the next ones overwrite them
            fetch_own_rows<Owner>(Q_i, Q, first_query + B_r, t.vector_rows);

            if (last_step) {  // which may be ragged
#pragma unroll
                for (int i = 0; i < Owner::rows; ++i)
#pragma unroll
                    for (int j = 0; j < B_c / 8; ++j)
                        if (first_key + owner.lane + 8 * j >= key_length) S_ij[i][j] = -INFINITY;
            }

            // Before the first step O = 0, l = 0 and m = -inf (line 2); nobody has to write that to memory.
            float O_i[Owner::rows][D / 8] = {}, l_i[Owner::rows], m_i[Owner::rows];
            const auto has_old = [&](int i) { return !first_step && first_query + owner.row(i) < query_length; };
#pragma unroll
            for (int i = 0; i < Owner::rows; ++i) {
                const int query = first_query + owner.row(i);
                l_i[i] = has_old(i) && owner.lane == 0 ? float(l(query)) : 0.0f;
                m_i[i] = has_old(i) && owner.lane == 0 ? float(m(query)) : -INFINITY;
                if (has_old(i)) load_row<D>(O_i[i], O, query, owner.lane, t.vector_rows);
            }

#pragma unroll
            for (int i = 0; i < Owner::rows; ++i) {
                m_i[i] = Owner::row_max(m_i[i]);  // from lane 0 of the row, and so is the old sum
                const float l_old = Owner::row_sum(l_i[i]);
                float m_tile = -INFINITY;
#pragma unroll
                for (int j = 0; j < B_c / 8; ++j) m_tile = fmaxf(m_tile, S_ij[i][j]);
                const float m_new = fmaxf(m_i[i], Owner::row_max(m_tile) * scale.exponent);
                const float m_safe = safe_maximum(m_new);

                float l_tile = 0.0f;
#pragma unroll
                for (int j = 0; j < B_c / 8; ++j) {
                    const float p = simt::fast_exp2(fmaf(S_ij[i][j], scale.exponent, -m_safe));
                    l_tile += p;
                    P_ij(owner.row(i), owner.lane + 8 * j) = p;
                    watch_score(first_query + owner.row(i), first_key + owner.lane + 8 * j,
                                S_ij[i][j] * scale.magnitude);
                }
                // What is known, under the new maximum.
                const float old_sum = simt::fast_exp2(merge_exponent(m_i[i], m_new)) * l_old;
                m_i[i] = m_new;
                l_i[i] = old_sum + Owner::row_sum(l_tile);
                watch_state(first_query + owner.row(i), m_i[i], l_i[i]);
                watch_rescale(first_query + owner.row(i), old_sum);
#pragma unroll
                for (int c = 0; c < D / 8; ++c) O_i[i][c] *= old_sum;
            }
            __syncwarp();  // these rows of P_ij are complete before other lanes read them
            accumulate(O_i, owner, P_ij, V_j);

#pragma unroll
            for (int i = 0; i < Owner::rows; ++i) {
                const int query = first_query + owner.row(i);
                if (query >= query_length) continue;
                // A row that has met nothing but -inf has nothing to normalise yet: O_i stays 0. Only at the end is
                // 0 * (1 / 0) its answer, as softmax has it.
                const float divisor = l_i[i] == 0.0f && !last_step ? 1.0f : l_i[i];
                store_row<D>(O, query, O_i[i], owner.lane, 1.0f / divisor, t.vector_rows);
                if (owner.lane != 0) continue;
                if (last_step) {
                    LSE(query) = kLn2 * (m_i[i] + log2f(l_i[i]));  // from powers of 2 back to powers of e
                } else {
                    l(query) = l_i[i];
                    m(query) = m_i[i];
                }
            }
        }
        simt::wait_copies<0>();  // of rows that no tile has
        __syncthreads();         // all warps are done with K_j and V_j before the next ones overwrite them
    }
}

/// Shared memory that a block needs.
std::size_t fa1_tiled_shared_bytes(const AttentionArguments& a) {
    std::size_t bytes = 0;
    with_tiled_head_dim(a.head_dim(),
                        [&]<int D>(std::integral_constant<int, D>) { bytes = Fa1RegisterTiles<D>::shared_bytes; });
    return bytes;
}

/// As fa1_forward_bytes, with B_c = 64.
GlobalBytes fa1_tiled_bytes(const AttentionArguments& a) {
    const std::uint64_t heads = a.batch() * a.query_heads(), queries = a.query_length();
    const std::uint64_t row = a.head_dim() * sizeof(float);
    const std::uint64_t steps = ceil_div(a.key_length(), kFa1TiledKeys);
    const std::uint64_t running = (steps - 1) * queries * (a.head_dim() + 2) * sizeof(float);
    return {.read = heads * (row * (2 * a.key_length() + steps * queries) + running),
            .written = heads * (running + queries * (row + sizeof(float)))};
}

/// Launches the kernel compiled for the problem's head dimension; its tensors are float32, with D <= 128.
void launch_fa1_tiled(const Fa1Arguments& a) {
    with_tiled_head_dim(a.head_dim(), [&]<int D>(std::integral_constant<int, D>) {
        using Tiles = Fa1RegisterTiles<D>;
        cudaLaunchConfig_t config{};
        config.gridDim = dim3(a.query_heads(), a.batch());
        config.blockDim = dim3(Tiles::threads);
        config.dynamicSmemBytes = Tiles::shared_bytes;
        config.stream = static_cast<cudaStream_t>(a.stream);
        simt::launch("fa1_tiled_kernel", config, fa1_tiled_kernel<D>, forward_tensors<float>(a),
                     simt::global_tensor<float, 3>(a.l), simt::global_tensor<float, 3>(a.m));
    });
}

}  // namespace ladder::SIMT_MACHINE
