#pragma once

#include "common/attention/arguments.h"
#include "common/attention/copy_tile.cuh"
#include "common/attention/dispatch.cuh"
#include "common/attention/edge_tile.cuh"
#include "common/attention/forward_tensors.cuh"
#include "common/attention/key_tiles.cuh"
#include "common/attention/online_softmax.cuh"
#include "common/attention/register_tile.cuh"
#include "common/attention/watch.cuh"

namespace ladder::SIMT_MACHINE {

// clang-format off
/// Causal FlashAttention-2, forward pass, the next step: the stages of causal.cuh on large tiles, for float32.
///
/// Changed since causal.cuh: what fa2_tiled.cuh of phase 3 changed, and
///
///   - an edge tile of 64 keys or more is mostly visible to most rows. A thread adds the keys that all of its rows see as in a
///     full tile, and only the few that remain one by one.
///
///   grid    x = ceil(Sq / 128) query tiles, the last tile first, y = Hq heads, z = B sequences
///   block   128 threads for D <= 64: a warp owns 32 rows, eight lanes to a row; else 256: 16 rows, sixteen lanes to a row
///
///   shared  Q_i  [128, D]    128 (D + 4) 4     written once
///           K_j  [B_c, D]    B_c (D + 4) 4     one copy under way or one tile in use, never both
///           V_j  [B_c, D]    B_c  D      4     likewise; no padding: lanes read one row together
///           P_ij [128, 64]   128 (64 + 4) 4    rows written and read by their own warp only. For D > 64 a quarter of
///                [128, 32]   128 (32 + 16) 4   its 128 keys at a time
///           103424 bytes for D = 64, 225280 for D = 128
///
///   global  reads Q once; reads of K and V, once per query tile, the key tiles that the tile's last query sees any key
///           of; writes O and LSE once
// clang-format on

template <int D>
__global__ void __launch_bounds__(RegisterTiles<D>::threads, RegisterTiles<D>::resident)
    causal_tiled_kernel(ForwardTensors<float> t, Mask mask) {
    using Tiles = RegisterTiles<D>;
    constexpr int B_r = Tiles::B_r, B_c = Tiles::B_c, threads = Tiles::threads;
    constexpr int lanes = Tiles::lanes_per_row, columns = B_c / lanes;
    using Owner = PairedRowOwner<B_r, threads, lanes>;

    const int query_tile = gridDim.x - 1 - blockIdx.x;  // the last queries see the most keys: begun first
    const int b = blockIdx.z, h = blockIdx.y, first_query = query_tile * B_r;
    const auto Q = t.Q.slice(b, h);
    const auto K = t.K.slice(b, t.kv_head(h));
    const auto V = t.V.slice(b, t.kv_head(h));
    const int query_length = int(Q.extent(0)), key_length = int(K.extent(0));
    const KeyTiles tiles = key_tiles(mask, first_query, B_r, B_c, query_length, key_length);

    simt::SharedArena arena;
    const auto Q_i = arena.tile<float, B_r, D, Tiles::row_pitch>("Q_i");
    const auto K_j = arena.tile<float, B_c, D, Tiles::row_pitch>("K_j");
    const auto V_j = arena.tile<float, B_c, D>("V_j");
    const auto P_ij = arena.tile<float, B_r, Tiles::part, Tiles::score_pitch>("P_ij");

    const Owner owner;
    float m_i[Owner::rows], l_i[Owner::rows], O_i[Owner::rows][D / lanes];  // l_i: of this lane's columns
#pragma unroll
    for (int i = 0; i < Owner::rows; ++i) {
        m_i[i] = -INFINITY;
        l_i[i] = 0.0f;
#pragma unroll
        for (int c = 0; c < D / lanes; ++c) O_i[i][c] = 0.0f;
    }

    if (tiles.visited > 0) copy_tile_async<threads>(K_j, K, 0, t.vector_rows);
    simt::commit_copies();
    const SignedScale scale(t.scale);
    load_signed<threads>(Q_i, Q, first_query, scale.sign, t.vector_rows);
    const float scale_log2 = scale.magnitude * kLog2E;  // exp(scale s) = 2^(scale_log2 s)

    // One step of the loop, for a tile of a stage that is known when the kernel is compiled, or when it runs.
    const auto step = [&](auto stage, int j_tile) {
        const int first_key = j_tile * B_c;
        simt::wait_copies<0>();
        __syncthreads();  // K_j (and, the first time, Q_i) is complete before anyone reads it, and everyone is done
                          // with the old V_j and P_ij before they are overwritten
        copy_tile_async<threads>(V_j, V, first_key, t.vector_rows);
        simt::commit_copies();

        const auto visible_to = [&](int i) {  // row i sees the first so many keys of this tile, or all
            return visible_keys(mask, first_query + owner.row(i), query_length, key_length) - first_key;
        };
        float S_ij[Owner::rows][columns];  // and then P_ij
        multiply_transposed<D, 1>(S_ij, owner, Q_i, K_j);
        if (stage == Stage::edge) {
#pragma unroll
            for (int i = 0; i < Owner::rows; ++i) {
                const int visible = visible_to(i);
#pragma unroll
                for (int j = 0; j < columns; ++j)
                    if (owner.lane + lanes * j >= visible) S_ij[i][j] = -INFINITY;
            }
        }

#pragma unroll
        for (int i = 0; i < Owner::rows; ++i) {
            float m_tile = -INFINITY;
#pragma unroll
            for (int j = 0; j < columns; ++j) m_tile = fmaxf(m_tile, S_ij[i][j]);
            const float m_new = fmaxf(m_i[i], Owner::row_max(m_tile) * scale_log2);
            const float subtracted = safe_maximum(m_new), rescale = rescale_factor(m_i[i], m_new);

            float l_tile = 0.0f;
#pragma unroll
            for (int j = 0; j < columns; ++j) {
                const float p = simt::fast_exp2(fmaf(S_ij[i][j], scale_log2, -subtracted));
                l_tile += p;
                watch_score(first_query + owner.row(i), first_key + owner.lane + lanes * j,
                            S_ij[i][j] * scale.magnitude);
                S_ij[i][j] = p;
                if (j < columns / Tiles::parts) P_ij(owner.row(i), owner.lane + lanes * j) = p;
            }
            m_i[i] = m_new;
            l_i[i] = rescale * l_i[i] + l_tile;
            watch_state(first_query + owner.row(i), m_i[i], l_i[i], owner.lane);
            watch_rescale(first_query + owner.row(i), rescale, owner.lane);
#pragma unroll
            for (int c = 0; c < D / lanes; ++c) O_i[i][c] *= rescale;
        }

        simt::wait_copies<0>();
        __syncthreads();  // V_j, and the rows of P_ij, are complete before anyone reads them, and everyone is done with
                          // K_j before it is overwritten
        if (j_tile + 1 < tiles.visited) copy_tile_async<threads>(K_j, K, first_key + B_c, t.vector_rows);
        simt::commit_copies();
        int visible[Owner::rows];
#pragma unroll
        for (int i = 0; i < Owner::rows; ++i) visible[i] = stage == Stage::edge ? visible_to(i) : B_c;
#pragma unroll
        for (int part = 0; part < Tiles::parts; ++part) {
            if (part > 0) {    // for D > 64, what of P_ij waits in registers
                __syncwarp();  // the warp's lanes are done with the part before, before they overwrite it
                store_part(P_ij, owner, S_ij, part);
                __syncwarp();  // the part is complete before other lanes read it
            }
            // The keys that all rows of the thread see (its first row sees the fewest), and then, of an edge tile, the
            // others.
            const int first = part * Tiles::part, seen = visible[0] - first;
            const int seen_by_all = seen < 0 ? 0 : seen < Tiles::part ? seen / 4 * 4 : Tiles::part;
            accumulate<Tiles::narrow ? 4 : 1>(O_i, owner, P_ij, V_j, seen_by_all, first);
            accumulate_visible(O_i, owner, visible, P_ij, V_j, seen_by_all, first);
        }
    };

    int j = 0;
    if constexpr (Tiles::narrow) {  // each stage is compiled on its own, the full one without a test
        for (; j < tiles.full; ++j) step(KnownStage<Stage::full>(), j);
        for (; j < tiles.visited; ++j) step(KnownStage<Stage::edge>(), j);
    } else {
        // Here a step is so long that a second copy of it, for the one or two edge tiles of a block, would have to come
        // from memory each time (README.md has what that cost).
        for (; j < tiles.visited; ++j) step(j < tiles.full ? Stage::full : Stage::edge, j);
    }

    const auto O = t.O.slice(b, h);
    const auto LSE = t.LSE.slice(b, h);
#pragma unroll
    for (int i = 0; i < Owner::rows; ++i) {
        const float l = Owner::row_sum(l_i[i]);  // by all lanes, before those of rows that do not exist leave
        const int query = first_query + owner.row(i);
        if (query >= query_length) continue;
        // One division per row. A row that sees no key is 0; where it sees keys and every score is -inf, this becomes
        // 0 * (1 / 0): NaN, as softmax has it.
        const bool sees_any = visible_keys(mask, query, query_length, key_length) > 0;
        store_row<D, lanes>(O, query, O_i[i], owner.lane, sees_any ? 1.0f / l : 0.0f, t.vector_rows);
        if (owner.lane == 0)  // from powers of 2 back to powers of e
            LSE(query) = kLn2 * (m_i[i] + log2f(l));
    }
}

/// Shared memory that a block needs.
std::size_t causal_tiled_shared_bytes(const AttentionArguments& a) {
    std::size_t bytes = 0;
    with_tiled_head_dim(a.head_dim(),
                        [&]<int D>(std::integral_constant<int, D>) { bytes = RegisterTiles<D>::shared_bytes; });
    return bytes;
}

/// Q once; for each query tile of each query head, the rows of K and V in the key tiles that it visits; O and LSE once.
GlobalBytes causal_tiled_bytes(const AttentionArguments& a) {
    constexpr int B_r = RegisterTiles<64>::B_r;
    const int B_c = a.head_dim() <= 64 ? RegisterTiles<64>::B_c : RegisterTiles<128>::B_c;
    const std::uint64_t heads = a.batch() * a.query_heads(), row = a.head_dim() * sizeof(float);
    return {.read = heads * row * (a.query_length() + 2 * visited_keys(a, B_r, B_c)),
            .written = heads * a.query_length() * (row + sizeof(float))};
}

/// Launches the kernel compiled for the problem's head dimension; its tensors are float32, with D <= 128.
void launch_causal_tiled(const AttentionArguments& a) {
    with_tiled_head_dim(a.head_dim(), [&]<int D>(std::integral_constant<int, D>) {
        using Tiles = RegisterTiles<D>;
        cudaLaunchConfig_t config{};
        config.gridDim = dim3(ceil_div(a.query_length(), Tiles::B_r), a.query_heads(), a.batch());
        config.blockDim = dim3(Tiles::threads);
        config.dynamicSmemBytes = Tiles::shared_bytes;
        config.stream = static_cast<cudaStream_t>(a.stream);
        simt::launch("causal_tiled_kernel", config, causal_tiled_kernel<D>, forward_tensors<float>(a), a.mask);
    });
}

}  // namespace ladder::SIMT_MACHINE
