// FlashAttention-3, forward, in three steps: the second test of Hopper's instructions together.

#pragma once

#include "tests/hopper_forward/softmax.cuh"

namespace ladder::SIMT_MACHINE {

/// Rows of whole panels: of 64 elements, where D is a multiple of that, or else of 32.
template <int D>
inline constexpr simt::Swizzle kRowSwizzle = D % 64 == 0 ? simt::Swizzle::b128 : simt::Swizzle::b64;

/// What the kernels are given besides the maps of Q, K, V and O.
struct HopperProblem {
    simt::GlobalTensor<float, 3> LSE;  ///< [B, Hq, Sq]
    int batch, query_heads, group;     ///< `group` neighbouring query heads read the same keys and values
    int query_length, key_length;
    float scale;
    Mask mask;
    int heads_at_once;  ///< that walk side by side, from their longest tiles to their shortest
    int works;          ///< tiles of queries, of all heads
};

/// Which tile of queries comes so manieth.
class HopperWork {
  public:
    int first_query;

    __device__ HopperWork(const HopperProblem& p, int number, int query_tiles, int B_r) {
        const int section = number / (p.heads_at_once * query_tiles) * p.heads_at_once;  // its first head
        const int in_section = number - section * query_tiles;
        const int heads = min(p.heads_at_once, p.batch * p.query_heads - section);
        head_ = section + in_section % heads;
        // The last queries see the most keys: begun first.
        first_query = (query_tiles - 1 - in_section / heads) * B_r;
    }
    __device__ int b(const HopperProblem& p) const { return head_ / p.query_heads; }
    __device__ int h(const HopperProblem& p) const { return head_ % p.query_heads; }
    __device__ int kv_head(const HopperProblem& p) const { return h(p) / p.group; }

  private:
    int head_;
};

/// Step 1: one warpgroup does everything, one thing after the other. A tile of 64 queries; TMA brings K_j and V_j, and
/// nobody does anything meanwhile.
template <class T, int D, int B_c>
__global__ void __launch_bounds__(128)
    hopper_forward_plain_kernel(const __grid_constant__ simt::TensorMap<T, 4> Q_map,
                                const __grid_constant__ simt::TensorMap<T, 4> K_map,
                                const __grid_constant__ simt::TensorMap<T, 4> V_map,
                                const __grid_constant__ simt::TensorMap<T, 4> O_map, HopperProblem p) {
    constexpr int B_r = 64;
    const HopperWork work(p, int(blockIdx.x), (p.query_length + B_r - 1) / B_r, B_r);
    const KeyTiles tiles = key_tiles(p.mask, work.first_query, B_r, B_c, p.query_length, p.key_length);
    const auto seen_by = [&](int row) {
        return visible_keys(p.mask, work.first_query + row, p.query_length, p.key_length);
    };

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

    const WarpgroupOwner owner{0};
    const SignedScale scale(p.scale);
    const bool fetches = threadIdx.x < 32;  // one lane of this warp does
    simt::RingPosition<1> phase;
    if (fetches && simt::elect_one()) {
        full[0].arrive_expecting(int(Q_i.bytes));
        simt::tma_load(Q_i, Q_map, {work.b(p), work.h(p), work.first_query, 0}, full[0]);
    }
    full[0].wait(phase.parity);
    phase.next();
    if (scale.sign != 1.0f) multiply_warpgroup_rows(Q_i, owner, scale.sign);

    simt::Accumulator<D> O_i;
#pragma unroll
    for (int i = 0; i < D / 2; ++i) O_i[i] = 0.0f;
    RunningRows rows;
#pragma unroll 1
    for (int j = tiles.visited - 1; j >= 0; --j) {
        if (fetches && simt::elect_one()) {
            full[0].arrive_expecting(int(K_j.bytes + V_j.bytes));
            simt::tma_load(K_j, K_map, {work.b(p), work.kv_head(p), j * B_c, 0}, full[0]);
            simt::tma_load(V_j, V_map, {work.b(p), work.kv_head(p), j * B_c, 0}, full[0]);
        }
        full[0].wait(phase.parity);
        phase.next();
        simt::Accumulator<B_c> S_ij;
        begin_scores(S_ij, Q_i, 0, K_j);
        simt::wait_products<0>(S_ij);
        if (j >= tiles.full) {
            const int visible[2] = {seen_by(owner.row(0)) - j * B_c, seen_by(owner.row(1)) - j * B_c};
            hide_keys(S_ij, owner, visible);
        }
        raise_maxima(S_ij, rows, scale.exponent);
        weigh<B_c / 16>(S_ij, rows, scale.exponent, 0);
        simt::OperandA<T> P_ij[B_c / 16];
        to_operands(P_ij, S_ij, 0);
        rescale_rows<false>(O_i, rows);
        begin_values(O_i, P_ij, V_j);
        simt::wait_products<0>(O_i, P_ij);
        __syncthreads();  // everyone is done with K_j, V_j before the next take their place
    }
    const int visible[2] = {seen_by(owner.row(0)), seen_by(owner.row(1))};
    store_rows(O_i, rows, owner, Q_i, O_map, p.LSE, work.b(p), work.h(p), work.first_query, p.query_length, visible);
    simt::wait_stores_read<0>();  // shared memory outlives the store's reads
}

/// What can be chosen of steps 2 and 3.
template <int HeadDim, int Consumers, int Keys, int Stages, bool TakesTurns, bool Overlaps, bool Anchor = true,
          bool Vote = true, bool Persistent = true, int Parts = 1>
struct HopperShape {
    static constexpr int D = HeadDim, consumers = Consumers, B_r = 64 * Consumers, B_c = Keys, stages = Stages;
    static constexpr int threads = 128 * (Consumers + 1);
    static constexpr bool takes_turns = TakesTurns;  ///< warpgroups ask for their products in turns
    static constexpr bool overlaps = Overlaps;       ///< a tile's softmax runs under the products of the one before
    static constexpr bool anchor = Anchor;           ///< finish_before_wait()
    static constexpr bool vote = Vote;               ///< O_i is multiplied only where a maximum has risen
    static constexpr int parts = Parts;  ///< of a tile's weights: one is computed under the product of the last
    static constexpr bool persistent = Persistent;  ///< a block takes tile after tile, and O_i has memory of its own
    static constexpr int producer_registers = Consumers == 3 ? 32 : Consumers == 1 ? 56 : 24;
    static constexpr int consumer_registers = Consumers == 4 ? 112 : Consumers == 3 ? 160 : Consumers == 2 ? 240 : 256;
    static constexpr std::size_t shared_bytes = (Persistent ? 2 : 1) * simt::panel_bytes<std::uint16_t>(B_r, D) +
                                                2 * simt::panel_bytes<std::uint16_t>(stages * B_c, D) + 256;
};

/// Steps 2 and 3. A warp fetches, two or three warpgroups multiply. Each consumer warpgroup goes through
///
///     S_ij = Q_i K_j^T          the tensor cores
///     P_ij = softmax of S_ij    the warpgroup
///     O_i += P_ij V_j           the tensor cores
///
/// With turns, a warpgroup asks for its products while the other computes exponentials. With overlap, it asks for S of
/// the next tile and O of this one together, and computes the exponentials of the one under the products of the other.
/// A block has one tile of queries, or as many as come if the grid is smaller than there are.
template <class T, class Shape>
__global__ void __launch_bounds__(Shape::threads, 1)
    hopper_forward_kernel(const __grid_constant__ simt::TensorMap<T, 4> Q_map,
                          const __grid_constant__ simt::TensorMap<T, 4> K_map,
                          const __grid_constant__ simt::TensorMap<T, 4> V_map,
                          const __grid_constant__ simt::TensorMap<T, 4> O_map, HopperProblem p) {
    constexpr int D = Shape::D, B_r = Shape::B_r, B_c = Shape::B_c, stages = Shape::stages;
    constexpr int consumer_warps = 4 * Shape::consumers;
    const int query_tiles = (p.query_length + B_r - 1) / B_r;

    simt::SharedArena arena;
    const auto Q_i = arena.template panels<T, B_r, D, kRowSwizzle<D>>("Q_i");
    const auto K_ring = arena.template panels<T, stages * B_c, D, kRowSwizzle<D>>("K_j");
    const auto V_ring = arena.template panels<T, stages * B_c, D, kRowSwizzle<D>>("V_j");
    const auto staging = [&] {
        if constexpr (Shape::persistent)
            return arena.template panels<T, B_r, D, kRowSwizzle<D>>("O_i");
        else
            return Q_i;
    }();
    const auto Q_full = arena.template barriers<1>("Q_i full");
    const auto Q_empty = arena.template barriers<1>("Q_i empty");
    const auto K_full = arena.template barriers<stages>("K_j full");
    const auto V_full = arena.template barriers<stages>("V_j full");
    const auto K_empty = arena.template barriers<stages>("K_j empty");
    const auto V_empty = arena.template barriers<stages>("V_j empty");
    if (threadIdx.x == 0) {
        Q_full[0].init(1);
        Q_empty[0].init(consumer_warps);
        for (int s = 0; s < stages; ++s) {
            K_full[s].init(1);
            V_full[s].init(1);
            K_empty[s].init(consumer_warps);
            V_empty[s].init(consumer_warps);
        }
        simt::publish_barriers();
    }
    __syncthreads();  // the barriers are there before anyone waits for one

    const auto tiles_of = [&](const HopperWork& work) {
        return key_tiles(p.mask, work.first_query, B_r, B_c, p.query_length, p.key_length);
    };
    const int warpgroup = simt::same_in_warp(int(threadIdx.x) / simt::kWarpgroup);
    if (warpgroup == 0) {
        simt::release_registers<Shape::producer_registers>();
        if (threadIdx.x < 32 && simt::elect_one()) {
            simt::RingPosition<stages> k, v;
            simt::RingPosition<1> q;
#pragma unroll 1
            for (int number = int(blockIdx.x); number < p.works; number += int(gridDim.x)) {
                const HopperWork work(p, number, query_tiles, B_r);
                const int visited = tiles_of(work).visited;
                if (visited == 0) continue;
                const auto fetch = [&](const auto& ring, const auto& map, const auto& full, const auto& empty,
                                       simt::RingPosition<stages>& at, int j) {
                    empty[at.stage].wait(at.parity ^ 1);  // whoever used the stage last is done with it
                    full[at.stage].arrive_expecting(B_c * D * int(sizeof(T)));
                    simt::tma_load<simt::Reuse::soon>(ring.template rows_from<B_c>(at.stage * B_c), map,
                                                      {work.b(p), work.kv_head(p), j * B_c, 0}, full[at.stage]);
                    at.next();
                };
                fetch(K_ring, K_map, K_full, K_empty, k, visited - 1);
                Q_empty[0].wait(q.parity ^ 1);  // nobody reads the old Q_i, and O_i has left its place
                Q_full[0].arrive_expecting(int(Q_i.bytes));
                simt::tma_load<simt::Reuse::none>(Q_i, Q_map, {work.b(p), work.h(p), work.first_query, 0}, Q_full[0]);
                q.next();
#pragma unroll 1
                for (int j = visited - 1; j >= 0; --j) {
                    if (j > 0) fetch(K_ring, K_map, K_full, K_empty, k, j - 1);
                    fetch(V_ring, V_map, V_full, V_empty, v, j);
                }
                if constexpr (!Shape::persistent) break;
            }
        }
    } else {
        simt::claim_registers<Shape::consumer_registers>();
        const int consumer = warpgroup - 1;
        const WarpgroupOwner owner{64 * consumer};
        const SignedScale scale(p.scale);
        const auto stage_of = [](const auto& ring, const simt::RingPosition<stages>& at) {
            return ring.template rows_from<B_c>((Shape::persistent ? simt::same_in_warp(at.stage) : at.stage) * B_c);
        };
        const auto release = [](const auto& empty, auto& at) {
            if (simt::elect_one()) empty[at.stage].arrive();  // of each warp
            at.next();
        };
        const auto take_turn = [&] {
            if constexpr (Shape::takes_turns) simt::sync_threads(1 + consumer, 256);
        };
        const auto pass_turn = [&] {
            if constexpr (Shape::takes_turns)
                simt::arrive_threads(consumer == Shape::consumers - 1 ? 1 : 2 + consumer, 256);
        };
        simt::RingPosition<stages> k, v;
        simt::RingPosition<1> q;
        if (Shape::takes_turns && consumer == Shape::consumers - 1) simt::arrive_threads(1, 256);  // the first turn

#pragma unroll 1
        for (int number = int(blockIdx.x); number < p.works; number += int(gridDim.x)) {
            const HopperWork work(p, number, query_tiles, B_r);
            const KeyTiles tiles = tiles_of(work);
            const auto seen_by = [&](int row) {
                return visible_keys(p.mask, work.first_query + row, p.query_length, p.key_length);
            };
            const auto hide = [&](auto& S_ij, int j) {
                const int visible[2] = {seen_by(owner.row(0)) - j * B_c, seen_by(owner.row(1)) - j * B_c};
                hide_keys(S_ij, owner, visible);
            };
            simt::Accumulator<D> O_i;
#pragma unroll
            for (int i = 0; i < D / 2; ++i) O_i[i] = 0.0f;
            RunningRows rows;
            if (tiles.visited > 0) {
                Q_full[0].wait(q.parity);
                if (scale.sign != 1.0f) multiply_warpgroup_rows(Q_i, owner, scale.sign);

                if constexpr (Shape::overlaps) {
                    simt::OperandA<T> P_ij[B_c / 16];
                    int j = tiles.visited - 1;
                    {
                        simt::Accumulator<B_c> S_ij;
                        K_full[k.stage].wait(k.parity);
                        begin_scores(S_ij, Q_i, owner.first_row, stage_of(K_ring, k));
                        simt::wait_products<0>(S_ij);
                        release(K_empty, k);
                        if (j >= tiles.full) hide(S_ij, j);
                        raise_maxima(S_ij, rows, scale.exponent);
                        weigh<B_c / 16>(S_ij, rows, scale.exponent, 0);
                        to_operands(P_ij, S_ij, 0);
                    }
                    const auto step = [&]<bool edge>(std::bool_constant<edge>) {
                        --j;
                        simt::Accumulator<B_c> S_ij;
                        K_full[k.stage].wait(k.parity);
                        take_turn();
                        begin_scores(S_ij, Q_i, owner.first_row, stage_of(K_ring, k));
                        if constexpr (D > 128) rescale_rows<Shape::vote>(O_i, rows);
                        V_full[v.stage].wait(v.parity);
                        begin_values(O_i, P_ij, stage_of(V_ring, v));
                        pass_turn();
                        simt::wait_products<1>(S_ij);
                        release(K_empty, k);
                        if constexpr (edge) hide(S_ij, j);
                        raise_maxima(S_ij, rows, scale.exponent);
                        weigh<B_c / 16>(S_ij, rows, scale.exponent, 0);
                        if constexpr (Shape::anchor) simt::finish_before_wait(rows.l[0] + rows.l[1]);
                        simt::wait_products<0>(O_i, P_ij);
                        release(V_empty, v);
                        to_operands(P_ij, S_ij, 0);
                        if constexpr (D <= 128) rescale_rows<Shape::vote>(O_i, rows);
                    };
#pragma unroll 1
                    while (j > tiles.full) step(std::true_type());
#pragma unroll 1
                    while (j > 0) step(std::false_type());
                    if constexpr (Shape::persistent) release(Q_empty, q);
                    if constexpr (D > 128) rescale_rows<Shape::vote>(O_i, rows);
                    V_full[v.stage].wait(v.parity);
                    begin_values(O_i, P_ij, stage_of(V_ring, v));
                    simt::wait_products<0>(O_i, P_ij);
                    release(V_empty, v);
                } else {
                    constexpr int part = B_c / 16 / Shape::parts;
                    const auto step = [&]<bool edge>(std::bool_constant<edge>, int j) {
                        simt::Accumulator<B_c> S_ij;
                        K_full[k.stage].wait(k.parity);
                        begin_scores(S_ij, Q_i, owner.first_row, stage_of(K_ring, k));
                        simt::wait_products<0>(S_ij);
                        if (simt::elect_one()) K_empty[k.stage].arrive();  // of each warp
                        if constexpr (edge) hide(S_ij, j);
                        take_turn();
                        raise_maxima(S_ij, rows, scale.exponent);
                        simt::OperandA<T> P_ij[Shape::parts][part];
                        weigh<part>(S_ij, rows, scale.exponent, 0);
                        to_operands(P_ij[0], S_ij, 0);
                        rescale_rows<Shape::vote>(O_i, rows);
                        V_full[k.stage].wait(k.parity);
                        begin_values(O_i, P_ij[0], stage_of(V_ring, k));
#pragma unroll
                        for (int n = 1; n < Shape::parts; ++n) {
                            weigh<part>(S_ij, rows, scale.exponent, n * part);
                            to_operands(P_ij[n], S_ij, n * part);
                            begin_more_values(O_i, P_ij[n], stage_of(V_ring, k), n * part);
                        }
                        pass_turn();
                        simt::wait_products<0>(O_i, P_ij);
                        release(V_empty, k);
                    };
                    int j = tiles.visited - 1;
                    // Of the tiles that the block visits, those that this warpgroup sees nothing of.
                    const int seen = seen_by(owner.first_row + 63);
#pragma unroll 1
                    for (; j * B_c >= seen; --j) {
                        K_full[k.stage].wait(k.parity);  // or an arrival of this round would count for the one before
                        if (simt::elect_one()) K_empty[k.stage].arrive();
                        take_turn();  // the others wait for this one's
                        pass_turn();
                        V_full[k.stage].wait(k.parity);
                        release(V_empty, k);
                    }
#pragma unroll 1
                    for (; j >= tiles.full; --j) step(std::true_type(), j);
#pragma unroll 1
                    for (; j >= 0; --j) step(std::false_type(), j);
                    if constexpr (Shape::persistent) release(Q_empty, q);
                }
            }
            const int visible[2] = {seen_by(owner.row(0)), seen_by(owner.row(1))};
            store_rows(O_i, rows, owner, staging, O_map, p.LSE, work.b(p), work.h(p), work.first_query, p.query_length,
                       visible);
            if constexpr (!Shape::persistent) break;
        }
        if (Shape::takes_turns && consumer == 0) simt::sync_threads(1, 256);  // the last turn, that nobody needs
        if (simt::elect_one()) simt::wait_stores_read<0>();  // shared memory outlives the stores' reads
    }
}

/// The fastest that was measured for long sequences (docs/tuning/phase7.md); D 96 and 192 were not.
template <int D>
struct HopperShapeFor;
template <>
struct HopperShapeFor<64> {
    using Shape = HopperShape<64, 3, 160, 2, false, false, false, true, false, 10>;
};
template <>
struct HopperShapeFor<96> {
    using Shape = HopperShape<96, 3, 128, 2, false, false, false, true, false, 8>;
};
template <>
struct HopperShapeFor<128> {
    using Shape = HopperShape<128, 3, 128, 2, false, false, false, true, false, 4>;
};
template <>
struct HopperShapeFor<192> {
    using Shape = HopperShape<192, 2, 112, 2, true, true, true, true, false>;
};
template <>
struct HopperShapeFor<256> {
    using Shape = HopperShape<256, 2, 80, 2, true, true, true, true, false>;
};

/// And for short ones without a mask, D = 128.
using HopperShortShape = HopperShape<128, 2, 128, 2, true, true, false, true, true>;

/// The maps and the rest of a problem for tiles of B_r queries and B_c keys.
template <class T, int D, int B_r, int B_c>
struct HopperMaps {
    simt::TensorMap<T, 4> Q, K, V, O;
    explicit HopperMaps(const AttentionArguments& a)
        : Q(simt::tile_map<T, 4, B_r, D, kRowSwizzle<D>>(a.q)),
          K(simt::tile_map<T, 4, B_c, D, kRowSwizzle<D>>(a.k)),
          V(simt::tile_map<T, 4, B_c, D, kRowSwizzle<D>>(a.v)),
          O(simt::tile_map<T, 4, 16, D, kRowSwizzle<D>>(a.out)) {}
};

inline HopperProblem hopper_problem(const AttentionArguments& a) {
    constexpr std::int64_t l2_bytes = 32 * 1024 * 1024;
    const std::int64_t of_a_head = 2 * a.key_length() * a.head_dim() * 2 * a.kv_heads() / a.query_heads();
    const std::int64_t at_once =
        a.mask == Mask::none
            ? 1
            : std::clamp<std::int64_t>(l2_bytes / std::max<std::int64_t>(of_a_head, 1), 1, a.batch() * a.query_heads());
    return {.LSE = simt::global_tensor<float, 3>(a.lse),
            .batch = int(a.batch()),
            .query_heads = int(a.query_heads()),
            .group = int(a.query_heads() / a.kv_heads()),
            .query_length = int(a.query_length()),
            .key_length = int(a.key_length()),
            .scale = a.scale,
            .mask = a.mask,
            .heads_at_once = int(at_once),
            .works = 0};
}

inline int hopper_works(const AttentionArguments& a, int B_r) {
    return int(a.batch() * a.query_heads() * ((a.query_length() + B_r - 1) / B_r));
}

template <class T, int D, int B_c>
void launch_hopper_forward_plain(const AttentionArguments& a) {
    const HopperMaps<T, D, 64, B_c> maps(a);
    const HopperProblem p = hopper_problem(a);
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(hopper_works(a, 64));
    config.blockDim = dim3(128);
    config.dynamicSmemBytes = simt::panel_bytes<T>(64, D) + 2 * simt::panel_bytes<T>(B_c, D) + 16;
    config.stream = static_cast<cudaStream_t>(a.stream);
    simt::launch("hopper_forward_plain_kernel", config, hopper_forward_plain_kernel<T, D, B_c>, maps.Q, maps.K, maps.V,
                 maps.O, p);
}

template <class T, class Shape>
void launch_hopper_forward(const AttentionArguments& a) {
    const HopperMaps<T, Shape::D, Shape::B_r, Shape::B_c> maps(a);
    HopperProblem p = hopper_problem(a);
    p.works = hopper_works(a, Shape::B_r);
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(Shape::persistent ? std::min(p.works, a.multiprocessors) : p.works);
    config.blockDim = dim3(Shape::threads);
    config.dynamicSmemBytes = Shape::shared_bytes;
    config.stream = static_cast<cudaStream_t>(a.stream);
    simt::launch("hopper_forward_kernel", config, hopper_forward_kernel<T, Shape>, maps.Q, maps.K, maps.V, maps.O, p);
}

}  // namespace ladder::SIMT_MACHINE
