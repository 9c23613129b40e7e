#pragma once

#include <cstdint>

#include "common/simt/device/device.h"

namespace ladder {

inline constexpr int kDecodeThreads = 128;  ///< per block: four warps
inline constexpr int kKeyTile = 128;        ///< keys that a block takes in one step, 32 a warp
inline constexpr int kMaxSplits = 1024;     ///< the most that a caller may ask for, and that a plan says

inline constexpr int kWidestHeadDimFor16Rows = 128;  ///< D beyond which 16 rows of O do not fit in registers

/// The query rows that a block handles together: how many there are, rounded up to one of the sizes that the kernel is
/// compiled for. Beyond 16 a thread's registers cannot hold more rows of O (8 where D > 128), and each further tile of
/// rows reads the keys again.
constexpr int row_tile_size(std::int64_t rows, std::int64_t head_dim) {
    const int largest = head_dim <= kWidestHeadDimFor16Rows ? 16 : 8;
    for (const int size : {1, 4, 8})
        if (rows <= size) return size;
    return largest;
}

/// Blocks that live on one multiprocessor at a time: what the kernel asks of the compiler, which then gives each thread
/// as many registers as 65536 allow. More rows need more registers, so fewer blocks fit.
constexpr int resident_blocks(int row_tile) { return row_tile == 1 ? 4 : row_tile == 4 ? 3 : 2; }

inline constexpr std::int64_t kMostPipelinedKeys = std::int64_t{1} << 30;  ///< its steps ahead must not leave an int
inline constexpr int kPipelinedRows = 16;  ///< of a block of decode_pipelined.cuh: as many as a tensor core's tile has

/// What a block takes to start, with its queries to fetch, and to end, with a merge of its warps, in units of one tile
/// of keys: 128 rows of K and of V. The pipelined kernel takes no longer for it, but its tiles pass faster.
inline constexpr double kBlockOverhead = 0.5;
inline constexpr double kPipelinedBlockOverhead = 2.0;  ///< likewise

/// How many times as fast a block's tiles pass where it has the memory to itself. The plain kernel's pace is set by its
/// arithmetic; the pipelined one's by memory, of which a multiprocessor can take 1.7 times its share and no more. (This
/// was measured on an H200, with bfloat16 and D = 128.)
inline constexpr double kSpeedAlone = 1.0;
inline constexpr double kPipelinedSpeedAlone = 1.7;  ///< likewise

inline constexpr int kMostPipelinedWarps = 8;  ///< of a block of decode_pipelined.cuh
inline constexpr int kFewPipelinedWarps = 4;  ///< where the device has no shared memory for so many, or come_in_pairs()
inline constexpr int kMostWarpsUpTo = 64;     ///< D up to which blocks always have kMostPipelinedWarps

/// What there is to share out.
struct DecodeWork {
    std::int64_t blocks = 1;                 ///< without any split: batch * KV heads * row tiles
    std::int64_t key_tiles = 1;              ///< tiles of kKeyTile keys in the longest sequence
    int resident_blocks = 4;                 ///< on one multiprocessor
    double block_overhead = kBlockOverhead;  ///< of one block, in units of one tile of keys
    double speed_alone = kSpeedAlone;        ///< how many times as fast a block is where the others have ended
};

/// How long decoding takes with so many splits, in units of the time that a block takes for one tile of keys.
double estimated_time(const DecodeWork& work, const simt::Device& device, int splits);

/// Whether so many blocks had better have half as many warps, and two of them a multiprocessor: where that makes half
/// as many waves, and nine tenths of their places are taken. Then one block reads while the other begins or ends.
bool come_in_pairs(std::int64_t blocks, const simt::Device& device);

/// Into how many pieces to split the keys of each sequence: the smallest count of least estimated time, and never more
/// than there are tiles of keys.
int choose_splits(const DecodeWork& work, const simt::Device& device);

}  // namespace ladder
