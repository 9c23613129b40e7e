#pragma once

#include "common/attention/copy_tile.cuh"
#include "common/attention/dispatch.cuh"
#include "common/attention/edge_tile.cuh"
#include "common/attention/forward_tensors.cuh"
#include "common/attention/online_softmax.cuh"
#include "common/attention/row_tile.cuh"

namespace ladder::SIMT_MACHINE {

// clang-format off
/// Causal FlashAttention-2 with a sliding window (Beltagy, Peters, Cohan 2020, section 3.1; Jiang and others 2023, section 2):
/// a query sees the last W keys of those that the causal mask, aligned bottom-right, lets it see.
///
///   query i sees key j   if   i + Sk - Sq - W < j <= i + Sk - Sq
///
/// What a row sees is an interval of keys, no longer a prefix. So there is an edge on the left of a query tile's key tiles, too,
/// and tiles to the left of that are as little touched as those above the diagonal:
///
///               keys ->
///    queries    . e f e . .         f  full:  every query of the tile sees every key
///       |       . . e f e .         e  edge:  each score is tested, on both sides
///       v       . . . e f e         .         nothing is visible: never loaded, never computed
///
/// Everything else is phase 4's kernel, causal.cuh; its plan is written down there. Query tiles are taken in order here: with a window
/// all of them take about equal time.
// clang-format on

inline constexpr int kWindowThreads = 128;  ///< of a block

/// Tile sizes for a head dimension, as in causal.cuh.
template <int D>
struct WindowTileSizes {
    static constexpr int B_r = D <= 128 ? 64 : 32;                 ///< queries
    static constexpr int B_c = D <= 32 ? 64 : D <= 128 ? 32 : 16;  ///< keys
};

/// Of a block: the tiles of Q, K, V and P.
template <class T, int D>
constexpr std::size_t window_shared_bytes() {
    constexpr int B_r = WindowTileSizes<D>::B_r, B_c = WindowTileSizes<D>::B_c, pad = simt::kVectorWidth<T>;
    return simt::shared_bytes<T>(B_r, D + pad) + 2 * simt::shared_bytes<T>(B_c, D + pad) +
           simt::shared_bytes<float>(B_r, B_c + 4);
}

/// Keys [from, to): none if they are equal.
struct Interval {
    int from, to;  ///< the first, and the one after the last
};

/// The keys that a query sees. Neither end ever falls from a query to the next. Queries beyond the last one, which a
/// ragged tile contains, are answered as if they existed.
__host__ __device__ constexpr Interval seen_keys(int query, int query_length, int key_length, int window) {
    const int diagonal = query + 1 + key_length - query_length;
    const int to = diagonal < 0 ? 0 : diagonal > key_length ? key_length : diagonal;
    // BEGIN SOLUTION window: where the window of this query begins
    const int from = to > window ? to - window : 0;
    //= const int from = 0;
    // END SOLUTION window
    return {from, to};
}

/// What the key tiles of one query tile are to it, from left to right. Where full_from >= full_to no tile is full.
struct WindowTiles {
    int first;      ///< tiles before this one nobody needs
    int full_from;  ///< tiles [full_from, full_to) are full: every query of the tile sees every key
    int full_to;
    int end;  ///< tiles from this one on nobody needs
};

/// The boundaries for queries [first_query, first_query + B_r) and key tiles of B_c keys. `first_query` must exist.
__host__ __device__ constexpr WindowTiles window_tiles(int first_query, int B_r, int B_c, int query_length,
                                                       int key_length, int window) {
    const int last_query = query_length - first_query < B_r ? query_length - 1 : first_query + B_r - 1;
    const Interval first = seen_keys(first_query, query_length, key_length, window);
    const Interval last = seen_keys(last_query, query_length, key_length, window);
    const int full_to = first.to / B_c, end = (last.to + B_c - 1) / B_c;
    // BEGIN SOLUTION window: the first tile that anybody needs, and the first that everybody sees whole
    return {.first = first.from / B_c, .full_from = (last.from + B_c - 1) / B_c, .full_to = full_to, .end = end};
    //= return {.first = 0, .full_from = 0, .full_to = full_to, .end = end};
    // END SOLUTION window
}

/// O(row i, :) += P(row i, :) V over keys [from[i], to[i]) of the tile. The other keys are left out of the sum: their
/// probability is 0, but 0 * NaN would be NaN. The ends may lie outside of the tile.
template <class Owner, class T, int B_r, int B_c, int D, int PitchP, int PitchV>
__device__ __forceinline__ void accumulate_seen(float (&O)[Owner::rows][D / 8], const Owner& owner,
                                                const int (&from)[Owner::rows], const int (&to)[Owner::rows],
                                                const simt::SharedTile<float, B_r, B_c, PitchP>& P,
                                                const simt::SharedTile<T, B_c, D, PitchV>& V) {
    constexpr int width = kRowVector<T, D>;
    using Vector = simt::Vector<T, width>;
    const int least = from[0] > 0 ? from[0] : 0;  // rows see no less and no more than this, as the ends never fall
    const int most = to[Owner::rows - 1] < B_c ? to[Owner::rows - 1] : B_c;
    for (int j = least; j < most; ++j) {
        float p[Owner::rows];
#pragma unroll
        for (int i = 0; i < Owner::rows; ++i) p[i] = P(owner.row(i), j);
#pragma unroll
        for (int n = 0; n < D / 8 / width; ++n) {
            const Vector v = V.template vec<Vector>(j, output_column<T, D>(owner.lane, n));
#pragma unroll
            for (int i = 0; i < Owner::rows; ++i) {
                if (j < from[i] || j >= to[i]) continue;
#pragma unroll
                for (int e = 0; e < width; ++e) O[i][n * width + e] += p[i] * float(v.element[e]);
            }
        }
    }
}

template <class T, int D>
__global__ void __launch_bounds__(kWindowThreads) window_forward_kernel(ForwardTensors<T> t, int window) {
    constexpr int B_r = WindowTileSizes<D>::B_r, B_c = WindowTileSizes<D>::B_c;
    constexpr int pitch = D + simt::kVectorWidth<T>;
    using Owner = RowOwner<B_r, kWindowThreads>;

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
    Interval seen[Owner::rows];  // by row i
    float m_i[Owner::rows], l_i[Owner::rows], O_i[Owner::rows][D / 8];
#pragma unroll
    for (int i = 0; i < Owner::rows; ++i) {
        seen[i] = seen_keys(first_query + owner.row(i), query_length, key_length, window);
        m_i[i] = -INFINITY;
        l_i[i] = 0.0f;
#pragma unroll
        for (int c = 0; c < D / 8; ++c) O_i[i][c] = 0.0f;
    }

    copy_tile(Q_i, Q, first_query, t.vector_rows);

    const float scale_log2 = t.scale * kLog2E;  // exp(scale s) = 2^(scale_log2 s)

    // One step of the loop, compiled once for each stage.
    const auto step = [&]<Stage stage>(std::integral_constant<Stage, stage>, int j_tile) {
        const int first_key = j_tile * B_c;
        __syncthreads();  // all warps are done with the old K_j and V_j before anyone overwrites them
        copy_tile(K_j, K, first_key, t.vector_rows);
        copy_tile(V_j, V, first_key, t.vector_rows);
        __syncthreads();  // K_j, V_j (and, the first time, Q_i) are complete before anyone reads them

        float S_ij[Owner::rows][B_c / 8];
        multiply_transposed(S_ij, owner, Q_i, K_j);

        int from_here[Owner::rows], to_here[Owner::rows];  // row i sees keys [from_here[i], to_here[i]) of this tile
#pragma unroll
        for (int i = 0; i < Owner::rows; ++i) {
            from_here[i] = seen[i].from - first_key;
            to_here[i] = seen[i].to - first_key;
        }

#pragma unroll
        for (int i = 0; i < Owner::rows; ++i) {
            const auto sees = [&](int j) {
                const int key = owner.lane + 8 * j;
                // BEGIN SOLUTION window: whether row i sees this key of the tile
                return stage == Stage::full || (key >= from_here[i] && key < to_here[i]);
                //= return stage == Stage::full || key < to_here[i];
                // END SOLUTION window
            };

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
            }
            m_i[i] = m_new;
            l_i[i] = rescale * l_i[i] + row_sum(l_tile);
#pragma unroll
            for (int c = 0; c < D / 8; ++c) O_i[i][c] *= rescale;
        }
        __syncwarp();  // the rows of P_ij are complete before their warp reads them; no other warp touches them
        if constexpr (stage == Stage::full)
            accumulate(O_i, owner, P_ij, V_j);
        else
            accumulate_seen(O_i, owner, from_here, to_here, P_ij, V_j);
        // The next step overwrites P_ij only after the __syncthreads() above, which orders it after these reads.
    };

    const WindowTiles tiles = window_tiles(first_query, B_r, B_c, query_length, key_length, window);
    int j = tiles.first;
    // BEGIN SOLUTION window: the edge on the left
    for (; j < tiles.full_from; ++j) step(std::integral_constant<Stage, Stage::edge>(), j);
    // END SOLUTION window
    for (; j < tiles.full_to; ++j) step(std::integral_constant<Stage, Stage::full>(), j);
    for (; j < tiles.end; ++j) step(std::integral_constant<Stage, Stage::edge>(), j);

    const auto O = t.O.slice(b, h);
    const auto LSE = t.LSE.slice(b, h);
    constexpr int width = kRowVector<T, D>;
#pragma unroll
    for (int i = 0; i < Owner::rows; ++i) {
        const int query = first_query + owner.row(i);
        if (query >= query_length) continue;
        // A row that sees no key is 0; where it sees keys and every score is -inf, this becomes NaN, as softmax has it.
        const float normalizer = seen[i].from < seen[i].to ? 1.0f / l_i[i] : 0.0f;
#pragma unroll
        for (int c = 0; c < D / 8; ++c) {
            const int column = output_column<T, D>(owner.lane, c / width) + c % width;
            if (column < head_dim) O(query, column) = T(O_i[i][c] * normalizer);
        }
        if (owner.lane == 0) LSE(query) = kLn2 * (m_i[i] + log2f(l_i[i]));  // from powers of 2 back to powers of e
    }
}

/// Launches the kernel compiled for the problem's dtype and head dimension. `window`: W, at least 1.
void launch_window_forward(const AttentionArguments& a, int window) {
    with_element_type(a.q.type, [&]<class T>(std::type_identity<T>) {
        with_head_dim(a.head_dim(), [&]<int D>(std::integral_constant<int, D>) {
            cudaLaunchConfig_t config{};
            config.gridDim = dim3(ceil_div(a.query_length(), WindowTileSizes<D>::B_r), a.query_heads(), a.batch());
            config.blockDim = dim3(kWindowThreads);
            config.dynamicSmemBytes = window_shared_bytes<T, D>();
            config.stream = static_cast<cudaStream_t>(a.stream);
            simt::launch("window_forward_kernel", config, window_forward_kernel<T, D>, forward_tensors<T>(a), window);
        });
    });
}

}  // namespace ladder::SIMT_MACHINE
