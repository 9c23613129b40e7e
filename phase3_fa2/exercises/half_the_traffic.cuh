#pragma once

#include "common/attention/copy_tile.cuh"
#include "common/attention/dispatch.cuh"
#include "common/attention/forward_tensors.cuh"
#include "common/attention/online_softmax.cuh"
#include "common/attention/row_tile.cuh"

namespace ladder::SIMT_MACHINE {

inline constexpr int kThreads = 128;  ///< of a block

/// Tile sizes for head dimensions 32 and 64. B_r is a multiple of 16 and B_c of 8.
template <int D>
struct Tiles {
    // BEGIN SOLUTION tiles: 128 queries a block, within 48 KiB of shared memory in float32
    static constexpr int B_r = 128;               ///< queries
    static constexpr int B_c = D <= 32 ? 32 : 8;  ///< keys
    //= static constexpr int B_r = 64;                ///< queries
    //= static constexpr int B_c = D <= 32 ? 64 : 32;  ///< keys
    // END SOLUTION tiles
    static_assert(B_r > 0 && B_r % 16 == 0,
                  "B_r must be a multiple of 16: each of four warps owns B_r / 4 rows, four at a time");
    static_assert(B_c > 0 && B_c % 8 == 0, "B_c must be a multiple of 8: eight lanes share the columns of a row");
};

/// Of a block: the tiles of the plan above.
template <class T, int D>
constexpr std::size_t shared_bytes_of() {
    constexpr int B_r = Tiles<D>::B_r, B_c = Tiles<D>::B_c, pad = simt::kVectorWidth<T>;
    return simt::shared_bytes<T>(B_r, D + pad) + 2 * simt::shared_bytes<T>(B_c, D + pad) +
           simt::shared_bytes<float>(B_r, B_c + 4);
}

/// FlashAttention-2 with larger query tiles. The kernel is phase 3's, fa2.cuh, where its plan is written down; what
/// matters here are the sizes:
///
///   shared  Q_i [B_r, D + pad], K_j and V_j [B_c, D + pad] of T; P_ij [B_r, B_c + 4] of float; pad: 16 bytes
///   global  reads Q once, and K and V once for each query tile
template <class T, int D>
__global__ void __launch_bounds__(kThreads) fa2_forward_kernel(ForwardTensors<T> t) {
    constexpr int B_r = Tiles<D>::B_r, B_c = Tiles<D>::B_c;
    constexpr int pitch = D + simt::kVectorWidth<T>;
    using Owner = RowOwner<B_r, kThreads>;

    const int b = blockIdx.z, h = blockIdx.y, first_query = blockIdx.x * B_r;
    const auto Q = t.Q.slice(b, h);
    const auto K = t.K.slice(b, t.kv_head(h));
    const auto V = t.V.slice(b, t.kv_head(h));
    const int query_length = int(Q.extent(0)), key_length = int(K.extent(0)), head_dim = int(Q.extent(1));

    simt::SharedArena arena;
    const auto Q_i = arena.tile<T, B_r, D, pitch>("Q_i");
    const auto K_j = arena.tile<T, B_c, D, pitch>("K_j");
    const auto V_j = arena.tile<T, B_c, D, pitch>("V_j");
    const auto P_ij = arena.tile<float, B_r, B_c, B_c + 4>("P_ij");

    const Owner owner;
    float m_i[Owner::rows], l_i[Owner::rows], O_i[Owner::rows][D / 8];
#pragma unroll
    for (int i = 0; i < Owner::rows; ++i) {
        m_i[i] = -INFINITY;
        l_i[i] = 0.0f;
#pragma unroll
        for (int c = 0; c < D / 8; ++c) O_i[i][c] = 0.0f;
    }

    copy_tile(Q_i, Q, first_query, t.vector_rows);

    for (int first_key = 0; first_key < key_length; first_key += B_c) {
        __syncthreads();  // all warps are done with the old K_j and V_j before anyone overwrites them
        copy_tile(K_j, K, first_key, t.vector_rows);
        copy_tile(V_j, V, first_key, t.vector_rows);
        __syncthreads();  // K_j, V_j (and, the first time, Q_i) are complete before anyone reads them

        float S_ij[Owner::rows][B_c / 8];
        multiply_transposed(S_ij, owner, Q_i, K_j);

#pragma unroll
        for (int i = 0; i < Owner::rows; ++i) {
            float m_tile = -INFINITY;
#pragma unroll
            for (int j = 0; j < B_c / 8; ++j) {
                const bool exists = first_key + owner.lane + 8 * j < key_length;
                S_ij[i][j] = exists ? S_ij[i][j] * t.scale : -INFINITY;
                m_tile = fmaxf(m_tile, S_ij[i][j]);
            }
            const float m_new = fmaxf(m_i[i], row_max(m_tile));
            const float m_safe = safe_maximum(m_new);
            const float rescale = merge_weight(m_i[i], m_new);  // what the old sums are worth under the new maximum

            float l_tile = 0.0f;
#pragma unroll
            for (int j = 0; j < B_c / 8; ++j) {
                const float p = __expf(S_ij[i][j] - m_safe);
                l_tile += p;
                P_ij(owner.row(i), owner.lane + 8 * j) = p;
            }
            m_i[i] = m_new;
            l_i[i] = rescale * l_i[i] + row_sum(l_tile);
#pragma unroll
            for (int c = 0; c < D / 8; ++c) O_i[i][c] *= rescale;
        }

        __syncwarp();  // the rows of P_ij are complete before their warp reads them; no other warp touches them
        accumulate(O_i, owner, P_ij, V_j);
        // The next step overwrites P_ij only after the __syncthreads() above, which orders it after these reads.
    }

    const auto O = t.O.slice(b, h);
    const auto LSE = t.LSE.slice(b, h);
    constexpr int width = kRowVector<T, D>;
#pragma unroll
    for (int i = 0; i < Owner::rows; ++i) {
        const int query = first_query + owner.row(i);
        if (query >= query_length) continue;
        // Where every score is -inf this makes 0 * (1 / 0): NaN, as softmax has it.
        const float inverse = 1.0f / l_i[i];
#pragma unroll
        for (int c = 0; c < D / 8; ++c) {
            const int column = output_column<T, D>(owner.lane, c / width) + c % width;
            if (column < head_dim) O(query, column) = T(O_i[i][c] * inverse);
        }
        if (owner.lane == 0) LSE(query) = m_i[i] + logf(l_i[i]);
    }
}

/// Launches the kernel compiled for the problem's dtype and head dimension.
void launch_fa2_forward(const AttentionArguments& a) {
    with_element_type(a.q.type, [&]<class T>(std::type_identity<T>) {
        with_head_dim(a.head_dim(), [&]<int D>(std::integral_constant<int, D>) {
            cudaLaunchConfig_t config{};
            config.gridDim = dim3(ceil_div(a.query_length(), Tiles<D>::B_r), a.query_heads(), a.batch());
            config.blockDim = dim3(kThreads);
            config.dynamicSmemBytes = shared_bytes_of<T, D>();
            config.stream = static_cast<cudaStream_t>(a.stream);
            simt::launch("fa2_forward_kernel", config, fa2_forward_kernel<T, D>, forward_tensors<T>(a));
        });
    });
}

}  // namespace ladder::SIMT_MACHINE
