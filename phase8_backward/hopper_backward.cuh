#pragma once

#include "phase8_backward/backward_tensors.cuh"
#include "phase8_backward/hopper_pipeline.cuh"
#include "phase8_backward/hopper_rows.cuh"

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
///   grid    x = ceil(Sk / 128) key tiles, y = Hkv heads, z = B sequences. A block walks through all query heads that
///           read its keys. Under a causal mask tile 0 is seen by the most queries, and starts first
///   block   384 threads: warpgroup 0 fetches and sends, warpgroups 1 and 2 own keys 0 to 63 and 64 to 127 of the tile
///
///   shared  K_j, V_j     [128, D]     512 D      written once; at the end dK_j and dV_j leave from there
///           Q_i, dO_i    [2 B_r, D]   8 B_r D    two stages
///           dS_ij^T      [256, B_r]   512 B_r    of this step and of the one before
///           dQ_i         [B_r, D]     4 B_r D    in float32
///           LSE_i, D_i   [2, B_r]     16 B_r     two stages
///           barriers                  112
///           197,744 bytes for D = 128, where B_r = 64
///
///   named   1   both consumer warpgroups: dS_ij^T is complete
///           2   the same, after the loop: nobody reads K_j any more
///
///   global  reads K and V once, and once per key tile Q, dO, LSE and D of the query tiles that see it; adds to dQ_sum
///           once per key tile; writes dK and dV once
// clang-format on

/// Who does what, for head dimension D.
template <int HeadDim>
struct HopperBackward {
    static constexpr int D = HeadDim;                                        ///< the head dimension
    static constexpr int consumers = 2;                                      ///< warpgroups that multiply
    static constexpr int B_c = 64 * consumers;                               ///< keys, which stay
    static constexpr int B_r = D <= 64 ? 128 : 64;                           ///< queries, which come past
    static constexpr int stages = 2;                                         ///< of Q_i and dO_i
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

/// What the kernel is given beside the maps.
struct BackwardProblem {
    simt::GlobalTensor<const float, 3> LSE2, D;  ///< [B, Hq, whole tiles of queries]
    simt::GlobalTensor<int, 3> turns;            ///< [B, Hq, tiles of queries]: how many key tiles have added to each
    int group, query_length, key_length;         ///< `group` neighbouring query heads read the same keys; Sq; Sk
    float scale;                                 ///< factor on Q K^T
    Mask mask;                                   ///< which keys a query sees

    /// Reads it off.
    explicit BackwardProblem(const HopperBackwardArguments& a)
        : LSE2(simt::global_tensor<const float, 3>(a.lse2)),
          D(simt::global_tensor<const float, 3>(a.d)),
          group(int(a.query_heads() / a.kv_heads())),
          query_length(int(a.query_length())),
          key_length(int(a.key_length())),
          scale(a.scale),
          mask(a.mask) {
        if (a.turns.rank) turns = simt::global_tensor<int, 3>(a.turns);
    }
};

/// A block's keys, and its way through the query tiles that see any of them, head by head.
struct KeyTile {
    int b, kv_head, first_key;   ///< its sequence, its head, its first row
    int first_head, first_tile;  ///< the first query head, and in each the first tile of queries
    int tiles, steps;            ///< tiles of a head; of all heads together
    int all_see;                 ///< from this query on, every query sees every key of the tile, and all keys exist

    /// The tile of blockIdx, where B_r queries come past B_c keys.
    __device__ static KeyTile of_block(const BackwardProblem& p, int B_r, int B_c) {
        const int first_key = int(blockIdx.x) * B_c, kv_head = int(blockIdx.y), last_key = first_key + B_c - 1;
        const auto first_to_see = [&](int key) { return first_seeing(p.mask, key, p.query_length, p.key_length); };
        const int first_tile = first_to_see(first_key) / B_r;
        const int tiles = max((p.query_length + B_r - 1) / B_r - first_tile, 0);
        return {.b = int(blockIdx.z),
                .kv_head = kv_head,
                .first_key = first_key,
                .first_head = kv_head * p.group,
                .first_tile = first_tile,
                .tiles = tiles,
                .steps = p.group * tiles,
                .all_see = last_key < p.key_length ? first_to_see(last_key) : p.query_length + B_r};
    }
};

/// Where a block is on its way.
template <int B_r>
struct QueryStep {
    int number = 0;  ///< of all steps
    int h, tile;     ///< the query head, and its tile

    /// The first of all.
    __device__ explicit QueryStep(const KeyTile& keys) : h(keys.first_head), tile(keys.first_tile + keys.tiles - 1) {}
    /// The first row of the tile.
    __device__ int first_query() const { return tile * B_r; }
    /// On to the tile before; after a head's first to the next head's last.
    __device__ void next(const KeyTile& keys) {
        ++number;
        if (--tile >= keys.first_tile) return;
        tile += keys.tiles;
        ++h;
    }
};

/// The producer's first warp, one lane: asks for K_j and V_j, and for one tile of queries after the other.
template <class T, class Shape>
__device__ __forceinline__ void fetch_queries(const BackwardPipeline<T, Shape>& pipeline,
                                              const simt::TensorMap<T, 4>& Q_map, const simt::TensorMap<T, 4>& K_map,
                                              const simt::TensorMap<T, 4>& V_map, const simt::TensorMap<T, 4>& dO_map,
                                              const BackwardProblem& p, const KeyTile& keys) {
    using Pipeline = BackwardPipeline<T, Shape>;
    constexpr int bytes = Pipeline::bytes_of_queries + Pipeline::bytes_of_numbers;
    typename Pipeline::Position q, d;
    pipeline.kept[0].arrive_expecting(2 * int(Pipeline::Keys::bytes));
    simt::tma_load<simt::Reuse::none>(pipeline.K_j, K_map, {keys.b, keys.kv_head, keys.first_key, 0}, pipeline.kept[0]);
    simt::tma_load<simt::Reuse::none>(pipeline.V_j, V_map, {keys.b, keys.kv_head, keys.first_key, 0}, pipeline.kept[0]);
#pragma unroll 1
    for (QueryStep<Shape::B_r> at(keys); at.number < keys.steps; at.next(keys)) {
        const int query = at.first_query();
        pipeline.Q_empty[q.stage].wait(q.parity ^ 1);  // whoever used the stage last is done with it
        pipeline.Q_full[q.stage].arrive_expecting(bytes);
        simt::tma_load<simt::Reuse::soon>(Pipeline::stage_of(pipeline.Q_ring, q.stage), Q_map, {keys.b, at.h, query, 0},
                                          pipeline.Q_full[q.stage]);
        simt::bulk_load(pipeline.LSE_ring(q.stage, 0), p.LSE2(keys.b, at.h, query), Pipeline::bytes_of_numbers,
                        pipeline.Q_full[q.stage]);
        q.next();
        pipeline.dO_empty[d.stage].wait(d.parity ^ 1);  // likewise
        pipeline.dO_full[d.stage].arrive_expecting(bytes);
        simt::tma_load<simt::Reuse::soon>(Pipeline::stage_of(pipeline.dO_ring, d.stage), dO_map,
                                          {keys.b, at.h, query, 0}, pipeline.dO_full[d.stage]);
        simt::bulk_load(pipeline.D_ring(d.stage, 0), p.D(keys.b, at.h, query), Pipeline::bytes_of_numbers,
                        pipeline.dO_full[d.stage]);
        d.next();
    }
}

/// Its second warp, one lane: has dQ_i added to dQ_sum, step after step.
template <bool InOrder, class T, class Shape>
__device__ __forceinline__ void send_queries(const BackwardPipeline<T, Shape>& pipeline,
                                             const simt::TensorMap<float, 4>& dQ_map, const BackwardProblem& p,
                                             const KeyTile& keys) {
    simt::RingPosition<1> at_sums;
#pragma unroll 1
    for (QueryStep<Shape::B_r> at(keys); at.number < keys.steps; at.next(keys)) {
        pipeline.dQ_full[0].wait(at_sums.parity);
        at_sums.next();
        if constexpr (InOrder)
            while (simt::load_acquire(p.turns(keys.b, at.h, at.tile)) != int(blockIdx.x)) {
            }  // the key tiles before this one have added theirs
        simt::tma_add(dQ_map, {keys.b, at.h, at.first_query(), 0}, pipeline.dQ_i);
        simt::commit_stores();
        simt::wait_stores_read<0>();  // the accelerator has read dQ_i before anyone writes it again, or leaves
        pipeline.dQ_empty[0].arrive();
        if constexpr (InOrder) {
            simt::wait_stores<0>();  // the sums are there before the next key tile is let in
            simt::store_release(p.turns(keys.b, at.h, at.tile), int(blockIdx.x) + 1);
        }
    }
}

/// P_ij^T = 2^(exponent S_ij^T - LSE_i), column by column.
template <int N, class Numbers>
__device__ __forceinline__ void weigh_columns(simt::Accumulator<N>& S_ij, const Numbers& LSE, int stage, int column,
                                              float exponent) {
#pragma unroll
    for (int c = 0; c < N / 8; ++c) {
        const float2 lse = LSE.template vec<float2>(stage, 8 * c + column);
#pragma unroll
        for (int e = 0; e < 4; ++e)
            S_ij[4 * c + e] = simt::fast_exp2(fmaf(S_ij[4 * c + e], exponent, e % 2 ? -lse.y : -lse.x));
    }
}

/// dS_ij^T = P_ij^T o (dP_ij^T - D_i), in the place of dP_ij^T.
template <int N, class Numbers>
__device__ __forceinline__ void differentiate_columns(simt::Accumulator<N>& dP_ij, const simt::Accumulator<N>& P_ij,
                                                      const Numbers& D, int stage, int column) {
#pragma unroll
    for (int c = 0; c < N / 8; ++c) {
        const float2 d = D.template vec<float2>(stage, 8 * c + column);
#pragma unroll
        for (int e = 0; e < 4; ++e) dP_ij[4 * c + e] = P_ij[4 * c + e] * (dP_ij[4 * c + e] - (e % 2 ? d.y : d.x));
    }
}

/// Zeros for the queries that do not see key h of the thread: those before from[h].
template <int N>
__device__ __forceinline__ void hide_queries(simt::Accumulator<N>& x, int column, const int (&from)[2]) {
#pragma unroll
    for (int i = 0; i < N / 2; ++i)
        if (i / 4 * 8 + column + i % 2 < from[i / 2 % 2]) x[i] = 0.0f;
}

/// A warp's 16 rows of dS_ij^T, from its operands' registers, into shared memory, where tensor cores read them next.
template <class T, int Steps, class Tile>
__device__ __forceinline__ void leave_scores(const Tile& dS, const simt::OperandA<T> (&operands)[Steps],
                                             int first_row) {
    using Wide = simt::WideVector<T>;
    const int lane = int(threadIdx.x) % 32;
#pragma unroll
    for (int k = 0; k < Steps; ++k)
        simt::stmatrix(dS.template vec<Wide>(first_row + lane % 16, 16 * k + lane / 16 * 8), operands[k][0],
                       operands[k][1], operands[k][2], operands[k][3]);
    simt::show_to_async();
}

/// 64 x 64 elements of dQ_i = dS_ij K_j, from (row, column) on, begun. dS_ij lies transposed: keys are its rows, and k.
template <class Scores, class Keys>
__device__ __forceinline__ void begin_sums(simt::Accumulator<64>& dQ_i, const Scores& dS_ij, int row, const Keys& K_j,
                                           int column) {
    simt::begin_products(dQ_i);
#pragma unroll
    for (int k = 0; k < Keys::rows(); k += 16)
        simt::multiply(dQ_i, simt::mn_major(dS_ij, k, row), simt::mn_major(K_j, k, column), k != 0);
    simt::commit_products();
}

/// The warpgroup's 64 x 64 elements of dQ_i, from (row, column) on, into shared memory, where the accelerator reads
/// them next. Four neighbouring rows are written at once, with the same 32 bytes of each; of those, the swizzle moves
/// no two rows apart. So odd rows take the columns 16 further, or nearer, in their turn.
template <class Tile>
__device__ __forceinline__ void leave_sums(const Tile& dQ_i, const simt::Accumulator<64>& sums, int row, int column) {
    const int first_row = row + simt::AccumulatorLayout::row(int(threadIdx.x), 0);
    const bool odd = first_row % 2 != 0;
#pragma unroll
    for (int c = 0; c < 8; ++c) {
        const int first_column = column + 8 * (odd ? c ^ 2 : c) + int(threadIdx.x) % 4 * 2;
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            const int own = 4 * c + 2 * h, other = 4 * (c ^ 2) + 2 * h;
            dQ_i.template vec<float2>(first_row + 8 * h, first_column) =
                float2{odd ? sums[other] : sums[own], odd ? sums[other + 1] : sums[own + 1]};
        }
    }
    simt::show_to_async();
}

/// The way out of a warp's 16 rows of dK_j or dV_j: times `factor`, rounded, through rows of `staging` from `first` on,
/// which nobody else uses, by the accelerator.
template <class T, int D, class Tile>
__device__ __forceinline__ void send_keys(const simt::Accumulator<D>& sums, float factor, const Tile& staging,
                                          int first, const simt::TensorMap<T, 4>& map, const KeyTile& keys,
                                          int key_length) {
    using Wide = simt::WideVector<T>;
    const int lane = int(threadIdx.x) % 32;
#pragma unroll
    for (int k = 0; k < D / 16; ++k) {
        std::uint32_t bits[4];
#pragma unroll
        for (int r = 0; r < 4; ++r)
            bits[r] = simt::pack<T>(sums[8 * k + 2 * r] * factor, sums[8 * k + 2 * r + 1] * factor);
        simt::stmatrix(staging.template vec<Wide>(first + lane % 16, 16 * k + lane / 16 * 8), bits[0], bits[1], bits[2],
                       bits[3]);
    }
    simt::show_to_async();
    __syncwarp();  // the warp's rows are complete, and shown to the accelerator, before one lane has them sent
    if (keys.first_key + first < key_length && simt::elect_one()) {
        simt::tma_store(map, {keys.b, keys.kv_head, keys.first_key + first, 0}, staging.template rows_from<16>(first));
        simt::commit_stores();
    }
}

template <class T, class Shape, bool InOrder>
__global__ void __launch_bounds__(Shape::threads, 1)
    hopper_backward_kernel(const __grid_constant__ simt::TensorMap<T, 4> Q_map,
                           const __grid_constant__ simt::TensorMap<T, 4> K_map,
                           const __grid_constant__ simt::TensorMap<T, 4> V_map,
                           const __grid_constant__ simt::TensorMap<T, 4> dO_map,
                           const __grid_constant__ simt::TensorMap<float, 4> dQ_map,
                           const __grid_constant__ simt::TensorMap<T, 4> dK_map,
                           const __grid_constant__ simt::TensorMap<T, 4> dV_map, BackwardProblem p) {
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
        int first[2];  // the first query that sees key h of the thread, or one beyond all where the key does not exist
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            const int key = keys.first_key + owner.row(h);
            first[h] =
                key < p.key_length ? first_seeing(p.mask, key, p.query_length, p.key_length) : p.query_length + B_r;
        }
        simt::Accumulator<D> dK_j, dV_j;
        clear_rows(dK_j);
        clear_rows(dV_j);
        typename Pipeline::Position q, d;
        simt::RingPosition<1> at_sums;
        if (keys.steps > 0) pipeline.kept[0].wait(0);

#pragma unroll 1
        for (QueryStep<B_r> at(keys); at.number < keys.steps; at.next(keys)) {
            const auto Q_i = Pipeline::stage_of(pipeline.Q_ring, q.stage),
                       dO_i = Pipeline::stage_of(pipeline.dO_ring, d.stage);
            const auto dS_ij = pipeline.scores_of(at.number);
            const bool edge = at.first_query() < keys.all_see;
            const int from[2] = {first[0] - at.first_query(), first[1] - at.first_query()};

            simt::Accumulator<B_r> S_ij, dP_ij;
            pipeline.Q_full[q.stage].wait(q.parity);
            begin_scores(S_ij, pipeline.K_j, owner, Q_i);  // S_ij^T = K_j Q_i^T
            pipeline.dO_full[d.stage].wait(d.parity);
            begin_scores(dP_ij, pipeline.V_j, owner, dO_i);  // dP_ij^T = V_j dO_i^T

            simt::wait_products<1>(S_ij);
            weigh_columns(S_ij, pipeline.LSE_ring, q.stage, owner.column(), exponent);
            if (edge) hide_queries(S_ij, owner.column(), from);
            simt::OperandA<T> P_ij[B_r / 16], dS_operands[B_r / 16];
            to_operands(P_ij, S_ij);

            simt::wait_products<0>(dP_ij);
            differentiate_columns(dP_ij, S_ij, pipeline.D_ring, d.stage, owner.column());
            if (edge) hide_queries(dP_ij, owner.column(), from);
            to_operands(dS_operands, dP_ij);

            begin_values(dV_j, P_ij, dO_i);  // dV_j += P_ij^T dO_i
            leave_scores(dS_ij, dS_operands, owner.first_row_of_warp());
            simt::sync_threads(1, 256);  // both have left their part of dS_ij^T (and are done with the one before)
            simt::Accumulator<64> dQ_part;
            begin_sums(dQ_part, dS_ij, dQ_row, pipeline.K_j, dQ_column);
            begin_values(dK_j, dS_operands, Q_i);  // dK_j += dS_ij^T Q_i

            simt::wait_products<2>(dV_j, P_ij);
            Pipeline::release(pipeline.dO_empty, d);
            simt::wait_products<1>(dQ_part);
            pipeline.dQ_empty[0].wait(at_sums.parity ^ 1);  // the accelerator has read the sums of the step before
            at_sums.next();
            leave_sums(pipeline.dQ_i, dQ_part, dQ_row, dQ_column);
            __syncwarp();  // the warp's part is complete, and shown, before one lane says so
            if (simt::elect_one()) pipeline.dQ_full[0].arrive();
            simt::wait_products<0>(dK_j, dS_operands);
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

/// For the rows: O, dO, LSE and dLSE once; D and LSE once for whole tiles, zeros; dQ_sum once and dQ once. For each key
/// tile: K and V once; for each query head of its group, Q, dO, LSE and D of whole tiles from the first on that sees
/// it; what it adds to dQ_sum for these; dK and dV once. Turns, where there are any, twice for each of these tiles.
GlobalBytes hopper_backward_bytes(const HopperBackwardArguments& a) {
    GlobalBytes bytes;
    with_hopper_backward_dim(a.head_dim(), [&]<int D>(std::integral_constant<int, D>) {
        using Shape = HopperBackward<D>;
        constexpr std::uint64_t element = 2, number = sizeof(float);
        const std::uint64_t Sq = a.query_length(), Sk = a.key_length(), row = (a.head_dim() + 7) / 8 * 8;
        const std::uint64_t heads = a.batch() * a.query_heads(), kv_heads = a.batch() * a.kv_heads();
        const std::uint64_t tiles = ceil_div(Sq, Shape::B_r);
        std::uint64_t visits = 0, rows = 0;
        for (std::int64_t key = 0; key < a.key_length(); key += Shape::B_c) {
            const int first = first_seeing(a.mask, int(key), int(Sq), int(Sk)) / Shape::B_r;
            visits += std::max<std::int64_t>(std::int64_t(tiles) - first, 0);
            rows += std::max<std::int64_t>(std::int64_t(Sq) - std::int64_t{first} * Shape::B_r, 0);
        }
        bytes.read = heads * Sq * (2 * row * element + number + (a.dlse.rank ? number : 0)) +
                     heads * Sq * row * number + kv_heads * Sk * 2 * row * element +
                     heads * (rows * 2 * row * element + visits * Shape::B_r * 2 * number);
        bytes.written = heads * tiles * Shape::B_r * 2 * number + heads * Sq * row * number +
                        heads * Sq * row * element + heads * rows * row * number + kv_heads * Sk * 2 * row * element;
    });
    return bytes;
}

/// Launches the three kernels, one after the other, compiled for the problem's dtype and head dimension; its elements
/// have 16 bits, and TMA can address its tensors.
void launch_hopper_backward(const HopperBackwardArguments& a) {
    with_element_type_of(MmaElements(), a.q.type, [&]<class T>(std::type_identity<T>) {
        with_hopper_backward_dim(a.head_dim(), [&]<int D>(std::integral_constant<int, D>) {
            using Shape = HopperBackward<D>;
            constexpr simt::Swizzle swizzle = kRowSwizzle<D>;
            cudaLaunchConfig_t by_rows{};
            by_rows.gridDim = dim3(ceil_div(a.lse2.extents[2], RowPiece<D>::rows), a.query_heads(), a.batch());
            by_rows.blockDim = dim3(kRowThreads);
            by_rows.stream = static_cast<cudaStream_t>(a.stream);
            simt::launch("hopper_rows_kernel", by_rows, hopper_rows_kernel<T, D>, BackwardRows<T>(a));

            cudaLaunchConfig_t config{};
            config.gridDim = dim3(ceil_div(a.key_length(), Shape::B_c), a.kv_heads(), a.batch());
            config.blockDim = dim3(Shape::threads);
            config.dynamicSmemBytes = BackwardPipeline<T, Shape>::shared_bytes;
            config.stream = static_cast<cudaStream_t>(a.stream);
            const auto launch = [&](auto kernel) {
                simt::launch("hopper_backward_kernel", config, kernel,
                             simt::tile_map<T, 4, Shape::B_r, D, swizzle>(a.q),
                             simt::tile_map<T, 4, Shape::B_c, D, swizzle>(a.k),
                             simt::tile_map<T, 4, Shape::B_c, D, swizzle>(a.v),
                             simt::tile_map<T, 4, Shape::B_r, D, swizzle>(a.dout),
                             simt::tile_map<float, 4, Shape::B_r, D, simt::Swizzle::b128>(a.dq_sum),
                             simt::tile_map<T, 4, 16, D, swizzle>(a.dk), simt::tile_map<T, 4, 16, D, swizzle>(a.dv),
                             BackwardProblem(a));
            };
            a.turns.rank ? launch(hopper_backward_kernel<T, Shape, true>)
                         : launch(hopper_backward_kernel<T, Shape, false>);
            simt::launch("hopper_round_kernel", by_rows, hopper_round_kernel<T, D>, BackwardRows<T>(a));
        });
    });
}

}  // namespace ladder::SIMT_MACHINE
