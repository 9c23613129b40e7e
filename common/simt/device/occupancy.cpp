#include "common/simt/device/occupancy.h"

#include <algorithm>
#include <array>
#include <limits>
#include <tuple>
#include <utility>

namespace simt {
namespace {

constexpr int kPartitions = 4;  // compute capability 6.1 and from 7.0 on; 6.0 has two
constexpr int kRegisterUnit = 256;

constexpr std::int64_t round_up(std::int64_t value, std::int64_t unit) { return (value + unit - 1) / unit * unit; }

int blocks_by_registers(const DeviceProfile& device, int warps, int registers_per_thread) {
    if (registers_per_thread == 0) return std::numeric_limits<int>::max();
    if (registers_per_thread > device.registers_per_thread_max) return 0;
    const int per_warp = int(round_up(std::int64_t{registers_per_thread} * device.warp_size, kRegisterUnit));
    // A launch is admitted as if it took registers in all partitions alike.
    if (per_warp * round_up(warps, kPartitions) > device.registers_per_multiprocessor) return 0;
    const int warps_per_partition = device.registers_per_multiprocessor / kPartitions / per_warp;
    return warps_per_partition * kPartitions / warps;
}

}  // namespace

const char* name_of(Limiter limiter) {
    switch (limiter) {
        case Limiter::threads:
            return "threads";
        case Limiter::blocks:
            return "blocks";
        case Limiter::shared_memory:
            return "shared memory";
        case Limiter::registers:
            return "registers";
    }
    return "unknown";
}

Occupancy occupancy(const DeviceProfile& device, const BlockResources& block) {
    const int warps = std::max(1, (block.threads + device.warp_size - 1) / device.warp_size);
    const std::int64_t shared_unit = device.compute_major >= 8 ? 128 : 256;
    const std::int64_t shared =
        round_up(std::int64_t(block.shared_bytes) + device.reserved_shared_bytes_per_block, shared_unit);

    Occupancy result;
    result.max_warps = device.max_threads_per_multiprocessor / device.warp_size;
    result.blocks_by_threads = result.max_warps / warps;
    result.blocks_by_slots = device.max_blocks_per_multiprocessor;
    result.blocks_by_shared_memory =
        shared ? int(device.shared_bytes_per_multiprocessor / shared) : std::numeric_limits<int>::max();
    result.blocks_by_registers = blocks_by_registers(device, warps, block.registers_per_thread);

    const std::array limits = {std::pair(result.blocks_by_threads, Limiter::threads),
                               std::pair(result.blocks_by_slots, Limiter::blocks),
                               std::pair(result.blocks_by_shared_memory, Limiter::shared_memory),
                               std::pair(result.blocks_by_registers, Limiter::registers)};
    std::tie(result.resident_blocks, result.limiter) =
        *std::ranges::min_element(limits, {}, &std::pair<int, Limiter>::first);
    result.resident_warps = result.resident_blocks * warps;
    return result;
}

}  // namespace simt
