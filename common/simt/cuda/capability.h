#pragma once

// The instruction sets of the architectures that a build compiles for. Code for one that lacks an instruction ends the
// launch with cudaErrorAssert and a message; host entries refuse such a device first (require_compute_capability).

namespace simt {
inline namespace cuda {

#if !defined(__CUDA_ARCH__)
inline constexpr int kArchitecture = 1000000;  // the host's pass over device code
#else
inline constexpr int kArchitecture = __CUDA_ARCH__;  // 750 for compute capability 7.5
#endif

/// Like a failed assert(), but in release builds too.
__device__ inline void refuse(const char* message) { __assert_fail(message, __FILE__, __LINE__, "simt"); }

}  // namespace cuda
}  // namespace simt
