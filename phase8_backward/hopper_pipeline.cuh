#pragma once

#include <cstddef>

#include "common/attention/key_tiles.cuh"
#include "common/attention/warpgroup_tile.cuh"
#include "common/simt/simt.h"

namespace ladder::SIMT_MACHINE {

// A block of one producer warpgroup and two consumers. The block keeps 128 keys; queries come past, B_r at a time, with
// their rows of dO and their two numbers. Each consumer warpgroup owns 64 keys. Of the producer's four warps two have
// something to do: a lane of warp 0 asks for tiles, and one of warp 1 sends off what the consumers leave of dQ_i.
//
//     barrier       a phase is over when                  who waits        arrivals
//     kept          K_j and V_j are there                 consumers        1, and bytes
//     Q_full [s]    Q_i and LSE_i are there               consumers        1, and bytes
//     Q_empty [s]   nobody reads them any more            warp 0           a lane of each consumer warp
//     dO_full [s]   dO_i and D_i are there                consumers        1, and bytes
//     dO_empty [s]  nobody reads them any more            warp 0           a lane of each consumer warp
//     dQ_full       dQ_i is complete, and shown           warp 1           a lane of each consumer warp
//     dQ_empty      the accelerator has read it           consumers        1
//
// dS_ij goes from one warpgroup to the other: each multiplies what both have of it. It has two places, and one named
// barrier a step: who comes to it has waited for the products of the step before, so that when all have come, nobody
// reads the other place any more.

/// Tiles of 128 keys and B_r queries in shared memory, and the barriers.
template <class T, class Shape>
struct BackwardPipeline {
    static constexpr int D = Shape::D, B_r = Shape::B_r, B_c = Shape::B_c, stages = Shape::stages;  ///< its sizes
    using Keys = simt::PanelTile<T, B_c, D, kRowSwizzle<D>>;                                        ///< K_j or V_j
    using Queries = simt::PanelTile<T, stages * B_r, D, kRowSwizzle<D>>;  ///< all stages of Q_i or dO_i
    using Scores = simt::PanelTile<T, Shape::score_places * B_c, B_r, simt::Swizzle::b128>;  ///< all places of dS_ij^T
    /// All places of parts of dQ_i.
    using Sums = simt::PanelTile<float, Shape::sum_places * B_r, Shape::sum_columns, simt::Swizzle::b128>;
    using Numbers = simt::SharedTile<float, stages, B_r>;  ///< all stages of LSE_i or D_i
    /// Whether a consumer warp found infinities or NaN in a stage of queries, or, in the last row, in K_j.
    using Found = simt::SharedTile<int, stages + 1, 4 * Shape::consumers>;
    using Position = simt::RingPosition<stages>;  ///< of a tile of queries in its ring

    Keys K_j, V_j;                                                    ///< which stay
    Queries Q_ring, dO_ring;                                          ///< which come past
    Scores dS_places;                                                 ///< dS_ij^T, of this step and of the one before
    Sums dQ_parts;                                                    ///< what this block adds to dQ_i
    Numbers LSE_ring, D_ring;                                         ///< with Q_i, and with dO_i
    Found found;                                                      ///< see hopper_non_finite.cuh
    simt::SharedBarriers<1> kept;                                     ///< see the table
    simt::SharedBarriers<Shape::sum_places> dQ_full, dQ_empty;        ///< one for each place
    simt::SharedBarriers<stages> Q_full, Q_empty, dO_full, dO_empty;  ///< one for each stage

    static constexpr int bytes_of_queries = B_r * D * int(sizeof(T));  ///< of a stage of Q_i or dO_i
    static constexpr int bytes_of_numbers = B_r * int(sizeof(float));  ///< of a stage of LSE_i or D_i
    /// Of so many barriers side by side.
    static constexpr std::size_t bytes_of_barriers(int count) { return std::size_t(8 * count + 15) / 16 * 16; }

    /// Bytes of shared memory for all of it. What is carved comes in pieces of 16.
    static constexpr std::size_t shared_bytes =
        2 * simt::panel_bytes<T>(B_c, D) + 2 * simt::panel_bytes<T>(stages * B_r, D) +
        simt::panel_bytes<T>(Shape::score_places * B_c, B_r) +
        simt::panel_bytes<float>(Shape::sum_places * B_r, Shape::sum_columns) + 2 * stages * bytes_of_numbers +
        (stages + 1) * 4 * Shape::consumers * sizeof(int) + bytes_of_barriers(1) +
        2 * bytes_of_barriers(Shape::sum_places) + 4 * bytes_of_barriers(stages);

    /// Carves it.
    __device__ __forceinline__ explicit BackwardPipeline(simt::SharedArena& arena)
        : K_j(arena.template panels<T, B_c, D, kRowSwizzle<D>>("K_j")),
          V_j(arena.template panels<T, B_c, D, kRowSwizzle<D>>("V_j")),
          Q_ring(arena.template panels<T, stages * B_r, D, kRowSwizzle<D>>("Q_i")),
          dO_ring(arena.template panels<T, stages * B_r, D, kRowSwizzle<D>>("dO_i")),
          dS_places(arena.template panels<T, Shape::score_places * B_c, B_r, simt::Swizzle::b128>("dS_ij^T")),
          dQ_parts(
              arena.template panels<float, Shape::sum_places * B_r, Shape::sum_columns, simt::Swizzle::b128>("dQ_i")),
          LSE_ring(arena.template tile<float, stages, B_r>("LSE_i")),
          D_ring(arena.template tile<float, stages, B_r>("D_i")),
          found(arena.template tile<int, stages + 1, 4 * Shape::consumers>("non-finite found")),
          kept(arena.template barriers<1>("K_j, V_j full")),
          dQ_full(arena.template barriers<Shape::sum_places>("dQ_i full")),
          dQ_empty(arena.template barriers<Shape::sum_places>("dQ_i empty")),
          Q_full(arena.template barriers<stages>("Q_i full")),
          Q_empty(arena.template barriers<stages>("Q_i empty")),
          dO_full(arena.template barriers<stages>("dO_i full")),
          dO_empty(arena.template barriers<stages>("dO_i empty")) {}

    /// Makes the barriers; the whole block calls it.
    __device__ __forceinline__ void init() const {
        if (threadIdx.x == 0) {
            init_barriers();
            simt::publish_barriers();
        }
        __syncthreads();  // the barriers are there before anyone waits for one
    }

    /// The part of one thread.
    __device__ __forceinline__ void init_barriers() const {
        kept[0].init(1);
        for (int s = 0; s < Shape::sum_places; ++s) {
            dQ_full[s].init(4 * Shape::warpgroups_of_sums);
            dQ_empty[s].init(1);
        }
        for (int s = 0; s < stages; ++s) {
            Q_full[s].init(1);
            dO_full[s].init(1);
            Q_empty[s].init(4 * Shape::consumers);
            dO_empty[s].init(4 * Shape::warpgroups_of_values);
        }
    }

    /// A stage of a ring.
    __device__ __forceinline__ static auto stage_of(const Queries& ring, int stage) {
        return ring.template rows_from<B_r>(stage * B_r);
    }

    /// A place for a part of dQ_i.
    __device__ __forceinline__ static auto part_of(const Sums& parts, int place) {
        return parts.template rows_from<B_r>(place * B_r);
    }

    /// A place of dS_ij^T.
    __device__ __forceinline__ auto scores_of(int place) const {
        return dS_places.template rows_from<B_c>(place * B_c);
    }

    /// One lane of each warp says that it is done with a stage; the position goes on.
    template <class Barriers, class At>
    __device__ __forceinline__ static void release(const Barriers& barriers, At& at) {
        if (simt::elect_one()) barriers[at.stage].arrive();
        at.next();
    }
};

}  // namespace ladder::SIMT_MACHINE
