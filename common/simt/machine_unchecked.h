#pragma once

// The CPU machine without its checks: the same threads, barriers, warp collectives and device limits, but memory as
// bare as the GPU's. It is what the checks are measured against, and what AddressSanitizer and ThreadSanitizer look at.

#include "common/simt/language/cuda_names.h"
#include "common/simt/language/float16.h"
#include "common/simt/launch/run_grid.h"
#include "common/simt/sync/intrinsics_cpu.h"

namespace simt {
inline namespace unchecked {

inline constexpr bool kCountsTraffic = false;

inline void* arena_bytes(std::size_t offset, std::size_t bytes) { return Block::current().arena_bytes(offset, bytes); }

template <class... Parameters, class... Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Parameters...),
                               Arguments&&... arguments) {
    return launch_kernel(Checks::off, *config, kernel, std::forward<Arguments>(arguments)...);
}

}  // namespace unchecked
}  // namespace simt

using simt::unchecked::cudaLaunchKernelEx;

#include "common/simt/copies/async_copy_unchecked.h"
#include "common/simt/copies/cached_access_unchecked.h"
#include "common/simt/matrix/tensor_core_unchecked.h"
#include "common/simt/sync/early_launch_unchecked.h"
#include "common/simt/views/bare_views.h"
#include "common/simt/views/bare_watch.h"
