#pragma once

#include "common/attention/arguments.h"
#include "common/attention/copy_tile.cuh"
#include "common/attention/dispatch.cuh"
#include "common/attention/edge_tile.cuh"
#include "common/attention/forward_tensors.cuh"
#include "common/attention/key_tiles.cuh"
#include "common/attention/online_softmax.cuh"
#include "common/attention/row_tile.cuh"
#include "common/attention/watch.cuh"

namespace ladder::SIMT_MACHINE {

// clang-format off
/// Causal FlashAttention-2, forward pass (Dao 2023, Algorithm 1 with the causal mask of section 3.1.1).
///
/// Changed since phase 3: a query may be forbidden to see the keys that come after it. Half of all scores are then not
/// wanted, and a kernel that computes them only to throw them away wastes half of its time. So the loop over key tiles
/// is cut into stages, at boundaries that are known before it starts:
///
///               keys ->                      f  full:  every query of the tile sees every key: phase 3's step, without
///    queries    f f f e .                              even the test for the end of the keys
///       |       f f f f e .                  e  edge:  the diagonal, or the end of the keys, runs through the tile:
///       v       f f f f f e .                          each score is tested
///                                            .         above the diagonal: never loaded, never computed
///
///   - the tests are paid for in the edge tiles only, one or a few in each row of tiles;
///   - exp becomes exp2, which is what the hardware has: log2(e) is multiplied into the scale once, and scaling a score
///     and subtracting the maximum is one fused multiply-add. m_i is then an exponent of 2; LSE_i is converted back;
///   - query tiles see unequal numbers of keys, so blocks take unequal time: the longest are started first.
///
///   grid    x = ceil(Sq / B_r) query tiles, the last tile first, y = Hq heads, z = B sequences
///   block   128 threads = 4 warps; warp w owns rows [w B_r / 4, (w + 1) B_r / 4), eight lanes to a row
///
///   shared  Q_i  [B_r, D]    B_r (D + pad) sizeof(T)     written once
///           K_j  [B_c, D]    B_c (D + pad) sizeof(T)     written each step, read by all warps
///           V_j  [B_c, D]    B_c (D + pad) sizeof(T)     likewise
///           P_ij [B_r, B_c]  B_r (B_c + 4) 4             rows written and read by their own warp only
///           pad: 16 bytes, so that the eight rows of K_j that eight lanes read lie in different banks
///
///   global  reads Q once; reads of K and V, once per query tile, the key tiles that the tile's last query sees any key
///           of: about half of them when Sq = Sk is large; writes O and LSE once
// clang-format on

inline constexpr int kCausalThreads = 128;  ///< of a block

/// Tile sizes for a head dimension, bounded as in phase 3 by registers (B_r D / 128 floats of O_i a thread) and by
/// shared memory. The mask adds a reason for small B_c: about half the work in an edge tile is for nothing.
template <int D>
struct CausalTiles {
    static constexpr int B_r = D <= 128 ? 64 : 32;                 ///< queries
    static constexpr int B_c = D <= 32 ? 64 : D <= 128 ? 32 : 16;  ///< keys
};

/// Of a block: the tiles of the plan above.
template <class T, int D>
constexpr std::size_t causal_shared_bytes() {
    constexpr int B_r = CausalTiles<D>::B_r, B_c = CausalTiles<D>::B_c, pad = simt::kVectorWidth<T>;
    return simt::shared_bytes<T>(B_r, D + pad) + 2 * simt::shared_bytes<T>(B_c, D + pad) +
           simt::shared_bytes<float>(B_r, B_c + 4);
}

/// O and LSE of this thread's rows that exist.
template <class T, int D, class Owner>
__device__ __forceinline__ void store_rows(const simt::GlobalTensor<T, 2>& O, const simt::GlobalTensor<float, 1>& LSE,
                                           const float (&O_i)[Owner::rows][D / 8], const float (&m_i)[Owner::rows],
                                           const float (&l_i)[Owner::rows], const int (&visible)[Owner::rows],
                                           const Owner& owner, int first_query) {
    const int query_length = int(O.extent(0)), head_dim = int(O.extent(1));
    constexpr int width = kRowVector<T, D>;
#pragma unroll
    for (int i = 0; i < Owner::rows; ++i) {
        const int query = first_query + owner.row(i);
        if (query >= query_length) continue;
        // One division per row. A row that sees no key is 0; where it sees keys and every score is -inf, this becomes
        // 0 * (1 / 0): NaN, as softmax has it.
        const float normalizer = visible[i] > 0 ? 1.0f / l_i[i] : 0.0f;
#pragma unroll
        for (int c = 0; c < D / 8; ++c) {
            const int column = output_column<T, D>(owner.lane, c / width) + c % width;
            if (column < head_dim) O(query, column) = T(O_i[i][c] * normalizer);
        }
        if (owner.lane == 0) LSE(query) = kLn2 * (m_i[i] + log2f(l_i[i]));  // from powers of 2 back to powers of e
    }
}

template <class T, int D>
__global__ void __launch_bounds__(kCausalThreads) causal_forward_kernel(ForwardTensors<T> t, Mask mask) {
    constexpr int B_r = CausalTiles<D>::B_r, B_c = CausalTiles<D>::B_c;
    constexpr int pitch = D + simt::kVectorWidth<T>;
    using Owner = RowOwner<B_r, kCausalThreads>;

    // Blocks start in the order of blockIdx.x. The last queries see the most keys: begun last, they would be what the
    // whole GPU waits for at the end.
    const int query_tile = gridDim.x - 1 - blockIdx.x;
    const int b = blockIdx.z, h = blockIdx.y, first_query = query_tile * B_r;
    const auto Q = t.Q.slice(b, h);
    const auto K = t.K.slice(b, t.kv_head(h));
    const auto V = t.V.slice(b, t.kv_head(h));
    const int query_length = int(Q.extent(0)), key_length = int(K.extent(0));

    simt::SharedArena arena;
    const auto Q_i = arena.tile<T, B_r, D, pitch>("Q_i");
    const auto K_j = arena.tile<T, B_c, D, pitch>("K_j");
    const auto V_j = arena.tile<T, B_c, D, pitch>("V_j");
    const auto P_ij = arena.tile<float, B_r, B_c, B_c + 4>("P_ij");

    const Owner owner;
    int visible[Owner::rows];  // row i sees keys [0, visible[i])
    float m_i[Owner::rows], l_i[Owner::rows], O_i[Owner::rows][D / 8];
#pragma unroll
    for (int i = 0; i < Owner::rows; ++i) {
        visible[i] = visible_keys(mask, first_query + owner.row(i), query_length, key_length);
        m_i[i] = -INFINITY;
        l_i[i] = 0.0f;
#pragma unroll
        for (int c = 0; c < D / 8; ++c) O_i[i][c] = 0.0f;
    }

    copy_tile(Q_i, Q, first_query, t.vector_rows);

    const float scale_log2 = t.scale * kLog2E;  // exp(scale s) = 2^(scale_log2 s)

    // One step of the loop. The stage is a template parameter: each is compiled on its own, the full one without a
    // test.
    const auto step = [&]<Stage stage>(std::integral_constant<Stage, stage>, int j_tile) {
        const int first_key = j_tile * B_c;
        __syncthreads();  // all warps are done with the old K_j and V_j before anyone overwrites them
        copy_tile(K_j, K, first_key, t.vector_rows);
        copy_tile(V_j, V, first_key, t.vector_rows);
        __syncthreads();  // K_j, V_j (and, the first time, Q_i) are complete before anyone reads them

        float S_ij[Owner::rows][B_c / 8];
        multiply_transposed(S_ij, owner, Q_i, K_j);

        int visible_here[Owner::rows];  // of this tile's keys
#pragma unroll
        for (int i = 0; i < Owner::rows; ++i) visible_here[i] = visible[i] - first_key;

#pragma unroll
        for (int i = 0; i < Owner::rows; ++i) {
            // BEGIN SOLUTION masked_update: the maximum, the sum and P_ij, of the keys that row i sees, in powers of 2
            const auto sees = [&](int j) { return stage == Stage::full || owner.lane + 8 * j < visible_here[i]; };

            float m_tile = -INFINITY;
#pragma unroll
            for (int j = 0; j < B_c / 8; ++j)
                if (sees(j)) m_tile = fmaxf(m_tile, S_ij[i][j] * scale_log2);
            const float m_new = fmaxf(m_i[i], row_max(m_tile));
            const float m_safe = safe_maximum(m_new);
            // What the old sums are worth under the new maximum.
            const float rescale = exp2f(merge_exponent(m_i[i], m_new));

            float l_tile = 0.0f;
#pragma unroll
            for (int j = 0; j < B_c / 8; ++j) {
                const float p = sees(j) ? exp2f(fmaf(S_ij[i][j], scale_log2, -m_safe)) : 0.0f;
                l_tile += p;
                P_ij(owner.row(i), owner.lane + 8 * j) = p;
                watch_score(first_query + owner.row(i), first_key + owner.lane + 8 * j,
                            sees(j) ? S_ij[i][j] * scale_log2 : -INFINITY);
            }
            //= const float m_new = m_i[i], rescale = 1.0f, l_tile = 0.0f;
            // END SOLUTION masked_update
            m_i[i] = m_new;
            l_i[i] = rescale * l_i[i] + row_sum(l_tile);
            watch_state(first_query + owner.row(i), m_i[i], l_i[i]);
            watch_rescale(first_query + owner.row(i), rescale);
#pragma unroll
            for (int c = 0; c < D / 8; ++c) O_i[i][c] *= rescale;
        }
        __syncwarp();  // the rows of P_ij are complete before their warp reads them; no other warp touches them
        // BEGIN SOLUTION masked_update: O_i += P_ij V_j, of the keys that each row sees
        if constexpr (stage == Stage::full)
            accumulate(O_i, owner, P_ij, V_j);
        else
            accumulate_visible(O_i, owner, visible_here, P_ij, V_j);
        //= accumulate(O_i, owner, P_ij, V_j);
        // END SOLUTION masked_update
        // The next step overwrites P_ij only after the __syncthreads() above, which orders it after these reads.
    };

    const KeyTiles tiles = key_tiles(mask, first_query, B_r, B_c, query_length, key_length);
    int j = 0;
    for (; j < tiles.full; ++j) step(std::integral_constant<Stage, Stage::full>(), j);
    for (; j < tiles.visited; ++j) step(std::integral_constant<Stage, Stage::edge>(), j);

    store_rows<T, D>(t.O.slice(b, h), t.LSE.slice(b, h), O_i, m_i, l_i, visible, owner, first_query);
}

/// Q once; for each query tile of each query head, the rows of K and V in the key tiles that it visits; O and LSE once.
GlobalBytes causal_forward_bytes(const AttentionArguments& a) {
    GlobalBytes bytes;
    with_element_type(a.q.type, [&]<class T>(std::type_identity<T>) {
        with_head_dim(a.head_dim(), [&]<int D>(std::integral_constant<int, D>) {
            constexpr int B_r = CausalTiles<D>::B_r, B_c = CausalTiles<D>::B_c;
            const std::uint64_t heads = a.batch() * a.query_heads();
            const std::uint64_t row = a.head_dim() * sizeof(T);
            bytes.read = heads * row * (a.query_length() + 2 * visited_keys(a, B_r, B_c));
            bytes.written = heads * a.query_length() * (row + sizeof(float));
        });
    });
    return bytes;
}

/// Shared memory that a block needs.
std::size_t causal_forward_shared_bytes(const AttentionArguments& a) {
    std::size_t bytes = 0;
    with_element_type(a.q.type, [&]<class T>(std::type_identity<T>) {
        with_head_dim(a.head_dim(),
                      [&]<int D>(std::integral_constant<int, D>) { bytes = causal_shared_bytes<T, D>(); });
    });
    return bytes;
}

/// Launches the kernel compiled for the problem's dtype and head dimension.
void launch_causal_forward(const AttentionArguments& a) {
    with_element_type(a.q.type, [&]<class T>(std::type_identity<T>) {
        with_head_dim(a.head_dim(), [&]<int D>(std::integral_constant<int, D>) {
            cudaLaunchConfig_t config{};
            config.gridDim = dim3(ceil_div(a.query_length(), CausalTiles<D>::B_r), a.query_heads(), a.batch());
            config.blockDim = dim3(kCausalThreads);
            config.dynamicSmemBytes = causal_shared_bytes<T, D>();
            config.stream = static_cast<cudaStream_t>(a.stream);
            simt::launch("causal_forward_kernel", config, causal_forward_kernel<T, D>, forward_tensors<T>(a), a.mask);
        });
    });
}

}  // namespace ladder::SIMT_MACHINE
