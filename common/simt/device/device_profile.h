/// Real devices, described by their public figures.
///
/// The CPU machine enforces the limits of the chosen device, and roofline sums use its rates. So a kernel written
/// without a GPU still meets the walls of a real one: a launch that an RTX 5060 Ti would refuse is refused on the CPU.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string_view>

#include "common/simt/device/features.h"

namespace simt {

/// One device. Sizes are in bytes and powers of two (48 KiB = 49152); rates are decimal (1 GB/s = 10^9 bytes/s).
struct DeviceProfile {
    std::string_view name;     ///< What `--profile` takes, such as "rtx5060ti".
    std::string_view product;  ///< What the maker calls it, such as "NVIDIA GeForce RTX 5060 Ti".

    int compute_major;    ///< 12 of compute capability 12.0.
    int compute_minor;    ///< 0 of compute capability 12.0.
    Features features;    ///< What it has that others lack.
    int multiprocessors;  ///< Each runs blocks of its own.

    int shared_bytes_per_block;           ///< What a block gets without asking.
    int shared_bytes_per_block_optin;     ///< The most it gets after `cudaFuncSetAttribute`.
    int shared_bytes_per_multiprocessor;  ///< What all blocks resident on one multiprocessor share.
    int reserved_shared_bytes_per_block;  ///< What CUDA takes from that for itself, once per resident block.

    int registers_per_multiprocessor;  ///< Registers of 32 bits.
    int registers_per_thread_max;      ///< What a compiler may give one thread.

    /// The hardware's slots.
    int max_threads_per_block;
    int max_threads_per_multiprocessor;
    int max_blocks_per_multiprocessor;
    int warp_size = 32;

    /// The most blocks of a grid, and threads of a block, along each axis.
    std::int64_t max_grid_x = std::numeric_limits<std::int32_t>::max();
    std::int64_t max_grid_y = 65535;
    std::int64_t max_grid_z = 65535;
    int max_block_x = 1024;
    int max_block_y = 1024;
    int max_block_z = 64;

    double memory_bandwidth_gb_s;  ///< Peak of the memory interface, reads and writes together.
    double fp32_tflops;            ///< Peak without tensor cores, at boost clock; a fused multiply-add counts as two.
    double fp16_tensor_tflops;     ///< Dense peak, accumulating in fp32; 0 for a device without tensor cores.
    std::int64_t l2_bytes;         ///< The whole L2 cache.

    std::string_view source;         ///< Where the figures of this product come from, and which are derived.
    std::string_view limits_source;  ///< Where the limits of its compute capability come from.
};

/// Every known device, oldest compute capability first. The storage lives as long as the program.
std::span<const DeviceProfile> device_profiles();

/// The device with exactly this `DeviceProfile::name`.
///
/// @throws std::invalid_argument for any other name; the message repeats it and lists every name with its product.
const DeviceProfile& device_profile(std::string_view name);

}  // namespace simt
