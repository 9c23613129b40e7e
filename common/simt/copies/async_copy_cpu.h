#pragma once

#include <type_traits>

#include "common/simt/copies/copy_cache.h"
#include "common/simt/copies/copy_queue.h"
#include "common/simt/copies/reuse.h"
#include "common/simt/views/views_cpu.h"

// Asynchronous copies, as the CPU machine models them: see CopyQueue. What each function does is documented with the
// GPU's version, in async_copy_cuda.h.

namespace simt {
inline namespace cpu {

/// Issues the copy, of zeros where `source` is null.
template <CopyCache cache, class V>
void issue_copy(const Ref<V, SharedAccess>& destination, const void* source, int tensor) {
    using Copy = AsyncCopyOf<cache, V>;  // for its checks: the model has no caches
    static_assert(sizeof(Copy));
    Block& block = Block::current();
    const SharedAccess& to = destination.memory();
    block.require_feature(Feature::cp_async, to.site);
    block.companion<CopyQueue>().issue({.destination = block.shared.offset_of(destination.address()),
                                        .source = source,
                                        .bytes = sizeof(V),
                                        .element_bytes = to.element_bytes,
                                        .tensor = tensor,
                                        .site = to.site});
}

/// See simt::cuda::copy_async.
template <CopyCache cache = CopyCache::automatic, Reuse reuse = Reuse::unknown, class V, class Source>
void copy_async(const Ref<V, SharedAccess>& destination, const Ref<Source, GlobalAccess>& source) {
    static_assert(std::is_same_v<V, std::remove_const_t<Source>>, "source and destination are of one type");
    static_assert(reuse == Reuse::unknown || !AsyncCopyOf<cache, V>::through_l1,
                  "only copies that pass by L1 say a word to L2");
    source.memory().note_read(source.address(), sizeof(V));
    issue_copy<cache>(destination, source.address(), source.memory().tensor);
}

/// See simt::cuda::copy_async_or_zero.
template <CopyCache cache = CopyCache::automatic, class V, class T>
void copy_async_or_zero(const Ref<V, SharedAccess>& destination, const GlobalTensor<T, 2>& matrix, std::int64_t row,
                        std::int64_t column, SourceSite site = SourceSite::here()) {
    Block& block = Block::current();
    block.traffic.mark(block.thread(), site);  // it is an `if`
    if (row < matrix.extent(0) && column < matrix.extent(1))
        copy_async<cache>(destination, matrix.template vec<V>(row, column, site));
    else
        issue_copy<cache>(destination, nullptr, -1);
}

/// See simt::cuda::commit_copies.
inline void commit_copies(SourceSite site = SourceSite::here()) {
    Block& block = Block::current();
    block.require_feature(Feature::cp_async, site);
    block.companion<CopyQueue>().commit();
}

/// See simt::cuda::wait_copies.
template <int allowed>
void wait_copies(SourceSite site = SourceSite::here()) {
    static_assert(allowed >= 0);
    Block& block = Block::current();
    block.require_feature(Feature::cp_async, site);
    block.companion<CopyQueue>().wait(allowed, site);
}

/// See simt::cuda::wait_all_copies.
inline void wait_all_copies(SourceSite site = SourceSite::here()) {
    commit_copies(site);
    wait_copies<0>(site);
}

}  // namespace cpu
}  // namespace simt
