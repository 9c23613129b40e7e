#pragma once

#include <utility>

#include "common/simt/launch/run_grid.h"

namespace simt {
inline namespace unchecked {

inline constexpr bool kCountsTraffic = false;

template <class... Parameters, class... Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Parameters...),
                               Arguments&&... arguments) {
    return launch_kernel(Checks::off, *config, kernel, std::forward<Arguments>(arguments)...);
}

}  // namespace unchecked
}  // namespace simt

using simt::unchecked::cudaLaunchKernelEx;
