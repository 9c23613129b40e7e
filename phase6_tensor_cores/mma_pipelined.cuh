#pragma once

#include "common/attention/copy_tile.cuh"
#include "common/attention/dispatch.cuh"
#include "common/attention/edge_tile.cuh"
#include "common/attention/forward_tensors.cuh"
#include "common/attention/key_tiles.cuh"
#include "common/attention/mma_edge.cuh"
#include "common/attention/mma_store.cuh"
#include "common/attention/mma_tile.cuh"

namespace ladder::SIMT_MACHINE {

// clang-format off
/// FlashAttention-2, forward, on tensor cores, the next step: the loop of mma.cuh, arranged so that the tensor cores wait
/// for as little as can be.
///
/// Changed since mma.cuh (README.md has the figures):
///
///   - rows are swizzled, so that the eight rows of an ldmatrix lie in different banks;
///   - a warp owns 32 rows (16 for D = 256), and each fragment of K_j and V_j serves all of them;
///   - K_j and V_j come by asynchronous copies, into two stages in turn, while the tiles before are multiplied: one barrier
///     a tile closes both hazards; and the copies are begun a few at a time, between the products;
///   - full tiles and edge tiles have loops of their own, and a warp that sees nothing of a tile leaves it out;
///   - the longest query tiles start first, and the heads that walk side by side have their keys in L2 together;
///   - tiles suit the device: as large as its shared memory allows.
///
///   grid    x = H heads times ceil(Sq / B_r) query tiles, the last tile of all H heads first; y = ceil(B Hq / H)
///   block   W warps; warp w owns rows 16 M w to 16 M (w + 1) - 1 of the tile
///
///   shared  Q_i  [B_r, D]       2 B_r D      written once; each warp reads its own rows, and leaves its rows of O_i there
///           K_j  [2 B_c, D]     4 B_c D      two stages
///           V_j  [2 B_c, D]     4 B_c D      two stages
///           98,304 bytes for D = 128 with B_r = 128 and B_c = 64
///
///   global  reads Q once, and of K and V the key tiles that the tile's last query sees any key of; writes O and LSE once
// clang-format on

/// Tiles of B_r = 16 M W queries by B_c keys for head dimension D.
template <int HeadDim, int Warps, int M, int Keys, int Resident, bool InRegisters = false>
struct MmaShape {
    static constexpr int D = HeadDim;           ///< the head dimension it is compiled for
    static constexpr int warps = Warps, m = M;  ///< warps of a block, each with 16 m rows
    static constexpr int B_r = 16 * M * Warps;  ///< queries
    static constexpr int B_c = Keys;            ///< keys
    static constexpr int threads = 32 * Warps;  ///< of a block
    static constexpr int stages = 2;            ///< of K_j and V_j
    static constexpr int resident = Resident;   ///< blocks on a multiprocessor that registers suffice for
    static constexpr bool queries_in_registers = InRegisters;  ///< Q_i is read from shared memory only once
    /// Copies are begun between products: O_i and S_ij leave registers for the addresses.
    static constexpr bool copies_in_shares = M * (D + B_c) / 2 <= 192;
    static constexpr std::size_t shared_bytes =
        simt::shared_bytes<simt::f16>(B_r, D) + 2 * simt::shared_bytes<simt::f16>(stages * B_c, D);  ///< of a block
};

/// The shapes for a head dimension, the fastest first: which need the most shared memory. The last runs wherever there
/// are asynchronous copies.
template <int D>
struct MmaShapes;
template <>
struct MmaShapes<32> : CompiledTiles<MmaShape<32, 4, 2, 64, 4>> {};
template <>
struct MmaShapes<64> : CompiledTiles<MmaShape<64, 4, 2, 128, 2>, MmaShape<64, 4, 2, 64, 2, true>> {};
template <>
struct MmaShapes<96> : CompiledTiles<MmaShape<96, 4, 2, 64, 2>> {};
template <>
struct MmaShapes<128> : CompiledTiles<MmaShape<128, 4, 2, 64, 2>, MmaShape<128, 4, 2, 32, 2>> {};
template <>
struct MmaShapes<192> : CompiledTiles<MmaShape<192, 4, 2, 32, 2>> {};
template <>
struct MmaShapes<256>
    : CompiledTiles<MmaShape<256, 8, 1, 64, 1>, MmaShape<256, 8, 1, 48, 1>, MmaShape<256, 4, 1, 32, 2>> {};

template <class T, class Shape>
__global__ void __launch_bounds__(Shape::threads, Shape::resident)
    mma_pipelined_kernel(ForwardTensors<T> t, Mask mask, int heads_at_once) {
    constexpr int B_r = Shape::B_r, B_c = Shape::B_c, D = Shape::D, M = Shape::m;
    constexpr int stages = Shape::stages, threads = Shape::threads;

    const int head = int(blockIdx.y) * heads_at_once + int(blockIdx.x) % heads_at_once;
    if (head >= int(t.Q.extent(0) * t.Q.extent(1))) return;
    const int b = head / int(t.Q.extent(1)), h = head % int(t.Q.extent(1));
    // The last queries see the most keys: begun first.
    const int first_query = (int(gridDim.x) - 1 - int(blockIdx.x)) / heads_at_once * B_r;
    const auto Q = t.Q.slice(b, h);
    const auto K = t.K.slice(b, t.kv_head(h));
    const auto V = t.V.slice(b, t.kv_head(h));
    const int query_length = int(Q.extent(0)), key_length = int(K.extent(0));
    const KeyTiles tiles = key_tiles(mask, first_query, B_r, B_c, query_length, key_length);
    const auto seen_by = [&](int row) { return visible_keys(mask, first_query + row, query_length, key_length); };

    simt::SharedArena arena;
    const auto Q_tile = arena.tile<T, B_r, D>("Q_i");
    const auto K_stages = arena.tile<T, stages * B_c, D>("K_j");
    const auto V_stages = arena.tile<T, stages * B_c, D>("V_j");
    const auto Q_i = arranged<SwizzledRows>(Q_tile);
    const auto stage_of = [](const auto& tile, int j) { return arranged<SwizzledRows>(tile, j % stages * B_c); };
    const auto fetch = [&](int j) {
        if (j < tiles.visited) {
            copy_rows_async<threads, B_c, D>(stage_of(K_stages, j), K, j * B_c, t.vector_rows);
            copy_rows_async<threads, B_c, D>(stage_of(V_stages, j), V, j * B_c, t.vector_rows);
        }
        simt::commit_copies();
    };
    const auto fetch_share = [&](int j, int k) {  // of a tile that exists as a whole, one of D / 16; to be committed
        copy_share_async<threads, B_c, D, D / 16>(stage_of(K_stages, j), K, j * B_c, k);
        copy_share_async<threads, B_c, D, D / 16>(stage_of(V_stages, j), V, j * B_c, k);
    };

    copy_rows_async<threads, B_r, D>(Q_i, Q, first_query, t.vector_rows);
    fetch(0);
    const MmaOwner<M> owner;
    const int seen_by_warp = seen_by(owner.first_row + MmaOwner<M>::rows - 1);  // by any of its rows
    const SignedScale scale(t.scale);
    float m_i[M][2], l_i[M][2] = {};  // l_i: of this lane's columns
#pragma unroll
    for (int m = 0; m < M; ++m) m_i[m][0] = m_i[m][1] = -INFINITY;
    simt::FragmentC O_i[M][D / 8] = {};

    simt::wait_copies<0>();
    __syncthreads();  // Q_i is complete before anyone reads it (and K_0, V_0 are)
    if (scale.sign != 1.0f) {
        multiply_rows<D>(Q_i, owner, scale.sign);
        __syncwarp();  // the warp's rows of Q_i have their sign before its lanes read them
    }
    simt::FragmentA<T> Q_registers[M][Shape::queries_in_registers ? D / 16 : 1];
    if constexpr (Shape::queries_in_registers) {
#pragma unroll
        for (int m = 0; m < M; ++m)
#pragma unroll
            for (int k = 0; k < D / 16; ++k) Q_registers[m][k] = query_fragment<T>(Q_i, owner, m, k);
    }
    const auto query = [&](int m, int k) {
        if constexpr (Shape::queries_in_registers)
            return Q_registers[m][k];
        else
            return query_fragment<T>(Q_i, owner, m, k);
    };

    // One step of the loop, compiled for each stage; and for tiles j + 1 that come in shares, between the products.
    const auto step = [&]<Stage stage, bool in_shares = false>(std::integral_constant<Stage, stage>, int j,
                                                               std::bool_constant<in_shares> = {}) {
        constexpr bool edge = stage == Stage::edge;
        const int first_key = j * B_c;
        const auto K_j = stage_of(K_stages, j), V_j = stage_of(V_stages, j);
        simt::wait_copies<0>();
        __syncthreads();  // K_j, V_j are complete before anyone reads them, and everyone is done with K_{j-1}, V_{j-1},
                          // whose stage is filled now
        if constexpr (!in_shares) fetch(j + 1);
        const auto beside = [&](int k) {
            if constexpr (in_shares) fetch_share(j + 1, k);
        };
        const bool careful = edge && holds_non_finite<threads, B_c, D>(V_j);
        if (edge && first_key >= seen_by_warp) return;

        simt::FragmentC S_ij[M][B_c / 8] = {};
        multiply_keys<T, D>(S_ij, query, K_j, beside);
        if constexpr (in_shares) simt::commit_copies();
        int visible[M][2];  // keys of the tile that a row sees
        if constexpr (edge) {
#pragma unroll
            for (int m = 0; m < M; ++m)
#pragma unroll
                for (int half = 0; half < 2; ++half) visible[m][half] = seen_by(owner.row(m, half)) - first_key;
            hide_keys(S_ij, owner, visible);
        }
        raise_maxima(S_ij, m_i, l_i, O_i, owner, scale, first_query);
        const auto P_ij = [&](int m, int k) {
            return weights<T>(S_ij, m, k, m_i, l_i, owner, scale, first_query, first_key);
        };
        if (edge && careful)
            multiply_visible_values<T, B_c>(O_i, P_ij, V_j, visible);
        else
            multiply_values<T, B_c>(O_i, P_ij, V_j);
    };
    int j = 0;
    if constexpr (Shape::copies_in_shares)
        if (t.vector_rows && D <= int(K.extent(1)))
            for (; j + 1 < tiles.full; ++j)  // so all rows of tile j + 1 exist
                step(std::integral_constant<Stage, Stage::full>(), j, std::true_type());
    for (; j < tiles.full; ++j) step(std::integral_constant<Stage, Stage::full>(), j);
    for (; j < tiles.visited; ++j) step(std::integral_constant<Stage, Stage::edge>(), j);

    __syncwarp();  // the warp's lanes are done with its rows of Q_i before O_i takes their place
    store_rows<T, D>(t, b, h, first_query, Q_i, O_i, m_i, l_i, owner, seen_by);
}

/// Calls `use(Shape())` with the shape for the problem's head dimension on its device: the first of which as many
/// blocks fit a multiprocessor's shared memory as fit its registers, or else the last.
template <class Use>
void with_mma_shape(const AttentionArguments& a, Use&& use) {
    constexpr std::int64_t reserved = 1024;  // of each resident block's shared memory, by CUDA for itself
    const auto choose = [&]<class... Shape>(const CompiledTiles<Shape...>&) {
        int place = 0, last = int(sizeof...(Shape)) - 1;
        const bool found = ((std::int64_t(Shape::shared_bytes) <= a.shared_bytes_per_block &&
                                     Shape::resident * (std::int64_t(Shape::shared_bytes) + reserved) <=
                                         a.shared_bytes_per_multiprocessor
                                 ? (use(Shape()), true)
                                 : false) ||
                            ...);
        if (!found) ((place++ == last ? use(Shape()) : void()), ...);
    };
    with_mma_head_dim(a.head_dim(), [&]<int D>(std::integral_constant<int, D>) { choose(MmaShapes<D>()); });
}

/// Under a mask, so many heads walk side by side, from their longest tiles to their shortest: as many as have their
/// keys and values in L2 together. Without one all tiles are alike, and a head's are neighbours.
int heads_at_once(const AttentionArguments& a) {
    constexpr std::int64_t l2_bytes = 32 * 1024 * 1024;  // of 40 MiB and more
    if (a.mask == Mask::none) return 1;
    const std::int64_t of_a_head = 2 * a.key_length() * a.head_dim() * 2 * a.kv_heads() / a.query_heads();
    return int(
        std::clamp<std::int64_t>(l2_bytes / std::max<std::int64_t>(of_a_head, 1), 1, a.batch() * a.query_heads()));
}

/// Shared memory that a block needs.
std::size_t mma_pipelined_shared_bytes(const AttentionArguments& a) {
    std::size_t bytes = 0;
    with_mma_shape(a, [&]<class Shape>(Shape) { bytes = Shape::shared_bytes; });
    return bytes;
}

/// Q once; for each query tile of each query head, the rows of K and V in the key tiles that it visits; O and LSE once.
GlobalBytes mma_pipelined_bytes(const AttentionArguments& a) {
    GlobalBytes bytes;
    with_mma_shape(a, [&]<class Shape>(Shape) { bytes = forward_bytes_in_16_bits(a, Shape::B_r, Shape::B_c); });
    return bytes;
}

/// Launches the kernel compiled for the problem's dtype and head dimension, with tiles that suit the device; its
/// elements have 16 bits.
void launch_mma_pipelined(const AttentionArguments& a) {
    with_element_type_of(MmaElements(), a.q.type, [&]<class T>(std::type_identity<T>) {
        with_mma_shape(a, [&]<class Shape>(Shape) {
            const int at_once = heads_at_once(a);
            cudaLaunchConfig_t config{};
            config.gridDim =
                dim3(at_once * ceil_div(a.query_length(), Shape::B_r), ceil_div(a.batch() * a.query_heads(), at_once));
            config.blockDim = dim3(Shape::threads);
            config.dynamicSmemBytes = Shape::shared_bytes;
            config.stream = static_cast<cudaStream_t>(a.stream);
            simt::launch("mma_pipelined_kernel", config, mma_pipelined_kernel<T, Shape>, forward_tensors<T>(a), a.mask,
                         at_once);
        });
    });
}

}  // namespace ladder::SIMT_MACHINE
