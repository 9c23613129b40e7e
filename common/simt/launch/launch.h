#pragma once

// Written once in CUDA's own calls; each machine brings its own version of those.

#include <array>
#include <utility>

#include "common/simt/report/launch_log.h"
#include "common/simt/report/machine_error.h"

namespace simt {
inline namespace SIMT_NAMESPACE {

/// Blocks of each cluster of a launch.
inline std::array<unsigned, 3> cluster_of(const cudaLaunchConfig_t& config) {
    for (unsigned i = 0; i < config.numAttrs; ++i)
        if (config.attrs[i].id == cudaLaunchAttributeClusterDimension) {
            const auto& cluster = config.attrs[i].val.clusterDim;
            return {cluster.x, cluster.y, cluster.z};
        }
    return {1, 1, 1};
}

/// The attribute of a launch in clusters of so many blocks along each axis, 1 to 8 in all; see cluster_cuda.h.
///
///     cudaLaunchAttribute attribute = simt::cluster_dimension(2);
///     config.attrs = &attribute;
///     config.numAttrs = 1;
inline cudaLaunchAttribute cluster_dimension(unsigned x, unsigned y = 1, unsigned z = 1) {
    cudaLaunchAttribute attribute{};
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim.x = x;
    attribute.val.clusterDim.y = y;
    attribute.val.clusterDim.z = z;
    return attribute;
}

/// Launches `kernel`, first raising its shared-memory limit if it needs more than a block gets without asking, and
/// records the launch. Throws LaunchError with the CUDA call's own error if the device refuses.
template <class... Parameters, class... Arguments>
void launch(const char* name, const cudaLaunchConfig_t& config, void (*kernel)(Parameters...),
            Arguments&&... arguments) {
    const Device device = current_device();
    const std::size_t static_shared_bytes = static_shared_bytes_of(reinterpret_cast<const void*>(kernel));
    const auto check = [&](const char* call, cudaError_t code) {
        if (code == cudaSuccess) return;
        clear_last_error();
        throw LaunchError({.kernel = name,
                           .call = call,
                           .code = int(code),
                           .code_name = cudaGetErrorName(code),
                           .grid = {config.gridDim.x, config.gridDim.y, config.gridDim.z},
                           .block = {config.blockDim.x, config.blockDim.y, config.blockDim.z},
                           .required_shared_bytes = config.dynamicSmemBytes,
                           .static_shared_bytes = static_shared_bytes,
                           .shared_bytes_limit = std::size_t(device.shared_bytes_per_block_optin),
                           .max_threads_per_block = device.max_threads_per_block,
                           .cluster = cluster_of(config),
                           .has_clusters = device.has_feature(Feature::cluster),
                           .launch_bound = launch_bound_of(reinterpret_cast<const void*>(kernel)),
                           .device = device.name});
    };
    if (static_shared_bytes + config.dynamicSmemBytes > std::size_t(device.shared_bytes_per_block))
        check("cudaFuncSetAttribute",
              cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int(config.dynamicSmemBytes)));
    name_next_launch(name);
    check("cudaLaunchKernelEx", cudaLaunchKernelEx(&config, kernel, std::forward<Arguments>(arguments)...));
    if (LaunchLog::wanted())
        LaunchLog::record({.kernel = name,
                           .instance = instance_of(reinterpret_cast<const void*>(kernel)),
                           .grid = {config.gridDim.x, config.gridDim.y, config.gridDim.z},
                           .block = {config.blockDim.x, config.blockDim.y, config.blockDim.z},
                           .shared_bytes_per_block = config.dynamicSmemBytes,
                           .counted = kCountsTraffic,
                           .counters = last_launch_counters(),
                           .resources = resources_of(reinterpret_cast<const void*>(kernel),
                                                     int(config.blockDim.x * config.blockDim.y * config.blockDim.z),
                                                     config.dynamicSmemBytes)});
}

}  // namespace SIMT_NAMESPACE
}  // namespace simt
