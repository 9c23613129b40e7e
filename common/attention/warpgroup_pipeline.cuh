#pragma once

#include <cstddef>

#include "common/attention/warpgroup_edge.cuh"
#include "common/attention/warpgroup_problem.cuh"
#include "common/attention/warpgroup_tile.cuh"
#include "common/simt/simt.h"

namespace ladder::SIMT_MACHINE {

// A block of one producer warpgroup and several consumers. Of the producer's four warps one lane works: it asks for
// Q_i, and for K_j and V_j one after the other, as their stages become free. Each consumer warpgroup multiplies 64 rows
// of Q_i with what comes.
//
//     barrier      a phase is over when         who waits        arrivals
//     Q_full       Q_i is there                 consumers        1, and bytes
//     Q_empty      nobody reads Q_i any more    the producer     a lane of each consumer warp
//     K_full [s]   K_j is there                 consumers        1, and bytes
//     K_empty [s]  nobody reads K_j any more    the producer     a lane of each consumer warp
//     V_full [s]   V_j is there                 consumers        1, and bytes
//     V_empty [s]  nobody reads V_j any more    the producer     a lane of each consumer warp
//
// V may hold what is not finite, and under a mask it must not reach rows that do not see it (warpgroup_edge.cuh).
// Nobody looks: it would be a row's O_i that is not finite in the end. Then the block computes its tile a second time,
// carefully: the producer's other warps clear V_j at the edge, and the consumers wait for
//
//     V_clear [s]  V_j at an edge is clear      consumers        a lane of each of warps 1 to 3

/// Warps that clear V_j.
inline constexpr int kClearingWarps = 3;

/// Tiles of B_r queries and B_c keys in shared memory, `stages` of K_j and of V_j, and the barriers between producer
/// and consumers.
template <class T, class Shape>
struct Pipeline {
    static constexpr int D = Shape::D, B_r = Shape::B_r, B_c = Shape::B_c, stages = Shape::stages;  ///< its sizes
    /// Tiles of queries.
    using Queries = simt::PanelTile<T, B_r, D, kRowSwizzle<D>>;
    /// And all stages of keys or values.
    using Keys = simt::PanelTile<T, stages * B_c, D, kRowSwizzle<D>>;
    using Position = simt::RingPosition<stages>;  ///< of a tile of keys or values in its ring

    Queries Q_i;                                           ///< the tile of queries
    Keys K_ring, V_ring;                                   ///< stages of keys and of values
    Queries staging;                                       ///< where O_i leaves from
    simt::SharedTile<int, 1, 4 * Shape::consumers> stray;  ///< of each consumer warp: whether its O_i is not finite
    simt::SharedBarriers<1> Q_full, Q_empty;               ///< see the table
    simt::SharedBarriers<stages> K_full, K_empty, V_full, V_clear, V_empty;  ///< one for each stage

    /// Bytes of shared memory for all of it. What is carved comes in pieces of 16.
    static constexpr std::size_t shared_bytes = (Shape::persistent ? 2 : 1) * simt::panel_bytes<T>(B_r, D) +
                                                2 * simt::panel_bytes<T>(stages * B_c, D) + 2 * 16 +
                                                16 * Shape::consumers + 5 * ((8 * stages + 15) / 16 * 16);

    /// Carves it. A block that takes tile after tile has the next Q_i come while O_i leaves; any other has O_i leave
    /// from the place of Q_i.
    __device__ __forceinline__ explicit Pipeline(simt::SharedArena& arena)
        : Q_i(arena.template panels<T, B_r, D, kRowSwizzle<D>>("Q_i")),
          K_ring(arena.template panels<T, stages * B_c, D, kRowSwizzle<D>>("K_j")),
          V_ring(arena.template panels<T, stages * B_c, D, kRowSwizzle<D>>("V_j")),
          staging([&] {
              if constexpr (Shape::persistent)
                  return arena.template panels<T, B_r, D, kRowSwizzle<D>>("O_i");
              else
                  return Q_i;
          }()),
          stray(arena.template tile<int, 1, 4 * Shape::consumers>("stray")),
          Q_full(arena.template barriers<1>("Q_i full")),
          Q_empty(arena.template barriers<1>("Q_i empty")),
          K_full(arena.template barriers<stages>("K_j full")),
          K_empty(arena.template barriers<stages>("K_j empty")),
          V_full(arena.template barriers<stages>("V_j full")),
          V_clear(arena.template barriers<stages>("V_j clear")),
          V_empty(arena.template barriers<stages>("V_j empty")) {}

    /// Makes the barriers; the whole block calls it.
    __device__ __forceinline__ void init() const {
        constexpr int consumer_warps = 4 * Shape::consumers;
        if (threadIdx.x == 0) {
            Q_full[0].init(1);
            Q_empty[0].init(consumer_warps);
            for (int s = 0; s < stages; ++s) {
                K_full[s].init(1);
                V_full[s].init(1);
                V_clear[s].init(kClearingWarps);
                K_empty[s].init(consumer_warps);
                V_empty[s].init(consumer_warps);
            }
            simt::publish_barriers();
        }
        __syncthreads();  // the barriers are there before anyone waits for one
    }

    /// Where a ring goes on after so many tiles.
    __device__ __forceinline__ static Position after(int tiles) {
        Position at;
        at.stage = tiles % stages;
        at.parity = unsigned(tiles / stages % 2);
        return at;
    }

    /// A stage of a ring.
    __device__ __forceinline__ static auto stage_of(const Keys& ring, int stage) {
        return ring.template rows_from<B_c>(stage * B_c);
    }

    // --- the producer's one lane ---

    /// Asks for tile j of K or V, into the next stage of its ring.
    template <class Barriers>
    __device__ __forceinline__ static void fetch(const Keys& ring, const simt::TensorMap<T, 4>& map,
                                                 const Barriers& full, const Barriers& empty, Position& at,
                                                 const QueryTile& tile, int j) {
        // BEGIN SOLUTION ring: wait until the stage is free; say what is to come; ask for it; on to the next stage
        empty[at.stage].wait(at.parity ^ 1);  // whoever used the stage last is done with it
        full[at.stage].arrive_expecting(B_c * D * int(sizeof(T)));
        simt::tma_load<simt::Reuse::soon>(stage_of(ring, at.stage), map, {tile.b, tile.kv_head, j * B_c, 0},
                                          full[at.stage]);
        at.next();
        // END SOLUTION ring
    }

    /// Asks for all that a tile of queries needs which sees `visited` tiles of keys, at least one: from right to left,
    /// and K_{j-1} before V_j, since it is needed first. `at` is the next stage of both rings.
    __device__ __forceinline__ void fetch_all(const simt::TensorMap<T, 4>& Q_map, const simt::TensorMap<T, 4>& K_map,
                                              const simt::TensorMap<T, 4>& V_map, const QueryTile& tile, int visited,
                                              const Position& at, const simt::RingPosition<1>& q) const {
        Position k = at, v = at;
        fetch(K_ring, K_map, K_full, K_empty, k, tile, visited - 1);
        if constexpr (Shape::persistent) Q_empty[0].wait(q.parity ^ 1);  // nobody reads the Q_i before
        Q_full[0].arrive_expecting(int(Queries::bytes));
        simt::tma_load<simt::Reuse::none>(Q_i, Q_map, {tile.b, tile.h, tile.first_query, 0}, Q_full[0]);
#pragma unroll 1
        for (int j = visited - 1; j >= 0; --j) {
            if (j > 0) fetch(K_ring, K_map, K_full, K_empty, k, tile, j - 1);
            fetch(V_ring, V_map, V_full, V_empty, v, tile, j);
        }
    }

    // --- the whole block ---

    /// Whether the block has to compute its tile once more: some consumer warp says `is_stray`. The warp's stores have
    /// been waited for.
    __device__ __forceinline__ bool once_more(bool is_stray) const {
        const int warp = int(threadIdx.x) / 32 - 4;
        if (warp >= 0 && simt::elect_one()) stray(0, warp) = is_stray;
        // All warps have said so before anyone reads it, and nobody reads Q_i or sends O_i from its place any more.
        simt::sync_threads(15, Shape::threads);
        bool any = false;
        for (int w = 0; w < 4 * Shape::consumers; ++w) any |= stray(0, w) != 0;
        return any;
    }

    // --- the producer's other warps, where a tile is computed once more ---

    /// Clears the tiles of V that not every row of the block sees, the first that come.
    __device__ __forceinline__ void clear_edges(const KeyTiles& tiles) const {
        Position v = after(tiles.visited), c;
#pragma unroll 1
        for (int j = tiles.visited - 1; j >= tiles.full; --j) {
            V_full[v.stage].wait(v.parity);
            clear_non_finite<32 * kClearingWarps>(stage_of(V_ring, v.stage), int(threadIdx.x) - 32);
            __syncwarp();  // all lanes have cleared their pieces, and shown that, before one says so
            release(V_clear, c);
            v.next();
        }
    }

    // --- the consumers ---

    /// Waits for tile V_j, ready for products: at an edge, where one is careful, until it is clear.
    template <bool careful_edge>
    __device__ __forceinline__ void wait_for_values(const Position& v, Position& c) const {
        if constexpr (careful_edge) {
            V_clear[c.stage].wait(c.parity);
            c.next();
        } else {
            V_full[v.stage].wait(v.parity);
        }
    }

    /// One lane of each warp says that it is done with a stage, or with Q_i; the position goes on.
    template <class Barriers, int Count>
    __device__ __forceinline__ static void release(const Barriers& empty, simt::RingPosition<Count>& at) {
        if (simt::elect_one()) empty[at.stage].arrive();
        at.next();
    }
};

}  // namespace ladder::SIMT_MACHINE
