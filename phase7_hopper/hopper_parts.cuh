#pragma once

#include "common/attention/dispatch.cuh"
#include "common/attention/warpgroup_pipeline.cuh"
#include "common/attention/warpgroup_store.cuh"

namespace ladder::SIMT_MACHINE {

// clang-format off
/// FlashAttention-3's aim by another way, for head dimensions up to 128: three warpgroups, none of which overlaps two tiles,
/// and none of which waits for its turn.
///
/// Changed since hopper_overlapped.cuh:
///
///   - three consumers share every K_j and V_j, so that less of shared memory is read for each product; with three warps on
///     each scheduler one's waits are filled by the others, and turns would only cost;
///   - the weights of a tile are computed in parts: each part's product with V_j runs under the exponentials of the next.
///     Nothing of another tile is in registers, and 160 of them suffice for each thread;
///   - a warpgroup that sees nothing of a key tile leaves it out.
///
///   grid    x = the query tiles of all heads, the longest first
///   block   512 threads: warpgroup 0 produces, warpgroups 1 to 3 consume 64 rows of the tile each
///
///   shared  Q_i  [192, D]       384 D     written once; each warp leaves its 16 rows of O_i there
///           K_j  [2 B_c, D]     4 B_c D   two stages
///           V_j  [2 B_c, D]     4 B_c D   two stages
///           barriers, flags     160
///           180,384 bytes for D = 128, where B_c = 128
///
///   named   8, 9, 10   a consumer warpgroup by itself, where the sign of the scale is not 1
///           15         the whole block, before it may have to compute the tile once more
///
///   global  reads Q once, and of K and V the key tiles that the tile's last query sees any key of; writes O and LSE once
// clang-format on

/// Who does what, for head dimension D.
template <int HeadDim, int Keys, int Parts>
struct HopperParts {
    static constexpr int D = HeadDim;                                        ///< the head dimension
    static constexpr int consumers = 3;                                      ///< warpgroups that multiply
    static constexpr int B_r = 64 * consumers;                               ///< queries
    static constexpr int B_c = Keys;                                         ///< keys
    static constexpr int parts = Parts;                                      ///< of a tile's weights
    static constexpr int part = B_c / 16 / parts;                            ///< times 16 keys each
    static constexpr int stages = 2;                                         ///< of K_j and V_j
    static constexpr int threads = simt::kWarpgroup * (1 + consumers);       ///< of a block
    static constexpr bool persistent = false;                                ///< a block takes one tile of queries
    static constexpr int producer_registers = 32, consumer_registers = 160;  ///< of 128 each at the start
    static_assert(16 * part * parts == B_c);
};

/// The fastest of those that were measured (docs/tuning/phase7.md).
template <int D>
struct HopperPartsFor;
/// For head dimensions up to 64.
template <>
struct HopperPartsFor<64> {
    using Shape = HopperParts<64, 160, 10>;  ///< 64 x consumers queries by so many keys
};
/// For head dimensions up to 96.
template <>
struct HopperPartsFor<96> {
    using Shape = HopperParts<96, 128, 8>;  ///< 64 x consumers queries by so many keys
};
/// For head dimensions up to 128.
template <>
struct HopperPartsFor<128> {
    using Shape = HopperParts<128, 128, 4>;  ///< 64 x consumers queries by so many keys
};

template <class T, class Shape>
__global__ void __launch_bounds__(Shape::threads, 1)
    hopper_parts_kernel(const __grid_constant__ simt::TensorMap<T, 4> Q_map,
                        const __grid_constant__ simt::TensorMap<T, 4> K_map,
                        const __grid_constant__ simt::TensorMap<T, 4> V_map,
                        const __grid_constant__ simt::TensorMap<T, 4> O_map, ForwardProblem<T> p) {
    constexpr int D = Shape::D, B_r = Shape::B_r, B_c = Shape::B_c, parts = Shape::parts, part = Shape::part;
    const QueryTile tile = QueryTile::numbered(p, int(blockIdx.x), B_r);
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
        const WarpgroupOwner owner{.first_row = 64 * (warpgroup - 1), .first_query = tile.first_query};
        const SignedScale scale(p.scale);
        typename Pipeline<T, Shape>::Position k;
        simt::RingPosition<1> q;

        // Computes the tile; carefully the second time. Gives whether the warp's rows are finite.
        const auto attend = [&]<bool careful>(std::bool_constant<careful>, bool stored) {
            simt::Accumulator<D> O_i;
            clear_rows(O_i);
            RunningRows rows;
            typename Pipeline<T, Shape>::Position c;

            // One step of the loop, compiled for full tiles and for those at the edge. K_j and V_j have the same stage.
            const auto step = [&]<bool edge>(std::bool_constant<edge>, int j) {
                const auto V_j = pipeline.stage_of(pipeline.V_ring, k.stage);
                simt::Accumulator<B_c> S_ij;
                pipeline.K_full[k.stage].wait(k.parity);
                begin_scores(S_ij, pipeline.Q_i, owner, pipeline.stage_of(pipeline.K_ring, k.stage));
                simt::wait_products<0>(S_ij);
                if (simt::elect_one()) pipeline.K_empty[k.stage].arrive();  // of each warp: K_j has been read
                if constexpr (edge) {
                    const int visible[2] = {tile.visible(p, owner.row(0)) - j * B_c,
                                            tile.visible(p, owner.row(1)) - j * B_c};
                    hide_keys(S_ij, owner, visible);
                }

                raise_maxima(S_ij, rows, owner, scale);
                simt::OperandA<T> P_ij[parts][part];
                weigh<part>(S_ij, rows, owner, scale, j * B_c);
                to_operands(P_ij[0], S_ij);
                rescale_rows(O_i, rows);
                pipeline.template wait_for_values<careful && edge>(k, c);
                begin_values(O_i, P_ij[0], V_j);
#pragma unroll
                for (int n = 1; n < parts; ++n) {
                    weigh<part>(S_ij, rows, owner, scale, j * B_c, n * part);
                    to_operands(P_ij[n], S_ij, n * part);
                    begin_more_values(O_i, P_ij[n], V_j, n * part);
                }
                simt::wait_products<0>(O_i, P_ij);
                pipeline.release(pipeline.V_empty, k);  // and V_j
            };

            if (tiles.visited > 0) {
                pipeline.Q_full[0].wait(q.parity);
                q.next();
                if (scale.sign != 1.0f) multiply_warpgroup_rows(pipeline.Q_i, owner, scale.sign);
            }
            int j = tiles.visited - 1;
            const int seen = tile.visible(p, owner.first_row + 63);  // by any of the warpgroup's rows
#pragma unroll 1
            for (; j * B_c >= seen && j >= 0; --j) {
                pipeline.K_full[k.stage].wait(k.parity);  // or an arrival of this round would count for the one before
                if (simt::elect_one()) pipeline.K_empty[k.stage].arrive();
                pipeline.template wait_for_values<careful>(k, c);
                pipeline.release(pipeline.V_empty, k);
            }
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
    }
}

/// Calls `use(Shape())` with the shape for the problem, whose head dimension is at most 128.
template <class Use>
void with_parts_shape(const AttentionArguments& a, Use&& use) {
    with_warpgroup_head_dim(a.head_dim(), [&]<int D>(std::integral_constant<int, D>) {
        if constexpr (D <= 128) use(typename HopperPartsFor<D>::Shape());
    });
}

/// Shared memory that a block needs.
std::size_t hopper_parts_shared_bytes(const AttentionArguments& a) {
    std::size_t bytes = 0;
    with_parts_shape(a, [&]<class Shape>(Shape) { bytes = Pipeline<simt::f16, Shape>::shared_bytes; });
    return bytes;
}

/// Q once; for each query tile of each query head, the rows of K and V in the key tiles that it visits; O and LSE once.
GlobalBytes hopper_parts_bytes(const AttentionArguments& a) {
    GlobalBytes bytes;
    with_parts_shape(a, [&]<class Shape>(Shape) { bytes = forward_bytes_of_pieces(a, Shape::B_r, Shape::B_c); });
    return bytes;
}

/// Launches the kernel compiled for the problem's dtype and head dimension, at most 128; its elements have 16 bits, and
/// TMA can address its tensors.
void launch_hopper_parts(const AttentionArguments& a) {
    with_element_type_of(MmaElements(), a.q.type, [&]<class T>(std::type_identity<T>) {
        with_parts_shape(a, [&]<class Shape>(Shape) {
            const ForwardMaps<T, Shape::D, Shape::B_r, Shape::B_c> maps(a);
            const ForwardProblem<T> problem(a, Shape::B_r);
            cudaLaunchConfig_t config{};
            config.gridDim = dim3(problem.tiles);
            config.blockDim = dim3(Shape::threads);
            config.dynamicSmemBytes = Pipeline<T, Shape>::shared_bytes;
            config.stream = static_cast<cudaStream_t>(a.stream);
            simt::launch("hopper_parts_kernel", config, hopper_parts_kernel<T, Shape>, maps.Q, maps.K, maps.V, maps.O,
                         problem);
        });
    });
}

}  // namespace ladder::SIMT_MACHINE
