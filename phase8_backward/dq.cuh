#pragma once

#include "common/attention/copy_tile.cuh"
#include "common/attention/edge_tile.cuh"
#include "common/attention/row_tile.cuh"
#include "common/attention/watch.cuh"
#include "phase8_backward/backward_tensors.cuh"

namespace ladder::SIMT_MACHINE {

// clang-format off
/// FlashAttention-2, backward pass: dQ by a second pass, without atomics.
///
/// The loops are those of the forward pass: a block keeps B_r queries, and the keys come past. S_ij and dP_ij are
/// computed a second time, two products in place of the additions to memory of which no launch repeats the order:
///
///   S_ij  = Q_i K_j^T        P_ij  = exp(scale S_ij - LSE_i)
///   dP_ij = dO_i V_j^T       dS_ij = P_ij o (dP_ij - D_i)
///   dQ_i += dS_ij K_j        (times the scale, at the end)
///
///   grid    x = ceil(Sq / B_r) query tiles, the last, which see the most keys, first; y = Hq heads, z = B sequences
///   block   128 threads = 4 warps; warp w owns rows [w B_r / 4, (w + 1) B_r / 4), eight lanes to a row
///
///   shared  Q_i, dO_i  [B_r, D]    2 B_r (D + pad) sizeof(T)    written once
///           K_j, V_j   [B_c, D]    2 B_c (D + pad) sizeof(T)    written each step, read by all warps
///           dS_ij      [B_r, B_c]  B_r (B_c + 4) 4              rows written and read by their own warp only
///
///   global  reads Q, dO, LSE and D once, and once per query tile the K and V that it sees; writes dQ once
// clang-format on
template <class T, int D>
__global__ void __launch_bounds__(kBackwardThreads) backward_dq_kernel(BackwardTensors<T> t, Mask mask) {
    constexpr int B_r = BackwardTiles<D>::kept, B_c = BackwardTiles<D>::passing;
    constexpr int pitch = D + simt::kVectorWidth<T>;
    using Owner = RowOwner<B_r, kBackwardThreads>;

    const int b = blockIdx.z, h = blockIdx.y, first_query = (gridDim.x - 1 - blockIdx.x) * B_r;
    const int kv_head = h / int(t.Q.extent(1) / t.K.extent(1));
    const auto K = t.K.slice(b, kv_head), V = t.V.slice(b, kv_head);
    const int query_length = int(t.Q.extent(2)), key_length = int(K.extent(0)), head_dim = int(K.extent(1));

    simt::SharedArena arena;
    const auto Q_i = arena.tile<T, B_r, D, pitch>("Q_i");
    const auto dO_i = arena.tile<T, B_r, D, pitch>("dO_i");
    const auto K_j = arena.tile<T, B_c, D, pitch>("K_j");
    const auto V_j = arena.tile<T, B_c, D, pitch>("V_j");
    const auto dS_ij = arena.tile<float, B_r, B_c, B_c + 4>("dS_ij");

    const Owner owner;
    int visible[Owner::rows];  // row i sees keys [0, visible[i])
    float LSE_i[Owner::rows], D_i[Owner::rows], dQ_i[Owner::rows][D / 8];
#pragma unroll
    for (int i = 0; i < Owner::rows; ++i) {
        const int query = first_query + owner.row(i);
        visible[i] = visible_keys(mask, query, query_length, key_length);
        const bool reads = owner.lane == 0 && query < query_length;  // one lane for all eight of the row
        LSE_i[i] = row_sum(reads ? t.LSE(b, h, query) : 0.0f);
        D_i[i] = row_sum(reads ? t.D(b, h, query) : 0.0f);
#pragma unroll
        for (int c = 0; c < D / 8; ++c) dQ_i[i][c] = 0.0f;
    }

    copy_tile(Q_i, t.Q.slice(b, h), first_query, t.vector_rows);
    copy_tile(dO_i, t.dO.slice(b, h), first_query, t.vector_rows);

    const KeyTiles tiles = key_tiles(mask, first_query, B_r, B_c, query_length, key_length);
    for (int tile = 0; tile < tiles.visited; ++tile) {
        const int first_key = tile * B_c;
        __syncthreads();  // all warps are done with the old K_j and V_j before anyone overwrites them
        copy_tile(K_j, K, first_key, t.vector_rows);
        copy_tile(V_j, V, first_key, t.vector_rows);
        __syncthreads();  // K_j, V_j (and, the first time, Q_i and dO_i) are complete before anyone reads them

        float S[Owner::rows][B_c / 8], dP[Owner::rows][B_c / 8];
        multiply_transposed(S, owner, Q_i, K_j);
        multiply_transposed(dP, owner, dO_i, V_j);
        int visible_here[Owner::rows];  // of this tile's keys
#pragma unroll
        for (int i = 0; i < Owner::rows; ++i) {
            visible_here[i] = visible[i] - first_key;
#pragma unroll
            for (int j = 0; j < B_c / 8; ++j) {
                const int column = owner.lane + 8 * j;
                watch_score(first_query + owner.row(i), first_key + column,
                            column < visible_here[i] ? S[i][j] * t.scale : -INFINITY);
            }
        }
        // BEGIN SOLUTION dq_step: dS_ij from S and dP, and dQ_i += dS_ij K_j
#pragma unroll
        for (int i = 0; i < Owner::rows; ++i)
#pragma unroll
            for (int j = 0; j < B_c / 8; ++j)  // nobody looks at those of hidden pairs
                dS_ij(owner.row(i), owner.lane + 8 * j) = __expf(S[i][j] * t.scale - LSE_i[i]) * (dP[i][j] - D_i[i]);
        __syncwarp();  // the rows of dS_ij are complete before their warp reads them; no other warp touches them
        if (tile < tiles.full)
            accumulate(dQ_i, owner, dS_ij, K_j);
        else
            accumulate_visible(dQ_i, owner, visible_here, dS_ij, K_j);
        // END SOLUTION dq_step
        // The next step overwrites dS_ij only after the __syncthreads() above, which orders it after these reads.
    }

    const auto dQ = t.dQ.slice(b, h);
    constexpr int width = kRowVector<T, D>;
#pragma unroll
    for (int i = 0; i < Owner::rows; ++i) {
        const int query = first_query + owner.row(i);
        if (query >= query_length) continue;
#pragma unroll
        for (int c = 0; c < D / 8; ++c) {
            const int column = output_column<T, D>(owner.lane, c / width) + c % width;
            if (column < head_dim) dQ(query, column) = T(dQ_i[i][c] * t.scale);
        }
    }
}

/// Q, dO, LSE and D once; for each query tile of each query head, the rows of K and V in the key tiles that it visits;
/// dQ once.
GlobalBytes backward_dq_bytes(const BackwardArguments& a) {
    GlobalBytes bytes;
    with_head_dim(a.head_dim(), [&]<int D>(std::integral_constant<int, D>) {
        constexpr int B_r = BackwardTiles<D>::kept, B_c = BackwardTiles<D>::passing;
        const std::uint64_t heads = a.batch() * a.query_heads(), row = a.head_dim() * element_bytes(a.q.type);
        bytes.read =
            heads * (2 * row * (a.query_length() + visited_keys(a, B_r, B_c)) + 2 * sizeof(float) * a.query_length());
        bytes.written = heads * row * a.query_length();
    });
    return bytes;
}

/// Launches the kernel compiled for the problem's dtype and head dimension.
void launch_backward_dq(const BackwardArguments& a) {
    with_element_type(a.q.type, [&]<class T>(std::type_identity<T>) {
        with_head_dim(a.head_dim(), [&]<int D>(std::integral_constant<int, D>) {
            cudaLaunchConfig_t config{};
            config.gridDim = dim3(ceil_div(a.query_length(), BackwardTiles<D>::kept), a.query_heads(), a.batch());
            config.blockDim = dim3(kBackwardThreads);
            config.dynamicSmemBytes = backward_shared_bytes<T, D>();
            config.stream = static_cast<cudaStream_t>(a.stream);
            simt::launch("backward_dq_kernel", config, backward_dq_kernel<T, D>, backward_tensors<T>(a), a.mask);
        });
    });
}

}  // namespace ladder::SIMT_MACHINE
