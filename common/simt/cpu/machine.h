#pragma once

// The CPU machine as a kernel sees it: the same names that nvcc gives, each checked.

#include "common/simt/cpu/async_copy.h"
#include "common/simt/cpu/cached_access.h"
#include "common/simt/cpu/cuda_names.h"
#include "common/simt/cpu/early_launch.h"
#include "common/simt/cpu/float16.h"
#include "common/simt/cpu/intrinsics.h"
#include "common/simt/cpu/launch.h"
#include "common/simt/cpu/tensor_core.h"
#include "common/simt/cpu/views.h"
#include "common/simt/cpu/watch.h"

namespace simt {
inline namespace cpu {

inline constexpr bool kCountsTraffic = true;

template <class... Parameters, class... Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Parameters...),
                               Arguments&&... arguments) {
    return launch_kernel(Checks::on, *config, kernel, std::forward<Arguments>(arguments)...);
}

}  // namespace cpu
}  // namespace simt

using simt::cpu::cudaLaunchKernelEx;
