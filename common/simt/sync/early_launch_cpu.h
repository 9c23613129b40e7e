#pragma once

#include "common/simt/machine/block.h"

// See common/simt/sync/early_launch_cuda.h. Launches follow one another here; what is checked is that a kernel which
// may start early waits before it touches what the one before writes.

namespace simt {
inline namespace cpu {

inline void wait_for_previous_kernel() { Block::current().global.wait_for_previous_launch(Block::current().thread()); }
inline void let_next_kernel_start() { Block::current().global.let_next_launch_start(Block::current().thread()); }

}  // namespace cpu
}  // namespace simt
