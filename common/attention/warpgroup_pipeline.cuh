#pragma once

#include <cstddef>

#include "common/attention/warpgroup_edge.cuh"
#include "common/attention/warpgroup_problem.cuh"
#include "common/attention/warpgroup_tile.cuh"
#include "common/simt/simt.h"

namespace ladder::SIMT_MACHINE {

// A block of one producer warpgroup and several consumers. Of the producer's four warps
//
//     warp 0        one lane: asks for Q_i, and for K_j and V_j one after the other, as their stages become free
//     warps 1 to 3  look at V_j where not every row sees every key, and clear what is not finite
//
// and each consumer warpgroup multiplies 64 rows of Q_i with what comes.
//
//     barrier      a phase is over when                       who waits           arrivals
//     Q_full       Q_i is there                               consumers           1, and bytes
//     Q_empty      nobody reads Q_i any more                  the producer        a lane of each consumer warp
//     K_full [s]   K_j is there                               consumers           1, and bytes
//     K_empty [s]  nobody reads K_j any more                  the producer        a lane of each consumer warp
//     V_full [s]   V_j is there                               consumers, warps 1 to 3     1, and bytes
//     V_clear [s]  V_j at an edge is clear                    consumers           a lane of each of warps 1 to 3
//     V_empty [s]  nobody reads V_j any more                  the producer        a lane of each consumer warp

/// Warps that look at V_j.
inline constexpr int kClearingWarps = 3;

/// Tiles of B_r queries and B_c keys in shared memory, `stages` of K_j and of V_j, and the barriers between producer
/// and consumers.
template <class T, class Shape>
struct Pipeline {
    static constexpr int D = Shape::D, B_r = Shape::B_r, B_c = Shape::B_c, stages = Shape::stages;
    using Queries = simt::PanelTile<T, B_r, D, kRowSwizzle<D>>;
    using Keys = simt::PanelTile<T, stages * B_c, D, kRowSwizzle<D>>;
    using Position = simt::RingPosition<stages>;  ///< of a tile of keys or values in its ring

    Queries Q_i;
    Keys K_ring, V_ring;
    Queries staging;                                 ///< where O_i leaves from
    simt::SharedTile<int, 1, kClearingWarps> found;  ///< by each of these warps: something that was not finite
    simt::SharedBarriers<1> Q_full, Q_empty;
    simt::SharedBarriers<stages> K_full, K_empty, V_full, V_clear, V_empty;

    /// Bytes of shared memory for all of it. What is carved comes in pieces of 16.
    static constexpr std::size_t shared_bytes = (Shape::persistent ? 2 : 1) * simt::panel_bytes<T>(B_r, D) +
                                                2 * simt::panel_bytes<T>(stages * B_c, D) + 3 * 16 +
                                                5 * ((8 * stages + 15) / 16 * 16);

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
          found(arena.template tile<int, 1, kClearingWarps>("not finite")),
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
            for (int w = 0; w < kClearingWarps; ++w) found(0, w) = 0;
        }
        __syncthreads();  // the barriers are there before anyone waits for one
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
        empty[at.stage].wait(at.parity ^ 1);  // whoever used the stage last is done with it
        full[at.stage].arrive_expecting(B_c * D * int(sizeof(T)));
        simt::tma_load<simt::Reuse::soon>(stage_of(ring, at.stage), map, {tile.b, tile.kv_head, j * B_c, 0},
                                          full[at.stage]);
        at.next();
    }

    /// Asks for all that a tile of queries needs which sees `visited` tiles of keys, at least one: from right to left,
    /// and K_{j-1} before V_j, since it is needed first.
    __device__ __forceinline__ void fetch_all(const simt::TensorMap<T, 4>& Q_map, const simt::TensorMap<T, 4>& K_map,
                                              const simt::TensorMap<T, 4>& V_map, const QueryTile& tile, int visited,
                                              Position& k, Position& v, simt::RingPosition<1>& q) const {
        fetch(K_ring, K_map, K_full, K_empty, k, tile, visited - 1);
        Q_empty[0].wait(q.parity ^ 1);  // nobody reads the Q_i before
        Q_full[0].arrive_expecting(int(Queries::bytes));
        simt::tma_load<simt::Reuse::none>(Q_i, Q_map, {tile.b, tile.h, tile.first_query, 0}, Q_full[0]);
        q.next();
#pragma unroll 1
        for (int j = visited - 1; j >= 0; --j) {
            if (j > 0) fetch(K_ring, K_map, K_full, K_empty, k, tile, j - 1);
            fetch(V_ring, V_map, V_full, V_empty, v, tile, j);
        }
    }

    // --- the producer's other warps ---

    /// Clears the tiles of V that not every row of the block sees. A block that takes tile after tile has no mask, and
    /// so none of them; in any other they come first.
    __device__ __forceinline__ void clear_edges(const KeyTiles& tiles) const {
        static_assert(!Shape::persistent);
        const int thread = int(threadIdx.x) - 32;
        Position v;
#pragma unroll 1
        for (int j = tiles.visited - 1; j >= tiles.full; --j) {
            V_full[v.stage].wait(v.parity);
            const bool any = clear_non_finite<32 * kClearingWarps>(stage_of(V_ring, v.stage), thread);
            const bool any_of_warp = __any_sync(0xffffffffu, any);
            __syncwarp();  // all lanes have cleared their pieces, and shown that, before one says so
            if (simt::elect_one()) {
                if (any_of_warp) found(0, thread / 32) = 1;
                V_clear[v.stage].arrive();
            }
            v.next();
        }
    }

    // --- the consumers ---

    /// Waits for tile V_j, ready for products, at the edge or not.
    template <bool edge>
    __device__ __forceinline__ void wait_for_values(const Position& v) const {
        if constexpr (edge && !Shape::persistent)
            V_clear[v.stage].wait(v.parity);
        else
            V_full[v.stage].wait(v.parity);
    }

    /// Whether something was not finite in the tiles at the edge, all of whose V_clear have been waited for.
    __device__ __forceinline__ bool found_any() const {
        if constexpr (Shape::persistent) return false;
        bool any = false;
#pragma unroll
        for (int w = 0; w < kClearingWarps; ++w) any |= found(0, w) != 0;
        return any;
    }

    /// One lane of each warp says that it is done with a stage, or with Q_i; the position goes on.
    template <class Barriers, int Count>
    __device__ __forceinline__ static void release(const Barriers& empty, simt::RingPosition<Count>& at) {
        if (simt::elect_one()) empty[at.stage].arrive();
        at.next();
    }
};

}  // namespace ladder::SIMT_MACHINE
