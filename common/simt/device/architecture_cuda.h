#pragma once

#include <cstdio>

#include "common/simt/device/features.h"

// The instruction sets of the architectures that a build compiles for. Code for one that lacks an instruction ends the
// launch with a message and an error; host entries refuse such a device first (require_feature).

namespace simt {
inline namespace cuda {

/// Whether the code that is being compiled may use a feature. True in the host's pass over device code.
#if !defined(__CUDA_ARCH__)
template <Feature feature>
inline constexpr bool kHasFeature = true;
#else
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
inline constexpr bool kIsArchitectureSpecific = true;
#else
inline constexpr bool kIsArchitectureSpecific = false;
#endif
template <Feature feature>
inline constexpr bool kHasFeature = features_of(__CUDA_ARCH__ / 100, __CUDA_ARCH__ / 10 % 10).has(feature) &&
                                    (kIsArchitectureSpecific ||
                                     !kFeatureFacts[static_cast<unsigned>(feature)].architecture_specific);
#endif

/// Like a failed assert(), but in release builds too.
__device__ inline void refuse(const char* message) {
    printf("%s\n", message);
    __trap();
}

}  // namespace cuda
}  // namespace simt
