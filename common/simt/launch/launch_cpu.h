#pragma once

#include <utility>

#include "common/simt/launch/run_grid.h"

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
