#pragma once

#include "common/attention/dispatch.cuh"
#include "common/attention/warpgroup_pipeline.cuh"
#include "common/attention/warpgroup_store.cuh"

namespace ladder::SIMT_MACHINE {

// clang-format off
/// FlashAttention-3, forward: those who fetch and those who multiply are different warps.
///
/// Changed since hopper.cuh:
///
///   - a warp does nothing but ask for tiles, as far ahead as there are stages; two warpgroups do nothing but multiply,
///     64 rows each, and share every K_j and V_j;
///   - nobody waits for the whole block any more: a tile has one barrier for its coming and one for its going
///     (warpgroup_pipeline.cuh has the table);
///   - the producer's registers go to the consumers, who hold S_ij, P_ij and O_i;
///   - turns: while one warpgroup computes its softmax, the other has the tensor cores to itself ("ping-pong").
///
///   grid    x = ceil(Sq / 128) query tiles, y = Hq heads, z = B sequences
///   block   384 threads: warpgroup 0 produces, warpgroups 1 and 2 consume rows 0 to 63 and 64 to 127 of the tile
///
///   shared  Q_i  [128, D]       256 D     written once; each warp leaves its 16 rows of O_i there
///           K_j  [2 B_c, D]     4 B_c D   two stages
///           V_j  [2 B_c, D]     4 B_c D   two stages
///           barriers, flags     144
///           163,984 bytes for D = 128, where B_c = 128
///
///   named   1, 2   whose turn it is to compute exponentials, of warpgroup 1 and of warpgroup 2
///           8, 9   a consumer warpgroup by itself, where the sign of the scale is not 1
///           15     the whole block, before it may have to compute the tile once more
///
///   global  reads Q once, and of K and V the key tiles that the tile's last query sees any key of; writes O and LSE once
// clang-format on

/// Who does what, for head dimension D.
template <int HeadDim>
struct HopperTurns {
    static constexpr int D = HeadDim;                                        ///< the head dimension
    static constexpr int consumers = 2;                                      ///< warpgroups that multiply
    static constexpr int B_r = 64 * consumers;                               ///< queries
    static constexpr int B_c = D <= 128 ? 128 : D == 192 ? 112 : 80;         ///< keys
    static constexpr int stages = 2;                                         ///< of K_j and V_j
    static constexpr int threads = simt::kWarpgroup * (1 + consumers);       ///< of a block
    static constexpr bool persistent = false;                                ///< a block takes one tile of queries
    static constexpr int producer_registers = 24, consumer_registers = 240;  ///< of 168 each at the start
};

template <class T, class Shape>
__global__ void __launch_bounds__(Shape::threads, 1)
    hopper_turns_kernel(const __grid_constant__ simt::TensorMap<T, 4> Q_map,
                        const __grid_constant__ simt::TensorMap<T, 4> K_map,
                        const __grid_constant__ simt::TensorMap<T, 4> V_map,
                        const __grid_constant__ simt::TensorMap<T, 4> O_map, ForwardProblem<T> p) {
    constexpr int D = Shape::D, B_r = Shape::B_r, B_c = Shape::B_c;
    const QueryTile tile = QueryTile::of_block(p, B_r);
    const KeyTiles tiles = tile.key_tiles_of(p, B_r, B_c);

    simt::SharedArena arena;
    const Pipeline<T, Shape> pipeline(arena);
    pipeline.init();

    const int warpgroup = simt::same_in_warp(int(threadIdx.x) / simt::kWarpgroup);
    if (warpgroup == 0) {
        simt::release_registers<Shape::producer_registers>();
        const bool fetches = threadIdx.x < 32 && tiles.visited > 0;
        if (fetches && simt::elect_one())
            pipeline.fetch_all(Q_map, K_map, V_map, tile, tiles.visited, pipeline.after(0), {});
        __syncwarp();  // the lanes are together again
        if (pipeline.once_more(false)) {
            if (threadIdx.x >= 32)
                pipeline.clear_edges(tiles);
            else if (fetches && simt::elect_one())
                pipeline.fetch_all(Q_map, K_map, V_map, tile, tiles.visited, pipeline.after(tiles.visited), {0, 1});
        }
    } else {
        simt::claim_registers<Shape::consumer_registers>();
        const int consumer = warpgroup - 1, other = 1 - consumer;
        const WarpgroupOwner owner{.first_row = 64 * consumer, .first_query = tile.first_query};
        const SignedScale scale(p.scale);
        typename Pipeline<T, Shape>::Position k, v;
        simt::RingPosition<1> q;
        if (consumer == 1) simt::arrive_threads(1, 256);  // the first turn is warpgroup 1's

        // Computes the tile; carefully the second time. Gives whether the warp's rows are finite.
        const auto attend = [&]<bool careful>(std::bool_constant<careful>, bool stored) {
            simt::Accumulator<D> O_i;
            clear_rows(O_i);
            RunningRows rows;
            typename Pipeline<T, Shape>::Position c;

            // One step of the loop, compiled for full tiles and for those at the edge.
            const auto step = [&]<bool edge>(std::bool_constant<edge>, int j) {
                simt::Accumulator<B_c> S_ij;
                pipeline.K_full[k.stage].wait(k.parity);
                begin_scores(S_ij, pipeline.Q_i, owner, pipeline.stage_of(pipeline.K_ring, k.stage));
                simt::wait_products<0>(S_ij);
                pipeline.release(pipeline.K_empty, k);  // the tensor cores have read K_j
                if constexpr (edge) {
                    const int visible[2] = {tile.visible(p, owner.row(0)) - j * B_c,
                                            tile.visible(p, owner.row(1)) - j * B_c};
                    hide_keys(S_ij, owner, visible);
                }

                simt::sync_threads(1 + consumer, 256);  // the other multiplies: this one's turn for exponentials
                raise_maxima(S_ij, rows, owner, scale);
                weigh<B_c / 16>(S_ij, rows, owner, scale, j * B_c);
                simt::OperandA<T> P_ij[B_c / 16];
                to_operands(P_ij, S_ij);
                rescale_rows(O_i, rows);
                simt::arrive_threads(1 + other, 256);  // this one multiplies now: the other's turn

                pipeline.template wait_for_values<careful && edge>(v, c);
                begin_values(O_i, P_ij, pipeline.stage_of(pipeline.V_ring, v.stage));
                simt::wait_products<0>(O_i, P_ij);
                pipeline.release(pipeline.V_empty, v);  // and V_j
            };

            if (tiles.visited > 0) {
                pipeline.Q_full[0].wait(q.parity);
                q.next();
                if (scale.sign != 1.0f) multiply_warpgroup_rows(pipeline.Q_i, owner, scale.sign);
            }
            int j = tiles.visited - 1;
#pragma unroll 1
            for (; j >= tiles.full; --j) step(std::true_type(), j);
#pragma unroll 1
            for (; j >= 0; --j) step(std::false_type(), j);

            const int visible[2] = {tile.visible(p, owner.row(0)), tile.visible(p, owner.row(1))};
            if constexpr (careful)
                add_non_finite(O_i, p.V.slice(tile.b, tile.kv_head), tiles.full * B_c, owner, visible);
            const bool finite = careful || p.mask == Mask::none || finite_in_warp(O_i);
            if (finite && !stored)
                store_rows(O_i, rows, owner, pipeline.staging, O_map, p.LSE, tile.b, tile.h, p.query_length, visible);
            if (simt::elect_one()) simt::wait_stores_read<0>();  // shared memory outlives the stores' reads
            return finite;
        };
        const bool finite = attend(std::false_type(), false);
        if (pipeline.once_more(!finite)) attend(std::true_type(), finite);
        if (consumer == 0) simt::sync_threads(1, 256);  // the last turn, which nobody takes
    }
}

/// Shared memory that a block needs.
std::size_t hopper_turns_shared_bytes(const AttentionArguments& a) {
    std::size_t bytes = 0;
    with_warpgroup_head_dim(a.head_dim(), [&]<int D>(std::integral_constant<int, D>) {
        bytes = Pipeline<simt::f16, HopperTurns<D>>::shared_bytes;
    });
    return bytes;
}

/// Q once; for each query tile of each query head, the rows of K and V in the key tiles that it visits; O and LSE once.
GlobalBytes hopper_turns_bytes(const AttentionArguments& a) {
    GlobalBytes bytes;
    with_warpgroup_head_dim(a.head_dim(), [&]<int D>(std::integral_constant<int, D>) {
        bytes = forward_bytes_of_pieces(a, HopperTurns<D>::B_r, HopperTurns<D>::B_c);
    });
    return bytes;
}

/// Launches the kernel compiled for the problem's dtype and head dimension; its elements have 16 bits, and TMA can
/// address its tensors.
void launch_hopper_turns(const AttentionArguments& a) {
    with_element_type_of(MmaElements(), a.q.type, [&]<class T>(std::type_identity<T>) {
        with_warpgroup_head_dim(a.head_dim(), [&]<int D>(std::integral_constant<int, D>) {
            using Shape = HopperTurns<D>;
            const ForwardMaps<T, D, Shape::B_r, Shape::B_c> maps(a);
            cudaLaunchConfig_t config{};
            config.gridDim = dim3(ceil_div(a.query_length(), Shape::B_r), a.query_heads(), a.batch());
            config.blockDim = dim3(Shape::threads);
            config.dynamicSmemBytes = Pipeline<T, Shape>::shared_bytes;
            config.stream = static_cast<cudaStream_t>(a.stream);
            simt::launch("hopper_turns_kernel", config, hopper_turns_kernel<T, Shape>, maps.Q, maps.K, maps.V, maps.O,
                         ForwardProblem<T>(a, Shape::B_r));
        });
    });
}

}  // namespace ladder::SIMT_MACHINE
