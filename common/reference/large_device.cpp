#include "common/reference/large_device.h"

#include <utility>

#include "common/simt/device/device_profile.h"

namespace ladder::reference {

simt::Device large_device() { return simt::device_from(simt::device_profile("h100")); }

namespace {

AttentionEntry on(const simt::Device& device, AttentionEntry entry) {
    return [device, entry = std::move(entry)](const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                              const AttentionOptions& options) {
        const simt::ScopedCpuDevice imitated(device);
        return entry(q, k, v, options);
    };
}

}  // namespace

AttentionEntry on_large_device(AttentionEntry entry) { return on(large_device(), std::move(entry)); }

AttentionEntry on_one_multiprocessor(AttentionEntry entry) {
    simt::Device device = large_device();
    device.multiprocessors = 1;
    return on(device, std::move(entry));
}

}  // namespace ladder::reference
