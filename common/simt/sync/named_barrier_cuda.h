#pragma once

// Barriers for a part of a block (PTX ISA, bar). A block has 16, numbered; __syncthreads() is number 0. Each use names
// how many threads it is for, a multiple of 32: when so many have come, by sync or by arrive, it opens and starts anew.
// Warps come as a whole. What a thread did before it came is visible to who has waited. A block may end while arrivals
// are left over that nobody waits for, such as the last turn; the next block finds its barriers empty.
//
//     simt::sync_threads(1 + turn, 256);     // warpgroup `turn` waits until the other has arrived at its barrier
//     …
//     simt::arrive_threads(1 + other, 256);  // and lets the other go on, without waiting itself

namespace simt {
inline namespace cuda {

/// Waits at barrier `id`, 1 … 15, until `threads` threads have come, this warp's among them.
__device__ __forceinline__ void sync_threads(int id, int threads) {
    asm volatile("bar.sync %0, %1;" : : "r"(id), "r"(threads) : "memory");
}

/// Counts as come at barrier `id`, and goes on.
__device__ __forceinline__ void arrive_threads(int id, int threads) {
    asm volatile("bar.arrive %0, %1;" : : "r"(id), "r"(threads) : "memory");
}

}  // namespace cuda
}  // namespace simt
