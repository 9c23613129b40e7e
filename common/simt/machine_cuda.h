#pragma once

// The GPU as a kernel sees it.

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstddef>

#include "common/simt/copies/async_copy_cuda.h"
#include "common/simt/copies/cached_access_cuda.h"
#include "common/simt/device/device.h"
#include "common/simt/launch/kernel_name.h"
#include "common/simt/matrix/tensor_core_cuda.h"
#include "common/simt/report/launch_log.h"
#include "common/simt/sync/early_launch_cuda.h"

namespace simt {
inline namespace cuda {

using f16 = __half;
using bf16 = __nv_bfloat16;

/// `bytes` of the block's shared memory, from `offset` on.
__device__ __forceinline__ void* arena_bytes(unsigned offset, std::size_t) {
    extern __shared__ __align__(128) unsigned char simt_shared_memory[];
    return simt_shared_memory + offset;
}

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

/// A refused launch leaves its code behind for cudaGetLastError(); the next launch must not trip over it.
inline void clear_last_error() { cudaGetLastError(); }

}  // namespace cuda
}  // namespace simt

#include "common/simt/views/bare_views.h"
#include "common/simt/views/bare_watch.h"
