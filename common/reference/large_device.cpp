#include "common/reference/large_device.h"

#include <utility>

#include "common/simt/device/device_profile.h"

namespace ladder::reference {

simt::Device large_device() { return simt::device_from(simt::device_profile("h100")); }

AttentionEntry on_large_device(AttentionEntry entry) {
    return [entry = std::move(entry)](const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                      const AttentionOptions& options) {
        const simt::ScopedCpuDevice imitated(large_device());
        return entry(q, k, v, options);
    };
}

}  // namespace ladder::reference
