#pragma once

#include <cstddef>

#include "common/simt/device/device_profile.h"

namespace simt {

/// What one block takes of a multiprocessor.
struct BlockResources {
    int threads = 0;               ///< of the block
    std::size_t shared_bytes = 0;  ///< static and dynamic together
    int registers_per_thread = 0;  ///< 0: unknown, so registers limit nothing
};

/// What there is too little of for one block more. Where several run out together, the first of these.
enum class Limiter { threads, blocks, shared_memory, registers };

/// In words: "shared memory".
const char* name_of(Limiter limiter);

/// How many blocks of a kernel live on one multiprocessor at a time, and why not more.
struct Occupancy {
    /// Blocks that fit if nothing else mattered.
    int blocks_by_threads = 0, blocks_by_slots = 0, blocks_by_shared_memory = 0, blocks_by_registers = 0;

    int resident_blocks = 0;             ///< that do fit
    int resident_warps = 0;              ///< of those blocks
    int max_warps = 0;                   ///< slots of the multiprocessor
    Limiter limiter = Limiter::threads;  ///< why not one block more

    /// Warp slots in use, of all.
    double fraction() const { return double(resident_warps) / max_warps; }
};

/// By the rules of NVIDIA's occupancy calculator (cuda_occupancy.h in the CUDA Toolkit):
///
///   threads         whole warps, against the multiprocessor's warp slots
///   blocks          against its block slots
///   shared memory   the block's, and what CUDA reserves for itself once per block, rounded up to 128 bytes (256 before
///                   compute capability 8), against what the multiprocessor has with the largest carve-out
///   registers       32 a thread's, rounded up to 256 a warp, against a quarter of the multiprocessor's: each of its
///                   four partitions has registers of its own, and a warp lives in one
///
/// Registers for which a block cannot start at all give 0 blocks. The profile's own limits on a block are not checked.
Occupancy occupancy(const DeviceProfile& device, const BlockResources& block);

}  // namespace simt
