#pragma once

#include <tuple>
#include <utility>

#include "common/simt/device/device.h"
#include "common/simt/launch/cuda_calls_cpu.h"
#include "common/simt/launch/kernel_name.h"
#include "common/simt/launch/launch_bounds.h"
#include "common/simt/launch/program_symbols.h"
#include "common/simt/machine/block.h"
#include "common/simt/report/launch_log.h"

namespace simt {
inline namespace cpu {

/// A kernel's address, as the key under which its attributes are kept.
using KernelKey = const void*;

/// Opts a kernel in to more dynamic shared memory than 48 KiB; refuses what the device does not have.
cudaError_t set_max_dynamic_shared_bytes(KernelKey kernel, int bytes);

/// Checks the launch against the device's limits, then runs its blocks on the worker threads. Returns what the CUDA
/// runtime returns for a launch that the device cannot do; throws MachineError for a kernel that does something wrong.
cudaError_t run_grid(Checks checks, KernelKey kernel, const cudaLaunchConfig_t& config, void (*body)(const void*),
                     const void* arguments);

/// The device whose limits the launches of this program must keep.
inline Device current_device() { return cpu_device(); }

/// The name that the next launch on this thread goes by in messages.
void name_next_launch(const char* kernel);

/// Codes are returned, never left behind.
inline void clear_last_error() {}

/// The kernel's name with its template arguments, unless the program was stripped of its symbols.
inline std::string instance_of(KernelKey kernel) { return instance_from_symbol(symbol_of(kernel)); }

/// What the last launch on this thread counted.
Counters last_launch_counters();

/// Only a compiler for GPUs knows: not this one.
inline KernelResources resources_of(KernelKey, int, std::size_t) { return {}; }

/// CUDA's call, for the one attribute that the ladder sets.
template <class... Parameters>
cudaError_t cudaFuncSetAttribute(void (*kernel)(Parameters...), cudaFuncAttribute, int bytes) {
    return set_max_dynamic_shared_bytes(reinterpret_cast<KernelKey>(kernel), bytes);
}

/// Every thread of `config.gridDim` blocks of `config.blockDim` threads runs kernel(arguments…). Returns when all have.
/// See run_grid() for what it gives back.
template <class... Parameters, class... Arguments>
cudaError_t launch_kernel(Checks checks, const cudaLaunchConfig_t& config, void (*kernel)(Parameters...),
                          Arguments&&... arguments) {
    struct Call {
        void (*kernel)(Parameters...);
        std::tuple<Parameters...> arguments;
    };
    const Call call{kernel, std::tuple<Parameters...>(std::forward<Arguments>(arguments)...)};
    return run_grid(
        checks, reinterpret_cast<KernelKey>(kernel), config,
        [](const void* erased) {
            const Call& call = *static_cast<const Call*>(erased);
            std::apply(call.kernel, call.arguments);
        },
        &call);
}

}  // namespace cpu
}  // namespace simt

using simt::cpu::cudaFuncSetAttribute;
