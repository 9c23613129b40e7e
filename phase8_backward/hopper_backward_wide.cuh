#pragma once

#include "phase8_backward/hopper_non_finite.cuh"
#include "phase8_backward/hopper_scores.cuh"

namespace ladder::SIMT_MACHINE {

// clang-format off
/// hopper_backward.cuh for head dimensions from 129 to 256, whose sums of two warpgroups' keys no register file holds.
///
/// Changed: the block keeps 64 keys, and both consumers work for all of them. One warpgroup has dV_j, 64 x D sums, and
/// makes the weights; the other has dK_j, as many, and makes dQ_i. Of all that one makes the other needs dS_ij^T alone,
/// which goes through shared memory for dQ_i anyway. So each walks at its own pace, and nobody meets:
///
///   warpgroup 1   S_ij^T = K_j Q_i^T    dP_ij^T = V_j dO_i^T    dV_j += P_ij^T dO_i     P_ij^T from registers
///   warpgroup 2   dQ_i = dS_ij K_j      dK_j += dS_ij^T Q_i                             all from shared memory
///
/// In each step of warpgroup 1 something is under way while it computes: dP_ij^T while it makes weights, dV_j while it
/// makes dS_ij^T. Warpgroup 2 is a step behind, and fills the tensor cores' gaps. What a block adds to dQ_i leaves in
/// parts of 32 columns, a few of which have a place in shared memory at a time; for D = 256 warpgroup 2 has registers
/// for half of dQ_i.
///
///   grid    x = ceil(Sk / 64) key tiles of B Hkv heads, as in hopper_backward.cuh
///   block   384 threads: warpgroup 0 fetches and sends, as in hopper_backward.cuh
///
///   shared  K_j, V_j     [64, D]      256 D      written once; at the end dK_j and dV_j leave from there
///           Q_i, dO_i    [2 64, D]    512 D      two stages
///           dS_ij^T      [P 64, 64]   8192 P     P places
///           dQ_i         [S 64, 32]   8192 S     S places for parts, in float32
///           LSE_i, D_i   [2, 64]      1024       two stages
///           found        [3, 8]       96         who found infinities or NaN
///           barriers
///           230,672 bytes for D = 256, where P = 1 and S = 3
///
///   named   1   both consumer warpgroups, after the loop: nobody reads K_j any more
///           2   the same, for hopper_non_finite.cuh; 3 for warpgroup 1 alone, 4 for warpgroup 2
///
///   reads   by wgmma, per step and for D = 256: S_ij^T and dP_ij^T 64 KiB each, dV_j 32, dK_j 40, dQ_i 48; with dS_ij^T
///           (8), dQ_i's way out (128) and Q_i's and dO_i's in (64) 448 KiB, which take 3584 cycles. The products take
///           2560
// clang-format on

/// Who does what, for head dimension D.
template <int HeadDim>
struct HopperBackwardWide {
    static constexpr int D = HeadDim;                                        ///< the head dimension
    static constexpr int consumers = 2;                                      ///< warpgroups that multiply
    static constexpr int B_c = 64;                                           ///< keys, which stay
    static constexpr int B_r = 64;                                           ///< queries, which come past
    static constexpr int stages = 2;                                         ///< of Q_i and dO_i
    static constexpr int score_places = D <= 192 ? 2 : 1;                    ///< of dS_ij^T
    static constexpr int sum_places = D <= 192 ? 6 : 3, sum_columns = 32;    ///< of parts of dQ_i
    static constexpr int sums_at_once = D <= 192 ? D : D / 2;                ///< columns of dQ_i in registers
    static constexpr int warpgroups_of_values = 1, warpgroups_of_sums = 1;   ///< that read dO_i; that compute dQ_i
    static constexpr int threads = simt::kWarpgroup * (1 + consumers);       ///< of a block
    static constexpr int producer_registers = 24, consumer_registers = 240;  ///< of 168 each at the start
};

/// BackwardPipeline, and two barriers more for each place of dS_ij^T:
///
///     dS_full [s]   dS_ij^T is complete, and shown       warpgroup 2      a lane of each warp of warpgroup 1
///     dS_empty [s]  nobody reads it any more             warpgroup 1      a lane of each warp of warpgroup 2
template <class T, class Shape>
struct WidePipeline : BackwardPipeline<T, Shape> {
    using Base = BackwardPipeline<T, Shape>;                      ///< the rest
    using Place = simt::RingPosition<Shape::score_places>;        ///< of dS_ij^T
    simt::SharedBarriers<Shape::score_places> dS_full, dS_empty;  ///< see above

    /// Bytes of shared memory for all of it.
    static constexpr std::size_t shared_bytes = Base::shared_bytes + 2 * Base::bytes_of_barriers(Shape::score_places);

    /// Carves it.
    __device__ __forceinline__ explicit WidePipeline(simt::SharedArena& arena)
        : Base(arena),
          dS_full(arena.template barriers<Shape::score_places>("dS_ij full")),
          dS_empty(arena.template barriers<Shape::score_places>("dS_ij empty")) {}

    /// Makes the barriers; the whole block calls it.
    __device__ __forceinline__ void init() const {
        if (threadIdx.x == 0) {
            Base::init_barriers();
            for (int s = 0; s < Shape::score_places; ++s) {
                dS_full[s].init(4);
                dS_empty[s].init(4);
            }
            simt::publish_barriers();
        }
        __syncthreads();  // the barriers are there before anyone waits for one
    }
};

/// dK_j += dS_ij^T Q_i, begun, both from shared memory.
template <int D, class Scores, class Queries>
__device__ __forceinline__ void begin_keys(simt::Accumulator<D>& dK_j, const Scores& dS_ij, const Queries& Q_i) {
    simt::begin_products(dK_j);
#pragma unroll
    for (int k = 0; k < Queries::rows(); k += 16)
        simt::multiply(dK_j, simt::k_major(dS_ij, 0, k), simt::mn_major(Q_i, k, 0), true);
    simt::commit_products();
}

/// Columns of dQ_i, all that the registers hold, part after part.
template <int N, class T, class Shape>
__device__ __forceinline__ void leave_parts(const WidePipeline<T, Shape>& pipeline, const simt::Accumulator<N>& sums,
                                            simt::RingPosition<Shape::sum_places>& place) {
#pragma unroll
    for (int from = 0; from < N; from += Shape::sum_columns) {
        pipeline.dQ_empty[place.stage].wait(place.parity ^ 1);  // the accelerator has read what was there
        leave_sums<Shape::sum_columns>(pipeline.part_of(pipeline.dQ_parts, place.stage), sums, from, 0, 0);
        __syncwarp();  // the warp's rows are complete, and shown, before one lane says so
        if (simt::elect_one()) pipeline.dQ_full[place.stage].arrive();
        place.next();
    }
}

/// Warpgroup 1: weights, their gradients, and dV_j.
template <class T, class Shape>
__device__ __forceinline__ void sum_values(const WidePipeline<T, Shape>& pipeline, const simt::TensorMap<T, 4>& dV_map,
                                           const BackwardProblem& p, const GivenTensors<T>& given,
                                           const KeyTile& keys) {
    using Pipeline = WidePipeline<T, Shape>;
    constexpr int D = Shape::D, B_r = Shape::B_r;
    const WarpgroupOwner owner{.first_row = 0, .first_query = keys.first_key};  // its rows are keys
    const FirstQueries first(p, owner, B_r);
    const float exponent = p.scale * kLog2E;
    simt::Accumulator<D> dV_j;
    clear_rows(dV_j);
    typename Pipeline::Position q, d;
    typename Pipeline::Place place;
    const bool masked = p.mask != Mask::none;
    bool odd_keys = false;
    if (keys.steps > 0) {
        pipeline.kept[0].wait(0);
        odd_keys = masked && hold_non_finite<8>(pipeline.found, Pipeline::stages, 2, pipeline.K_j);
    }

#pragma unroll 1
    for (QueryStep<B_r> at(keys); at.number < keys.steps; at.next(keys)) {
        const auto Q_i = Pipeline::stage_of(pipeline.Q_ring, q.stage),
                   dO_i = Pipeline::stage_of(pipeline.dO_ring, d.stage);
        const bool some_see = at.first_query() < keys.all_see;  // or keys do not exist
        const bool edge = some_see || at.first_query() + B_r > p.query_length;

        simt::Accumulator<B_r> S_ij, dP_ij;
        pipeline.Q_full[q.stage].wait(q.parity);
        begin_scores(S_ij, pipeline.K_j, owner, Q_i);  // S_ij^T = K_j Q_i^T
        pipeline.dO_full[d.stage].wait(d.parity);
        begin_scores(dP_ij, pipeline.V_j, owner, dO_i);  // dP_ij^T = V_j dO_i^T

        const bool hides = some_see && masked;
        const bool odd = hides && hold_non_finite<4>(pipeline.found, q.stage, 3, Q_i, dO_i);

        simt::wait_products<1>(S_ij);
        weigh_columns(S_ij, pipeline.LSE_ring, q.stage, owner.column(), exponent);
        if (edge) hide_queries(S_ij, owner.column(), first.from(at.first_query()));
        simt::OperandA<T> P_ij[B_r / 16], dS_operands[B_r / 16];
        to_operands(P_ij, S_ij);
        if (odd) {
            simt::wait_products<0>(dP_ij);
            simt::sync_threads(3, 128);  // the whole warpgroup has its products: nobody wants dO_i as it is
            clear_non_finite<128>(dO_i, consumer_thread());
            simt::sync_threads(3, 128);  // all is clear, and shown, before a product reads it
        }
        begin_values(dV_j, P_ij, dO_i);  // dV_j += P_ij^T dO_i
        Pipeline::release(pipeline.Q_empty, q);

        simt::wait_products<1>(dP_ij);
        differentiate_columns(dP_ij, S_ij, pipeline.D_ring, d.stage, owner.column());
        if (edge) hide_queries(dP_ij, owner.column(), first.from(at.first_query()));
        to_operands(dS_operands, dP_ij);
        pipeline.dS_empty[place.stage].wait(place.parity ^ 1);  // warpgroup 2 is done with what was there
        leave_scores(pipeline.scores_of(place.stage), dS_operands, owner.first_row_of_warp());
        __syncwarp();  // the warp's rows are complete, and shown, before one lane says so
        Pipeline::release(pipeline.dS_full, place);

        simt::wait_products<0>(dV_j, P_ij);
        if (odd) add_left_out_values(dV_j, given.dO.slice(keys.b, at.h), at.first_query(), B_r, first);
        if (hides && odd_keys) simt::sync_threads(2, 256);  // warpgroup 2 has restored K_j
        Pipeline::release(pipeline.dO_empty, d);
    }

    simt::arrive_threads(1, 256);  // no product of this warpgroup reads K_j any more
    send_keys(dV_j, 1.0f, pipeline.V_j, owner.first_row_of_warp(), dV_map, keys, p.key_length);
    if (simt::elect_one()) simt::wait_stores_read<0>();  // shared memory outlives the stores' reads
}

/// Warpgroup 2: dQ_i, and dK_j.
template <class T, class Shape>
__device__ __forceinline__ void sum_keys(const WidePipeline<T, Shape>& pipeline, const simt::TensorMap<T, 4>& dK_map,
                                         const BackwardProblem& p, const GivenTensors<T>& given, const KeyTile& keys) {
    using Pipeline = WidePipeline<T, Shape>;
    constexpr int D = Shape::D, B_r = Shape::B_r, B_c = Shape::B_c, N = Shape::sums_at_once;
    const WarpgroupOwner owner{.first_row = 0, .first_query = keys.first_key};
    simt::Accumulator<D> dK_j;
    clear_rows(dK_j);
    typename Pipeline::Position q;
    typename Pipeline::Place place;
    simt::RingPosition<Shape::sum_places> part;
    const bool masked = p.mask != Mask::none;
    bool odd_keys = false;
    if (keys.steps > 0) {
        pipeline.kept[0].wait(0);
        odd_keys = masked && hold_non_finite<8>(pipeline.found, Pipeline::stages, 2, pipeline.K_j);
    }
    const auto K = given.K.slice(keys.b, keys.kv_head);

#pragma unroll 1
    for (QueryStep<B_r> at(keys); at.number < keys.steps; at.next(keys)) {
        const auto Q_i = Pipeline::stage_of(pipeline.Q_ring, q.stage);
        const auto dS_ij = pipeline.scores_of(place.stage);
        pipeline.Q_full[q.stage].wait(q.parity);
        pipeline.dS_full[place.stage].wait(place.parity);  // and warpgroup 1 has all of its scores
        const bool hides = masked && at.first_query() < keys.all_see;
        const bool odd = hides && any_found<4>(pipeline.found, q.stage);
        if (odd || (hides && odd_keys)) {
            // (With the places that dS_ij and dQ_i have now, nobody comes here before that: a free place says so, too.)
            simt::sync_threads(4, 128);  // the whole warpgroup has the products of the step before, which read K_j
            if (odd) clear_non_finite<128>(Q_i, consumer_thread() - 128);
            if (odd_keys) clear_non_finite<128>(pipeline.K_j, consumer_thread() - 128);
            simt::sync_threads(4, 128);  // all is clear, and shown, before a product reads it
        }
        simt::Accumulator<N> dQ_i;
        begin_sums(dQ_i, dS_ij, 0, pipeline.K_j, 0);  // dQ_i = dS_ij K_j, the first N columns
        begin_keys(dK_j, dS_ij, Q_i);                 // dK_j += dS_ij^T Q_i
        simt::wait_products<1>(dQ_i);
        if (hides && odd_keys) add_left_out_queries(dQ_i, K, p, keys.first_key, B_c, at.first_query(), 0);
        leave_parts(pipeline, dQ_i, part);
        if constexpr (N < D) begin_sums(dQ_i, dS_ij, 0, pipeline.K_j, N);  // and the others
        simt::wait_products<0>(dQ_i, dK_j);
        if (hides && odd_keys) {
            simt::sync_threads(4, 128);  // the whole warpgroup has multiplied K_j
            restore_keys<128>(pipeline.K_j, K, keys.first_key, consumer_thread() - 128);
            if constexpr (N < D) add_left_out_queries(dQ_i, K, p, keys.first_key, B_c, at.first_query(), N);
            simt::sync_threads(2, 256);  // K_j is there, and shown, before the next scores read it
        }
        Pipeline::release(pipeline.dS_empty, place);
        Pipeline::release(pipeline.Q_empty, q);
        if constexpr (N < D) leave_parts(pipeline, dQ_i, part);
    }

    simt::sync_threads(1, 256);  // no product reads K_j any more: dK_j leaves from its place
    send_keys(dK_j, p.scale, pipeline.K_j, owner.first_row_of_warp(), dK_map, keys, p.key_length);
    if (simt::elect_one()) simt::wait_stores_read<0>();  // shared memory outlives the stores' reads
}

template <class T, class Shape, bool InOrder>
__global__ void __launch_bounds__(Shape::threads, 1) hopper_backward_wide_kernel(
    const __grid_constant__ simt::TensorMap<T, 4> Q_map, const __grid_constant__ simt::TensorMap<T, 4> K_map,
    const __grid_constant__ simt::TensorMap<T, 4> V_map, const __grid_constant__ simt::TensorMap<T, 4> dO_map,
    const __grid_constant__ simt::TensorMap<float, 4> dQ_map, const __grid_constant__ simt::TensorMap<T, 4> dK_map,
    const __grid_constant__ simt::TensorMap<T, 4> dV_map, BackwardProblem p, GivenTensors<T> given) {
    const KeyTile keys = KeyTile::of_block(p, Shape::B_r, Shape::B_c);
    simt::SharedArena arena;
    const WidePipeline<T, Shape> pipeline(arena);
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
        if (warpgroup == 1)
            sum_values(pipeline, dV_map, p, given, keys);
        else
            sum_keys(pipeline, dK_map, p, given, keys);
    }
}

/// Shared memory that a block of the large kernel needs.
std::size_t hopper_backward_wide_shared_bytes(const HopperBackwardArguments& a) {
    std::size_t bytes = 0;
    with_large_warpgroup_head_dim(a.head_dim(), [&]<int D>(std::integral_constant<int, D>) {
        bytes = WidePipeline<simt::f16, HopperBackwardWide<D>>::shared_bytes;
    });
    return bytes;
}

/// Queries in a tile.
int hopper_backward_wide_tile(const HopperBackwardArguments& a) {
    int B_r = 0;
    with_large_warpgroup_head_dim(a.head_dim(),
                                  [&]<int D>(std::integral_constant<int, D>) { B_r = HopperBackwardWide<D>::B_r; });
    return B_r;
}

/// What the kernels move.
GlobalBytes hopper_backward_wide_bytes(const HopperBackwardArguments& a) {
    return bytes_of_shape<HopperBackwardWide<256>>(a);
}

/// Launches the three kernels, compiled for the problem's dtype and head dimension, more than 128; its elements have 16
/// bits, and TMA can address its tensors.
void launch_hopper_backward_wide(const HopperBackwardArguments& a) {
    with_element_type_of(MmaElements(), a.q.type, [&]<class T>(std::type_identity<T>) {
        with_large_warpgroup_head_dim(a.head_dim(), [&]<int D>(std::integral_constant<int, D>) {
            using Shape = HopperBackwardWide<D>;
            launch_for_keys<T, Shape>(a, "hopper_backward_wide_kernel", WidePipeline<T, Shape>::shared_bytes,
                                      a.turns.rank ? hopper_backward_wide_kernel<T, Shape, true>
                                                   : hopper_backward_wide_kernel<T, Shape, false>);
        });
    });
}

}  // namespace ladder::SIMT_MACHINE
