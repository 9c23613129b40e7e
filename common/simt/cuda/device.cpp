#include "common/simt/device.h"

#include <cuda_runtime_api.h>

#include <stdexcept>

namespace simt {
namespace {

int attribute(cudaDeviceAttr what, int device) {
    int value = 0;
    if (const cudaError_t code = cudaDeviceGetAttribute(&value, what, device); code != cudaSuccess)
        throw std::runtime_error(std::string("cannot ask CUDA device ") + std::to_string(device) +
                                 " for its limits: " + cudaGetErrorString(code));
    return value;
}

}  // namespace

Device cuda_device() {
    int device = 0;
    cudaDeviceProp properties;
    if (cudaError_t code = cudaGetDevice(&device);
        code != cudaSuccess || (code = cudaGetDeviceProperties(&properties, device)) != cudaSuccess)
        throw std::runtime_error(std::string("no usable CUDA device: ") + cudaGetErrorString(code));
    return {.name = properties.name,
            .multiprocessors = attribute(cudaDevAttrMultiProcessorCount, device),
            .shared_bytes_per_block = attribute(cudaDevAttrMaxSharedMemoryPerBlock, device),
            .shared_bytes_per_block_optin = attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, device),
            .shared_bytes_per_multiprocessor = attribute(cudaDevAttrMaxSharedMemoryPerMultiprocessor, device),
            .max_threads_per_block = attribute(cudaDevAttrMaxThreadsPerBlock, device),
            .max_threads_per_multiprocessor = attribute(cudaDevAttrMaxThreadsPerMultiProcessor, device),
            .compute_major = attribute(cudaDevAttrComputeCapabilityMajor, device),
            .compute_minor = attribute(cudaDevAttrComputeCapabilityMinor, device)};
}

}  // namespace simt
