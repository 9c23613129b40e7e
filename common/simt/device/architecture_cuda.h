#pragma once

#include <cstdint>
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

/// Where an object lies in the block's shared memory, as instructions with `.shared` take it: 32 bits, and 0 is where
/// that memory begins.
__device__ __forceinline__ std::uint32_t shared_address(const void* object) {
    return static_cast<std::uint32_t>(__cvta_generic_to_shared(object));
}

/// Like a failed assert(), but in release builds too.
__device__ inline void refuse(const char* message) {
    printf("%s\n", message);
    __trap();
}

}  // namespace cuda
}  // namespace simt
