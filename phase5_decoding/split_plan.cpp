#include "phase5_decoding/split_plan.h"

#include <algorithm>

namespace ladder {
namespace {

// In units of one tile of keys. A combine kernel costs a launch, and each split one more step of its loop.
constexpr double kCombineLaunch = 0.5;
constexpr double kMergePerSplit = 0.02;

std::int64_t blocks_at_once(const DecodeWork& work, const simt::Device& device) {
    return std::int64_t{work.resident_blocks} * std::max(1, device.multiprocessors);
}

}  // namespace

double estimated_time(const DecodeWork& work, const simt::Device& device, int splits) {
    const std::int64_t slots = blocks_at_once(work, device);
    const std::int64_t waves = (work.blocks * splits + slots - 1) / slots;
    const std::int64_t tiles_per_block = (work.key_tiles + splits - 1) / splits;
    const double combine = splits == 1 ? 0.0 : kCombineLaunch + kMergePerSplit * splits;
    return double(waves) * (double(tiles_per_block) + work.block_overhead) + combine;
}

int choose_splits(const DecodeWork& work, const simt::Device& device) {
    int best = 1;
    for (int splits = 2; splits <= std::min<std::int64_t>(work.key_tiles, kMaxSplits); ++splits)
        if (estimated_time(work, device, splits) < estimated_time(work, device, best)) best = splits;
    return best;
}

}  // namespace ladder
