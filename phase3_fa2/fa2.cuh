#pragma once

#include "common/attention/arguments.h"
#include "common/attention/copy_tile.cuh"
#include "common/attention/dispatch.cuh"
#include "common/attention/forward_tensors.cuh"
#include "common/attention/online_softmax.cuh"
#include "common/attention/row_tile.cuh"
#include "common/attention/watch.cuh"

namespace ladder::SIMT_MACHINE {

// clang-format off
/// FlashAttention-2, forward pass (Dao 2023, Algorithm 1).
///
/// Changed since phase 2: the loops trade places. There, K_j and V_j stood still and every query row came past once per
/// key tile, so O_i, m_i and l_i travelled to global memory and back at each step, and blocks could not share a row.
/// Here a block keeps B_r query rows for good and the keys come past:
///
///   - O_i, m_i and l_i live in registers and are written once, at the end;
///   - O_i is kept unscaled (section 3.1.1): one division per row at the end, not one per tile;
///   - blocks along the sequence need nothing from each other, so the sequence becomes an axis of the grid;
///   - inside a block each warp owns rows, not keys (section 3.3): no warp ever waits for another's part of a row;
///   - what the backward pass needs of m_i and l_i is one number, LSE_i = m_i + log l_i.
///
///   grid    x = ceil(Sq / B_r) query tiles, y = Hq heads, z = B sequences
///   block   128 threads = 4 warps; warp w owns rows [w B_r / 4, (w + 1) B_r / 4), eight lanes to a row
///
///   shared  Q_i  [B_r, D]    B_r (D + pad) sizeof(T)     written once
///           K_j  [B_c, D]    B_c (D + pad) sizeof(T)     written each step, read by all warps
///           V_j  [B_c, D]    B_c (D + pad) sizeof(T)     likewise
///           P_ij [B_r, B_c]  B_r (B_c + 4) 4             rows written and read by their own warp only
///           pad: 16 bytes, so that the eight rows of K_j that eight lanes read lie in different banks
///
///   global  reads Q once and K, V once per query tile; writes O and LSE once
// clang-format on

inline constexpr int kFa2Threads = 128;  ///< of a block

/// Tile sizes for a head dimension. Larger tiles mean fewer passes over K and V; what bounds them is registers (B_r D /
/// 128 floats of O_i a thread) and shared memory: in 16 bits always, and in float32
/// up to D = 64, a block stays within the 48 KiB that need no opt-in.
template <int D>
struct Fa2Tiles {
    static constexpr int B_r = D <= 128 ? 64 : 32;                 ///< queries
    static constexpr int B_c = D <= 32 ? 64 : D <= 128 ? 32 : 16;  ///< keys
};

/// Of a block: the tiles of the plan above.
template <class T, int D>
constexpr std::size_t fa2_shared_bytes() {
    constexpr int B_r = Fa2Tiles<D>::B_r, B_c = Fa2Tiles<D>::B_c, pad = simt::kVectorWidth<T>;
    return simt::shared_bytes<T>(B_r, D + pad) + 2 * simt::shared_bytes<T>(B_c, D + pad) +
           simt::shared_bytes<float>(B_r, B_c + 4);
}

template <class T, int D>
__global__ void __launch_bounds__(kFa2Threads) fa2_forward_kernel(ForwardTensors<T> t) {
    constexpr int B_r = Fa2Tiles<D>::B_r, B_c = Fa2Tiles<D>::B_c;
    constexpr int pitch = D + simt::kVectorWidth<T>;
    using Owner = RowOwner<B_r, kFa2Threads>;

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

    // BEGIN SOLUTION loop: key tiles come past; fetch K_j and V_j, S_ij = Q_i K_j^T
    for (int first_key = 0; first_key < key_length; first_key += B_c) {
        __syncthreads();  // all warps are done with the old K_j and V_j before anyone overwrites them
        copy_tile(K_j, K, first_key, t.vector_rows);
        copy_tile(V_j, V, first_key, t.vector_rows);
        __syncthreads();  // K_j, V_j (and, the first time, Q_i) are complete before anyone reads them

        float S_ij[Owner::rows][B_c / 8];
        multiply_transposed(S_ij, owner, Q_i, K_j);
        // END SOLUTION loop

        // BEGIN SOLUTION online_update: m_i, l_i and O_i under the new maximum; P_ij
#pragma unroll
        for (int i = 0; i < Owner::rows; ++i) {
            float m_tile = -INFINITY;
#pragma unroll
            for (int j = 0; j < B_c / 8; ++j) {
                const bool exists = first_key + owner.lane + 8 * j < key_length;
                S_ij[i][j] = exists ? S_ij[i][j] * t.scale : -INFINITY;
                m_tile = fmaxf(m_tile, S_ij[i][j]);
                watch_score(first_query + owner.row(i), first_key + owner.lane + 8 * j, S_ij[i][j]);
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
            watch_state(first_query + owner.row(i), m_i[i], l_i[i]);
            watch_rescale(first_query + owner.row(i), rescale);
#pragma unroll
            for (int c = 0; c < D / 8; ++c) O_i[i][c] *= rescale;
        }
        // END SOLUTION online_update

        // BEGIN SOLUTION loop: O_i += P_ij V_j
        __syncwarp();  // the rows of P_ij are complete before their warp reads them; no other warp touches them
        accumulate(O_i, owner, P_ij, V_j);
        // The next step overwrites P_ij only after the __syncthreads() above, which orders it after these reads.
    }
    // END SOLUTION loop

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

/// Of a block, for the host: what a launch with these tensors will ask for.
std::size_t fa2_shared_bytes(const AttentionArguments& a) {
    std::size_t bytes = 0;
    with_element_type(a.q.type, [&]<class T>(std::type_identity<T>) {
        with_head_dim(a.head_dim(), [&]<int D>(std::integral_constant<int, D>) { bytes = fa2_shared_bytes<T, D>(); });
    });
    return bytes;
}

/// Q once, K and V once for each query tile of each query head; O and LSE once.
GlobalBytes fa2_forward_bytes(const AttentionArguments& a) {
    GlobalBytes bytes;
    with_element_type(a.q.type, [&]<class T>(std::type_identity<T>) {
        with_head_dim(a.head_dim(), [&]<int D>(std::integral_constant<int, D>) {
            const std::uint64_t heads = a.batch() * a.query_heads();
            const std::uint64_t row = a.head_dim() * sizeof(T);
            const std::uint64_t tiles = ceil_div(a.query_length(), Fa2Tiles<D>::B_r);
            bytes.read = heads * row * (a.query_length() + tiles * 2 * a.key_length());
            bytes.written = heads * a.query_length() * (row + sizeof(float));
        });
    });
    return bytes;
}

/// Launches the kernel compiled for the problem's dtype and head dimension.
void launch_fa2_forward(const AttentionArguments& a) {
    with_element_type(a.q.type, [&]<class T>(std::type_identity<T>) {
        with_head_dim(a.head_dim(), [&]<int D>(std::integral_constant<int, D>) {
            cudaLaunchConfig_t config{};
            config.gridDim = dim3(ceil_div(a.query_length(), Fa2Tiles<D>::B_r), a.query_heads(), a.batch());
            config.blockDim = dim3(kFa2Threads);
            config.dynamicSmemBytes = fa2_shared_bytes<T, D>();
            config.stream = static_cast<cudaStream_t>(a.stream);
            simt::launch("fa2_forward_kernel", config, fa2_forward_kernel<T, D>, forward_tensors<T>(a));
        });
    });
}

}  // namespace ladder::SIMT_MACHINE
