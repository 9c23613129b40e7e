#pragma once

#include <atomic>

namespace simt {
inline namespace cpu {

/// How many blocks under way count requests, and so want to hear where their lanes come by: see
/// common/simt/machine/marked_branches.h.
[[gnu::visibility("hidden")]] extern constinit std::atomic<int> mark_listeners;

}  // namespace cpu
}  // namespace simt
