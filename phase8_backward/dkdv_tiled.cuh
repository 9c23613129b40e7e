#pragma once

#include <algorithm>
#include <utility>

#include "common/attention/copy_tile.cuh"
#include "common/attention/register_tile.cuh"
#include "common/attention/row_tile.cuh"
#include "common/attention/watch.cuh"
#include "phase8_backward/backward_tensors.cuh"
#include "phase8_backward/seeing_tile.cuh"

namespace ladder::SIMT_MACHINE {

// clang-format off
/// FlashAttention-2, backward pass: dK, dV and, by atomic additions, dQ, arranged for speed in float32.
///
/// Changed since dkdv.cuh, whose steps these are (docs/tuning/phase8.md has the figures):
///
///   - tiles of 128 keys by 128 queries for 256 threads, so that a thread's scores form a square of 8 x 8 rather than
///     4 x 4: half as many reads from shared memory for a multiply-add. dK_j, dV_j and dQ_i form tiles of 8 x D / 16;
///   - one block has the multiprocessor to itself. Q_i and dO_i of the next step are fetched by asynchronous copies while
///     dQ_i is added up, which needs neither; LSE_i and D_i come with them. Two barriers per step close all hazards;
///   - P_ij is read back from shared memory when dS_ij takes its place: 64 registers that the second product can use;
///   - a weight takes one multiply-add and one 2^x: log2(e) is multiplied into the scale, and into LSE_i as it comes.
///
///   grid    x = ceil(Sk / 128) key tiles, y = Hkv heads, z = B sequences, as in dkdv.cuh
///   block   256 threads = 8 warps; warp w owns keys [16 w, 16 w + 16) of dK_j and dV_j, sixteen lanes to a key, eight
///           keys to a lane; and likewise queries [16 w, 16 w + 16) of dQ_i
///
///   shared  K_j, V_j   [128, D]    2 * 128 (D + 4) 4    written once
///           Q_i, dO_i  [128, D]    2 * 128 (D + 4) 4    written each step, read by all warps
///           P_ij^T     [128, 128]  128 * 132 * 4        rows written by their own warp; then dS_ij^T likewise, which all
///                                                       warps read where Adds
///           LSE_i, D_i [2, 128]    1024                 written each step, read by all warps
///           207,872 bytes for D = 64
///
///   global  as dkdv.cuh, for tiles of these sizes
// clang-format on

/// Of the tiles of every head dimension.
struct TiledBackward {
    static constexpr int rows = 128;     ///< keys that stay, and queries that come past
    static constexpr int threads = 256;  ///< of a block
    static constexpr int lanes = 16;     ///< that share a key, or a query
    template <int D>
    static constexpr int pitch = D + simt::kVectorWidth<float>;             ///< of K_j, V_j, Q_i and dO_i
    static constexpr int weights_pitch = rows + simt::kVectorWidth<float>;  ///< of P_ij^T

    /// Of a block: four tiles, P or dS, and two numbers for each query.
    template <int D>
    static constexpr std::size_t shared_bytes =
        4 * simt::shared_bytes<float>(rows, pitch<D>) + simt::shared_bytes<float>(rows, weights_pitch) +
        simt::shared_bytes<float>(2, rows);
};

/// As add_outer_products, of row i = query i's columns of dQ_i, over the keys that each query sees: the first seen[i]
/// of the tile. A key that a query does not see must not reach it, not even as 0 * NaN.
template <class Owner, int Columns, class STile, class KTile>
__device__ __forceinline__ void add_keys_seen(float (&dQ_i)[Owner::rows][Columns], const Owner& owner, const STile& dS,
                                              const KTile& K_j, const int (&seen)[Owner::rows]) {
    const int most = min(seen[Owner::rows - 1], STile::rows());
#pragma unroll 1
    for (int j = 0; j < most; ++j) {
        float ds[Owner::rows], k[Columns];
        read_factors(ds, k, owner, dS, j, K_j, j);
#pragma unroll
        for (int i = 0; i < Owner::rows; ++i) {
            if (j >= seen[i]) continue;
#pragma unroll
            for (int c = 0; c < Columns; ++c) dQ_i[i][c] += ds[i] * k[c];
        }
    }
}

template <int D, bool Adds>
__global__ void __launch_bounds__(TiledBackward::threads, 1)
    backward_dkdv_tiled_kernel(BackwardTensors<float> t, Mask mask) {
    constexpr int B_c = TiledBackward::rows, B_r = TiledBackward::rows, lanes = TiledBackward::lanes;
    constexpr int threads = TiledBackward::threads, pitch = TiledBackward::pitch<D>, columns = D / lanes;
    using Owner = TileOwner<B_c, threads, lanes>;

    const int b = blockIdx.z, kv_head = blockIdx.y, first_key = blockIdx.x * B_c;
    const auto K = t.K.slice(b, kv_head), V = t.V.slice(b, kv_head);
    const int query_length = int(t.Q.extent(2)), key_length = int(K.extent(0)), head_dim = int(K.extent(1));
    const int heads = int(t.Q.extent(1) / t.K.extent(1)), end_head = (kv_head + 1) * heads;

    simt::SharedArena arena;
    const auto K_j = arena.tile<float, B_c, D, pitch>("K_j");
    const auto V_j = arena.tile<float, B_c, D, pitch>("V_j");
    const auto Q_i = arena.tile<float, B_r, D, pitch>("Q_i");
    const auto dO_i = arena.tile<float, B_r, D, pitch>("dO_i");
    const auto P_ij = arena.tile<float, B_c, B_r, TiledBackward::weights_pitch>("P_ij^T");
    const auto rows_i = arena.tile<float, 2, B_r>("LSE_i, D_i");
    const auto fetch_queries = [&](int h, int first_query) {
        copy_tile_async<threads, B_r, D>(Q_i, t.Q.slice(b, h), first_query, t.vector_rows);
        copy_tile_async<threads, B_r, D>(dO_i, t.dO.slice(b, h), first_query, t.vector_rows);
        simt::commit_copies();
        if (threadIdx.x < B_r) {
            const int query = first_query + threadIdx.x;
            rows_i(0, threadIdx.x) = query < query_length ? kLog2E * t.LSE(b, h, query) : 0.0f;
            rows_i(1, threadIdx.x) = query < query_length ? t.D(b, h, query) : 0.0f;
        }
    };

    const Owner owner;
    const auto first_to_see = [&](int key) {  // beyond all queries where the key does not exist
        return key < key_length ? first_seeing(mask, key, query_length, key_length) : query_length + B_r;
    };
    float dK_j[Owner::rows][columns] = {}, dV_j[Owner::rows][columns] = {};
    const float exponent_scale = t.scale * kLog2E;
    const int first_seen = first_to_see(first_key), all_seen_from = first_to_see(first_key + B_c - 1);
    const int first_tile = first_seen < query_length ? first_seen / B_r * B_r : query_length;

    copy_tile_async<threads, B_c, D>(K_j, K, first_key, t.vector_rows);
    copy_tile_async<threads, B_c, D>(V_j, V, first_key, t.vector_rows);
    simt::commit_copies();
    if (first_tile < query_length) fetch_queries(kv_head * heads, first_tile);
    for (int h = kv_head * heads; h < end_head; ++h)
        for (int first_query = first_tile; first_query < query_length; first_query += B_r) {
            simt::wait_copies<0>();
            __syncthreads();  // Q_i, dO_i, LSE_i and D_i (and, the first time, K_j and V_j) are complete before anyone
                              // reads them, and all warps are done with dS_ij^T before P_ij^T takes its place
            const int until = query_length - first_query;                    // from here on there are no queries
            const bool full = until >= B_r && all_seen_from <= first_query;  // all exist, and each sees every key
            int from[Owner::rows];  // key i is seen by the queries of this tile from here on
#pragma unroll
            for (int i = 0; i < Owner::rows; ++i) from[i] = first_to_see(first_key + owner.row(i)) - first_query;

            float S[Owner::rows][B_r / lanes];  // S_ij^T, P_ij^T, dP_ij^T and dS_ij^T in turn
            multiply_transposed<D>(S, owner, K_j, Q_i);
#pragma unroll
            for (int i = 0; i < Owner::rows; ++i)
#pragma unroll
                for (int q = 0; q < B_r / lanes; ++q) {
                    const int column = owner.lane + lanes * q;
                    watch_score(first_query + column, first_key + owner.row(i),
                                column >= from[i] ? S[i][q] * t.scale : -INFINITY);
                    P_ij(owner.row(i), column) =  // nobody looks at those of hidden pairs
                        simt::fast_exp2(fmaf(S[i][q], exponent_scale, -rows_i(0, column)));
                }
            __syncwarp();  // the rows of P_ij^T are complete before their warp reads them
            if (full)
                accumulate<4>(dV_j, owner, P_ij, dO_i);
            else
                accumulate_seeing(dV_j, owner, from, until, P_ij, dO_i);

            multiply_transposed<D>(S, owner, V_j, dO_i);
            __syncwarp();  // the warp is done with P_ij^T before dS_ij^T takes its place
#pragma unroll
            for (int i = 0; i < Owner::rows; ++i)
#pragma unroll
                for (int q = 0; q < B_r / lanes; ++q) {
                    const int column = owner.lane + lanes * q;
                    P_ij(owner.row(i), column) = P_ij(owner.row(i), column) * (S[i][q] - rows_i(1, column));
                }
            __syncwarp();  // the rows of dS_ij^T are complete before their warp reads them
            if (full)
                accumulate<4>(dK_j, owner, P_ij, Q_i);
            else
                accumulate_seeing(dK_j, owner, from, until, P_ij, Q_i);

            __syncthreads();  // all warps are done with Q_i, dO_i, LSE_i and D_i, which change now; and all rows of
                              // dS_ij^T are complete: each query adds up over the keys of all warps
            if (first_query + B_r < query_length)
                fetch_queries(h, first_query + B_r);
            else if (h + 1 < end_head)
                fetch_queries(h + 1, first_tile);

            if constexpr (Adds) {
                float dQ_i[Owner::rows][columns] = {};
                int seen[Owner::rows];  // keys of the tile, by this thread's queries
#pragma unroll
                for (int i = 0; i < Owner::rows; ++i)
                    seen[i] = visible_keys(mask, first_query + owner.row(i), query_length, key_length) - first_key;
                if (full)
                    add_outer_products<16>(dQ_i, owner, P_ij, 0, K_j, B_c);
                else
                    add_keys_seen(dQ_i, owner, P_ij, K_j, seen);
                const auto dQ = t.dQ_sum.slice(b, h);
#pragma unroll
                for (int i = 0; i < Owner::rows; ++i) {
                    const int query = first_query + owner.row(i);
                    if (query >= query_length || seen[i] <= 0) continue;
#pragma unroll
                    for (int c = 0; c < columns; ++c) {
                        const int column = owner.template column<columns>(c);
                        if (column < head_dim) simt::reduce_add(dQ(query, column), t.scale * dQ_i[i][c]);
                    }
                }
            }
        }

    simt::wait_copies<0>();  // where no query sees these keys, nobody has waited for K_j and V_j

    const auto dK = t.dK.slice(b, kv_head), dV = t.dV.slice(b, kv_head);
#pragma unroll
    for (int i = 0; i < Owner::rows; ++i) {
        const int key = first_key + owner.row(i);
        if (key >= key_length) continue;
#pragma unroll
        for (int c = 0; c < columns; ++c) {
            const int column = owner.template column<columns>(c);
            if (column >= head_dim) continue;
            dK(key, column) = dK_j[i][c] * t.scale;
            dV(key, column) = dV_j[i][c];
        }
    }
}

/// Calls `use(std::integral_constant<int, D>())` with the kernel's head dimension, for a wider one with its largest:
/// the host asks what the kernel needs before it asks whether it can run.
template <class Use>
void with_tiled_backward_head_dim(const BackwardArguments& a, Use&& use) {
    using HeadDims = std::integer_sequence<int, 32, 64>;
    with_first_that_holds(HeadDims(), std::min<std::int64_t>(a.head_dim(), largest_of(HeadDims())), use);
}

/// Shared memory that a block needs.
std::size_t backward_dkdv_tiled_shared_bytes(const BackwardArguments& a) {
    std::size_t bytes = 0;
    with_tiled_backward_head_dim(
        a, [&]<int D>(std::integral_constant<int, D>) { bytes = TiledBackward::shared_bytes<D>; });
    return bytes;
}

/// What it moves: see dkdv_bytes().
GlobalBytes backward_dkdv_tiled_bytes(const BackwardArguments& a) {
    return dkdv_bytes(a, TiledBackward::rows, TiledBackward::rows);
}

/// Launches the kernel compiled for the problem's head dimension; its tensors are float32. It adds to dq_sum where
/// there is one.
void launch_backward_dkdv_tiled(const BackwardArguments& a) {
    with_tiled_backward_head_dim(a, [&]<int D>(std::integral_constant<int, D>) {
        cudaLaunchConfig_t config{};
        config.gridDim = dim3(ceil_div(a.key_length(), TiledBackward::rows), a.kv_heads(), a.batch());
        config.blockDim = dim3(TiledBackward::threads);
        config.dynamicSmemBytes = TiledBackward::shared_bytes<D>;
        config.stream = static_cast<cudaStream_t>(a.stream);
        const auto kernel = a.dq_sum.rank ? backward_dkdv_tiled_kernel<D, true> : backward_dkdv_tiled_kernel<D, false>;
        simt::launch("backward_dkdv_tiled_kernel", config, kernel, backward_tensors<float>(a), a.mask);
    });
}

}  // namespace ladder::SIMT_MACHINE
