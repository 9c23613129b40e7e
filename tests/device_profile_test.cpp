#include "common/simt/device/device_profile.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>

namespace simt {
namespace {

struct Expected {
    std::pair<int, int> capability;
    int multiprocessors;
    int shared_optin;
};

TEST(DeviceProfile, KnowsEveryPromisedDevice) {
    const std::map<std::string_view, Expected> promised = {
        {"gtx1080", {{6, 1}, 20, 49152}},     {"v100", {{7, 0}, 80, 98304}},     {"t4", {{7, 5}, 40, 65536}},
        {"a100", {{8, 0}, 108, 166912}},      {"rtx3090", {{8, 6}, 82, 101376}}, {"rtx4090", {{8, 9}, 128, 101376}},
        {"h100", {{9, 0}, 132, 232448}},      {"h200", {{9, 0}, 132, 232448}},   {"b200", {{10, 0}, 148, 232448}},
        {"rtx5060ti", {{12, 0}, 36, 101376}},
    };
    for (const auto& [name, expected] : promised) {
        SCOPED_TRACE(name);
        const DeviceProfile& device = device_profile(name);
        EXPECT_EQ(device.name, name);
        EXPECT_EQ(std::pair(device.compute_major, device.compute_minor), expected.capability);
        EXPECT_EQ(device.multiprocessors, expected.multiprocessors);
        EXPECT_EQ(device.shared_bytes_per_block_optin, expected.shared_optin);
    }
    EXPECT_EQ(device_profiles().size(), promised.size()) << "a device was added: promise its figures above too";
}

TEST(DeviceProfile, NamesAndProductsAreUnique) {
    std::set<std::string_view> names;
    std::set<std::string_view> products;
    for (const DeviceProfile& device : device_profiles()) {
        EXPECT_TRUE(names.insert(device.name).second) << device.name;
        EXPECT_TRUE(products.insert(device.product).second) << device.product;
    }
}

TEST(DeviceProfile, LooksUpTheEntryOfTheTableItself) {
    for (const DeviceProfile& device : device_profiles()) EXPECT_EQ(&device_profile(device.name), &device);
}

TEST(DeviceProfile, UnknownNameIsRepeatedAndEveryKnownOneListed) {
    for (const std::string given : {"rtx4080", "", "RTX4090", "rtx", "h100 "}) {
        SCOPED_TRACE(given);
        try {
            device_profile(given);
            FAIL() << "an unknown name was accepted";
        } catch (const std::invalid_argument& error) {
            const std::string message = error.what();
            EXPECT_NE(message.find("\"" + given + "\""), std::string::npos) << message;
            for (const DeviceProfile& device : device_profiles()) {
                const std::string line = "\n  " + std::string(device.name) + "  (" + std::string(device.product) + ")";
                EXPECT_NE(message.find(line), std::string::npos) << line << "\n is missing from\n" << message;
            }
        }
    }
}

// The CUDA C++ Programming Guide's table once more, in the guide's own units, so that a slip in either copy shows.
struct Limits {
    int shared_kib_per_multiprocessor;
    int shared_kib_per_block;
    int warps_per_multiprocessor;
    int blocks_per_multiprocessor;
};

TEST(DeviceProfile, LimitsAreThoseOfTheComputeCapability) {
    const std::map<std::pair<int, int>, Limits> limits = {
        {{6, 1}, {96, 48, 64, 32}},   {{7, 0}, {96, 96, 64, 32}},    {{7, 5}, {64, 64, 32, 16}},
        {{8, 0}, {164, 163, 64, 32}}, {{8, 6}, {100, 99, 48, 16}},   {{8, 9}, {100, 99, 48, 24}},
        {{9, 0}, {228, 227, 64, 32}}, {{10, 0}, {228, 227, 64, 32}}, {{12, 0}, {100, 99, 48, 24}},
    };
    for (const DeviceProfile& device : device_profiles()) {
        SCOPED_TRACE(device.name);
        const auto found = limits.find({device.compute_major, device.compute_minor});
        ASSERT_NE(found, limits.end()) << "add this compute capability to the table above";
        const Limits& expected = found->second;
        EXPECT_EQ(device.shared_bytes_per_multiprocessor, expected.shared_kib_per_multiprocessor * 1024);
        EXPECT_EQ(device.shared_bytes_per_block_optin, expected.shared_kib_per_block * 1024);
        EXPECT_EQ(device.max_threads_per_multiprocessor, expected.warps_per_multiprocessor * device.warp_size);
        EXPECT_EQ(device.max_blocks_per_multiprocessor, expected.blocks_per_multiprocessor);
    }
}

TEST(DeviceProfile, FeaturesAreThoseOfTheDevice) {
    using enum Feature;
    const Features ampere = {split_warps, ldmatrix, cp_async, mbarrier, mma, cache_hints},
                   ada = {split_warps, ldmatrix, cp_async, mbarrier, mma, cache_hints, fp8};
    const Features hopper = {split_warps, ldmatrix,     cp_async, mbarrier, mma,    cache_hints,
                             fp8,         early_launch, tma,      wgmma,    cluster};
    const Features blackwell = {split_warps, ldmatrix, cp_async,     mbarrier, mma,
                                cache_hints, fp8,      early_launch, tma,      cluster};  // wgmma is gone again
    const std::map<std::string_view, Features> expected = {
        {"gtx1080", {}},          {"v100", {split_warps}}, {"t4", {split_warps, ldmatrix}},
        {"a100", ampere},         {"rtx3090", ampere},     {"rtx4090", ada},
        {"h100", hopper},         {"h200", hopper},        {"b200", blackwell},
        {"rtx5060ti", blackwell},
    };
    for (const DeviceProfile& device : device_profiles()) {
        SCOPED_TRACE(device.name);
        EXPECT_EQ(device.features, expected.at(device.name));
    }
}

TEST(Features, EachHasANameOfItsOwn) {
    std::set<std::string_view> names;
    for (const FeatureFacts& f : kFeatureFacts) EXPECT_TRUE(names.insert(name_of(f.feature)).second) << f.name;
}

TEST(DeviceProfile, LimitsThatNoComputeCapabilityChanges) {
    for (const DeviceProfile& device : device_profiles()) {
        SCOPED_TRACE(device.name);
        EXPECT_EQ(device.shared_bytes_per_block, 49152);
        EXPECT_EQ(device.reserved_shared_bytes_per_block, device.compute_major >= 8 ? 1024 : 0);
        EXPECT_EQ(device.registers_per_multiprocessor, 65536);
        EXPECT_EQ(device.registers_per_thread_max, 255);
        EXPECT_EQ(device.max_threads_per_block, 1024);
        EXPECT_EQ(device.warp_size, 32);
        EXPECT_EQ(device.max_grid_x, 2147483647);
        EXPECT_EQ(device.max_grid_y, 65535);
        EXPECT_EQ(device.max_grid_z, 65535);
        EXPECT_EQ(device.max_block_x, 1024);
        EXPECT_EQ(device.max_block_y, 1024);
        EXPECT_EQ(device.max_block_z, 64);
    }
}

TEST(DeviceProfile, OneBlockAtItsLimitFitsOnAMultiprocessor) {
    for (const DeviceProfile& device : device_profiles()) {
        SCOPED_TRACE(device.name);
        EXPECT_GE(device.shared_bytes_per_block_optin, device.shared_bytes_per_block);
        EXPECT_LE(device.shared_bytes_per_block_optin + device.reserved_shared_bytes_per_block,
                  device.shared_bytes_per_multiprocessor);
        EXPECT_LE(device.max_threads_per_block, device.max_threads_per_multiprocessor);
    }
}

int fp32_lanes_per_multiprocessor(const DeviceProfile& device) {
    const bool has_64 = device.compute_major == 7 || (device.compute_major == 8 && device.compute_minor == 0);
    return has_64 ? 64 : 128;
}

// A digit lost or a figure with sparsity shows as a clock that no GPU runs at.
TEST(DeviceProfile, PeakRatesImplyAPlausibleClock) {
    for (const DeviceProfile& device : device_profiles()) {
        SCOPED_TRACE(device.name);
        const double flop_per_clock = 2.0 * fp32_lanes_per_multiprocessor(device) * device.multiprocessors;
        const double clock_ghz = device.fp32_tflops * 1e3 / flop_per_clock;
        EXPECT_GT(clock_ghz, 1.3);
        EXPECT_LT(clock_ghz, 2.8);
    }
}

// fp16 operations a clock and multiprocessor, dense with fp32 accumulation: the generations' whitepapers.
TEST(DeviceProfile, TensorRateIsThatOfTheGeneration) {
    const std::map<std::pair<int, int>, double> flop_per_clock = {
        {{6, 1}, 0},   {{7, 0}, 1024}, {{7, 5}, 1024},  {{8, 0}, 2048}, {{8, 6}, 512},
        {{8, 9}, 512}, {{9, 0}, 4096}, {{10, 0}, 8192}, {{12, 0}, 512},
    };
    for (const DeviceProfile& device : device_profiles()) {
        SCOPED_TRACE(device.name);
        const double clock_ghz =
            device.fp32_tflops * 1e3 / (2.0 * fp32_lanes_per_multiprocessor(device) * device.multiprocessors);
        const double expected =
            flop_per_clock.at({device.compute_major, device.compute_minor}) * device.multiprocessors * clock_ghz * 1e-3;
        // Hopper and Blackwell run their tensor cores up to 8 % below the boost clock of the fp32 rate.
        EXPECT_NEAR(device.fp16_tensor_tflops, expected, 0.08 * expected);
    }
}

TEST(DeviceProfile, EveryFigureIsThereAndSaysWhereItComesFrom) {
    for (const DeviceProfile& device : device_profiles()) {
        SCOPED_TRACE(device.name);
        EXPECT_GT(device.memory_bandwidth_gb_s, 0);
        EXPECT_GE(device.l2_bytes, std::int64_t{1} << 20);
        EXPECT_FALSE(device.product.empty());
        EXPECT_FALSE(device.source.empty());
        EXPECT_FALSE(device.limits_source.empty());
    }
    EXPECT_DOUBLE_EQ(device_profile("h200").memory_bandwidth_gb_s, 4800);
    EXPECT_DOUBLE_EQ(device_profile("rtx5060ti").memory_bandwidth_gb_s, 448);
}

TEST(DeviceProfile, OldestComputeCapabilityFirst) {
    std::pair<int, int> previous = {0, 0};
    for (const DeviceProfile& device : device_profiles()) {
        const std::pair capability(device.compute_major, device.compute_minor);
        EXPECT_LE(previous, capability) << device.name;
        previous = capability;
    }
}

}  // namespace
}  // namespace simt
