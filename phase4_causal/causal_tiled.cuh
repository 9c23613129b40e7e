#pragma once

#include "common/attention/dispatch.cuh"
#include "common/attention/forward_tensors.cuh"
#include "common/attention/key_tiles.cuh"
#include "common/attention/online_softmax.cuh"
#include "common/attention/register_tile.cuh"
#include "common/attention/slice_ring.cuh"

namespace ladder::SIMT_MACHINE {

// clang-format off
/// Causal FlashAttention-2, forward pass, the next step: the stages of causal.cuh on large tiles, for float32.
///
/// Changed since causal.cuh: what fa2_tiled.cuh of phase 3 changed, and
///
///   - an edge tile of 64 keys or more is mostly visible to most rows. A warp adds the keys that all of its rows see as in a
///     full tile, and only those that some of them see row by row. A warp that sees none of the tile makes no weights;
///   - the stages share the instructions of all but the second product. Of each product eight outer products are written out;
///     for D = 256 sixteen of the first and four of the second; in an edge tile, of the second, half as many. A short sequence
///     has a few tiles only, and each instruction is fetched for those;
///   - the slices of V_j that no query of the block sees are not fetched;
///   - the longest blocks of all heads start first, not those of each head in turn. Where all blocks run at once, the second
///     half of them starts with the shortest, so that a multiprocessor gets a long block and a short one.
///
///   grid    x = Hq heads, y = B sequences, z = ceil(Sq / B_r) query tiles, the last tile first; B_r = 128 where that makes a
///           block for every multiprocessor, else 64; also 64 for D = 96 and 256 under a mask, up to 1024 tokens
///   block   a thread has eight rows; eight lanes share a row, a warp owns 32 rows, for B_r = 128 and D <= 96: 128 threads;
///           else sixteen lanes, 16 rows: 2 B_r threads
///
///   shared  Q_i^T   [D, B_r]     D (B_r + 4) 4       written once
///           P_ij^T  [B_c, B_r]   B_c (B_r + 4) 4     columns written and read by their own warp only; B_c = 64, or 128 where
///                                                    sixteen lanes share a row and D <= 128
///           slots   [2, 32 (B_c + 4)] 4              of K_j^T 32 columns, or as much of V_j; four slots, and two barriers,
///                                                    for a block that has a multiprocessor to itself
///           84,992 bytes for B_r = 128 and D = 64, 202,768 for D = 128, 203,792 for D = 256
///
///   global  reads Q once; reads of K the key tiles that the tile's last query sees any key of, of V the slices; writes O
///           and LSE once
// clang-format on

/// Whether no number is infinite or NaN, any of which times 0 is NaN.
template <int N>
__device__ __forceinline__ bool all_finite(const float (&x)[N]) {
    float zero[2] = {};  // two sums, so that one's additions do not wait for each other
#pragma unroll
    for (int n = 0; n < N; ++n) zero[n % 2] = fmaf(x[n], 0.0f, zero[n % 2]);
    return zero[0] + zero[1] == 0.0f;
}

/// As add_outer_products, for the keys from `key` on that some rows of the warp see and others do not: key k counts for
/// row i if k < visible[i]. The others have probability 0, but that does not make them harmless: 0 * NaN is NaN, and a
/// key that a query does not see must not reach it whatever it holds.
template <class Owner, int Columns, class P, class V>
__device__ __forceinline__ void add_visible(float (&O)[Owner::rows][Columns], const Owner& owner, const P& P_transposed,
                                            int first, const V& values, int key, int end,
                                            const int (&visible)[Owner::rows]) {
#pragma unroll 1
    for (; key < end; ++key) {
        float p[Owner::rows], v[Columns];
        read_factors(p, v, owner, P_transposed, first + key, values, key);
        // Where all are finite, a probability of 0 is enough. In long rows (D = 256) to look takes less time than
        // branches.
        if (Columns >= 16 && all_finite(v)) {
            add_outer_product(O, p, v);
            continue;
        }
#pragma unroll
        for (int i = 0; i < Owner::rows; ++i)
            if (first + key < visible[i])
#pragma unroll
                for (int c = 0; c < Columns; ++c) O[i][c] += p[i] * v[c];
    }
}

template <int B_r, int D>
__global__ void __launch_bounds__(RegisterTiles<B_r, D>::threads, RegisterTiles<B_r, D>::resident)
    causal_tiled_kernel(ForwardTensors<float> t, Mask mask, bool in_pairs) {
    using Tiles = RegisterTiles<B_r, D>;
    constexpr int B_c = Tiles::B_c, threads = Tiles::threads, lanes = Tiles::lanes_per_row, columns = B_c / lanes;
    using Owner = TileOwner<B_r, threads, lanes>;
    constexpr int values_unroll = D == 256 ? 4 : 8;  // rows of V_j written out; half as many in an edge tile

    const int b = blockIdx.y, h = blockIdx.x;
    // The last queries see the most keys: begun first.
    const bool shortest_first = in_pairs && 2 * blockIdx.z >= gridDim.z;
    const int query_tile = shortest_first ? blockIdx.z - (gridDim.z + 1) / 2 : gridDim.z - 1 - blockIdx.z;
    const int first_query = query_tile * B_r;
    const auto Q = t.Q.slice(b, h);
    const auto K = t.K.slice(b, t.kv_head(h));
    const auto V = t.V.slice(b, t.kv_head(h));
    const int query_length = int(Q.extent(0)), key_length = int(K.extent(0));
    const KeyTiles tiles = key_tiles(mask, first_query, B_r, B_c, query_length, key_length);
    const auto seen_by = [&](int row) { return visible_keys(mask, first_query + row, query_length, key_length); };

    simt::SharedArena arena;
    const auto Q_i = arena.tile<float, D, B_r, Tiles::query_pitch>("Q_i");
    const auto P_ij = arena.tile<float, B_c, B_r, Tiles::query_pitch>("P_ij");
    SliceRing<Tiles> slices(arena, K, V, tiles.visited * B_c, t.vector_rows);

    const Owner owner;
    const int seen_by_all = seen_by(owner.first_row_of_warp());  // of the warp's rows, and then by any
    const int seen_by_any = seen_by(owner.first_row_of_warp() + Owner::rows_per_warp - 1);
    const int seen_by_block = seen_by((query_length - first_query < B_r ? query_length - first_query : B_r) - 1);
    float m_i[Owner::rows], l_i[Owner::rows], O_i[Owner::rows][D / lanes];  // l_i: of this lane's columns
#pragma unroll
    for (int i = 0; i < Owner::rows; ++i) {
        m_i[i] = -INFINITY;
        l_i[i] = 0.0f;
#pragma unroll
        for (int c = 0; c < D / lanes; ++c) O_i[i][c] = 0.0f;
    }

    copy_transposed_async<threads, B_r, D>(Q_i, Q, first_query, 0);
    simt::commit_copies();
    const SignedScale scale(t.scale);
    simt::wait_copies<0>();
    if (scale.sign != 1.0f) multiply_own_copies<threads, B_r, D>(Q_i, scale.sign);
    slices.begin();

    for (int j_tile = 0; j_tile < tiles.visited; ++j_tile) {
        const bool edge = j_tile >= tiles.full;
        const int first_key = j_tile * B_c;
        const int keys = edge && seen_by_block - first_key < B_c ? seen_by_block - first_key : B_c;
        const int used = Tiles::slices_of_keys + (keys + Tiles::keys_per_slice - 1) / Tiles::keys_per_slice;
        float S_ij[Owner::rows][columns] = {};  // and then P_ij
#pragma unroll 1
        for (int x = 0; x < Tiles::slices_of_keys; ++x) {
            slices.next(first_key, x, used);
            // Also by warps that see none of these keys: the block waits for the others, and a test takes instructions.
            add_outer_products<D == 256 ? 16 : 8>(S_ij, owner, Q_i, x * Tiles::columns_per_slice, slices.keys(),
                                                  Tiles::columns_per_slice);
        }
        if (first_key < seen_by_any) {
            if (edge) {
#pragma unroll
                for (int i = 0; i < Owner::rows; ++i) {
                    const int visible = seen_by(owner.row(i)) - first_key;
#pragma unroll
                    for (int j = 0; j < columns; ++j)
                        if (owner.template column<columns>(j) >= visible) S_ij[i][j] = -INFINITY;
                }
            }
            softmax_step(S_ij, m_i, l_i, O_i, owner, scale, first_query, first_key);
            store_transposed(P_ij, owner, S_ij);  // read by this warp's lanes, which meet in slices.next()
        }

        if (edge) {
            int visible[Owner::rows];  // so many keys of the tile
#pragma unroll
            for (int i = 0; i < Owner::rows; ++i) visible[i] = seen_by(owner.row(i)) - first_key;
#pragma unroll 1
            for (int k = 0; k < keys; k += Tiles::keys_per_slice) {
                slices.next(first_key, Tiles::slices_of_keys + k / Tiles::keys_per_slice, used);
                const auto in_slice = [&](int seen) {  // how many of so many keys lie in this slice and before it
                    seen -= first_key + k;
                    return seen < 0 ? 0 : seen < Tiles::keys_per_slice ? seen : Tiles::keys_per_slice;
                };
                const int common = in_slice(seen_by_all);
                add_outer_products<values_unroll / 2>(O_i, owner, P_ij, k, slices.values(), common);
                add_visible(O_i, owner, P_ij, k, slices.values(), common, in_slice(seen_by_any), visible);
            }
        } else {
#pragma unroll 1
            for (int k = 0; k < B_c; k += Tiles::keys_per_slice) {
                slices.next(first_key, Tiles::slices_of_keys + k / Tiles::keys_per_slice);
                add_outer_products<values_unroll>(O_i, owner, P_ij, k, slices.values(), Tiles::keys_per_slice);
            }
        }
    }

    store_results(t.O.slice(b, h), t.LSE.slice(b, h), O_i, m_i, l_i, owner, first_query, t.vector_rows,
                  [&](int row) { return seen_by(row) > 0; });
}

/// Shared memory that a block needs.
std::size_t causal_tiled_shared_bytes(const AttentionArguments& a) {
    std::size_t bytes = 0;
    with_register_tiles(a, [&]<int B_r, int D>(std::integral_constant<int, B_r>, std::integral_constant<int, D>) {
        bytes = RegisterTiles<B_r, D>::shared_bytes;
    });
    return bytes;
}

/// Q once; for each query tile of each query head, the rows of K in the key tiles that it visits, and of V in the
/// slices that it sees any key of; O and LSE once.
GlobalBytes causal_tiled_bytes(const AttentionArguments& a) {
    GlobalBytes bytes;
    with_register_tiles(a, [&]<int B_r, int D>(std::integral_constant<int, B_r>, std::integral_constant<int, D>) {
        using Tiles = RegisterTiles<B_r, D>;
        const std::uint64_t heads = a.batch() * a.query_heads(), row = a.head_dim() * sizeof(float);
        const std::uint64_t rows = visited_keys(a, B_r, Tiles::B_c) + visited_keys(a, B_r, Tiles::keys_per_slice);
        bytes = {.read = heads * row * (a.query_length() + rows),
                 .written = heads * a.query_length() * (row + sizeof(float))};
    });
    return bytes;
}

/// Launches the kernel compiled for the problem's head dimension, with tiles that suit its size; its tensors are
/// float32.
void launch_causal_tiled(const AttentionArguments& a) {
    with_register_tiles(a, [&]<int B_r, int D>(std::integral_constant<int, B_r>, std::integral_constant<int, D>) {
        using Tiles = RegisterTiles<B_r, D>;
        cudaLaunchConfig_t config{};
        config.gridDim = dim3(a.query_heads(), a.batch(), ceil_div(a.query_length(), B_r));
        config.blockDim = dim3(Tiles::threads);
        config.dynamicSmemBytes = Tiles::shared_bytes;
        config.stream = static_cast<cudaStream_t>(a.stream);
        const std::int64_t blocks = std::int64_t{config.gridDim.x} * config.gridDim.y * config.gridDim.z;
        simt::launch("causal_tiled_kernel", config, causal_tiled_kernel<B_r, D>, forward_tensors<float>(a), a.mask,
                     blocks <= std::int64_t{Tiles::resident} * a.multiprocessors);
    });
}

}  // namespace ladder::SIMT_MACHINE
