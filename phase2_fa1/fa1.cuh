#pragma once

#include <algorithm>

#include "common/attention/arguments.h"
#include "common/attention/copy_tile.cuh"
#include "common/attention/dispatch.cuh"
#include "common/attention/forward_tensors.cuh"
#include "common/attention/online_softmax.cuh"
#include "common/attention/row_tile.cuh"
#include "common/attention/watch.cuh"
#include "phase2_fa1/fa1_arguments.h"

namespace ladder::SIMT_MACHINE {

// clang-format off
/// FlashAttention, forward pass, as first published (Dao, Fu, Ermon, Rudra, Ré 2022, Algorithm 1).
///
/// Changed since phase 1: S and P never reach global memory, and no tile grows with N. A tile of keys stays in shared
/// memory while every query row comes past it. A row does not need all of its scores at once: from the keys so far it
/// keeps the maximum m_i, the sum l_i and the normalised output O_i, and the next tile of keys mends all three.
///
///   for each key tile j                                       Algorithm 1, line 5
///       load K_j, V_j                                                             6
///       for each query tile i                                                     7
///           load Q_i, O_i, l_i, m_i                                               8
///           S_ij = scale Q_i K_j^T                                                9
///           m~ = rowmax S_ij,  P~ = exp(S_ij - m~),  l~ = rowsum P~              10
///           m_new = max(m_i, m~)                                                 11
///           l_new = e^(m_i - m_new) l_i + e^(m~ - m_new) l~                      11
///           O_i <- (l_i e^(m_i - m_new) O_i + e^(m~ - m_new) P~ V_j) / l_new     12
///           store O_i,  l_i <- l_new,  m_i <- m_new                              12, 13
///
/// Each outer step changes O_i, l_i and m_i of every row, so two blocks that took different key tiles of one head would
/// write the same rows at once. Hence one block per head, and no more blocks than there are heads.
///
///   grid    x = Hq heads, y = B sequences
///   block   4 to 8 warps; a warp takes eight rows of Q_i at a time, eight lanes to a row, two rows to a thread;
///           a row belongs to the same eight lanes in every outer step: what a thread reads back from global memory
///           it wrote itself
///
///   shared  K_j  [B_c, D]    B_c (D + pad) sizeof(T)     written once per outer step, read by all warps
///           V_j  [B_c, D]    B_c (D + pad) sizeof(T)     likewise
///           Q_i  [B_r, D]    B_r (D + pad) sizeof(T)     written each inner step
///           P_ij [B_r, B_c]  B_r (B_c + 4) 4             S_ij first, then P~_ij; rows of a warp are its own
///           pad: 16 bytes; B_r and B_c follow from the device's shared memory, see fa1_tiles.h
///
///   global  with T_c = ceil(Sk / B_c) outer steps: reads K, V once and Q T_c times; reads and writes O, l, m between
///           steps, T_c - 1 times each; the last step writes O and LSE
// clang-format on

inline constexpr int kFa1MinWarps = 4;  ///< of a block
inline constexpr int kFa1MaxWarps = 8;  ///< of a block: one for each strip of rows, where the tile has so many
inline constexpr int kFa1Columns = 4;   ///< keys that a thread works on at once

/// What the kernel is given besides the problem: its tile sizes, and where O, l and m wait between two outer steps.
struct Fa1Running {
    simt::GlobalTensor<float, 4> O;  ///< [B, Hq, Sq, D]
    simt::GlobalTensor<float, 3> l;  ///< [B, Hq, Sq]
    simt::GlobalTensor<float, 3> m;  ///< [B, Hq, Sq]
    int B_r, B_c;                    ///< rows of a query tile and of a key tile
    int score_pitch;                 ///< elements between two rows of P_ij
    bool vector_rows;                ///< rows of O here may be accessed 16 bytes at a time
    bool final_vector_rows;          ///< likewise rows of the O that the caller gets
};

/// The eight rows that a warp works on at once. Lane k has rows k / 8 and k / 8 + 4, and every eighth column or vector
/// of columns from k % 8 on.
struct Fa1Strip : RowOwner<kFa1Granule, 32> {
    /// Strip number `strip` of the query tile.
    __device__ explicit Fa1Strip(int strip) { first_row = strip * kFa1Granule + int(threadIdx.x) % 32 / 8; }
};
inline constexpr int kFa1Rows = Fa1Strip::rows;  ///< query rows that a thread works on at once

/// The value that the first of the eight lanes of a row holds, for all eight.
__device__ inline float from_first_lane(float x) { return __shfl_sync(0xffffffffu, x, 0, 8); }

/// O_i, l_i and m_i of this thread's rows, as the step before left them in global memory.
template <class T, int D>
__device__ __forceinline__ void load_running(float (&O_i)[kFa1Rows][D / 8], float (&l_i)[kFa1Rows],
                                             float (&m_i)[kFa1Rows], const Fa1Strip& own, int first_query,
                                             bool first_step, int query_length, const simt::GlobalTensor<float, 2>& O,
                                             const simt::GlobalTensor<float, 1>& l,
                                             const simt::GlobalTensor<float, 1>& m, bool vectorized) {
    // Before the first step O = 0, l = 0 and m = -inf (line 2); nobody has to write that to memory.
#pragma unroll
    for (int i = 0; i < kFa1Rows; ++i) {
        const int query = first_query + own.row(i);
        float l_before = 0.0f, m_before = -INFINITY;
        if (!first_step && query < query_length) {
            load_output_row<T, D>(O_i[i], O, query, own.lane, vectorized);
            if (own.lane == 0) {
                l_before = l(query);
                m_before = m(query);
            }
        }
        l_i[i] = from_first_lane(l_before);
        m_i[i] = from_first_lane(m_before);
    }
}

/// S_ij(row, column) = scale Q_i(row, :) . K_j(column, :) for this thread's rows and columns, -inf for columns that are
/// no keys. m_tile[i] is the largest of them: the thread's part of the row's maximum.
template <class T, int D>
__device__ __forceinline__ void compute_scores(float (&m_tile)[kFa1Rows], const simt::SharedMatrix<float>& S_ij,
                                               const Fa1Strip& own, const simt::SharedMatrix<T>& Q_i,
                                               const simt::SharedMatrix<T>& K_j, int keys, int columns, float scale) {
#pragma unroll
    for (int i = 0; i < kFa1Rows; ++i) m_tile[i] = -INFINITY;

    for (int first = 0; first < columns; first += 8 * kFa1Columns) {
        float s[kFa1Rows][kFa1Columns];
        multiply_transposed<kColumnsInTurn, 2, D>(s, own, Q_i, K_j, first, columns);
#pragma unroll
        for (int j = 0; j < kFa1Columns; ++j) {
            if (first + 8 * j >= columns) continue;
            const int column = first + own.lane + 8 * j;
#pragma unroll
            for (int i = 0; i < kFa1Rows; ++i) {
                const float score = column < keys ? scale * s[i][j] : -INFINITY;
                S_ij(own.row(i), column) = score;
                m_tile[i] = fmaxf(m_tile[i], score);
            }
        }
    }
}

/// Line 10 of Algorithm 1: S_ij becomes P~_ij, under the tile's own maximum m~, and l~ is its row sum. m_tile comes in
/// as the thread's part of that maximum, and leaves as the row's.
__device__ __forceinline__ void weigh_tile(float (&m_tile)[kFa1Rows], float (&l_tile)[kFa1Rows],
                                           const simt::SharedMatrix<float>& P_ij, const Fa1Strip& own, int columns,
                                           int first_query, int first_key) {
#pragma unroll
    for (int i = 0; i < kFa1Rows; ++i) {
        // BEGIN SOLUTION tile: line 10, P_ij and its row sum under the tile's own maximum
        m_tile[i] = row_max(m_tile[i]);
        const float m_safe = safe_maximum(m_tile[i]);
        float sum = 0.0f;
        for (int column = own.lane; column < columns; column += 8) {
            const float score = P_ij(own.row(i), column);
            const float p = __expf(score - m_safe);
            P_ij(own.row(i), column) = p;
            watch_score(first_query + own.row(i), first_key + column, score);
            sum += p;
        }
        l_tile[i] = row_sum(sum);
        //= l_tile[i] = 1.0f;
        // END SOLUTION tile
    }
}

/// Registers for one block per multiprocessor: its tiles fill the shared memory, so a second one would not fit anyway.
template <class T, int D>
__global__ void __launch_bounds__(32 * kFa1MaxWarps, 1) fa1_forward_kernel(ForwardTensors<T> t, Fa1Running running) {
    const int b = blockIdx.y, h = blockIdx.x, warp = int(threadIdx.x) / 32, warps = int(blockDim.x) / 32;
    const int B_r = running.B_r, B_c = running.B_c;
    const auto Q = t.Q.slice(b, h);
    const auto K = t.K.slice(b, t.kv_head(h));
    const auto V = t.V.slice(b, t.kv_head(h));
    const auto O = t.O.slice(b, h);
    const auto running_O = running.O.slice(b, h);
    const auto l = running.l.slice(b, h), m = running.m.slice(b, h), LSE = t.LSE.slice(b, h);
    const int query_length = int(Q.extent(0)), key_length = int(K.extent(0));

    constexpr int pitch = D + simt::kVectorWidth<T>;
    simt::SharedArena arena;
    const auto K_j = arena.matrix<T>("K_j", B_c, pitch);
    const auto V_j = arena.matrix<T>("V_j", B_c, pitch);
    const auto Q_i = arena.matrix<T>("Q_i", B_r, pitch);
    const auto P_ij = arena.matrix<float>("P_ij", B_r, running.score_pitch);

    for (int first_key = 0; first_key < key_length; first_key += B_c) {
        const bool first_step = first_key == 0, last_step = first_key + B_c >= key_length;
        const int keys = last_step ? key_length - first_key : B_c;
        const int columns = (keys + 7) / 8 * 8;  // the eight lanes of a row go through the columns together

        copy_tile<D>(K_j, K, first_key, t.vector_rows, columns);
        copy_tile<D>(V_j, V, first_key, t.vector_rows, columns);

        for (int first_query = 0; first_query < query_length; first_query += B_r) {
            const int queries = first_query + B_r >= query_length ? query_length - first_query : B_r;
            const int strips = (queries + kFa1Granule - 1) / kFa1Granule;

            copy_tile<D>(Q_i, Q, first_query, t.vector_rows, strips * kFa1Granule);
            __syncthreads();  // Q_i (and, at the first query tile, K_j and V_j) are complete before anyone reads them

            for (int strip = warp; strip < strips; strip += warps) {
                const Fa1Strip own(strip);

                float O_i[kFa1Rows][D / 8] = {}, l_i[kFa1Rows], m_i[kFa1Rows];
                load_running<T, D>(O_i, l_i, m_i, own, first_query, first_step, query_length, running_O, l, m,
                                   running.vector_rows);

                float m_tile[kFa1Rows], l_tile[kFa1Rows];
                compute_scores<T, D>(m_tile, P_ij, own, Q_i, K_j, keys, columns, t.scale);
                weigh_tile(m_tile, l_tile, P_ij, own, columns, first_query, first_key);
                __syncwarp();  // the rows of P_ij are complete before their warp reads them; no other warp touches them

                float PV[kFa1Rows][D / 8] = {};
                accumulate<1>(PV, own, P_ij, V_j, columns);

#pragma unroll
                for (int i = 0; i < kFa1Rows; ++i) {
                    // BEGIN SOLUTION update: lines 11 and 12, the tile joins m_i, l_i and O_i
                    const float m_new = fmaxf(m_i[i], m_tile[i]);
                    const float old_sum = merge_weight(m_i[i], m_new) * l_i[i];  // what is known, under the new maximum
                    const float tile_weight = merge_weight(m_tile[i], m_new);
                    const float l_new = old_sum + tile_weight * l_tile[i];

                    // A row that has met nothing but -inf has nothing to normalise yet: O_i stays 0. Only at the end
                    // is 0 / 0 its answer, as softmax has it.
                    const float divisor = l_new == 0.0f && !last_step ? 1.0f : l_new;
                    const float old_share = old_sum / divisor, tile_share = tile_weight / divisor;
                    watch_state(first_query + own.row(i), m_new, l_new);
                    watch_rescale(first_query + own.row(i), old_share);
#pragma unroll
                    for (int c = 0; c < D / 8; ++c) O_i[i][c] = old_share * O_i[i][c] + tile_share * PV[i][c];
                    //= const float m_new = m_tile[i], l_new = l_tile[i];
                    //= for (int c = 0; c < D / 8; ++c) O_i[i][c] = PV[i][c] / l_new;
                    // END SOLUTION update

                    const int query = first_query + own.row(i);
                    if (query >= query_length) continue;
                    if (last_step) {
                        store_output_row<T, D>(O, query, O_i[i], own.lane, running.final_vector_rows);
                        if (own.lane == 0) LSE(query) = m_new + logf(l_new);
                    } else {
                        store_output_row<T, D>(running_O, query, O_i[i], own.lane, running.vector_rows);
                        if (own.lane == 0) {
                            l(query) = l_new;
                            m(query) = m_new;
                        }
                    }
                }
            }
            __syncthreads();  // all warps are done with Q_i, and with their rows of P_ij, before the next step
                              // overwrites them; after the last query tile the same holds for K_j and V_j
        }
    }
}

/// K and V once for each query head, Q once per outer step; O, l and m out and in again between steps; O and LSE once.
GlobalBytes fa1_forward_bytes(const Fa1Arguments& a) {
    GlobalBytes bytes;
    with_element_type(a.q.type, [&]<class T>(std::type_identity<T>) {
        const std::uint64_t heads = a.batch() * a.query_heads(), queries = a.query_length();
        const std::uint64_t row = a.head_dim() * sizeof(T);
        const std::uint64_t steps = ceil_div(a.key_length(), a.tiles.B_c);
        const std::uint64_t running = (steps - 1) * queries * (a.head_dim() + 2) * sizeof(float);
        bytes.read = heads * (row * (2 * a.key_length() + steps * queries) + running);
        bytes.written = heads * (running + queries * (row + sizeof(float)));
    });
    return bytes;
}

/// From what the host allocated.
inline Fa1Running fa1_running(const Fa1Arguments& a) {
    return {.O = simt::global_tensor<float, 4>(a.running_out),
            .l = simt::global_tensor<float, 3>(a.l),
            .m = simt::global_tensor<float, 3>(a.m),
            .B_r = a.tiles.B_r,
            .B_c = a.tiles.B_c,
            .score_pitch = fa1_score_pitch(a.tiles.B_c),
            .vector_rows = a.running_out.rows_aligned_to_16_bytes(),
            .final_vector_rows = a.out.rows_aligned_to_16_bytes()};
}

/// Launches the kernel compiled for the problem's dtype and head dimension.
void launch_fa1_forward(const Fa1Arguments& a) {
    with_element_type(a.q.type, [&]<class T>(std::type_identity<T>) {
        with_head_dim(a.head_dim(), [&]<int D>(std::integral_constant<int, D>) {
            const int strips = a.tiles.B_r / kFa1Granule;
            cudaLaunchConfig_t config{};
            config.gridDim = dim3(a.query_heads(), a.batch());
            config.blockDim = dim3(32 * std::clamp(strips, kFa1MinWarps, kFa1MaxWarps));
            config.dynamicSmemBytes = a.tiles.shared_bytes;
            config.stream = static_cast<cudaStream_t>(a.stream);
            simt::launch("fa1_forward_kernel", config, fa1_forward_kernel<T, D>, forward_tensors<T>(a), fa1_running(a));
        });
    });
}

}  // namespace ladder::SIMT_MACHINE
