#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <string>
#include <unordered_map>

#include "common/simt/device/device.h"
#include "common/simt/device/kernel_resources.h"
#include "common/simt/launch/kernel_name.h"
#include "common/simt/report/launch_log.h"

// What simt::launch() asks of a GPU besides CUDA's own calls.

namespace simt {
inline namespace cuda {

inline Device current_device() { return cuda_device(); }
inline constexpr bool kCountsTraffic = false;
inline void name_next_launch(const char*) {}
inline Counters last_launch_counters() { return {}; }
inline KernelResources resources_of(const void* kernel, int threads_per_block, std::size_t dynamic_shared_bytes) {
    return cuda_kernel_resources(kernel, threads_per_block, dynamic_shared_bytes);
}

/// The kernel's name with its template arguments; empty before CUDA 12.3, which first tells.
inline std::string instance_of(const void* kernel) {
    const char* symbol = nullptr;
#if CUDART_VERSION >= 12030
    if (cudaFuncGetName(&symbol, kernel) != cudaSuccess) symbol = nullptr;
#endif
    return instance_from_symbol(symbol);
}

/// What the kernel's `__shared__` arrays take. CUDA is asked once: launches are timed.
inline std::size_t static_shared_bytes_of(const void* kernel) {
    thread_local std::unordered_map<const void*, std::size_t> known;
    const auto [entry, is_new] = known.try_emplace(kernel);
    cudaFuncAttributes attributes{};
    if (is_new && cudaFuncGetAttributes(&attributes, kernel) == cudaSuccess) entry->second = attributes.sharedSizeBytes;
    return entry->second;
}

/// CUDA refuses the launch itself, and says no more than that.
inline unsigned launch_bound_of(const void*) { return 0; }

/// A refused launch leaves its code behind for cudaGetLastError(); the next launch must not trip over it.
inline void clear_last_error() { cudaGetLastError(); }

}  // namespace cuda
}  // namespace simt
