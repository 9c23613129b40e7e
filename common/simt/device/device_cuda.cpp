#include "common/simt/device/device.h"

#include <cuda_runtime_api.h>

#include <map>
#include <mutex>
#include <stdexcept>
#include <string>

namespace simt {
namespace {

int attribute(cudaDeviceAttr what, int device) {
    int value = 0;
    if (const cudaError_t code = cudaDeviceGetAttribute(&value, what, device); code != cudaSuccess)
        throw std::runtime_error(std::string("cannot ask CUDA device ") + std::to_string(device) +
                                 " for its limits: " + cudaGetErrorString(code));
    return value;
}

Device limits_of(int device) {
    cudaDeviceProp properties;
    if (const cudaError_t code = cudaGetDeviceProperties(&properties, device); code != cudaSuccess)
        throw std::runtime_error(std::string("no usable CUDA device: ") + cudaGetErrorString(code));
    const int major = attribute(cudaDevAttrComputeCapabilityMajor, device);
    const int minor = attribute(cudaDevAttrComputeCapabilityMinor, device);
    return {.name = properties.name,
            .multiprocessors = attribute(cudaDevAttrMultiProcessorCount, device),
            .shared_bytes_per_block = attribute(cudaDevAttrMaxSharedMemoryPerBlock, device),
            .shared_bytes_per_block_optin = attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, device),
            .shared_bytes_per_multiprocessor = attribute(cudaDevAttrMaxSharedMemoryPerMultiprocessor, device),
            .max_threads_per_block = attribute(cudaDevAttrMaxThreadsPerBlock, device),
            .max_threads_per_multiprocessor = attribute(cudaDevAttrMaxThreadsPerMultiProcessor, device),
            .compute_major = major,
            .compute_minor = minor,
            .features = features_of(major, minor)};
}

}  // namespace

Device cuda_device() {
    int device = 0;
    if (const cudaError_t code = cudaGetDevice(&device); code != cudaSuccess)
        throw std::runtime_error(std::string("no usable CUDA device: ") + cudaGetErrorString(code));
    // Asked once: the answer takes longer than a short kernel, and every launch wants it.
    static std::mutex mutex;
    static std::map<int, Device> known;
    const std::scoped_lock lock(mutex);
    const auto found = known.find(device);
    return found != known.end() ? found->second : known.emplace(device, limits_of(device)).first->second;
}

}  // namespace simt
