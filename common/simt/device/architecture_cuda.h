#pragma once

#include <cstdio>

// The instruction sets of the architectures that a build compiles for. Code for one that lacks an instruction ends the
// launch with a message and an error; host entries refuse such a device first (require_compute_capability).

namespace simt {
inline namespace cuda {

/// The architecture that is compiled for: 750 for compute capability 7.5.
#if !defined(__CUDA_ARCH__)
inline constexpr int kArchitecture = 1000000;  // the host's pass over device code
#else
inline constexpr int kArchitecture = __CUDA_ARCH__;
#endif

/// Like a failed assert(), but in release builds too.
__device__ inline void refuse(const char* message) {
    printf("%s\n", message);
    __trap();
}

}  // namespace cuda
}  // namespace simt
