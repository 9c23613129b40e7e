#pragma once

#include "common/attention/arguments.h"
#include "common/attention/dispatch.cuh"
#include "common/attention/forward_tensors.cuh"
#include "common/attention/online_softmax.cuh"
#include "common/attention/warp_reduce.cuh"
#include "common/attention/watch.cuh"
#include "phase1_naive/standard_arguments.h"

namespace ladder::SIMT_MACHINE {

// clang-format off
/// Standard attention (Dao et al. 2022, Algorithm 0): three kernels, with S and P in global memory between them.
///
/// Changed since phase 0: there, one query looked at its keys. Here there are Sq of them, so the scores are a matrix,
/// and attention is what a textbook writes: a matrix product, a softmax of every row, a matrix product.
///
///   1  scores_kernel    S = scale Q K^T    [Sq, Sk]    written to global memory
///   2  softmax_kernel   P = softmax(S)     [Sq, Sk]    S read three times, P written
///   3  values_kernel    O = P V            [Sq, D]     P read
///
/// Kernels 1 and 3: one block of 64 threads for each 64 x 64 tile of the result; a thread owns 8 x 8 elements of it in
/// registers. The inner dimension goes past in steps of 32, through shared memory:
///
///   grid    x = tiles of one head's result, y = Hq heads, z = B sequences
///   shared  A [64, 32]  64 (32 + 1) 4     rows of Q or P, as float
///           B [32, 64]  32 (64 + 1) 4     K^T or V, as float          16768 bytes in all
///           pad: one float, so that neither a row nor a column of a tile falls into one bank
///
/// Kernel 2: one warp a row, four rows a block; no shared memory.
///
///   global  reads  Q once per 64 keys, K and V once per 64 queries, S three times, P once per 64 columns of O
///           writes S, P, O and LSE once: 2 Sq Sk elements beyond the result, and that is what the later phases remove
// clang-format on

/// The tiles of the plan above: rows and columns of a result, steps of the inner dimension, a thread's rows and
/// columns; then the threads of kernels 1 and 3, and the rows of a block of kernel 2.
inline constexpr int kResultTile = 64;
inline constexpr int kDepthTile = 32;
inline constexpr int kPatchSide = 8;
inline constexpr int kTileThreads = (kResultTile / kPatchSide) * (kResultTile / kPatchSide);
inline constexpr int kSoftmaxRows = 4;

/// A and B of the plan above.
using LeftTile = simt::SharedTile<float, kResultTile, kDepthTile, kDepthTile + 1>;
using RightTile = simt::SharedTile<float, kDepthTile, kResultTile, kResultTile + 1>;

/// The shared memory of both tiles together.
constexpr std::size_t matmul_shared_bytes() {
    return simt::shared_bytes<float>(kResultTile, kDepthTile + 1) +
           simt::shared_bytes<float>(kDepthTile, kResultTile + 1);
}

/// One thread's share of a 64 x 64 result: 8 x 8 elements, eight rows and columns apart, so that the lanes of a warp
/// touch neighbouring columns of B and of the result.
struct ResultPatch {
    float sum[kPatchSide][kPatchSide] = {};  ///< of the products so far

    /// Where sum[i][j] stands in the tile of the result.
    __device__ static int row(int i) { return int(threadIdx.x) / kPatchSide + kPatchSide * i; }
    __device__ static int column(int j) { return int(threadIdx.x) % kPatchSide + kPatchSide * j; }

    /// sum += A B. The 16 numbers read from shared memory for each column of A serve 64 multiplications.
    ///
    /// Four products are added to each other before they are added to the sum: every addition rounds to a digit of the
    /// sum so far, and a quarter as many lose less. (Sums of whole tiles would lose less still, but there are no
    /// registers for 64 of them beside the others.)
    __device__ __forceinline__ void add_product(const LeftTile& A, const RightTile& B) {
        constexpr int in_turn = 4;
#pragma unroll 2
        for (int k = 0; k < kDepthTile; k += in_turn) {
            float a[kPatchSide][in_turn], b[kPatchSide][in_turn];
#pragma unroll
            for (int i = 0; i < kPatchSide; ++i)
#pragma unroll
                for (int e = 0; e < in_turn; ++e) a[i][e] = A(row(i), k + e);
#pragma unroll
            for (int j = 0; j < kPatchSide; ++j)
#pragma unroll
                for (int e = 0; e < in_turn; ++e) b[j][e] = B(k + e, column(j));
#pragma unroll
            for (int i = 0; i < kPatchSide; ++i)
#pragma unroll
                for (int j = 0; j < kPatchSide; ++j) {
                    float part = 0.0f;
#pragma unroll
                    for (int e = 0; e < in_turn; ++e) part += a[i][e] * b[j][e];
                    sum[i][j] += part;
                }
        }
    }
};

/// The element, or 0 outside the matrix: zeros add nothing to a product.
template <class T>
__device__ float element_or_zero(const simt::GlobalTensor<T, 2>& matrix, int row, int column) {
    return row < matrix.extent(0) && column < matrix.extent(1) ? float(matrix(row, column)) : 0.0f;
}

/// tile = the part of the matrix from (first_row, first_column) on, all threads together; zeros beyond the matrix.
template <class Tile, class T>
__device__ void load_tile(const Tile& tile, const simt::GlobalTensor<T, 2>& matrix, int first_row, int first_column) {
    for (int i = threadIdx.x; i < Tile::rows() * Tile::columns(); i += blockDim.x) {
        const int r = i / Tile::columns(), c = i % Tile::columns();
        tile(r, c) = element_or_zero(matrix, first_row + r, first_column + c);
    }
}

/// tile(c, r) = matrix(first_row + r, first_column + c): read along the rows of the matrix, where neighbours lie.
template <class Tile, class T>
__device__ void load_transposed(const Tile& tile, const simt::GlobalTensor<T, 2>& matrix, int first_row,
                                int first_column) {
    for (int i = threadIdx.x; i < Tile::rows() * Tile::columns(); i += blockDim.x) {
        const int r = i / Tile::rows(), c = i % Tile::rows();
        tile(c, r) = element_or_zero(matrix, first_row + r, first_column + c);
    }
}

/// What each of the three kernels is given.
template <class T>
struct StandardTensors {
    ForwardTensors<T> forward;   ///< Q, K, V, O and LSE
    simt::GlobalTensor<T, 4> S;  ///< [B, Hq, Sq, Sk]
    simt::GlobalTensor<T, 4> P;  ///< [B, Hq, Sq, Sk]
};

template <class T>
__global__ void __launch_bounds__(kTileThreads) scores_kernel(StandardTensors<T> t) {
    const int b = blockIdx.z, h = blockIdx.y;
    const auto Q = t.forward.Q.slice(b, h);
    const auto K = t.forward.K.slice(b, t.forward.kv_head(h));
    const auto S = t.S.slice(b, h);
    const int query_length = int(S.extent(0)), key_length = int(S.extent(1)), head_dim = int(Q.extent(1));
    const int key_tiles = (key_length + kResultTile - 1) / kResultTile;
    const int first_query = int(blockIdx.x) / key_tiles * kResultTile;
    const int first_key = int(blockIdx.x) % key_tiles * kResultTile;

    simt::SharedArena arena;
    const auto Q_tile = arena.tile<float, kResultTile, kDepthTile, kDepthTile + 1>("Q_tile");
    const auto K_tile = arena.tile<float, kDepthTile, kResultTile, kResultTile + 1>("K_tile");

    ResultPatch patch;
    for (int first_column = 0; first_column < head_dim; first_column += kDepthTile) {
        __syncthreads();  // everyone is done with the old tiles before anyone overwrites them
        load_tile(Q_tile, Q, first_query, first_column);
        load_transposed(K_tile, K, first_key, first_column);
        __syncthreads();  // the tiles are complete before anyone reads them
        patch.add_product(Q_tile, K_tile);
    }

#pragma unroll
    for (int i = 0; i < kPatchSide; ++i)
#pragma unroll
        for (int j = 0; j < kPatchSide; ++j) {
            const int query = first_query + patch.row(i), key = first_key + patch.column(j);
            if (query < query_length && key < key_length) S(query, key) = T(t.forward.scale * patch.sum[i][j]);
            watch_score(query, key, patch.sum[i][j] * t.forward.scale);
        }
}

template <class T>
__global__ void __launch_bounds__(kSoftmaxRows * 32) softmax_kernel(StandardTensors<T> t) {
    const int query = int(blockIdx.x) * kSoftmaxRows + int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32;
    const auto S = t.S.slice(blockIdx.z, blockIdx.y);
    const auto P = t.P.slice(blockIdx.z, blockIdx.y);
    const auto LSE = t.forward.LSE.slice(blockIdx.z, blockIdx.y);
    const int key_length = int(S.extent(1));
    if (query >= S.extent(0)) return;  // a whole warp leaves, and no barrier follows

    // BEGIN SOLUTION softmax: m and l of the row, then its probabilities and LSE
    // Nothing of the row can be written before its maximum and its sum are known, and both need the whole row.
    float m = -INFINITY;
    for (int key = lane; key < key_length; key += 32) m = fmaxf(m, float(S(query, key)));
    m = warp_max(m);
    watch_maximum(query, m);

    const float m_safe = safe_maximum(m);
    float l = 0.0f;
    for (int key = lane; key < key_length; key += 32) l += __expf(float(S(query, key)) - m_safe);
    l = warp_sum(l);
    watch_sum(query, l);

    // Where every score is -inf this is 0 / 0: NaN, as softmax has it.
    for (int key = lane; key < key_length; key += 32) P(query, key) = T(__expf(float(S(query, key)) - m_safe) / l);
    if (lane == 0) LSE(query) = m + logf(l);
    // END SOLUTION softmax
}

template <class T>
__global__ void __launch_bounds__(kTileThreads) values_kernel(StandardTensors<T> t) {
    const int b = blockIdx.z, h = blockIdx.y;
    const auto P = t.P.slice(b, h);
    const auto V = t.forward.V.slice(b, t.forward.kv_head(h));
    const auto O = t.forward.O.slice(b, h);
    const int query_length = int(P.extent(0)), key_length = int(P.extent(1)), head_dim = int(V.extent(1));
    const int column_tiles = (head_dim + kResultTile - 1) / kResultTile;
    const int first_query = int(blockIdx.x) / column_tiles * kResultTile;
    const int first_column = int(blockIdx.x) % column_tiles * kResultTile;

    simt::SharedArena arena;
    const auto P_tile = arena.tile<float, kResultTile, kDepthTile, kDepthTile + 1>("P_tile");
    const auto V_tile = arena.tile<float, kDepthTile, kResultTile, kResultTile + 1>("V_tile");

    ResultPatch patch;
    for (int first_key = 0; first_key < key_length; first_key += kDepthTile) {
        __syncthreads();  // everyone is done with the old tiles before anyone overwrites them
        load_tile(P_tile, P, first_query, first_key);
        load_tile(V_tile, V, first_key, first_column);
        __syncthreads();  // the tiles are complete before anyone reads them
        patch.add_product(P_tile, V_tile);
    }

#pragma unroll
    for (int i = 0; i < kPatchSide; ++i)
#pragma unroll
        for (int j = 0; j < kPatchSide; ++j) {
            const int query = first_query + patch.row(i), column = first_column + patch.column(j);
            if (query < query_length && column < head_dim) O(query, column) = T(patch.sum[i][j]);
        }
}

/// S written once and read three times, P written once and read once per 64 columns of O: six times Sq Sk elements or
/// more. The rest is Q, K and V, which the tiles read over and over, and the results.
GlobalBytes standard_attention_bytes(const AttentionArguments& a) {
    GlobalBytes bytes;
    with_element_type(a.q.type, [&]<class T>(std::type_identity<T>) {
        const std::uint64_t heads = a.batch() * a.query_heads();
        const std::uint64_t Sq = a.query_length(), Sk = a.key_length(), D = a.head_dim();
        const std::uint64_t query_tiles = ceil_div(Sq, kResultTile), key_tiles = ceil_div(Sk, kResultTile);
        const std::uint64_t column_tiles = ceil_div(D, kResultTile);
        const std::uint64_t scores = Sq * D * key_tiles + Sk * D * query_tiles, softmax = 3 * Sq * Sk,
                            values = Sq * Sk * column_tiles + Sk * D * query_tiles;
        bytes.read = heads * sizeof(T) * (scores + softmax + values);
        bytes.written = heads * (sizeof(T) * (2 * Sq * Sk + Sq * D) + sizeof(float) * Sq);
    });
    return bytes;
}

/// Launches the three kernels, one after the other on the caller's stream: each finds what the last one wrote.
void launch_standard_attention(const StandardArguments& a) {
    with_element_type(a.q.type, [&]<class T>(std::type_identity<T>) {
        const StandardTensors<T> tensors{
            .forward = forward_tensors<T>(a), .S = simt::global_tensor<T, 4>(a.s), .P = simt::global_tensor<T, 4>(a.p)};
        const unsigned query_tiles = ceil_div(a.query_length(), kResultTile);
        cudaLaunchConfig_t matmul{};
        matmul.blockDim = dim3(kTileThreads);
        matmul.dynamicSmemBytes = matmul_shared_bytes();
        matmul.stream = static_cast<cudaStream_t>(a.stream);

        matmul.gridDim = dim3(query_tiles * ceil_div(a.key_length(), kResultTile), a.query_heads(), a.batch());
        simt::launch("scores_kernel", matmul, scores_kernel<T>, tensors);

        cudaLaunchConfig_t softmax{};
        softmax.gridDim = dim3(ceil_div(a.query_length(), kSoftmaxRows), a.query_heads(), a.batch());
        softmax.blockDim = dim3(kSoftmaxRows * 32);
        softmax.stream = matmul.stream;
        simt::launch("softmax_kernel", softmax, softmax_kernel<T>, tensors);

        matmul.gridDim = dim3(query_tiles * ceil_div(a.head_dim(), kResultTile), a.query_heads(), a.batch());
        simt::launch("values_kernel", matmul, values_kernel<T>, tensors);
    });
}

}  // namespace ladder::SIMT_MACHINE
