#pragma once

#include "phase8_backward/hopper_pipeline.cuh"
#include "phase8_backward/hopper_problem.cuh"

namespace ladder::SIMT_MACHINE {

// A block's way through the queries, and the two threads of the producer's warpgroup that keep it supplied.

/// A block's keys, and its way through the query tiles that see any of them, head by head.
struct KeyTile {
    int b, kv_head;              ///< its sequence, its head
    int number, first_key;       ///< how many tiles of the head come before it; its first row
    int first_head, first_tile;  ///< the first query head, and in each the first tile of queries
    int tiles, steps;            ///< tiles of a head; of all heads together
    int all_see;                 ///< from this query on, every query sees every key of the tile, and all keys exist

    /// The tile of blockIdx, where B_r queries come past B_c keys. Of `heads_at_once` heads the first tiles come first.
    __device__ static KeyTile of_block(const BackwardProblem& p, int B_r, int B_c) {
        const int tiles_of_a_head = (p.key_length + B_c - 1) / B_c;
        const int first_head = int(blockIdx.x) / (p.heads_at_once * tiles_of_a_head) * p.heads_at_once;
        const int in_section = int(blockIdx.x) - first_head * tiles_of_a_head;
        const int heads = min(p.heads_at_once, p.batch * p.kv_heads - first_head);
        const int head = first_head + in_section % heads, number = in_section / heads;
        return of_head(p, head / p.kv_heads, head % p.kv_heads, number, B_r, B_c);
    }

  private:
    __device__ static KeyTile of_head(const BackwardProblem& p, int b, int kv_head, int number, int B_r, int B_c) {
        const int first_key = number * B_c, last_key = first_key + B_c - 1;
        const auto first_to_see = [&](int key) { return first_seeing(p.mask, key, p.query_length, p.key_length); };
        const int first_tile = first_to_see(first_key) / B_r;
        const int tiles = max((p.query_length + B_r - 1) / B_r - first_tile, 0);
        return {.b = b,
                .kv_head = kv_head,
                .number = number,
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

/// Its second warp, one lane: has dQ_i added to dQ_sum, part after part, step after step.
template <bool InOrder, class T, class Shape>
__device__ __forceinline__ void send_queries(const BackwardPipeline<T, Shape>& pipeline,
                                             const simt::TensorMap<float, 4>& dQ_map, const BackwardProblem& p,
                                             const KeyTile& keys) {
    using Pipeline = BackwardPipeline<T, Shape>;
    constexpr int parts = Shape::D / Shape::sum_columns;
    constexpr int unread = Shape::sum_places > 1;  // parts that the accelerator may still be reading at the next
    simt::RingPosition<Shape::sum_places> full, empty;
#pragma unroll 1
    for (QueryStep<Shape::B_r> at(keys); at.number < keys.steps; at.next(keys)) {
#pragma unroll 1
        for (int part = 0; part < parts; ++part) {
            pipeline.dQ_full[full.stage].wait(full.parity);
            if (InOrder && part == 0)
                while (simt::load_acquire(p.turns(keys.b, at.h, at.tile)) != keys.number) {
                }  // the key tiles before this one have added theirs
            simt::tma_add(dQ_map, {keys.b, at.h, at.first_query(), part * Shape::sum_columns},
                          Pipeline::part_of(pipeline.dQ_parts, full.stage));
            simt::commit_stores();
            full.next();
            simt::wait_stores_read<unread>();  // the accelerator has read a part before anyone writes in its place
            if (at.number + part < unread) continue;
            pipeline.dQ_empty[empty.stage].arrive();
            empty.next();
        }
        if constexpr (InOrder) {
            simt::wait_stores<0>();  // the sums are there before the next key tile is let in
            simt::store_release(p.turns(keys.b, at.h, at.tile), keys.number + 1);
        }
    }
    simt::wait_stores_read<0>();  // shared memory outlives the reads
}

}  // namespace ladder::SIMT_MACHINE
