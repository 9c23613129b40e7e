#pragma once

#include "common/simt/sync/named_barriers.h"

// Barriers for a part of a block, as the CPU machine models them: see NamedBarriers, and named_barrier_cuda.h for what
// each call does. Both CPU machines have them.

namespace simt {
inline namespace SIMT_NAMESPACE {

/// See simt::cuda::sync_threads.
inline void sync_threads(int id, int threads, SourceSite site = SourceSite::here()) {
    Block::current().companion<NamedBarriers>().sync(id, threads, site);
}

/// See simt::cuda::arrive_threads.
inline void arrive_threads(int id, int threads, SourceSite site = SourceSite::here()) {
    Block::current().companion<NamedBarriers>().arrive(id, threads, site);
}

}  // namespace SIMT_NAMESPACE
}  // namespace simt
