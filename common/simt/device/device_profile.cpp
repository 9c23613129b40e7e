#include "common/simt/device/device_profile.h"

#include <algorithm>
#include <array>
#include <sstream>
#include <stdexcept>

namespace simt {
namespace {

constexpr int kKiB = 1024;
constexpr std::int64_t kMiB = 1024 * 1024;

/// What every device of one compute capability has in common.
struct Capability {
    int major;
    int minor;
    int shared_kib_per_multiprocessor;
    int shared_kib_per_block_optin;
    int reserved_shared_bytes_per_block;
    int max_threads_per_multiprocessor;
    int max_blocks_per_multiprocessor;
    std::string_view source;
};

constexpr std::string_view kGuide13 =
    "CUDA C++ Programming Guide 13, Technical Specifications per Compute Capability; cuda::arch_traits in NVIDIA CCCL";
// Release 13 of the guide dropped the columns before 7.5.
constexpr std::string_view kArchTraits = "cuda::arch_traits in NVIDIA CCCL";

// clang-format off
//                              cc    shared/SM  opt-in  reserved  threads/SM  blocks/SM
constexpr Capability kCc61  = { 6, 1,        96,     48,        0,       2048,        32, kArchTraits};
constexpr Capability kCc70  = { 7, 0,        96,     96,        0,       2048,        32, kArchTraits};
constexpr Capability kCc75  = { 7, 5,        64,     64,        0,       1024,        16, kGuide13};
constexpr Capability kCc80  = { 8, 0,       164,    163,     kKiB,       2048,        32, kGuide13};
constexpr Capability kCc86  = { 8, 6,       100,     99,     kKiB,       1536,        16, kGuide13};
constexpr Capability kCc89  = { 8, 9,       100,     99,     kKiB,       1536,        24, kGuide13};
constexpr Capability kCc90  = { 9, 0,       228,    227,     kKiB,       2048,        32, kGuide13};
constexpr Capability kCc100 = {10, 0,       228,    227,     kKiB,       2048,        32, kGuide13};
constexpr Capability kCc120 = {12, 0,       100,     99,     kKiB,       1536,        24, kGuide13};
// clang-format on

/// What tells one product from another of the same compute capability; fields as in DeviceProfile.
struct Product {
    std::string_view name;
    std::string_view product;
    int multiprocessors;
    double memory_bandwidth_gb_s;
    double fp32_tflops;
    double fp16_tensor_tflops;
    std::int64_t l2_bytes;
    std::string_view source;
};

constexpr DeviceProfile profile(const Capability& capability, const Product& product) {
    return {
        .name = product.name,
        .product = product.product,
        .compute_major = capability.major,
        .compute_minor = capability.minor,
        .features = features_of(capability.major, capability.minor),
        .multiprocessors = product.multiprocessors,
        .shared_bytes_per_block = 48 * kKiB,
        .shared_bytes_per_block_optin = capability.shared_kib_per_block_optin * kKiB,
        .shared_bytes_per_multiprocessor = capability.shared_kib_per_multiprocessor * kKiB,
        .reserved_shared_bytes_per_block = capability.reserved_shared_bytes_per_block,
        .registers_per_multiprocessor = 64 * 1024,
        .registers_per_thread_max = 255,
        .max_threads_per_block = 1024,
        .max_threads_per_multiprocessor = capability.max_threads_per_multiprocessor,
        .max_blocks_per_multiprocessor = capability.max_blocks_per_multiprocessor,
        .memory_bandwidth_gb_s = product.memory_bandwidth_gb_s,
        .fp32_tflops = product.fp32_tflops,
        .fp16_tensor_tflops = product.fp16_tensor_tflops,
        .l2_bytes = product.l2_bytes,
        .source = product.source,
        .limits_source = capability.source,
    };
}

// No NVIDIA document was found for these figures; the `source` of each says what stands in for it:
//   rtx5060ti  L2 size and tensor rate,
//   h200       L2 size (the datasheet gives none; the driver reports 10 MiB more than the H100 whitepaper),
//   b200       number of multiprocessors.
// Where documents disagree: NVIDIA gives the B200 8 TB/s, the driver's bus width and clock multiply to 7.7 TB/s;
// and 126 MB of L2, the driver reports 126.5 MiB.
constexpr std::array kProfiles = {
    profile(kCc61, {.name = "gtx1080",
                    .product = "NVIDIA GeForce GTX 1080",
                    .multiprocessors = 20,
                    .memory_bandwidth_gb_s = 320,
                    .fp32_tflops = 8.9,
                    .fp16_tensor_tflops = 0,
                    .l2_bytes = 2 * kMiB,
                    .source = "NVIDIA GeForce GTX 1080 whitepaper (Pascal, 2016)"}),
    profile(kCc70, {.name = "v100",
                    .product = "NVIDIA Tesla V100 SXM2",
                    .multiprocessors = 80,
                    .memory_bandwidth_gb_s = 900,
                    .fp32_tflops = 15.7,
                    .fp16_tensor_tflops = 125,
                    .l2_bytes = 6 * kMiB,
                    .source = "NVIDIA A100 Tensor Core GPU Architecture whitepaper, comparison with V100"}),
    profile(kCc75, {.name = "t4",
                    .product = "NVIDIA T4",
                    .multiprocessors = 40,
                    .memory_bandwidth_gb_s = 320,
                    .fp32_tflops = 8.1,
                    .fp16_tensor_tflops = 65,
                    .l2_bytes = 4 * kMiB,
                    .source = "NVIDIA T4 datasheet (2560 CUDA cores, 64 per multiprocessor); L2 as reported by the "
                              "CUDA driver"}),
    profile(kCc80, {.name = "a100",
                    .product = "NVIDIA A100 80GB SXM",
                    .multiprocessors = 108,
                    .memory_bandwidth_gb_s = 2039,
                    .fp32_tflops = 19.5,
                    .fp16_tensor_tflops = 312,
                    .l2_bytes = 40 * kMiB,
                    .source = "NVIDIA A100 Tensor Core GPU Architecture whitepaper; bandwidth of the 80 GB part from "
                              "the NVIDIA A100 datasheet"}),
    profile(kCc86, {.name = "rtx3090",
                    .product = "NVIDIA GeForce RTX 3090",
                    .multiprocessors = 82,
                    .memory_bandwidth_gb_s = 936,
                    .fp32_tflops = 35.6,
                    .fp16_tensor_tflops = 71,
                    .l2_bytes = 6 * kMiB,
                    .source = "NVIDIA Ampere GA102 GPU Architecture whitepaper, appendix A"}),
    profile(kCc89, {.name = "rtx4090",
                    .product = "NVIDIA GeForce RTX 4090",
                    .multiprocessors = 128,
                    .memory_bandwidth_gb_s = 1008,
                    .fp32_tflops = 82.6,
                    .fp16_tensor_tflops = 165.2,
                    .l2_bytes = 72 * kMiB,
                    .source = "NVIDIA Ada GPU Architecture whitepaper, appendix A"}),
    profile(kCc90, {.name = "h100",
                    .product = "NVIDIA H100 SXM5 80GB",
                    .multiprocessors = 132,
                    .memory_bandwidth_gb_s = 3350,
                    .fp32_tflops = 66.9,
                    .fp16_tensor_tflops = 989.4,
                    .l2_bytes = 50 * kMiB,
                    .source = "NVIDIA H100 Tensor Core GPU Architecture whitepaper; bandwidth from the NVIDIA H100 "
                              "datasheet"}),
    profile(kCc90, {.name = "h200",
                    .product = "NVIDIA H200 SXM 141GB",
                    .multiprocessors = 132,
                    .memory_bandwidth_gb_s = 4800,
                    .fp32_tflops = 66.9,
                    .fp16_tensor_tflops = 989.4,
                    .l2_bytes = 60 * kMiB,
                    .source = "NVIDIA H200 datasheet, whose rates are those of the H100 whitepaper, rounded; L2 and "
                              "multiprocessors as reported by the CUDA driver"}),
    profile(kCc100, {.name = "b200",
                     .product = "NVIDIA B200",
                     .multiprocessors = 148,
                     .memory_bandwidth_gb_s = 8000,
                     .fp32_tflops = 75,
                     .fp16_tensor_tflops = 2250,
                     .l2_bytes = 126 * kMiB,
                     .source = "NVIDIA HGX B200 specifications, divided by its 8 GPUs (and by 2 for dense rates); "
                               "bandwidth likewise from NVIDIA DGX B200; L2 from the NVIDIA Blackwell Tuning Guide; "
                               "multiprocessors as reported by the CUDA driver"}),
    // 512 dense operations a clock and multiprocessor, as on GA102 and AD102: 36 * 512 * 2.572 GHz = 47.4 TFLOP/s.
    profile(kCc120, {.name = "rtx5060ti",
                     .product = "NVIDIA GeForce RTX 5060 Ti",
                     .multiprocessors = 36,
                     .memory_bandwidth_gb_s = 448,
                     .fp32_tflops = 23.7,
                     .fp16_tensor_tflops = 47.4,
                     .l2_bytes = 32 * kMiB,
                     .source = "NVIDIA GeForce RTX 5060 family specifications (4608 CUDA cores, 128 per "
                               "multiprocessor; boost 2.57 GHz; 28 Gbps on 128 bits), fp32 rate derived; tensor rate "
                               "derived from the rate per multiprocessor of the Ampere and Ada whitepapers; L2 from "
                               "press specifications"}),
};

constexpr bool fits_together(const DeviceProfile& device) {
    return device.shared_bytes_per_block <= device.shared_bytes_per_block_optin &&
           device.shared_bytes_per_block_optin + device.reserved_shared_bytes_per_block <=
               device.shared_bytes_per_multiprocessor &&
           device.max_threads_per_block <= device.max_threads_per_multiprocessor &&
           device.max_threads_per_multiprocessor % device.warp_size == 0 &&
           device.max_blocks_per_multiprocessor * device.warp_size <= device.max_threads_per_multiprocessor;
}
static_assert(std::all_of(kProfiles.begin(), kProfiles.end(), fits_together));

}  // namespace

std::span<const DeviceProfile> device_profiles() { return kProfiles; }

const DeviceProfile& device_profile(std::string_view name) {
    const auto found = std::find_if(kProfiles.begin(), kProfiles.end(),
                                    [name](const DeviceProfile& device) { return device.name == name; });
    if (found != kProfiles.end()) return *found;

    std::ostringstream message;
    message << "unknown device profile \"" << name << "\"; use one of these names:";
    for (const DeviceProfile& device : kProfiles) {
        message << "\n  " << device.name << "  (" << device.product << ")";
    }
    throw std::invalid_argument(message.str());
}

}  // namespace simt
