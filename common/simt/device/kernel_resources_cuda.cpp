#include "common/simt/device/kernel_resources.h"

#include <cuda_runtime_api.h>

namespace simt {

KernelResources cuda_kernel_resources(const void* kernel, int threads_per_block, std::size_t dynamic_shared_bytes) {
    KernelResources resources;
    cudaFuncAttributes attributes{};
    if (cudaFuncGetAttributes(&attributes, kernel) == cudaSuccess) {
        resources.registers_per_thread = attributes.numRegs;
        resources.local_bytes_per_thread = int(attributes.localSizeBytes);
        resources.static_shared_bytes = attributes.sharedSizeBytes;
    }
    int blocks = 0;
    if (cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, threads_per_block, dynamic_shared_bytes) ==
        cudaSuccess)
        resources.resident_blocks = blocks;
    cudaGetLastError();  // a question that cannot be answered must not look like a failed launch later
    return resources;
}

}  // namespace simt
