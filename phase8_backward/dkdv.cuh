#pragma once

#include "common/attention/copy_tile.cuh"
#include "common/attention/row_tile.cuh"
#include "common/attention/watch.cuh"
#include "phase8_backward/backward_tensors.cuh"
#include "phase8_backward/seeing_tile.cuh"

namespace ladder::SIMT_MACHINE {

// clang-format off
/// FlashAttention-2, backward pass: dK and dV (Dao 2023, Algorithm 2).
///
/// The forward pass with the roles of queries and keys exchanged: a block keeps B_c keys for good, and the queries come
/// past. P and dS are computed transposed, so that a warp owns rows that are keys, and adds up dV_j and dK_j in registers
/// as the forward pass adds up O_i:
///
///   S_ij^T  = K_j Q_i^T                      P_ij^T  = exp(scale S_ij^T - LSE_i)     no maximum: LSE_i has it
///   dV_j   += P_ij^T dO_i
///   dP_ij^T = V_j dO_i^T                     dS_ij^T = P_ij^T o (dP_ij^T - D_i)
///   dK_j   += dS_ij^T Q_i                    (times the scale, at the end)
///   dQ_i   += dS_ij K_j                      (where Adds: by atomic additions, since every key tile has a term)
///
///   grid    x = ceil(Sk / B_c) key tiles, y = Hkv heads, z = B sequences. A block walks through all query heads that
///           read its keys, so nobody else adds to its dK_j and dV_j. Under a causal mask tile 0 is seen by the most
///           queries, and starts first
///   block   128 threads = 4 warps; warp w owns keys [w B_c / 4, (w + 1) B_c / 4), eight lanes to a key
///
///   shared  K_j, V_j   [B_c, D]    2 B_c (D + pad) sizeof(T)    written once
///           Q_i, dO_i  [B_r, D]    2 B_r (D + pad) sizeof(T)    written each step, read by all warps
///           P_ij^T     [B_c, B_r]  B_c (B_r + 4) 4              rows written by their own warp; then dS_ij^T likewise,
///                                                               which all warps read where Adds
///           LSE_i, D_i [2, B_r]    2 B_r 4                      written each step, read by all warps
///
///   global  reads K and V once, and once per key tile Q, dO, LSE and D of the query tiles that see it; writes dK and dV
///           once; where Adds, adds to dQ once per key tile
// clang-format on

/// dQ_i += scale dS_ij K_j, by atomic additions. A thread has four neighbouring queries, which lie side by side in
/// dS_ij^T, and every `threads`-th column, so that a warp adds to neighbouring elements. `seen`: how many keys of the
/// tile each query sees.
template <int D, class STile, class KTile>
__device__ __forceinline__ void add_dq(const simt::GlobalTensor<float, 2>& dQ, const STile& dS, const KTile& K_j,
                                       float scale, Mask mask, int first_query, int first_key, int key_length) {
    constexpr int B_r = STile::columns(), B_c = STile::rows();
    constexpr int threads = kBackwardThreads / (B_r / 4), columns = D / threads;
    const int four = threadIdx.x / threads * 4, column = threadIdx.x % threads;
    const int query_length = int(dQ.extent(0)), head_dim = int(dQ.extent(1));
    int seen[4];
#pragma unroll
    for (int r = 0; r < 4; ++r)
        seen[r] = visible_keys(mask, first_query + four + r, query_length, key_length) - first_key;

    float sum[4][columns] = {};
    for (int j = 0; j < B_c && j < seen[3]; ++j) {
        const float4 ds = dS.template vec<float4>(j, four);
        const float of_row[4] = {ds.x, ds.y, ds.z, ds.w};
#pragma unroll
        for (int n = 0; n < columns; ++n) {
            const float k = float(K_j(j, column + n * threads));
#pragma unroll
            for (int r = 0; r < 4; ++r)
                if (j < seen[r]) sum[r][n] += of_row[r] * k;
        }
    }
#pragma unroll
    for (int r = 0; r < 4; ++r) {
        const int query = first_query + four + r;
        if (query >= query_length || seen[r] <= 0) continue;
#pragma unroll
        for (int n = 0; n < columns; ++n)
            if (column + n * threads < head_dim) simt::reduce_add(dQ(query, column + n * threads), scale * sum[r][n]);
    }
}

template <class T, int D, bool Adds>
__global__ void __launch_bounds__(kBackwardThreads) backward_dkdv_kernel(BackwardTensors<T> t, Mask mask) {
    constexpr int B_c = BackwardTiles<D>::kept, B_r = BackwardTiles<D>::passing;
    constexpr int pitch = D + simt::kVectorWidth<T>;
    using Owner = RowOwner<B_c, kBackwardThreads>;

    const int b = blockIdx.z, kv_head = blockIdx.y, first_key = blockIdx.x * B_c;
    const auto K = t.K.slice(b, kv_head), V = t.V.slice(b, kv_head);
    const int query_length = int(t.Q.extent(2)), key_length = int(K.extent(0)), head_dim = int(K.extent(1));
    const int heads = int(t.Q.extent(1) / t.K.extent(1));

    simt::SharedArena arena;
    const auto K_j = arena.tile<T, B_c, D, pitch>("K_j");
    const auto V_j = arena.tile<T, B_c, D, pitch>("V_j");
    const auto Q_i = arena.tile<T, B_r, D, pitch>("Q_i");
    const auto dO_i = arena.tile<T, B_r, D, pitch>("dO_i");
    const auto P_ij = arena.tile<float, B_c, B_r, B_r + 4>("P_ij^T");
    const auto rows_i = arena.tile<float, 2, B_r>("LSE_i, D_i");

    const Owner owner;
    int first[Owner::rows];  // the first query that sees key i, or one beyond all where the key does not exist
    float dK_j[Owner::rows][D / 8], dV_j[Owner::rows][D / 8];
#pragma unroll
    for (int i = 0; i < Owner::rows; ++i) {
        const int key = first_key + owner.row(i);
        first[i] = key < key_length ? first_seeing(mask, key, query_length, key_length) : query_length + B_r;
#pragma unroll
        for (int c = 0; c < D / 8; ++c) dK_j[i][c] = dV_j[i][c] = 0.0f;
    }

    copy_tile(K_j, K, first_key, t.vector_rows);
    copy_tile(V_j, V, first_key, t.vector_rows);

    // BEGIN SOLUTION first_tile: the first query tile with a query that sees a key of this block
    const int first_seen = first_seeing(mask, first_key, query_length, key_length);
    const int first_tile = first_seen < query_length ? first_seen / B_r : (query_length + B_r - 1) / B_r;
    //= const int first_tile = 0;
    // END SOLUTION first_tile
    for (int h = kv_head * heads; h < (kv_head + 1) * heads; ++h) {
        const auto Q = t.Q.slice(b, h), dO = t.dO.slice(b, h);
        for (int first_query = first_tile * B_r; first_query < query_length; first_query += B_r) {
            __syncthreads();  // all warps are done with the old Q_i, dO_i, LSE_i and D_i (and dS_ij) before they change
            copy_tile(Q_i, Q, first_query, t.vector_rows);
            copy_tile(dO_i, dO, first_query, t.vector_rows);
            if (threadIdx.x < B_r) {
                const int query = first_query + threadIdx.x;
                rows_i(0, threadIdx.x) = query < query_length ? t.LSE(b, h, query) : 0.0f;
                rows_i(1, threadIdx.x) = query < query_length ? t.D(b, h, query) : 0.0f;
            }
            __syncthreads();  // they (and, the first time, K_j and V_j) are complete before anyone reads them

            int from[Owner::rows];                         // key i is seen by the queries of this tile from here on
            const int until = query_length - first_query;  // from here on there are no queries
            bool full = until >= B_r;                      // every key is seen by all, and all exist
#pragma unroll
            for (int i = 0; i < Owner::rows; ++i) {
                from[i] = first[i] - first_query;
                full = full && from[i] <= 0;
            }

            // BEGIN SOLUTION dkdv_step: P_ij^T, dV_j += P_ij^T dO_i, dS_ij^T in its place, dK_j += dS_ij^T Q_i
            float P[Owner::rows][B_r / 8];
            multiply_transposed(P, owner, K_j, Q_i);
#pragma unroll
            for (int i = 0; i < Owner::rows; ++i)
#pragma unroll
                for (int q = 0; q < B_r / 8; ++q) {
                    const int column = owner.lane + 8 * q;
                    watch_score(first_query + column, first_key + owner.row(i),
                                column >= from[i] ? P[i][q] * t.scale : -INFINITY);
                    P[i][q] = __expf(P[i][q] * t.scale - rows_i(0, column));  // nobody looks at those of hidden pairs
                    P_ij(owner.row(i), column) = P[i][q];
                }
            __syncwarp();  // the rows of P_ij^T are complete before their warp reads them
            if (full)
                accumulate(dV_j, owner, P_ij, dO_i);
            else
                accumulate_seeing(dV_j, owner, from, until, P_ij, dO_i);

            float dP[Owner::rows][B_r / 8];
            multiply_transposed(dP, owner, V_j, dO_i);
            __syncwarp();  // the warp is done with P_ij^T before dS_ij^T takes its place
#pragma unroll
            for (int i = 0; i < Owner::rows; ++i)
#pragma unroll
                for (int q = 0; q < B_r / 8; ++q) {
                    const int column = owner.lane + 8 * q;
                    P_ij(owner.row(i), column) = P[i][q] * (dP[i][q] - rows_i(1, column));
                }
            __syncwarp();  // the rows of dS_ij^T are complete before their warp reads them
            if (full)
                accumulate(dK_j, owner, P_ij, Q_i);
            else
                accumulate_seeing(dK_j, owner, from, until, P_ij, Q_i);
            // END SOLUTION dkdv_step

            if constexpr (Adds) {
                __syncthreads();  // all rows of dS_ij^T are complete: each query adds up over keys of all warps
                add_dq<D>(t.dQ_sum.slice(b, h), P_ij, K_j, t.scale, mask, first_query, first_key, key_length);
            }
        }
    }

    const auto dK = t.dK.slice(b, kv_head), dV = t.dV.slice(b, kv_head);
    constexpr int width = kRowVector<T, D>;
#pragma unroll
    for (int i = 0; i < Owner::rows; ++i) {
        const int key = first_key + owner.row(i);
        if (key >= key_length) continue;
#pragma unroll
        for (int c = 0; c < D / 8; ++c) {
            const int column = output_column<T, D>(owner.lane, c / width) + c % width;
            if (column >= head_dim) continue;
            dK(key, column) = T(dK_j[i][c] * t.scale);
            dV(key, column) = T(dV_j[i][c]);
        }
    }
}

/// Shared memory that a block of either large kernel needs.
std::size_t backward_shared_bytes(const BackwardArguments& a) {
    std::size_t bytes = 0;
    with_element_type(a.q.type, [&]<class T>(std::type_identity<T>) {
        with_head_dim(a.head_dim(),
                      [&]<int D>(std::integral_constant<int, D>) { bytes = backward_shared_bytes<T, D>(); });
    });
    return bytes;
}

/// What it moves: see dkdv_bytes().
GlobalBytes backward_dkdv_bytes(const BackwardArguments& a) {
    GlobalBytes bytes;
    with_head_dim(a.head_dim(), [&]<int D>(std::integral_constant<int, D>) {
        bytes = dkdv_bytes(a, BackwardTiles<D>::kept, BackwardTiles<D>::passing);
    });
    return bytes;
}

/// Launches the kernel compiled for the problem's dtype and head dimension, which adds to dq_sum where there is one.
void launch_backward_dkdv(const BackwardArguments& a) {
    with_element_type(a.q.type, [&]<class T>(std::type_identity<T>) {
        with_head_dim(a.head_dim(), [&]<int D>(std::integral_constant<int, D>) {
            cudaLaunchConfig_t config{};
            config.gridDim = dim3(ceil_div(a.key_length(), BackwardTiles<D>::kept), a.kv_heads(), a.batch());
            config.blockDim = dim3(kBackwardThreads);
            config.dynamicSmemBytes = backward_shared_bytes<T, D>();
            config.stream = static_cast<cudaStream_t>(a.stream);
            if (a.dq_sum.rank)
                simt::launch("backward_dkdv_kernel", config, backward_dkdv_kernel<T, D, true>, backward_tensors<T>(a),
                             a.mask);
            else
                simt::launch("backward_dkdv_kernel", config, backward_dkdv_kernel<T, D, false>, backward_tensors<T>(a),
                             a.mask);
        });
    });
}

}  // namespace ladder::SIMT_MACHINE
