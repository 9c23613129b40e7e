#pragma once

#include "common/attention/dispatch.cuh"
#include "common/attention/forward_tensors.cuh"
#include "common/attention/online_softmax.cuh"
#include "common/attention/register_tile.cuh"
#include "common/attention/slice_ring.cuh"

namespace ladder::SIMT_MACHINE {

// clang-format off
/// FlashAttention-2, forward pass, the next step: the same loop, arranged for speed in float32.
///
/// Changed since fa2.cuh (README.md has the figures):
///
///   - tiles of 128 queries by 64 keys, or 64 by 128, so that a thread's scores form a square of 8 x 8 rather than 4 x 4:
///     half as many reads from shared memory for a multiply-add. Both products are sums of outer products
///     (common/attention/register_tile.cuh);
///   - K_j and V_j come in slices by asynchronous copies: while a slice is multiplied, the next is under way
///     (common/attention/slice_ring.cuh, which has the barriers);
///   - lanes are numbered so that reads are shared in pairs;
///   - a weight takes one multiply-add and one 2^x: log2(e) is multiplied into the scale once, m_i is an exponent of 2.
///     The largest score is found before scaling; l_i is summed over the row's lanes at the end only.
///
///   grid    x = ceil(Sq / B_r) query tiles, y = Hq heads, z = B sequences; B_r = 128 where that makes a block for
///           every multiprocessor, else 64
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
///   global  reads Q once and K, V once per query tile; writes O and LSE once
// clang-format on

template <int B_r, int D>
__global__ void __launch_bounds__(RegisterTiles<B_r, D>::threads, RegisterTiles<B_r, D>::resident)
    fa2_tiled_kernel(ForwardTensors<float> t) {
    using Tiles = RegisterTiles<B_r, D>;
    constexpr int B_c = Tiles::B_c, threads = Tiles::threads, lanes = Tiles::lanes_per_row, columns = B_c / lanes;
    using Owner = TileOwner<B_r, threads, lanes>;
    // Outer products written out, for the compiler to read ahead. The warps of a lone block walk nearly side by side
    // and share the instructions that the multiprocessor has fetched; two blocks do not. At D = 256, where those of
    // S_ij are half as long, they are a whole slice. (D alone decides: tiles of 64 queries gain from that, too.)
    constexpr int unroll = D == 256 ? Tiles::columns_per_slice : D == 128 ? 16 : 8;

    const int b = blockIdx.z, h = blockIdx.y, first_query = blockIdx.x * B_r;
    const auto Q = t.Q.slice(b, h);
    const auto K = t.K.slice(b, t.kv_head(h));
    const auto V = t.V.slice(b, t.kv_head(h));
    const int key_length = int(K.extent(0));

    simt::SharedArena arena;
    const auto Q_i = arena.tile<float, D, B_r, Tiles::query_pitch>("Q_i");
    const auto P_ij = arena.tile<float, B_c, B_r, Tiles::query_pitch>("P_ij");
    SliceRing<Tiles> slices(arena, K, V, key_length, t.vector_rows);

    const Owner owner;
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

    for (int first_key = 0; first_key < key_length; first_key += B_c) {
        float S_ij[Owner::rows][columns] = {};  // and then P_ij
#pragma unroll 1
        for (int x = 0; x < Tiles::slices_of_keys; ++x) {
            slices.next(first_key, x);
            add_outer_products<unroll>(S_ij, owner, Q_i, x * Tiles::columns_per_slice, slices.keys(),
                                       Tiles::columns_per_slice);
        }
        if (first_key + B_c > key_length) {  // keys that do not exist
#pragma unroll
            for (int i = 0; i < Owner::rows; ++i)
#pragma unroll
                for (int j = 0; j < columns; ++j)
                    if (first_key + owner.template column<columns>(j) >= key_length) S_ij[i][j] = -INFINITY;
        }

        softmax_step(S_ij, m_i, l_i, O_i, owner, scale, first_query, first_key);
        store_transposed(P_ij, owner, S_ij);  // read by this warp's lanes, which meet in slices.next()

#pragma unroll 1
        for (int k = 0; k < B_c; k += Tiles::keys_per_slice) {
            slices.next(first_key, Tiles::slices_of_keys + k / Tiles::keys_per_slice);
            add_outer_products<unroll>(O_i, owner, P_ij, k, slices.values(), Tiles::keys_per_slice);
        }
    }

    store_results(t.O.slice(b, h), t.LSE.slice(b, h), O_i, m_i, l_i, owner, first_query, t.vector_rows,
                  [](int) { return true; });
}

/// Shared memory that a block needs.
std::size_t fa2_tiled_shared_bytes(const AttentionArguments& a) {
    std::size_t bytes = 0;
    with_register_tiles(a, [&]<int B_r, int D>(std::integral_constant<int, B_r>, std::integral_constant<int, D>) {
        bytes = RegisterTiles<B_r, D>::shared_bytes;
    });
    return bytes;
}

/// Q once, K and V once for each query tile of each query head; O and LSE once.
GlobalBytes fa2_tiled_bytes(const AttentionArguments& a) {
    GlobalBytes bytes;
    with_register_tiles(a, [&]<int B_r, int D>(std::integral_constant<int, B_r>, std::integral_constant<int, D>) {
        const std::uint64_t heads = a.batch() * a.query_heads(), row = a.head_dim() * sizeof(float);
        const std::uint64_t tiles = ceil_div(a.query_length(), B_r);
        bytes = {.read = heads * row * (a.query_length() + tiles * 2 * a.key_length()),
                 .written = heads * a.query_length() * (row + sizeof(float))};
    });
    return bytes;
}

/// Launches the kernel compiled for the problem's head dimension, with tiles that suit its size; its tensors are
/// float32.
void launch_fa2_tiled(const AttentionArguments& a) {
    with_register_tiles(a, [&]<int B_r, int D>(std::integral_constant<int, B_r>, std::integral_constant<int, D>) {
        using Tiles = RegisterTiles<B_r, D>;
        cudaLaunchConfig_t config{};
        config.gridDim = dim3(ceil_div(a.query_length(), B_r), a.query_heads(), a.batch());
        config.blockDim = dim3(Tiles::threads);
        config.dynamicSmemBytes = Tiles::shared_bytes;
        config.stream = static_cast<cudaStream_t>(a.stream);
        simt::launch("fa2_tiled_kernel", config, fa2_tiled_kernel<B_r, D>, forward_tensors<float>(a));
    });
}

}  // namespace ladder::SIMT_MACHINE
