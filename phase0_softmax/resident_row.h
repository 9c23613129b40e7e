#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "common/simt/device/device.h"
#include "common/simt/views/shared_layout.h"
#include "common/simt/views/tensor_argument.h"

namespace ladder {

/// Where a row waits for the second pass.
enum class Keep { registers, shared_memory, both };

/// How a block of resident_softmax.cuh works on a row.
struct ResidentRow {
    Keep keep;                 ///< where the row waits
    int warps;                 ///< of the block
    int kept_columns;          ///< of the row: a whole number of 16 bytes; with Keep::both, those in shared memory
    int columns_beside;        ///< of the row, after those: in registers; 0 but for Keep::both
    std::size_t shared_bytes;  ///< a state (m, l) for each warp, and unless it waits in registers the kept columns
};

/// A thread's part of a row that waits in registers: eight chunks of 16 bytes, which take 32 registers.
inline constexpr int kChunksInRegisters = 8;

/// Bytes of a row that registers of so many warps hold.
constexpr std::int64_t bytes_in_registers(int warps) { return std::int64_t{16} * kChunksInRegisters * 32 * warps; }

/// Warps of a block: 1, 2, 4 or 8 where rows wait in registers, 16 or 32 where they wait in shared memory. Measured on
/// an H200: with registers and more than eight warps too few blocks share a multiprocessor, and none computes while
/// another waits for memory.
inline constexpr int kMostWarpsWithRegisters = 8, kWarpsWithSharedMemory = 16, kMostWarps = 32;

/// For a row of `columns` columns, a whole number of 16 bytes. Up to 32 KiB it waits in registers, of as many warps as
/// that takes. A longer one waits in shared memory: all of it, or as much as the device has for one block (with
/// opt-in); where it fills the shared memory of a multiprocessor, one block has to keep that busy, and gets all the
/// warps it can. Of floats that find no room, registers take as many as they can. (Not of 16-bit elements: to unpack
/// eight at a time takes registers of its own, and there are 64 a thread. Measured on an H200: a third slower.)
inline ResidentRow resident_row(const simt::Device& device, simt::ElementType type, std::int64_t columns) {
    const std::int64_t element_bytes = std::int64_t(simt::element_bytes(type)), row_bytes = columns * element_bytes;
    const auto states = [](int warps) { return simt::shared_bytes<float>(1, 2 * warps); };
    for (int warps = 1; warps <= kMostWarpsWithRegisters; warps *= 2)
        if (row_bytes <= bytes_in_registers(warps))
            return {.keep = Keep::registers,
                    .warps = warps,
                    .kept_columns = int(columns),
                    .columns_beside = 0,
                    .shared_bytes = states(warps)};
    const int warps = row_bytes <= 64 * 1024 ? kWarpsWithSharedMemory : kMostWarps;
    const std::int64_t room = (device.shared_bytes_per_block_optin - std::int64_t(states(warps))) / 16 * 16;
    const std::int64_t kept_bytes = std::min(row_bytes, std::max<std::int64_t>(room, 0));
    constexpr std::int64_t longest = std::int64_t{1} << 30;  // columns that the kernel counts in 32 bits
    const bool both =
        kept_bytes < row_bytes && type == simt::ElementType::f32 && warps == kMostWarps && columns <= longest;
    const std::int64_t bytes_beside = both ? std::min(row_bytes - kept_bytes, bytes_in_registers(warps)) : 0;
    return {.keep = both ? Keep::both : Keep::shared_memory,
            .warps = warps,
            .kept_columns = int(kept_bytes / element_bytes),
            .columns_beside = int(bytes_beside / element_bytes),
            .shared_bytes = states(warps) + std::size_t(kept_bytes)};
}

}  // namespace ladder
