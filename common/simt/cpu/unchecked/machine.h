#pragma once

// The CPU machine without its checks: the same threads, barriers, warp collectives and device limits, but memory as
// bare as the GPU's. It is what the checks are measured against, and what AddressSanitizer and ThreadSanitizer look at.

#include "common/simt/cpu/cuda_names.h"
#include "common/simt/cpu/float16.h"
#include "common/simt/cpu/intrinsics.h"
#include "common/simt/cpu/launch.h"

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

#include "common/simt/bare_views.h"
#include "common/simt/bare_watch.h"
#include "common/simt/cpu/unchecked/async_copy.h"
#include "common/simt/cpu/unchecked/cached_access.h"
#include "common/simt/cpu/unchecked/early_launch.h"
#include "common/simt/cpu/unchecked/tensor_core.h"
