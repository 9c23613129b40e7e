#pragma once

#include <cstdint>

#include "common/simt/copies/copy_cache.h"
#include "common/simt/copies/reuse.h"
#include "common/simt/machine/block.h"
#include "common/simt/views/views_unchecked.h"

// Asynchronous copies without their model: they are done when they are issued, the earliest that the hardware may be.
// So nothing is left to wait for. What each function does is documented with the GPU's version, in async_copy_cuda.h.

namespace simt {
inline namespace unchecked {

inline void require_async_copies(SourceSite site) { Block::current().require_feature(Feature::cp_async, site); }

template <CopyCache cache = CopyCache::automatic, Reuse = Reuse::unknown, class V>
void copy_async(V& destination, const V& source, SourceSite site = SourceSite::here()) {
    static_assert(sizeof(AsyncCopyOf<cache, V>));
    require_async_copies(site);
    destination = source;
}

template <CopyCache cache = CopyCache::automatic, class V, class T>
void copy_async_or_zero(V& destination, const GlobalTensor<T, 2>& matrix, std::int64_t row, std::int64_t column,
                        SourceSite site = SourceSite::here()) {
    const bool exists = row < matrix.extent(0) && column < matrix.extent(1);
    copy_async<cache>(destination, exists ? V(matrix.template vec<V>(row, column)) : V{}, site);
}

inline void commit_copies(SourceSite site = SourceSite::here()) { require_async_copies(site); }

template <int allowed>
void wait_copies(SourceSite site = SourceSite::here()) {
    static_assert(allowed >= 0);
    require_async_copies(site);
}

inline void wait_all_copies(SourceSite site = SourceSite::here()) { require_async_copies(site); }

}  // namespace unchecked
}  // namespace simt
