// How many blocks a multiprocessor holds, against numbers worked out by hand from NVIDIA's rules, and the names of
// kernels, which tell whose registers were recorded.

#include <gtest/gtest.h>

#include "common/simt/device/occupancy.h"
#include "common/simt/launch/kernel_name.h"

namespace simt {
namespace {

Occupancy on(const char* device, const BlockResources& block) { return occupancy(device_profile(device), block); }

TEST(Occupancy, ThreadsAndBlocks) {
    const Occupancy full = on("h200", {.threads = 256});
    EXPECT_EQ(full.resident_blocks, 8);
    EXPECT_EQ(full.limiter, Limiter::threads);
    EXPECT_DOUBLE_EQ(full.fraction(), 1.0);

    const Occupancy small = on("h200", {.threads = 32});  // 64 warps would fit, 32 blocks do
    EXPECT_EQ(small.resident_blocks, 32);
    EXPECT_EQ(small.limiter, Limiter::blocks);
    EXPECT_DOUBLE_EQ(small.fraction(), 0.5);

    EXPECT_EQ(on("rtx4090", {.threads = 1024}).resident_blocks, 1) << "48 warps hold one block of 32";
    EXPECT_EQ(on("rtx4090", {.threads = 33}).resident_warps, 48) << "33 threads are two warps";
}

TEST(Occupancy, SharedMemoryWithWhatCudaReserves) {
    // 228 KiB on a multiprocessor: two blocks of 113 KiB and 1 KiB reserved for each fill it to the last byte.
    EXPECT_EQ(on("h100", {.threads = 128, .shared_bytes = 113 * 1024}).resident_blocks, 2);
    EXPECT_EQ(on("h100", {.threads = 128, .shared_bytes = 113 * 1024 + 1}).resident_blocks, 1);
    EXPECT_EQ(on("h100", {.threads = 128, .shared_bytes = 113 * 1024}).limiter, Limiter::shared_memory);
    // Rounded up to 128 bytes: nine blocks of 11 KiB and 128 bytes are 128 bytes too many for 100 KiB.
    EXPECT_EQ(on("rtx4090", {.threads = 32, .shared_bytes = 10 * 1024}).blocks_by_shared_memory, 9);
    EXPECT_EQ(on("rtx4090", {.threads = 32, .shared_bytes = 10 * 1024 + 1}).blocks_by_shared_memory, 8);
    EXPECT_EQ(on("rtx4090", {.threads = 32, .shared_bytes = 61 * 128 - 1024}).blocks_by_shared_memory, 13);
    // Before compute capability 8 nothing is reserved, and the unit is 256 bytes.
    EXPECT_EQ(on("t4", {.threads = 32, .shared_bytes = 32 * 1024}).blocks_by_shared_memory, 2);
    EXPECT_EQ(on("t4", {.threads = 32, .shared_bytes = 257}).blocks_by_shared_memory, 128);
}

TEST(Occupancy, RegistersComeInUnitsAndPartitions) {
    // 168 registers: 5376 a warp, three of them in each partition's 16384, so 12 warps and three blocks of four.
    const Occupancy fa2 = on("h200", {.threads = 128, .shared_bytes = 0, .registers_per_thread = 168});
    EXPECT_EQ(fa2.blocks_by_registers, 3);
    EXPECT_EQ(fa2.limiter, Limiter::registers);
    EXPECT_EQ(on("h200", {.threads = 128, .registers_per_thread = 32}).resident_blocks, 16) << "2048 threads";
    EXPECT_EQ(on("h200", {.threads = 128, .registers_per_thread = 33}).blocks_by_registers, 12) << "33 are 40";
    EXPECT_EQ(on("h200", {.threads = 1024, .registers_per_thread = 65}).resident_blocks, 0) << "never starts";
    EXPECT_EQ(on("h200", {.threads = 32, .registers_per_thread = 256}).resident_blocks, 0) << "255 is the most";
}

TEST(Occupancy, UnknownRegistersLimitNothing) {
    EXPECT_EQ(on("a100", {.threads = 128, .registers_per_thread = 0}).limiter, Limiter::threads);
}

TEST(KernelName, IsTheSameForBothMachines) {
    const std::string expected = "any_forward_kernel<f16, 64>";
    EXPECT_EQ(
        instance_from_symbol("_ZN6ladder3cpu18any_forward_kernelIN4simt3cpu3f16ELi64EEEvNS0_14ForwardTensorsIT_EE"),
        expected);
    EXPECT_EQ(instance_from_symbol("_ZN6ladder4cuda18any_forward_kernelI6__halfLi64EEEvNS0_14ForwardTensorsIT_EE"),
              expected);
    for (const char* const symbol : {"_ZN6ladder3cpu13sample_kernelIN4simt3cpu4e4m3EEEvNS0_15StandardTensorsIT_EE",
                                     "_ZN6ladder4cuda13sample_kernelI13__nv_fp8_e4m3EEvNS0_15StandardTensorsIT_EE"})
        EXPECT_EQ(instance_from_symbol(symbol), "sample_kernel<e4m3>");
    EXPECT_EQ(instance_from_symbol("_ZN6ladder4cuda13sample_kernelIfEEvNS0_15StandardTensorsIT_EE"),
              "sample_kernel<float>");
    EXPECT_EQ(instance_from_symbol("main"), "");
    EXPECT_EQ(instance_from_symbol(nullptr), "");
}

}  // namespace
}  // namespace simt
