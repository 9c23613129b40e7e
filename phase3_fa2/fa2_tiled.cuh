#pragma once

#include "common/attention/arguments.h"
#include "common/attention/copy_tile.cuh"
#include "common/attention/dispatch.cuh"
#include "common/attention/forward_tensors.cuh"
#include "common/attention/online_softmax.cuh"
#include "common/attention/register_tile.cuh"
#include "common/attention/watch.cuh"

namespace ladder::SIMT_MACHINE {

// clang-format off
/// FlashAttention-2, forward pass, the next step: the same loop, arranged for speed in float32.
///
/// Changed since fa2.cuh, in the order of what it brought on an H200 (float32, D = 64; README.md has the figures):
///
///   - tiles of 128 queries by 64 keys (128 for D > 64), so that a thread's scores form a square of 8 x 8 rather than
///     4 x 4: half as many reads from shared memory for a multiply-add;
///   - K_j and V_j are fetched by asynchronous copies while something else is computed: V_j during S_ij = Q_i K_j^T and
///     the softmax, K_{j+1} during P_ij V_j. So each is complete just before it is needed, and one buffer each suffices;
///   - lanes are numbered so that reads of Q_i, K_j, P_ij and V_j are shared in pairs (common/attention/register_tile.cuh);
///   - a weight takes one multiply-add and one 2^x: log2(e) is multiplied into the scale once, m_i is an exponent of 2.
///     The largest score is found before scaling; l_i is summed over the row's lanes at the end only;
///   - a score is one sum of D products, not several of 16 columns.
///
///   grid    x = ceil(Sq / 128) query tiles, y = Hq heads, z = B sequences
///   block   128 threads for D <= 64: a warp owns 32 rows, eight lanes to a row; else 256: 16 rows, sixteen lanes to a row
///
///   shared  Q_i  [128, D]    128 (D + 4) 4     written once
///           K_j  [B_c, D]    B_c (D + 4) 4     one copy under way or one tile in use, never both
///           V_j  [B_c, D]    B_c  D      4     likewise; no padding: lanes read one row together
///           P_ij [128, 64]   128 (64 + 4) 4    rows written and read by their own warp only. For D > 64 a quarter of
///                [128, 32]   128 (32 + 16) 4   its 128 keys at a time
///           103424 bytes for D = 64, 225280 for D = 128
///
///   global  reads Q once and K, V once per query tile; writes O and LSE once
// clang-format on

template <int D>
__global__ void __launch_bounds__(RegisterTiles<D>::threads, RegisterTiles<D>::resident)
    fa2_tiled_kernel(ForwardTensors<float> t) {
    using Tiles = RegisterTiles<D>;
    constexpr int B_r = Tiles::B_r, B_c = Tiles::B_c, threads = Tiles::threads;
    constexpr int lanes = Tiles::lanes_per_row, columns = B_c / lanes;
    using Owner = PairedRowOwner<B_r, threads, lanes>;

    const int b = blockIdx.z, h = blockIdx.y, first_query = blockIdx.x * B_r;
    const auto Q = t.Q.slice(b, h);
    const auto K = t.K.slice(b, t.kv_head(h));
    const auto V = t.V.slice(b, t.kv_head(h));
    const int query_length = int(Q.extent(0)), key_length = int(K.extent(0));

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

    copy_tile_async<threads>(K_j, K, 0, t.vector_rows);
    simt::commit_copies();
    const SignedScale scale(t.scale);
    load_signed<threads>(Q_i, Q, first_query, scale.sign, t.vector_rows);
    const float scale_log2 = scale.magnitude * kLog2E;  // exp(scale s) = 2^(scale_log2 s)

    for (int first_key = 0; first_key < key_length; first_key += B_c) {
        simt::wait_copies<0>();
        __syncthreads();  // K_j (and, the first time, Q_i) is complete before anyone reads it, and everyone is done
                          // with the old V_j and P_ij before they are overwritten
        copy_tile_async<threads>(V_j, V, first_key, t.vector_rows);
        simt::commit_copies();

        float S_ij[Owner::rows][columns];  // and then P_ij
        multiply_transposed<D, 1>(S_ij, owner, Q_i, K_j);
        if (first_key + B_c > key_length) {  // keys that do not exist
#pragma unroll
            for (int i = 0; i < Owner::rows; ++i)
#pragma unroll
                for (int j = 0; j < columns; ++j)
                    if (first_key + owner.lane + lanes * j >= key_length) S_ij[i][j] = -INFINITY;
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
        if (first_key + B_c < key_length) copy_tile_async<threads>(K_j, K, first_key + B_c, t.vector_rows);
        simt::commit_copies();
        accumulate(O_i, owner, P_ij, V_j);
#pragma unroll
        for (int part = 1; part < Tiles::parts; ++part) {  // for D > 64, what of P_ij waits in registers
            __syncwarp();  // the warp's lanes are done with the part before, before they overwrite it
            store_part(P_ij, owner, S_ij, part);
            __syncwarp();  // the part is complete before other lanes read it
            accumulate(O_i, owner, P_ij, V_j, Tiles::part, part * Tiles::part);
        }
    }

    const auto O = t.O.slice(b, h);
    const auto LSE = t.LSE.slice(b, h);
#pragma unroll
    for (int i = 0; i < Owner::rows; ++i) {
        const float l = Owner::row_sum(l_i[i]);  // by all lanes, before those of rows that do not exist leave
        const int query = first_query + owner.row(i);
        if (query >= query_length) continue;
        // Where every score of a row is -inf this makes 0 * (1 / 0): NaN, as softmax has it.
        store_row<D, lanes>(O, query, O_i[i], owner.lane, 1.0f / l, t.vector_rows);
        if (owner.lane == 0)  // from powers of 2 back to powers of e
            LSE(query) = kLn2 * (m_i[i] + log2f(l));
    }
}

/// Shared memory that a block needs.
std::size_t fa2_tiled_shared_bytes(const AttentionArguments& a) {
    std::size_t bytes = 0;
    with_tiled_head_dim(a.head_dim(),
                        [&]<int D>(std::integral_constant<int, D>) { bytes = RegisterTiles<D>::shared_bytes; });
    return bytes;
}

/// Q once, K and V once for each query tile of each query head; O and LSE once.
GlobalBytes fa2_tiled_bytes(const AttentionArguments& a) {
    const std::uint64_t heads = a.batch() * a.query_heads(), row = a.head_dim() * sizeof(float);
    const std::uint64_t tiles = ceil_div(a.query_length(), RegisterTiles<64>::B_r);
    return {.read = heads * row * (a.query_length() + tiles * 2 * a.key_length()),
            .written = heads * a.query_length() * (row + sizeof(float))};
}

/// Launches the kernel compiled for the problem's head dimension; its tensors are float32, with D <= 128.
void launch_fa2_tiled(const AttentionArguments& a) {
    with_tiled_head_dim(a.head_dim(), [&]<int D>(std::integral_constant<int, D>) {
        using Tiles = RegisterTiles<D>;
        cudaLaunchConfig_t config{};
        config.gridDim = dim3(ceil_div(a.query_length(), Tiles::B_r), a.query_heads(), a.batch());
        config.blockDim = dim3(Tiles::threads);
        config.dynamicSmemBytes = Tiles::shared_bytes;
        config.stream = static_cast<cudaStream_t>(a.stream);
        simt::launch("fa2_tiled_kernel", config, fa2_tiled_kernel<D>, forward_tensors<float>(a));
    });
}

}  // namespace ladder::SIMT_MACHINE
