#pragma once

namespace simt {
inline namespace cpu {

/// How many blocks under way count requests, and so want to hear where their lanes come by: see
/// common/simt/machine/marked_branches.h. Changed atomically. Kernels read it as a plain number, so that the compiler
/// may keep it: while a block counts, the worker that runs it has made it larger itself.
[[gnu::visibility("hidden")]] extern int mark_listeners;

}  // namespace cpu
}  // namespace simt
