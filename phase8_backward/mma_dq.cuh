#pragma once

#include "common/attention/copy_tile.cuh"
#include "common/attention/edge_tile.cuh"
#include "common/attention/mma_edge.cuh"
#include "phase8_backward/backward_tensors.cuh"
#include "phase8_backward/mma_shapes.cuh"
#include "phase8_backward/mma_sum.cuh"

namespace ladder::SIMT_MACHINE {

// clang-format off
/// FlashAttention-2, backward pass on tensor cores: dQ by a second pass, without atomics.
///
/// The loop of dq.cuh, with all products as mma.sync m16n8k16: a block keeps Q_i and dO_i, and the keys come past. A warp
/// owns 16 M queries, and dS_ij becomes the operand of the third product in the registers that hold it:
///
///   S_ij  = Q_i K_j^T        P_ij  = 2^(scale log2 e S_ij - log2 e LSE_i)
///   dP_ij = dO_i V_j^T       dS_ij = P_ij o (dP_ij - D_i)
///   dQ_i += dS_ij K_j        (times the scale, at the end)
///
///   grid    x = ceil(Sq / B_r) query tiles, the last, which see the most keys, first; y = Hq heads, z = B sequences
///   block   W warps; warp w owns rows 16 M w to 16 M (w + 1) - 1 of the tile
///
///   shared  Q_i, dO_i  [2 B_r, D]   4 B_r D    written once; each warp reads its own rows, and leaves dQ_i in those of Q_i
///           K_j, V_j   [4 B_c, D]   8 B_c D    two stages; every warp reads all of it
///           LSE_i, D_i [2, B_r]     8 B_r      written once
///           99,328 bytes for D = 128 with B_r = 128 and B_c = 32: two blocks on a multiprocessor
///
///   global  reads Q, dO, LSE and D once, and once per query tile the K and V that it sees; writes dQ once
// clang-format on

/// dS_ij, in place of S_ij: P o (dP - D), and 0 for hidden pairs. Row (m, h) sees the first visible[m][h] keys.
template <bool edge, int M, int N, class Rows>
__device__ __forceinline__ void make_score_gradients(simt::FragmentC (&S)[M][N], const simt::FragmentC (&dP)[M][N],
                                                     float exponent, const Rows& rows_i, const int (&visible)[M][2],
                                                     const MmaOwner<M>& owner) {
#pragma unroll
    for (int m = 0; m < M; ++m)
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            const float LSE_i = kLog2E * rows_i(0, owner.row(m, h)), D_i = rows_i(1, owner.row(m, h));
#pragma unroll
            for (int n = 0; n < N; ++n)
#pragma unroll
                for (int e = 2 * h; e < 2 * h + 2; ++e) {
                    const float P = simt::fast_exp2(fmaf(S[m][n].element[e], exponent, -LSE_i));
                    const bool hidden = edge && 8 * n + owner.column() + e % 2 >= visible[m][h];
                    S[m][n].element[e] = hidden ? 0.0f : P * (dP[m][n].element[e] - D_i);
                }
        }
}

template <class T, class Shape>
__global__ void __launch_bounds__(Shape::threads, Shape::resident) mma_dq_kernel(BackwardTensors<T> t, Mask mask) {
    constexpr int B_r = Shape::B_r, B_c = Shape::B_c, D = Shape::D, M = Shape::m;
    constexpr int stages = Shape::stages, threads = Shape::threads;

    const int b = blockIdx.z, h = blockIdx.y, first_query = (gridDim.x - 1 - blockIdx.x) * B_r;
    const int kv_head = h / int(t.Q.extent(1) / t.K.extent(1));
    const auto K = t.K.slice(b, kv_head), V = t.V.slice(b, kv_head);
    const int query_length = int(t.Q.extent(2)), key_length = int(K.extent(0));
    const KeyTiles tiles = key_tiles(mask, first_query, B_r, B_c, query_length, key_length);

    simt::SharedArena arena;
    const auto kept_tile = arena.tile<T, 2 * B_r, D>("Q_i, dO_i");
    const auto passing_tile = arena.tile<T, stages * 2 * B_c, D>("K_j, V_j");
    const auto rows_i = arena.tile<float, 2, B_r>("LSE_i, D_i");
    const auto Q_i = arranged<SwizzledRows>(kept_tile), dO_i = arranged<SwizzledRows>(kept_tile, B_r);
    const auto K_of = [&](int j) { return arranged<SwizzledRows>(passing_tile, j % stages * 2 * B_c); };
    const auto V_of = [&](int j) { return arranged<SwizzledRows>(passing_tile, (j % stages * 2 + 1) * B_c); };
    const auto fetch = [&](int j) {
        if (j < tiles.visited) {
            copy_rows_async<threads, B_c, D>(K_of(j), K, j * B_c, t.vector_rows);
            copy_rows_async<threads, B_c, D>(V_of(j), V, j * B_c, t.vector_rows);
        }
        simt::commit_copies();
    };
    copy_rows_async<threads, B_r, D>(Q_i, t.Q.slice(b, h), first_query, t.vector_rows);
    copy_rows_async<threads, B_r, D>(dO_i, t.dO.slice(b, h), first_query, t.vector_rows);
    for (int r = threadIdx.x; r < B_r; r += threads) {
        using One = simt::Vector<float, 1>;
        simt::copy_async_or_zero(rows_i.template vec<One>(0, r), t.LSE.slice(b), h, first_query + r);
        simt::copy_async_or_zero(rows_i.template vec<One>(1, r), t.D.slice(b), h, first_query + r);
    }
    fetch(0);

    const MmaOwner<M> owner;
    const float exponent = t.scale * kLog2E;
    simt::FragmentC dQ_i[M][D / 8] = {};

    const auto step = [&]<Stage stage>(std::integral_constant<Stage, stage>, int j) {
        constexpr bool edge = stage == Stage::edge;
        const auto K_j = K_of(j), V_j = V_of(j);
        simt::wait_copies<0>();
        __syncthreads();  // K_j, V_j (and Q_i, dO_i, LSE_i, D_i) are complete before anyone reads them, and everyone is
                          // done with K_{j-1}, V_{j-1}, whose stage is filled now
        fetch(j + 1);
        const bool careful = edge && holds_non_finite<threads, B_c, D>(K_j);
        int visible[M][2] = {};  // keys of the tile that a row sees
        if constexpr (edge) {
#pragma unroll
            for (int m = 0; m < M; ++m)
#pragma unroll
                for (int half = 0; half < 2; ++half)
                    visible[m][half] =
                        visible_keys(mask, first_query + owner.row(m, half), query_length, key_length) - j * B_c;
        }

        simt::FragmentC S_ij[M][B_c / 8] = {}, dP_ij[M][B_c / 8] = {};
        multiply_keys<T, D>(
            S_ij, [&](int m, int k) { return query_fragment<T>(Q_i, owner, m, k); }, K_j);
        multiply_keys<T, D>(
            dP_ij, [&](int m, int k) { return query_fragment<T>(dO_i, owner, m, k); }, V_j);
        make_score_gradients<edge>(S_ij, dP_ij, exponent, rows_i, visible, owner);
        const auto dS_ij = [&](int m, int k) { return simt::to_a<T>(S_ij[m][2 * k], S_ij[m][2 * k + 1]); };
        if (careful)
            multiply_visible_values<T, B_c>(dQ_i, dS_ij, K_j, visible);
        else
            multiply_values<T, B_c>(dQ_i, dS_ij, K_j);
    };
    int j = 0;
    for (; j < tiles.full; ++j) step(std::integral_constant<Stage, Stage::full>(), j);
    for (; j < tiles.visited; ++j) step(std::integral_constant<Stage, Stage::edge>(), j);

    simt::wait_copies<0>();  // where no key was visited, those of Q_i are still under way
    __syncthreads();         // and everyone's of its rows, before dQ_i takes their place
    store_sum<D>(t.dQ.slice(b, h), first_query, Q_i, dQ_i, t.scale, owner, t.vector_rows);
}

/// Shared memory that a block needs.
std::size_t mma_dq_shared_bytes(const BackwardArguments& a) {
    std::size_t bytes = 0;
    with_mma_dq_shape(a, [&]<class Shape>(Shape) { bytes = Shape::shared_bytes; });
    return bytes;
}

/// Q, dO, LSE and D once; for each query tile of each query head, the rows of K and V in the key tiles that it visits;
/// dQ once.
GlobalBytes mma_dq_bytes(const BackwardArguments& a) {
    GlobalBytes bytes;
    with_mma_dq_shape(a, [&]<class Shape>(Shape) {
        const std::uint64_t heads = a.batch() * a.query_heads(), row = a.head_dim() * element_bytes(a.q.type);
        bytes.read = heads * (2 * row * (a.query_length() + visited_keys(a, Shape::B_r, Shape::B_c)) +
                              2 * sizeof(float) * a.query_length());
        bytes.written = heads * row * a.query_length();
    });
    return bytes;
}

/// Launches the kernel compiled for the problem's dtype and head dimension, with tiles that the device has room for.
void launch_mma_dq(const BackwardArguments& a) {
    with_element_type_of(MmaElements(), a.q.type, [&]<class T>(std::type_identity<T>) {
        with_mma_dq_shape(a, [&]<class Shape>(Shape) {
            cudaLaunchConfig_t config{};
            config.gridDim = dim3(ceil_div(a.query_length(), Shape::B_r), a.query_heads(), a.batch());
            config.blockDim = dim3(Shape::threads);
            config.dynamicSmemBytes = Shape::shared_bytes;
            config.stream = static_cast<cudaStream_t>(a.stream);
            simt::launch("mma_dq_kernel", config, mma_dq_kernel<T, Shape>, backward_tensors<T>(a), a.mask);
        });
    });
}

}  // namespace ladder::SIMT_MACHINE
