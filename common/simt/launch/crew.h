#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>

#include "common/simt/launch/block_queue.h"
#include "common/simt/machine/block.h"
#include "common/simt/report/launch_log.h"

namespace simt {
inline namespace cpu {

/// What came of the blocks that one worker ran.
struct WorkerResult {
    Counters counted{};
    std::exception_ptr error{};
    std::uint64_t failed_block = UINT64_MAX;  ///< whose error it is
};

/// Takes blocks from the queue and runs them on the calling OS thread, until there are none. A block that waits for
/// others keeps its place on the device, and others run in the meantime; another one begins only when all that the
/// worker has begun wait. `worker`: its number among those of the launch.
WorkerResult run_blocks(const Block::Launch& launch, BlockQueue& queue, int worker);

}  // namespace cpu
}  // namespace simt
