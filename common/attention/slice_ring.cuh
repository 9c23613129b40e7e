#pragma once

#include "common/attention/register_tile.cuh"
#include "common/simt/simt.h"

namespace ladder::SIMT_MACHINE {

/// K_j and V_j on their way through shared memory, slice by slice, in the order in which they are multiplied: of each
/// key tile first the slices of K_j, then those of V_j.
///
/// All threads fetch a slice, by asynchronous copies, and all read it. So a warp must know two things of the others:
/// their part of the slice that it is about to read has come, and they are done with the slice whose place it is about
/// to fill.
///
///   - Two slots: a __syncthreads() says both, and before each slice every warp waits for the slowest. Where two blocks
///     share a multiprocessor, the other computes meanwhile.
///   - Four slots, for a block that has a multiprocessor to itself: a warp says its part early, and hears the others'
///     late. Before slice n it arrives at the barrier of slice n + 1, and then waits at that of slice n, at which the
///     others have arrived before they began slice n - 1. So warps may be a slice apart: while one makes weights,
///     others multiply. Slices n - 1 and n may be in use then, n + 1 and n + 2 under way.
template <class Tiles>
class SliceRing {
  public:
    /// For the key tiles that begin below key `until`; asks for the first slice. `vectorized`: rows of V, as
    /// copy_tile_async has it.
    __device__ __forceinline__ SliceRing(simt::SharedArena& arena, const simt::GlobalTensor<const float, 2>& K,
                                         const simt::GlobalTensor<const float, 2>& V, int until, bool vectorized)
        : slots_(arena.tile<float, Tiles::slots, Tiles::slice_floats>("K_j, V_j")),
          barriers_(arena.barriers<Tiles::barriers>("slice")),
          K_(K),
          V_(V),
          until_(until),
          vectorized_(vectorized) {
        if (until > 0) fetch_keys(0, 0, 0);
        simt::commit_copies();
        if constexpr (kAhead == 2) {
            if (threadIdx.x == 0)
                for (int i = 0; i < Tiles::barriers; ++i) barriers_[i].init(Tiles::threads / 32);
            __syncthreads();  // the barriers are there before anyone arrives
        }
    }

    /// Called when the thread has waited for all that it has copied so far, Q_i among it. After the first next() the
    /// others may read that.
    __device__ __forceinline__ void begin() {
        if constexpr (kAhead == 2) {
            arrive(0);
            if (until_ > 0) fetch(1, 0, 1, Tiles::slices);
        }
    }

    /// Waits for the slice that is multiplied next, number x of the tile whose first key is `first_key`. Of that tile
    /// `slices` are multiplied. (The kernel's loops know all three; counted here once more, they cost 2 % of the time.)
    /// The lanes of a warp meet here, too: what they have written to rows of their own, P_ij, they may read afterwards.
    __device__ __forceinline__ void next(int first_key, int x, int slices = Tiles::slices) {
        simt::wait_copies<0>();  // this thread's part of slice n + kAhead - 1, the newest
        ++n_;
        // Slice n is complete before anyone reads it, and all warps are done with slice n - kAhead, whose slot is
        // filled now.
        if constexpr (kAhead == 1) {
            __syncthreads();
        } else {
            arrive(n_ + 1);
            barriers_[n_ % 2].wait(n_ / 2 % 2);
        }
        fetch(n_ + kAhead, first_key, x + kAhead, slices);
    }
    /// That slice, as columns of K_j, transposed.
    __device__ __forceinline__ auto keys() const { return slice<Tiles::key_pitch>(slots_, n_ % Tiles::slots); }
    /// That slice, as rows of V_j. No padding: lanes read one row together.
    __device__ __forceinline__ auto values() const { return slice<Tiles::head_dim>(slots_, n_ % Tiles::slots); }

  private:
    static constexpr int kAhead = Tiles::slots / 2;  // slices that are asked for before they are multiplied
    static_assert(Tiles::slots == 2 * kAhead && kAhead <= 2 && Tiles::slices_of_keys >= kAhead);

    /// At the barrier of slice n: this warp's part of it has come, and it is done with slice n - kAhead.
    __device__ __forceinline__ void arrive(unsigned n) {
        __syncwarp();  // that is so for all of its lanes
        if (threadIdx.x % 32 == 0) barriers_[n % 2].arrive();
    }

    /// Asks for slice n, number x of the tile that begins at first_key; where that has no more, of the next tile.
    __device__ __forceinline__ void fetch(unsigned n, int first_key, int x, int slices) {
        if (x < Tiles::slices_of_keys)
            fetch_keys(n, first_key, x);
        else if (x < slices)
            fetch_values(n, first_key + (x - Tiles::slices_of_keys) * Tiles::keys_per_slice);
        else if (first_key + Tiles::B_c < until_)
            fetch_keys(n, first_key + Tiles::B_c, x - slices);
        simt::commit_copies();
    }
    __device__ __forceinline__ void fetch_keys(unsigned n, int first_key, int x) {
        copy_transposed_async<Tiles::threads, Tiles::B_c, Tiles::columns_per_slice>(
            slice<Tiles::key_pitch>(slots_, n % Tiles::slots), K_, first_key, x * Tiles::columns_per_slice);
    }
    __device__ __forceinline__ void fetch_values(unsigned n, int first_key) {
        constexpr int keys = Tiles::keys_per_slice, columns = Tiles::head_dim;
        const auto to = slice<columns>(slots_, n % Tiles::slots);
        // Nearly all are whole: their addresses follow at constant distances.
        if (vectorized_ && first_key + keys <= int(V_.extent(0)) && columns <= int(V_.extent(1)))
            copy_share_async<Tiles::threads, keys, columns, 1>(to, V_, first_key, 0);
        else
            copy_tile_async<Tiles::threads, keys, columns>(to, V_, first_key, vectorized_);
    }

    simt::SharedTile<float, Tiles::slots, Tiles::slice_floats> slots_;  // slice n in slot n % slots
    simt::SharedBarriers<Tiles::barriers> barriers_;  // slice n at barrier n % 2: nobody is two behind
    simt::GlobalTensor<const float, 2> K_, V_;
    int until_;
    bool vectorized_;
    unsigned n_ = ~0u;  // the slice that is multiplied, counted through all tiles; -1 before the first
};

}  // namespace ladder::SIMT_MACHINE
