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

std::int64_t tiles_per_block(const DecodeWork& work, int splits) { return (work.key_tiles + splits - 1) / splits; }

}  // namespace

double estimated_time(const DecodeWork& work, const simt::Device& device, int splits) {
    const std::int64_t slots = blocks_at_once(work, device), blocks = work.blocks * splits;
    const std::int64_t full_waves = blocks / slots, rest = blocks % slots;
    const double tiles = double(tiles_per_block(work, splits));
    const double share_in_rest = std::max(double(rest) / double(slots), 1.0 / work.speed_alone);
    const double last_wave = rest == 0 ? 0.0 : tiles * share_in_rest + work.block_overhead;
    const double combine = splits == 1 ? 0.0 : kCombineLaunch + kMergePerSplit * splits;
    return double(full_waves) * (tiles + work.block_overhead) + last_wave + combine;
}

bool come_in_pairs(std::int64_t blocks, const simt::Device& device) {
    constexpr double nearly_full = 0.9;
    const std::int64_t multiprocessors = std::max(1, device.multiprocessors), pairs = 2 * multiprocessors;
    const std::int64_t waves_of_pairs = (blocks + pairs - 1) / pairs;
    const std::int64_t waves = (blocks + multiprocessors - 1) / multiprocessors;
    return waves == 2 * waves_of_pairs && double(blocks) >= nearly_full * double(waves * multiprocessors);
}

int choose_splits(const DecodeWork& work, const simt::Device& device) {
    int best = 1;
    for (int splits = 2; splits <= std::min<std::int64_t>(work.key_tiles, kMaxSplits); ++splits)
        if (estimated_time(work, device, splits) < estimated_time(work, device, best)) best = splits;
    return best;
}

}  // namespace ladder
