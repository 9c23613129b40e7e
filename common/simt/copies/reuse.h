#pragma once

namespace simt {

/// What is known of data that passes through the L2 cache: whether anyone will want it again. The GPU evicts what
/// nobody wants first, so that the rest stays. Without Feature::cache_hints it makes no difference, and on the CPU
/// machine, which models no cache, none at all.
enum class Reuse {
    unknown,  ///< the cache's own order
    none,     ///< read or written once: evicted first
    soon,     ///< read again shortly: evicted last
};

}  // namespace simt
