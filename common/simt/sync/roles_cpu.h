#pragma once

#include "common/simt/sync/register_pool.h"
#include "common/simt/sync/whole_warp.h"

// What a kernel needs whose warps have different tasks, as both CPU machines model it. What each function does is
// documented with the GPU's version, in roles_cuda.h.

namespace simt {
inline namespace cpu {

/// See simt::cuda::elect_one. Here it is always the lowest lane.
inline bool elect_one(SourceSite site = SourceSite::here()) { return elect_lane(site); }

/// See simt::cuda::same_in_warp.
inline int same_in_warp(int value, SourceSite site = SourceSite::here()) { return value_of_warp(value, site); }

/// See simt::cuda::release_registers.
template <int count>
void release_registers(SourceSite site = SourceSite::here()) {
    static_assert(count % RegisterPool::kStep == 0 && RegisterPool::kFewest <= count && count <= RegisterPool::kMost,
                  "setmaxnreg takes multiples of 8 from 24 to 256");
    Block& block = Block::current();
    block.require_feature(Feature::wgmma, site);
    block.companion<RegisterPool>().release(count, site);
}

/// See simt::cuda::claim_registers.
template <int count>
void claim_registers(SourceSite site = SourceSite::here()) {
    static_assert(count % RegisterPool::kStep == 0 && RegisterPool::kFewest <= count && count <= RegisterPool::kMost,
                  "setmaxnreg takes multiples of 8 from 24 to 256");
    Block& block = Block::current();
    block.require_feature(Feature::wgmma, site);
    block.companion<RegisterPool>().claim(count, site);
}

/// See simt::cuda::finish_before_wait: this machine moves nothing.
inline void finish_before_wait(float) {}

}  // namespace cpu
}  // namespace simt
