#pragma once

#include "common/attention/dispatch.cuh"
#include "common/attention/warpgroup_edge.cuh"
#include "common/attention/warpgroup_problem.cuh"
#include "common/attention/warpgroup_store.cuh"
#include "common/attention/warpgroup_tile.cuh"

namespace ladder::SIMT_MACHINE {

// clang-format off
/// FlashAttention, forward, with Hopper's instructions: the loop of phase 6, one thing after the other.
///
/// Changed since mma_pipelined.cuh:
///
///   - four warps multiply together, 64 query rows by all keys of a tile in one wgmma for each 16 columns, and the tensor
///     cores read Q_i, K_j and V_j where they lie in shared memory: no operand but P_ij passes through a register;
///   - one thread asks for whole tiles, and the tensor memory accelerator brings them, swizzled; it fills up with zeros
///     what lies beyond the end of a tensor, rows and columns;
///   - who needs a tile waits at an mbarrier for its bytes;
///   - O_i leaves through shared memory as it came in, by the accelerator.
///
/// Nothing is hidden: nobody multiplies while tiles come, and the tensor cores wait for the softmax. Two blocks or three on
/// a multiprocessor are all that fills the gaps.
///
///   grid    x = ceil(Sq / 64) query tiles, y = Hq heads, z = B sequences
///   block   128 threads, one warpgroup: all of the tile's rows
///
///   shared  Q_i  [64, D]    128 D     written once; each warp leaves its 16 rows of O_i there
///           K_j  [B_c, D]   2 B_c D   one tile at a time
///           V_j  [B_c, D]   2 B_c D   the same
///           full            16        the one mbarrier
///           81,936 bytes for D = 128, where B_c = 128
///
///   global  reads Q once, and of K and V the key tiles that the tile's last query sees any key of; writes O and LSE once
// clang-format on

/// Who does what, for head dimension D.
template <int HeadDim>
struct HopperLesson {
    static constexpr int D = HeadDim;                                 ///< the head dimension
    static constexpr int B_r = 64;                                    ///< queries of a tile
    static constexpr int B_c = D <= 128 ? 128 : D == 192 ? 112 : 80;  ///< keys of a tile
    static constexpr int threads = simt::kWarpgroup;                  ///< of a block
    static constexpr std::size_t shared_bytes =
        simt::panel_bytes<simt::f16>(B_r, D) + 2 * simt::panel_bytes<simt::f16>(B_c, D) + 16;  ///< of a block
};

template <class T, class Lesson>
__global__ void __launch_bounds__(Lesson::threads)
    hopper_kernel(const __grid_constant__ simt::TensorMap<T, 4> Q_map,
                  const __grid_constant__ simt::TensorMap<T, 4> K_map,
                  const __grid_constant__ simt::TensorMap<T, 4> V_map,
                  const __grid_constant__ simt::TensorMap<T, 4> O_map, ForwardProblem<T> p) {
    constexpr int D = Lesson::D, B_r = Lesson::B_r, B_c = Lesson::B_c;
    const QueryTile tile = QueryTile::of_block(p, B_r);
    const KeyTiles tiles = tile.key_tiles_of(p, B_r, B_c);

    simt::SharedArena arena;
    const auto Q_i = arena.template panels<T, B_r, D, kRowSwizzle<D>>("Q_i");
    const auto K_j = arena.template panels<T, B_c, D, kRowSwizzle<D>>("K_j");
    const auto V_j = arena.template panels<T, B_c, D, kRowSwizzle<D>>("V_j");
    const auto full = arena.template barriers<1>("full");
    if (threadIdx.x == 0) {
        full[0].init(1);
        simt::publish_barriers();
    }
    __syncthreads();  // the barrier is there before anyone waits for it

    const WarpgroupOwner owner{.first_row = 0, .first_query = tile.first_query};
    const SignedScale scale(p.scale);
    const bool asks = threadIdx.x < 32;  // one lane of this warp does
    simt::RingPosition<1> phase;
    if (asks && simt::elect_one()) {
        full[0].arrive_expecting(int(Q_i.bytes));
        simt::tma_load(Q_i, Q_map, {tile.b, tile.h, tile.first_query, 0}, full[0]);
    }
    full[0].wait(phase.parity);  // Q_i is there
    phase.next();
    if (scale.sign != 1.0f) multiply_warpgroup_rows(Q_i, owner, scale.sign);

    simt::Accumulator<D> O_i;
    clear_rows(O_i);
    RunningRows rows;
    bool careful = false;  // V holds at the edge what is not finite
#pragma unroll 1
    for (int j = tiles.visited - 1; j >= 0; --j) {
        if (asks && simt::elect_one()) {
            full[0].arrive_expecting(int(K_j.bytes + V_j.bytes));
            simt::tma_load(K_j, K_map, {tile.b, tile.kv_head, j * B_c, 0}, full[0]);
            simt::tma_load(V_j, V_map, {tile.b, tile.kv_head, j * B_c, 0}, full[0]);
        }
        full[0].wait(phase.parity);  // K_j, V_j are there
        phase.next();

        simt::Accumulator<B_c> S_ij;
        begin_scores(S_ij, Q_i, owner, K_j);
        simt::wait_products<0>(S_ij);

        if (j >= tiles.full) {  // some rows do not see some keys
            const int visible[2] = {tile.visible(p, owner.row(0)) - j * B_c, tile.visible(p, owner.row(1)) - j * B_c};
            hide_keys(S_ij, owner, visible);
            // V_j is clear before the products read it.
            careful |= __syncthreads_or(clear_non_finite<Lesson::threads>(V_j, int(threadIdx.x))) != 0;
        }

        raise_maxima(S_ij, rows, owner, scale);
        weigh<B_c / 16>(S_ij, rows, owner, scale, j * B_c);
        simt::OperandA<T> P_ij[B_c / 16];
        to_operands(P_ij, S_ij);
        rescale_rows(O_i, rows);
        begin_values(O_i, P_ij, V_j);
        simt::wait_products<0>(O_i, P_ij);
        __syncthreads();  // everyone is done with K_j, V_j before the next take their place
    }

    const int visible[2] = {tile.visible(p, owner.row(0)), tile.visible(p, owner.row(1))};
    if (careful) add_non_finite(O_i, p.V.slice(tile.b, tile.kv_head), tiles.full * B_c, owner, visible);
    store_rows(O_i, rows, owner, Q_i, O_map, p.LSE, tile.b, tile.h, p.query_length, visible);
    if (simt::elect_one()) simt::wait_stores_read<0>();  // shared memory outlives the stores' reads
}

/// Shared memory that a block needs.
std::size_t hopper_shared_bytes(const AttentionArguments& a) {
    std::size_t bytes = 0;
    with_warpgroup_head_dim(a.head_dim(),
                            [&]<int D>(std::integral_constant<int, D>) { bytes = HopperLesson<D>::shared_bytes; });
    return bytes;
}

/// Q once; for each query tile of each query head, the rows of K and V in the key tiles that it visits; O and LSE once.
GlobalBytes hopper_bytes(const AttentionArguments& a) {
    GlobalBytes bytes;
    with_warpgroup_head_dim(a.head_dim(), [&]<int D>(std::integral_constant<int, D>) {
        bytes = forward_bytes_of_pieces(a, HopperLesson<D>::B_r, HopperLesson<D>::B_c);
    });
    return bytes;
}

/// Launches the kernel compiled for the problem's dtype and head dimension; its elements have 16 bits, and TMA can
/// address its tensors.
void launch_hopper(const AttentionArguments& a) {
    with_element_type_of(MmaElements(), a.q.type, [&]<class T>(std::type_identity<T>) {
        with_warpgroup_head_dim(a.head_dim(), [&]<int D>(std::integral_constant<int, D>) {
            using Lesson = HopperLesson<D>;
            const ForwardMaps<T, D, Lesson::B_r, Lesson::B_c> maps(a);
            cudaLaunchConfig_t config{};
            config.gridDim = dim3(ceil_div(a.query_length(), Lesson::B_r), a.query_heads(), a.batch());
            config.blockDim = dim3(Lesson::threads);
            config.dynamicSmemBytes = Lesson::shared_bytes;
            config.stream = static_cast<cudaStream_t>(a.stream);
            simt::launch("hopper_kernel", config, hopper_kernel<T, Lesson>, maps.Q, maps.K, maps.V, maps.O,
                         ForwardProblem<T>(a, Lesson::B_r));
        });
    });
}

}  // namespace ladder::SIMT_MACHINE
