#pragma once

#include "phase8_backward/hopper_non_finite.cuh"
#include "phase8_backward/hopper_scores.cuh"

namespace ladder::SIMT_MACHINE {

// clang-format off
/// The backward pass by warpgroups (FlashAttention-3's: Shah et al. 2024, Algorithm 3): dkdv.cuh on Hopper.
///
/// A warpgroup owns 64 keys. S_ij and dP_ij are computed transposed, keys as rows, so that what a thread has of P_ij^T
/// and of dS_ij^T is what its operands of the next two products want: neither goes through memory for them.
///
///   S_ij^T  = K_j Q_i^T        dP_ij^T = V_j dO_i^T             from shared memory
///   dV_j   += P_ij^T dO_i      dK_j   += dS_ij^T Q_i            from registers
///   dQ_i    = dS_ij K_j                                         of all 128 keys: through shared memory
///
/// What this block has to add to dQ_i leaves while the products of the next step run: the accelerator adds it to dQ_sum,
/// where the sums of all blocks meet. Where InOrder, key tile n adds to a query tile after key tile n - 1, so that dQ
/// repeats to the bit. Nobody waits for a block that begins after it. A block takes its query tiles from the last to the
/// first: under a causal mask all blocks see the last one, so that each lags one step behind the one before it, and
/// leaves as much sooner.
///
/// At the edge of a mask infinities and NaN of hidden pairs must not reach anyone: hopper_non_finite.cuh.
///
///   grid    x = ceil(Sk / 128) key tiles of B Hkv heads, a tile of each of `heads_at_once` heads in turn. A block walks
///           through all query heads that read its keys. Under a causal mask tile 0 of a head is seen by the most
///           queries, and starts first
///   block   384 threads: warpgroup 0 fetches and sends, warpgroups 1 and 2 own keys 0 to 63 and 64 to 127 of the tile
///
///   shared  K_j, V_j     [128, D]     512 D      written once; at the end dK_j and dV_j leave from there
///           Q_i, dO_i    [2 B_r, D]   8 B_r D    two stages
///           dS_ij^T      [256, B_r]   512 B_r    of this step and of the one before
///           dQ_i         [B_r, D]     4 B_r D    in float32
///           LSE_i, D_i   [2, B_r]     16 B_r     two stages
///           found        [3, 8]       96         who found infinities or NaN
///           barriers                  112
///           197,840 bytes for D = 128, where B_r = 64
///
///   named   1   both consumer warpgroups: dS_ij^T is complete
///           2   the same, after the loop: nobody reads K_j any more
///           3   the same, for hopper_non_finite.cuh
///
///   global  reads K and V once, and once per key tile Q, dO, LSE and D of the query tiles that see it; adds to dQ_sum
///           once per key tile; writes dK and dV once
// clang-format on

/// Who does what, for head dimension D.
template <int HeadDim>
struct HopperBackward {
    static constexpr int D = HeadDim;                      ///< the head dimension
    static constexpr int consumers = 2;                    ///< warpgroups that multiply
    static constexpr int B_c = 64 * consumers;             ///< keys, which stay
    static constexpr int B_r = D <= 64 ? 128 : 64;         ///< queries, which come past
    static constexpr int stages = 2;                       ///< of Q_i and dO_i
    static constexpr int score_places = 2;                 ///< of dS_ij^T
    static constexpr int sum_places = 1, sum_columns = D;  ///< of dQ_i, which leaves as a whole
    /// Warpgroups that read dO_i, and that compute parts of dQ_i: all.
    static constexpr int warpgroups_of_values = consumers, warpgroups_of_sums = consumers;
    static constexpr int threads = simt::kWarpgroup * (1 + consumers);       ///< of a block
    static constexpr int producer_registers = 24, consumer_registers = 240;  ///< of 168 each at the start
    /// A warpgroup computes 64 columns of dQ_i, or where there are no more, 64 rows.
    static constexpr bool shares_columns = D > 64;
};

/// Calls `use(std::integral_constant<int, D>())` with the head dimension that holds `head_dim`, 64 or 128; entries take
/// no larger ones.
template <class Use>
void with_hopper_backward_dim(std::int64_t head_dim, Use&& use) {
    with_warpgroup_head_dim(head_dim, [&]<int D>(std::integral_constant<int, D>) {
        use(std::integral_constant < int, D <= 64 ? 64 : 128 > ());
    });
}

template <class T, class Shape, bool InOrder>
__global__ void __launch_bounds__(Shape::threads, 1) hopper_backward_kernel(
    const __grid_constant__ simt::TensorMap<T, 4> Q_map, const __grid_constant__ simt::TensorMap<T, 4> K_map,
    const __grid_constant__ simt::TensorMap<T, 4> V_map, const __grid_constant__ simt::TensorMap<T, 4> dO_map,
    const __grid_constant__ simt::TensorMap<float, 4> dQ_map, const __grid_constant__ simt::TensorMap<T, 4> dK_map,
    const __grid_constant__ simt::TensorMap<T, 4> dV_map, BackwardProblem p, GivenTensors<T> given) {
    constexpr int D = Shape::D, B_r = Shape::B_r, B_c = Shape::B_c;
    using Pipeline = BackwardPipeline<T, Shape>;
    const KeyTile keys = KeyTile::of_block(p, B_r, B_c);

    simt::SharedArena arena;
    const Pipeline pipeline(arena);
    pipeline.init();

    const int warpgroup = simt::same_in_warp(int(threadIdx.x) / simt::kWarpgroup);
    if (warpgroup == 0) {
        simt::release_registers<Shape::producer_registers>();
        const int warp = simt::same_in_warp(int(threadIdx.x) / 32);
        if (keys.steps == 0) return;
        if (warp == 0 && simt::elect_one()) fetch_queries(pipeline, Q_map, K_map, V_map, dO_map, p, keys);
        if (warp == 1 && simt::elect_one()) send_queries<InOrder>(pipeline, dQ_map, p, keys);
    } else {
        simt::claim_registers<Shape::consumer_registers>();
        const int consumer = warpgroup - 1;
        const WarpgroupOwner owner{.first_row = 64 * consumer, .first_query = keys.first_key};  // its rows are keys
        const int dQ_row = Shape::shares_columns ? 0 : 64 * consumer;
        const int dQ_column = Shape::shares_columns ? 64 * consumer : 0;
        const float exponent = p.scale * kLog2E;
        const FirstQueries first(p, owner, B_r);
        simt::Accumulator<D> dK_j, dV_j;
        clear_rows(dK_j);
        clear_rows(dV_j);
        typename Pipeline::Position q, d;
        simt::RingPosition<1> at_sums;
        const bool masked = p.mask != Mask::none;
        bool odd_keys = false;
        if (keys.steps > 0) {
            pipeline.kept[0].wait(0);
            odd_keys = masked && hold_non_finite<8>(pipeline.found, Pipeline::stages, 3, pipeline.K_j);
        }

#pragma unroll 1
        for (QueryStep<B_r> at(keys); at.number < keys.steps; at.next(keys)) {
            const auto Q_i = Pipeline::stage_of(pipeline.Q_ring, q.stage),
                       dO_i = Pipeline::stage_of(pipeline.dO_ring, d.stage);
            const auto dS_ij = pipeline.scores_of(at.number % 2);
            const bool some_see = at.first_query() < keys.all_see;  // or keys do not exist
            const bool edge = some_see || at.first_query() + B_r > p.query_length;

            simt::Accumulator<B_r> S_ij, dP_ij;
            pipeline.Q_full[q.stage].wait(q.parity);
            begin_scores(S_ij, pipeline.K_j, owner, Q_i);  // S_ij^T = K_j Q_i^T
            pipeline.dO_full[d.stage].wait(d.parity);
            begin_scores(dP_ij, pipeline.V_j, owner, dO_i);  // dP_ij^T = V_j dO_i^T

            const bool hides = some_see && masked;
            const bool odd = hides && hold_non_finite<8>(pipeline.found, q.stage, 3, Q_i, dO_i);

            simt::wait_products<1>(S_ij);
            weigh_columns(S_ij, pipeline.LSE_ring, q.stage, owner.column(), exponent);
            if (edge) hide_queries(S_ij, owner.column(), first.from(at.first_query()));
            simt::OperandA<T> P_ij[B_r / 16], dS_operands[B_r / 16];
            to_operands(P_ij, S_ij);

            simt::wait_products<0>(dP_ij);
            differentiate_columns(dP_ij, S_ij, pipeline.D_ring, d.stage, owner.column());
            if (edge) hide_queries(dP_ij, owner.column(), first.from(at.first_query()));
            to_operands(dS_operands, dP_ij);

            if (odd) {
                simt::sync_threads(3, 256);  // both have their scores: nobody wants Q_i and dO_i as they are
                clear_non_finite<256>(Q_i, consumer_thread());
                clear_non_finite<256>(dO_i, consumer_thread());
                simt::sync_threads(3, 256);  // all is clear, and shown, before a product reads it
            }
            begin_values(dV_j, P_ij, dO_i);  // dV_j += P_ij^T dO_i
            leave_scores(dS_ij, dS_operands, owner.first_row_of_warp());
            simt::sync_threads(1, 256);  // both have left their part of dS_ij^T (and are done with the one before)
            if (hides && odd_keys) {
                clear_non_finite<256>(pipeline.K_j, consumer_thread());
                simt::sync_threads(3, 256);  // K_j is clear, and shown, before a product reads it
            }
            simt::Accumulator<64> dQ_part;
            begin_sums(dQ_part, dS_ij, dQ_row, pipeline.K_j, dQ_column);
            begin_values(dK_j, dS_operands, Q_i);  // dK_j += dS_ij^T Q_i

            simt::wait_products<2>(dV_j, P_ij);
            Pipeline::release(pipeline.dO_empty, d);
            simt::wait_products<1>(dQ_part);
            if (hides && odd_keys) {
                const auto K = given.K.slice(keys.b, keys.kv_head);
                simt::sync_threads(3, 256);  // both have multiplied K_j
                restore_keys<256>(pipeline.K_j, K, keys.first_key, consumer_thread());
                add_left_out_queries(dQ_part, K, p, keys.first_key, B_c, at.first_query() + dQ_row, dQ_column);
                simt::sync_threads(3, 256);  // K_j is there, and shown, before the next scores read it
            }
            pipeline.dQ_empty[0].wait(at_sums.parity ^ 1);  // the accelerator has read the sums of the step before
            at_sums.next();
            leave_sums<64>(pipeline.dQ_parts, dQ_part, 0, dQ_row, dQ_column);
            __syncwarp();  // the warp's part is complete, and shown, before one lane says so
            if (simt::elect_one()) pipeline.dQ_full[0].arrive();
            simt::wait_products<0>(dK_j, dS_operands);
            if (odd) add_left_out_values(dV_j, given.dO.slice(keys.b, at.h), at.first_query(), B_r, first);
            Pipeline::release(pipeline.Q_empty, q);
        }

        simt::sync_threads(2, 256);  // no product reads K_j any more: dK_j leaves from its place
        send_keys(dV_j, 1.0f, pipeline.V_j, owner.first_row_of_warp(), dV_map, keys, p.key_length);
        send_keys(dK_j, p.scale, pipeline.K_j, owner.first_row_of_warp(), dK_map, keys, p.key_length);
        if (simt::elect_one()) simt::wait_stores_read<0>();  // shared memory outlives the stores' reads
    }
}

/// Shared memory that a block of the large kernel needs.
std::size_t hopper_backward_shared_bytes(const HopperBackwardArguments& a) {
    std::size_t bytes = 0;
    with_hopper_backward_dim(a.head_dim(), [&]<int D>(std::integral_constant<int, D>) {
        bytes = BackwardPipeline<simt::f16, HopperBackward<D>>::shared_bytes;
    });
    return bytes;
}

/// Queries in a tile.
int hopper_backward_tile(const HopperBackwardArguments& a) {
    int B_r = 0;
    with_hopper_backward_dim(a.head_dim(),
                             [&]<int D>(std::integral_constant<int, D>) { B_r = HopperBackward<D>::B_r; });
    return B_r;
}

/// What the kernels move.
GlobalBytes hopper_backward_bytes(const HopperBackwardArguments& a) {
    GlobalBytes bytes;
    with_hopper_backward_dim(
        a.head_dim(), [&]<int D>(std::integral_constant<int, D>) { bytes = bytes_of_shape<HopperBackward<D>>(a); });
    return bytes;
}

/// Launches the three kernels, compiled for the problem's dtype and head dimension; its elements have 16 bits, and TMA
/// can address its tensors.
void launch_hopper_backward(const HopperBackwardArguments& a) {
    with_element_type_of(MmaElements(), a.q.type, [&]<class T>(std::type_identity<T>) {
        with_hopper_backward_dim(a.head_dim(), [&]<int D>(std::integral_constant<int, D>) {
            using Shape = HopperBackward<D>;
            launch_for_keys<T, Shape>(
                a, "hopper_backward_kernel", BackwardPipeline<T, Shape>::shared_bytes,
                a.turns.rank ? hopper_backward_kernel<T, Shape, true> : hopper_backward_kernel<T, Shape, false>);
        });
    });
}

}  // namespace ladder::SIMT_MACHINE
