#pragma once

#include <cstddef>

namespace simt {

/// What a kernel takes of a device, as its compiler and its driver say. All zero on the CPU machine.
struct KernelResources {
    int registers_per_thread = 0;         ///< of 32 bits
    int local_bytes_per_thread = 0;       ///< spilled registers and arrays that are indexed at run time
    std::size_t static_shared_bytes = 0;  ///< besides what the launch asks for
    int resident_blocks = 0;              ///< that fit on one multiprocessor together
};

/// By the CUDA runtime, for one of its kernels. Zeros where it cannot say. Null in a build without CUDA.
[[gnu::weak]] KernelResources cuda_kernel_resources(const void* kernel, int threads_per_block,
                                                    std::size_t dynamic_shared_bytes);

}  // namespace simt
