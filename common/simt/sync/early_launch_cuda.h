#pragma once

#include "common/simt/device/architecture_cuda.h"

// Programmatic dependent launch: a kernel may be on the GPU, its blocks placed and its indices computed, while the one
// before it on the stream still runs (CUDA Programming Guide, "Programmatic Dependent Launch and Synchronization").
// It takes a device that has Feature::early_launch, and three parts:
//
//   - the launch allows it, with the attribute cudaLaunchAttributeProgrammaticStreamSerialization;
//   - the kernel before says when, with let_next_kernel_start();
//   - the kernel itself waits, with wait_for_previous_kernel(), before it touches what the one before writes, and
//     before it writes what that one may still read.
//
// Who calls let_next_kernel_start() before it waits, or never waits, lets the next kernel overtake the one before as
// well.
//
// Elsewhere launches follow one another in any case, and both functions do nothing. The CPU machine runs one launch
// after the other too, but diagnoses a touch before the wait.

namespace simt {
inline namespace cuda {

/// Waits until the kernels before this one on the stream have ended; what they wrote is visible to the whole grid then.
/// CUDA calls it cudaGridDependencySynchronize().
__device__ __forceinline__ void wait_for_previous_kernel() {
    if constexpr (kHasFeature<Feature::early_launch>) asm volatile("griddepcontrol.wait;" ::: "memory");
}

/// Once every block has called this or ended, a next kernel whose launch allows it may take whatever room there is. It
/// promises nothing about what has been written. CUDA calls it cudaTriggerProgrammaticLaunchCompletion().
__device__ __forceinline__ void let_next_kernel_start() {
    if constexpr (kHasFeature<Feature::early_launch>) asm volatile("griddepcontrol.launch_dependents;");
}

}  // namespace cuda
}  // namespace simt
