#include "phase5_decoding/split_plan.h"

#include <gtest/gtest.h>

#include "common/simt/device/device.h"

namespace ladder {
namespace {

/// A kernel's constants, without the work.
const DecodeWork kPlain{}, kPipelined{.block_overhead = kPipelinedBlockOverhead, .speed_alone = kPipelinedSpeedAlone};

/// Of that kernel.
DecodeWork work_of(DecodeWork kernel, std::int64_t blocks, std::int64_t key_tiles, int resident) {
    kernel.blocks = blocks;
    kernel.key_tiles = key_tiles;
    kernel.resident_blocks = resident;
    return kernel;
}

TEST(SplitPlan, OneSplitWhereBlocksFillTheDeviceOrKeysAreFew) {
    for (const simt::DeviceProfile& profile : simt::device_profiles()) {
        const simt::Device device = device_from(profile);
        for (const DecodeWork& kernel : {kPlain, kPipelined})
            for (const int resident : {1, 2, 3, 4}) {
                const std::int64_t full = std::int64_t{resident} * device.multiprocessors;
                for (const std::int64_t tiles : {1, 2, 64, 4096})
                    for (const std::int64_t blocks : {full, 2 * full, 10 * full})
                        EXPECT_EQ(choose_splits(work_of(kernel, blocks, tiles, resident), device), 1) << profile.name;
                for (const std::int64_t blocks : {1, 8, 32})
                    EXPECT_EQ(choose_splits(work_of(kernel, blocks, 1, resident), device), 1) << profile.name;
            }
    }
}

// One block too many would hold up all the others for as long again.
TEST(SplitPlan, NearlyEmptyWavesAreAvoided) {
    for (const simt::DeviceProfile& profile : simt::device_profiles()) {
        const simt::Device device = device_from(profile);
        const DecodeWork work{device.multiprocessors + 1, 512, 1};
        const int splits = choose_splits(work, device);
        EXPECT_GT(splits, 1) << profile.name;
        EXPECT_LT(estimated_time(work, device, splits), 0.7 * estimated_time(work, device, 1)) << profile.name;
    }
}

TEST(SplitPlan, LongSequencesWithFewHeadsAreSplit) {
    for (const simt::DeviceProfile& profile : simt::device_profiles()) {
        const simt::Device device = device_from(profile);
        for (const std::int64_t blocks : {1, 2, 8}) {
            const int splits = choose_splits({blocks, 512, 4}, device);  // 65536 keys
            EXPECT_GE(splits * blocks, device.multiprocessors) << profile.name << ", blocks " << blocks;
            int before = 1;
            for (const std::int64_t tiles : {1, 8, 64, 512, 4096}) {
                const int now = choose_splits({blocks, tiles, 4}, device);
                EXPECT_GE(now, before) << profile.name << ": longer sequences, fewer splits";
                before = now;
            }
        }
    }
}

TEST(SplitPlan, StaysWithinItsLimitsAndIsNoWorseThanAnyOther) {
    for (const simt::DeviceProfile& profile : simt::device_profiles()) {
        const simt::Device device = device_from(profile);
        for (const DecodeWork& kernel : {kPlain, kPipelined})
            for (std::int64_t blocks = 1; blocks < 700; blocks += 13)
                for (const std::int64_t tiles : {1, 2, 3, 5, 17, 64, 100, 511}) {
                    const DecodeWork work = work_of(kernel, blocks, tiles, 4);
                    const int splits = choose_splits(work, device);
                    ASSERT_GE(splits, 1);
                    ASSERT_LE(splits, tiles);
                    ASSERT_LE(splits, kMaxSplits);
                    if (blocks >= 4 * device.multiprocessors) continue;
                    for (int other = 1; other <= tiles; ++other)
                        ASSERT_LE(estimated_time(work, device, splits), estimated_time(work, device, other))
                            << profile.name << ", blocks " << blocks << ", tiles " << tiles << ", " << other
                            << " splits";
                }
    }
}

// Memory is as busy with 128 blocks on 132 multiprocessors as with 132: a second wave is not worth the four.
TEST(SplitPlan, OneWaveThatIsNearlyFullIsEnoughForThePipelinedKernel) {
    const simt::Device device = device_from(simt::device_profile("h200"));
    for (const std::int64_t tiles : {16, 64, 512, 4096})
        EXPECT_EQ(choose_splits(work_of(kPipelined, 8, tiles, 1), device), 16) << tiles;
    DecodeWork work = work_of(kPipelined, 8, 4096, 1);
    work.speed_alone = kSpeedAlone;
    EXPECT_EQ(choose_splits(work, device), 33) << "as long as every wave takes the same time";
}

TEST(SplitPlan, BlocksComeInPairsWhereTheyFillTheirWaves) {
    const simt::Device device = device_from(simt::device_profile("h200"));  // 132 multiprocessors
    for (const std::int64_t blocks : {238, 256, 264, 476, 512, 528})
        EXPECT_TRUE(come_in_pairs(blocks, device)) << blocks;
    for (const std::int64_t blocks : {1, 128, 132, 140, 237, 265, 300, 396, 475, 529})
        EXPECT_FALSE(come_in_pairs(blocks, device)) << blocks;
}

TEST(SplitPlan, RowsFitTheirTile) {
    for (const int head_dim : {1, 64, 128, 129, 256})
        for (int rows = 1; rows <= 40; ++rows) {
            const int tile = row_tile_size(rows, head_dim);
            EXPECT_TRUE(tile >= rows || tile == (head_dim <= 128 ? 16 : 8)) << rows;
        }
}

}  // namespace
}  // namespace ladder
