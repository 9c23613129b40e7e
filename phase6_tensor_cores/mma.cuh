#pragma once

#include "common/attention/copy_tile.cuh"
#include "common/attention/dispatch.cuh"
#include "common/attention/forward_tensors.cuh"
#include "common/attention/key_tiles.cuh"
#include "common/attention/mma_edge.cuh"
#include "common/attention/mma_store.cuh"
#include "common/attention/mma_tile.cuh"

namespace ladder::SIMT_MACHINE {

// clang-format off
/// FlashAttention-2, forward, on tensor cores: the loop of phases 3 and 4, with both products as mma.sync m16n8k16.
///
/// Changed since causal.cuh, for 16-bit elements:
///
///   - a warp owns 16 query rows and computes their products as a whole, 2048 multiply-adds an instruction;
///   - operands come from shared memory by ldmatrix, 16 bytes a lane;
///   - S_ij lies in registers as the first product leaves it, and there it becomes P_ij: the accumulator's layout is the
///     operand's. P_ij never goes to shared memory;
///   - O_i is multiplied only when the maximum of one of the warp's rows has risen.
///
///   grid    x = ceil(Sq / 64) query tiles, y = Hq heads, z = B sequences
///   block   128 threads: warp w owns rows 16 w to 16 w + 15 of the tile
///
///   shared  Q_i  [64, D]   128 D      written once; each warp reads its own rows, and leaves its rows of O_i there
///           K_j  [64, D]   128 D      every warp reads all of it
///           V_j  [64, D]   128 D      every warp reads all of it
///           49,152 bytes for D = 128, 98,304 for D = 256
///           Rows are neither padded nor swizzled: the eight rows that ldmatrix reads at once lie in the same banks.
///
///   global  reads Q once, and of K and V the key tiles that the tile's last query sees any key of; writes O and LSE once
// clang-format on

/// Who does what, for head dimension D.
template <int D>
struct MmaLesson {
    static constexpr int B_r = 64, B_c = 64;    ///< queries and keys of a tile
    static constexpr int warps = B_r / 16;      ///< of a block
    static constexpr int threads = 32 * warps;  ///< of a block
    static constexpr std::size_t shared_bytes = 3 * simt::shared_bytes<simt::f16>(64, D);  ///< of a block
};

template <class T, int D>
__global__ void __launch_bounds__(MmaLesson<D>::threads) mma_kernel(ForwardTensors<T> t, Mask mask) {
    using Lesson = MmaLesson<D>;
    constexpr int B_r = Lesson::B_r, B_c = Lesson::B_c, M = 1;

    const int b = blockIdx.z, h = blockIdx.y, first_query = blockIdx.x * B_r;
    const auto Q = t.Q.slice(b, h);
    const auto K = t.K.slice(b, t.kv_head(h));
    const auto V = t.V.slice(b, t.kv_head(h));
    const int query_length = int(Q.extent(0)), key_length = int(K.extent(0));
    const KeyTiles tiles = key_tiles(mask, first_query, B_r, B_c, query_length, key_length);
    const auto seen_by = [&](int row) { return visible_keys(mask, first_query + row, query_length, key_length); };

    simt::SharedArena arena;
    const auto Q_tile = arena.tile<T, B_r, D>("Q_i");
    const auto K_tile = arena.tile<T, B_c, D>("K_j");
    const auto V_tile = arena.tile<T, B_c, D>("V_j");
    const auto Q_i = arranged<PlainRows>(Q_tile), K_j = arranged<PlainRows>(K_tile), V_j = arranged<PlainRows>(V_tile);

    const MmaOwner<M> owner;
    const SignedScale scale(t.scale);
    float m_i[M][2] = {{-INFINITY, -INFINITY}}, l_i[M][2] = {};  // l_i: of this lane's columns
    simt::FragmentC O_i[M][D / 8] = {};

    copy_tile(Q_tile, Q, first_query, t.vector_rows);
    __syncthreads();  // Q_i is complete before anyone multiplies or reads it
    if (scale.sign != 1.0f) multiply_rows<D>(Q_i, owner, scale.sign);

    for (int j = 0; j < tiles.visited; ++j) {
        const int first_key = j * B_c;
        __syncthreads();  // all warps are done with K_{j-1}, V_{j-1} before they are overwritten
        copy_tile(K_tile, K, first_key, t.vector_rows);
        copy_tile(V_tile, V, first_key, t.vector_rows);
        __syncthreads();  // K_j, V_j are complete before the first read

        simt::FragmentC S_ij[M][B_c / 8] = {};
        multiply_keys<T, D>(
            S_ij, [&](int m, int k) { return query_fragment<T>(Q_i, owner, m, k); }, K_j);

        const bool edge = j >= tiles.full;  // some rows do not see some keys
        int visible[M][2];                  // keys of the tile that a row sees
#pragma unroll
        for (int half = 0; half < 2; ++half) visible[0][half] = seen_by(owner.row(0, half)) - first_key;
        if (edge) hide_keys(S_ij, owner, visible);

        raise_maxima(S_ij, m_i, l_i, O_i, owner, scale, first_query);
        const auto P_ij = [&](int m, int k) {
            return weights<T>(S_ij, m, k, m_i, l_i, owner, scale, first_query, first_key);
        };
        if (edge && holds_non_finite<Lesson::threads, B_c, D>(V_j))
            multiply_visible_values<T, B_c>(O_i, P_ij, V_j, visible);
        else
            multiply_values<T, B_c>(O_i, P_ij, V_j);
    }

    __syncwarp();  // the warp's lanes are done with its rows of Q_i before O_i takes their place
    store_rows<T, D>(t, b, h, first_query, Q_i, O_i, m_i, l_i, owner, seen_by);
}

/// Shared memory that a block needs.
std::size_t mma_shared_bytes(const AttentionArguments& a) {
    std::size_t bytes = 0;
    with_mma_head_dim(a.head_dim(), [&]<int D>(std::integral_constant<int, D>) { bytes = MmaLesson<D>::shared_bytes; });
    return bytes;
}

/// Q once; for each query tile of each query head, the rows of K and V in the key tiles that it visits; O and LSE once.
GlobalBytes mma_bytes(const AttentionArguments& a) {
    return forward_bytes_in_16_bits(a, MmaLesson<64>::B_r, MmaLesson<64>::B_c);
}

/// Launches the kernel compiled for the problem's dtype and head dimension; its elements have 16 bits.
void launch_mma(const AttentionArguments& a) {
    with_element_type_of(MmaElements(), a.q.type, [&]<class T>(std::type_identity<T>) {
        with_mma_head_dim(a.head_dim(), [&]<int D>(std::integral_constant<int, D>) {
            using Lesson = MmaLesson<D>;
            cudaLaunchConfig_t config{};
            config.gridDim = dim3(ceil_div(a.query_length(), Lesson::B_r), a.query_heads(), a.batch());
            config.blockDim = dim3(Lesson::threads);
            config.dynamicSmemBytes = Lesson::shared_bytes;
            config.stream = static_cast<cudaStream_t>(a.stream);
            simt::launch("mma_kernel", config, mma_kernel<T, D>, forward_tensors<T>(a), a.mask);
        });
    });
}

}  // namespace ladder::SIMT_MACHINE
