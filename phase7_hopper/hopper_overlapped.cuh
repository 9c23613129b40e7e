#pragma once

#include "common/attention/dispatch.cuh"
#include "common/attention/warpgroup_pipeline.cuh"
#include "common/attention/warpgroup_store.cuh"
#include "phase7_hopper/short_loops.h"

namespace ladder::SIMT_MACHINE {

// clang-format off
/// FlashAttention-3, forward, the next step: a warpgroup has its softmax computed under its own products.
///
/// Changed since hopper_turns.cuh:
///
///   - S_ij of a tile and O_i of the tile before are asked for together. S_ij is there first; while the tensor cores still
///     work on O_i, the warpgroup computes the exponentials of S_ij, so P_ij lives from one step to the next;
///   - turns are taken with the products, not with the exponentials: both warpgroups compute exponentials all the time;
///   - without a mask, where loops are short, a block takes tile after tile: the next Q_i, K_j and V_j come while O_i leaves
///     (persistent); else a block takes one, and the hardware hands blocks out;
///   - the longest tiles of queries come first, and the heads that walk side by side have their keys in L2 together.
///
///   grid    x = the query tiles of all heads, or as many blocks as there are multiprocessors
///   block   384 threads: warpgroup 0 produces, warpgroups 1 and 2 consume rows 0 to 63 and 64 to 127 of the tile
///
///   shared  Q_i  [128, D]       256 D     written once for each tile of queries
///           K_j  [2 B_c, D]     4 B_c D   two stages
///           V_j  [2 B_c, D]     4 B_c D   two stages
///           O_i  [128, D]       256 D     if persistent; else O_i leaves from the place of Q_i
///           barriers, flags     144
///           196,752 bytes for D = 128, where B_c = 128; 229,520 for D = 256, where B_c = 80
///
///   named   1, 2   whose turn it is to ask for products, of warpgroup 1 and of warpgroup 2
///           8, 9   a consumer warpgroup by itself, where the sign of the scale is not 1
///           15     the whole block, before it may have to compute the tile once more
///
///   global  reads Q once, and of K and V the key tiles that the tile's last query sees any key of; writes O and LSE once
// clang-format on

/// Who does what, for head dimension D.
template <int HeadDim, bool Persistent>
struct HopperOverlapped {
    static constexpr int D = HeadDim;                                   ///< the head dimension
    static constexpr int consumers = 2;                                 ///< warpgroups that multiply
    static constexpr int B_r = 64 * consumers;                          ///< queries
    static constexpr int B_c = D <= 128 ? 128 : D == 192 ? 112 : 80;    ///< keys
    static constexpr int stages = 2;                                    ///< of K_j and V_j
    static constexpr int threads = simt::kWarpgroup * (1 + consumers);  ///< of a block
    static constexpr bool persistent = Persistent;                      ///< a block takes tile after tile of queries
    /// O_i follows the maxima under the product of the scores; else between the products, where it is short enough.
    static constexpr bool rescales_under_scores = D > 128;
    /// ptxas waits for O_i before it computes the exponentials, unless it is held. Where multiplying O_i comes after
    /// the wait, it weaves that into the exponentials, and gains more than the wait costs.
    static constexpr bool holds_the_wait = D > 128;
    static constexpr int producer_registers = 24, consumer_registers = 240;  ///< of 168 each at the start
};

template <class T, class Shape>
__global__ void __launch_bounds__(Shape::threads, 1)
    hopper_overlapped_kernel(const __grid_constant__ simt::TensorMap<T, 4> Q_map,
                             const __grid_constant__ simt::TensorMap<T, 4> K_map,
                             const __grid_constant__ simt::TensorMap<T, 4> V_map,
                             const __grid_constant__ simt::TensorMap<T, 4> O_map, ForwardProblem<T> p) {
    constexpr int D = Shape::D, B_r = Shape::B_r, B_c = Shape::B_c;

    simt::SharedArena arena;
    const Pipeline<T, Shape> pipeline(arena);
    pipeline.init();
    const auto for_each_tile = [&](const auto& use) {
#pragma unroll 1
        for (int number = int(blockIdx.x); number < p.tiles; number += int(gridDim.x)) {
            const QueryTile tile = QueryTile::numbered(p, number, B_r);
            use(tile, tile.key_tiles_of(p, B_r, B_c));
            if constexpr (!Shape::persistent) break;
        }
    };

    const int warpgroup = simt::same_in_warp(int(threadIdx.x) / simt::kWarpgroup);
    if (warpgroup == 0) {
        simt::release_registers<Shape::producer_registers>();
        int fetched = 0;
        simt::RingPosition<1> q;
        const auto fetch_all = [&](const QueryTile& tile, const KeyTiles& tiles) {
            if (tiles.visited == 0) return;
            pipeline.fetch_all(Q_map, K_map, V_map, tile, tiles.visited, pipeline.after(fetched), q);
            fetched += tiles.visited;
            q.next();
        };
        if (threadIdx.x < 32 && simt::elect_one()) for_each_tile(fetch_all);
        if constexpr (!Shape::persistent) {
            __syncwarp();  // the lanes are together again
            if (pipeline.once_more(false))
                for_each_tile([&](const QueryTile& tile, const KeyTiles& tiles) {
                    fetched = tiles.visited;
                    q = {0, 1};
                    if (threadIdx.x >= 32)
                        pipeline.clear_edges(tiles);
                    else if (simt::elect_one())
                        fetch_all(tile, tiles);
                });
        }
    } else {
        simt::claim_registers<Shape::consumer_registers>();
        const int consumer = warpgroup - 1, other = 1 - consumer;
        const SignedScale scale(p.scale);
        typename Pipeline<T, Shape>::Position k, v;
        simt::RingPosition<1> q;
        const auto stage_of = [&](const auto& ring, const auto& at) {
            return pipeline.stage_of(ring, Shape::persistent ? simt::same_in_warp(at.stage) : at.stage);
        };
        if (consumer == 1) simt::arrive_threads(1, 256);  // the first turn is warpgroup 1's

        // Computes a tile; carefully the second time. Gives whether the warp's rows are finite.
        const auto attend = [&]<bool careful>(std::bool_constant<careful>, const QueryTile& tile, const KeyTiles& tiles,
                                              bool stored) {
            const WarpgroupOwner owner{.first_row = 64 * consumer, .first_query = tile.first_query};
            simt::Accumulator<D> O_i;
            clear_rows(O_i);
            RunningRows rows;
            simt::OperandA<T> P_ij[B_c / 16];
            typename Pipeline<T, Shape>::Position c;
            const auto hide = [&](auto& S_ij, int j) {
                const int visible[2] = {tile.visible(p, owner.row(0)) - j * B_c,
                                        tile.visible(p, owner.row(1)) - j * B_c};
                hide_keys(S_ij, owner, visible);
            };

            // S_ij of tile j and O_i of tile j + 1, of which either may lie at the edge.
            const auto step = [&]<bool edge, bool edge_before>(std::bool_constant<edge>,
                                                               std::bool_constant<edge_before>, int j) {
                simt::Accumulator<B_c> S_ij;
                pipeline.K_full[k.stage].wait(k.parity);
                simt::sync_threads(1 + consumer, 256);  // the other warpgroup has asked for its products
                begin_scores(S_ij, pipeline.Q_i, owner, stage_of(pipeline.K_ring, k));
                if constexpr (Shape::rescales_under_scores) rescale_rows(O_i, rows);
                pipeline.template wait_for_values<careful && edge_before>(v, c);
                begin_values(O_i, P_ij, stage_of(pipeline.V_ring, v));
                simt::arrive_threads(1 + other, 256);  // the other's turn
                simt::wait_products<1>(S_ij);
                pipeline.release(pipeline.K_empty, k);
                if constexpr (edge) hide(S_ij, j);
                raise_maxima(S_ij, rows, owner, scale);
                weigh<B_c / 16>(S_ij, rows, owner, scale, j * B_c);
                if constexpr (Shape::holds_the_wait) simt::finish_before_wait(rows.l[0] + rows.l[1]);
                simt::wait_products<0>(O_i, P_ij);
                pipeline.release(pipeline.V_empty, v);
                to_operands(P_ij, S_ij);
                if constexpr (!Shape::rescales_under_scores) rescale_rows(O_i, rows);
            };
            const auto last_values = [&]<bool edge>(std::bool_constant<edge>) {
                if constexpr (Shape::rescales_under_scores) rescale_rows(O_i, rows);
                pipeline.template wait_for_values<careful && edge>(v, c);
                begin_values(O_i, P_ij, stage_of(pipeline.V_ring, v));
                simt::wait_products<0>(O_i, P_ij);
                pipeline.release(pipeline.V_empty, v);
            };

            if (tiles.visited > 0) {
                pipeline.Q_full[0].wait(q.parity);
                q.next();
                if (scale.sign != 1.0f) multiply_warpgroup_rows(pipeline.Q_i, owner, scale.sign);

                int j = tiles.visited - 1;
                {
                    simt::Accumulator<B_c> S_ij;
                    pipeline.K_full[k.stage].wait(k.parity);
                    begin_scores(S_ij, pipeline.Q_i, owner, stage_of(pipeline.K_ring, k));
                    simt::wait_products<0>(S_ij);
                    pipeline.release(pipeline.K_empty, k);
                    if (j >= tiles.full) hide(S_ij, j);
                    raise_maxima(S_ij, rows, owner, scale);
                    weigh<B_c / 16>(S_ij, rows, owner, scale, j * B_c);
                    to_operands(P_ij, S_ij);
                }
#pragma unroll 1
                while (j > tiles.full) step(std::true_type(), std::true_type(), --j);
                if constexpr (careful)
                    if (j > 0 && j == tiles.full) step(std::false_type(), std::true_type(), --j);
#pragma unroll 1
                while (j > 0) step(std::false_type(), std::false_type(), --j);
                if constexpr (Shape::persistent)
                    if (simt::elect_one()) pipeline.Q_empty[0].arrive();  // the last scores have been computed
                if (careful && tiles.full == 0)
                    last_values(std::true_type());
                else
                    last_values(std::false_type());
            }
            const int visible[2] = {tile.visible(p, owner.row(0)), tile.visible(p, owner.row(1))};
            if constexpr (careful)
                add_non_finite(O_i, p.V.slice(tile.b, tile.kv_head), tiles.full * B_c, owner, visible);
            const bool finite = careful || p.mask == Mask::none || finite_in_warp(O_i);
            if (finite && !stored)
                store_rows(O_i, rows, owner, pipeline.staging, O_map, p.LSE, tile.b, tile.h, p.query_length, visible);
            return finite;
        };

        for_each_tile([&](const QueryTile& tile, const KeyTiles& tiles) {
            const bool finite = attend(std::false_type(), tile, tiles, false);
            if constexpr (!Shape::persistent) {
                if (simt::elect_one()) simt::wait_stores_read<0>();  // or the next Q_i would overwrite what they read
                if (pipeline.once_more(!finite)) attend(std::true_type(), tile, tiles, finite);
            }
        });
        if (consumer == 0) simt::sync_threads(1, 256);       // the last turn, which nobody takes
        if (simt::elect_one()) simt::wait_stores_read<0>();  // shared memory outlives the stores' reads
    }
}

/// Calls `use(Shape())` with the shape for the problem.
template <class Use>
void with_overlapped_shape(const AttentionArguments& a, Use&& use) {
    with_warpgroup_head_dim(a.head_dim(), [&]<int D>(std::integral_constant<int, D>) {
        if constexpr (D <= 128)
            if (has_short_loops(a)) return use(HopperOverlapped<D, true>());
        use(HopperOverlapped<D, false>());
    });
}

/// Shared memory that a block needs.
std::size_t hopper_overlapped_shared_bytes(const AttentionArguments& a) {
    std::size_t bytes = 0;
    with_overlapped_shape(a, [&]<class Shape>(Shape) { bytes = Pipeline<simt::f16, Shape>::shared_bytes; });
    return bytes;
}

/// Q once; for each query tile of each query head, the rows of K and V in the key tiles that it visits; O and LSE once.
GlobalBytes hopper_overlapped_bytes(const AttentionArguments& a) {
    GlobalBytes bytes;
    with_overlapped_shape(a, [&]<class Shape>(Shape) { bytes = forward_bytes_of_pieces(a, Shape::B_r, Shape::B_c); });
    return bytes;
}

/// Launches the kernel compiled for the problem's dtype and head dimension; its elements have 16 bits, and TMA can
/// address its tensors.
void launch_hopper_overlapped(const AttentionArguments& a) {
    with_element_type_of(MmaElements(), a.q.type, [&]<class T>(std::type_identity<T>) {
        with_overlapped_shape(a, [&]<class Shape>(Shape) {
            const ForwardMaps<T, Shape::D, Shape::B_r, Shape::B_c> maps(a);
            const ForwardProblem<T> problem(a, Shape::B_r);
            cudaLaunchConfig_t config{};
            config.gridDim = dim3(Shape::persistent ? std::min(problem.tiles, a.multiprocessors) : problem.tiles);
            config.blockDim = dim3(Shape::threads);
            config.dynamicSmemBytes = Pipeline<T, Shape>::shared_bytes;
            config.stream = static_cast<cudaStream_t>(a.stream);
            simt::launch("hopper_overlapped_kernel", config, hopper_overlapped_kernel<T, Shape>, maps.Q, maps.K, maps.V,
                         maps.O, problem);
        });
    });
}

}  // namespace ladder::SIMT_MACHINE
