#pragma once

#include <cstdint>

#include "common/simt/copies/cached_access_cuda.h"
#include "common/simt/copies/copy_cache.h"
#include "common/simt/device/architecture_cuda.h"
#include "common/simt/views/views_cuda.h"

// Copies from global to shared memory that go on while the thread does other things (PTX ISA, "Non-bulk copy":
// cp.async). They need Feature::cp_async.
//
// A thread issues copies, closes them to a group with commit_copies(), and later waits until at most so many of its
// groups are under way. Two tiles in turn, the next one fetched while this one is used:
//
//     fetch(0);                   // copy_async(…) for each element of tile 0
//     commit_copies();
//     for (int j = 0; j < tiles; ++j) {
//         if (j + 1 < tiles) fetch(j + 1);
//         commit_copies();        // an empty group at the end, so that the count below is always right
//         wait_copies<1>();       // all groups but the newest: this thread's part of tile j is there
//         __syncthreads();        // everyone's part is
//         use(j);
//         __syncthreads();        // everyone is done with tile j before it is overwritten
//     }
//
// From the issue to the wait nobody may touch the destination, not even the issuing thread, and nobody may change the
// source: the hardware reads and writes at any time in between. A wait is no barrier: it makes a thread's own copies
// visible to that thread alone. The CPU machine diagnoses each mistake in this, and a thread that returns with copies
// under way.

namespace simt {
inline namespace cuda {

/// What a kernel says on a device that lacks them.
inline constexpr const char* kNoAsyncCopy = "cp.async: not in the architecture that this kernel was compiled for";

/// Zero, which the compiler cannot know: no lane comes after itself and is lane 0.
__device__ __forceinline__ unsigned unforeseen_zero() {
    unsigned later_lanes;
    asm("mov.u32 %0, %%lanemask_gt;" : "=r"(later_lanes));
    return later_lanes & 1;
}

/// One cp.async. Of the bytes of a V, the first `source_bytes` come from `source`, the rest becomes zero.
template <CopyCache cache, Reuse reuse, class V>
__device__ __forceinline__ void issue_copy(V& destination, const V& source, int source_bytes) {
    if constexpr (kHasFeature<Feature::cp_async>) {
        const auto to = static_cast<unsigned>(__cvta_generic_to_shared(&destination));
        const auto from = __cvta_generic_to_global(&source);
        constexpr bool through_l1 = AsyncCopyOf<cache, V>::through_l1;
        static_assert(reuse == Reuse::unknown || !through_l1, "only copies that pass by L1 say a word to L2");
        // ptxas 13.0 encodes a copy with a cache policy wrongly where it takes the shared address as the sum of a
        // thread's register and a uniform one ("an illegal instruction was encountered"). Here it cannot see a sum.
        if constexpr (reuse != Reuse::unknown)
            asm volatile("cp.async.cg.shared.global.L2::cache_hint [%0], [%1], %2, %3, %4;"
                         :
                         : "r"(to ^ unforeseen_zero()), "l"(from), "n"(int(sizeof(V))), "r"(source_bytes),
                           "l"(cache_policy<reuse>())
                         : "memory");
        else if constexpr (through_l1)
            asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;"
                         :
                         : "r"(to), "l"(from), "n"(int(sizeof(V))), "r"(source_bytes)
                         : "memory");
        else
            asm volatile("cp.async.cg.shared.global [%0], [%1], %2, %3;"
                         :
                         : "r"(to), "l"(from), "n"(int(sizeof(V))), "r"(source_bytes)
                         : "memory");
    } else {
        refuse(kNoAsyncCopy);
    }
}

/// Issues a copy of one V, of 4, 8 or 16 bytes, from a global tensor to a shared tile:
///
///     simt::copy_async(K_j.vec<Wide>(r, c), K.vec<Wide>(row, c));
///
/// 16 bytes may come with a word to the L2 cache: copy_async<CopyCache::l2_only, Reuse::none>(…).
template <CopyCache cache = CopyCache::automatic, Reuse reuse = Reuse::unknown, class V>
__device__ __forceinline__ void copy_async(V& destination, const V& source) {
    issue_copy<cache, reuse>(destination, source, int(sizeof(V)));
}

/// The same from matrix(row, column) on, where the matrix has such a row and column; zeros beyond its end, with no
/// access to global memory. A vector that straddles the end of a row is an error.
///
///     simt::copy_async_or_zero(K_j.vec<Wide>(r, c), K, first_key + r, c);
template <CopyCache cache = CopyCache::automatic, class V, class T>
__device__ __forceinline__ void copy_async_or_zero(V& destination, const GlobalTensor<T, 2>& matrix, std::int64_t row,
                                                   std::int64_t column) {
    const bool exists = row < matrix.extent(0) && column < matrix.extent(1);
    const V& source = matrix.template vec<V>(exists ? row : 0, exists ? column : 0);
    issue_copy<cache, Reuse::unknown>(destination, source, exists ? int(sizeof(V)) : 0);
}

/// Closes the group of all copies that the calling thread has issued since the last commit. It may be empty.
__device__ __forceinline__ void commit_copies() {
    if constexpr (kHasFeature<Feature::cp_async>)
        asm volatile("cp.async.commit_group;" ::: "memory");
    else
        refuse(kNoAsyncCopy);
}

/// Waits until at most the `allowed` newest groups of the calling thread are under way. What the older ones copied is
/// then visible to this thread; other threads need a barrier after it.
template <int allowed>
__device__ __forceinline__ void wait_copies() {
    static_assert(allowed >= 0);
    if constexpr (kHasFeature<Feature::cp_async>)
        asm volatile("cp.async.wait_group %0;" : : "n"(allowed) : "memory");
    else
        refuse(kNoAsyncCopy);
}

/// Waits for all copies of the calling thread, committed or not.
__device__ __forceinline__ void wait_all_copies() {
    if constexpr (kHasFeature<Feature::cp_async>)
        asm volatile("cp.async.wait_all;" ::: "memory");
    else
        refuse(kNoAsyncCopy);
}

}  // namespace cuda
}  // namespace simt
