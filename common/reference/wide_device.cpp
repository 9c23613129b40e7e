#include "common/reference/wide_device.h"

#include <utility>

#include "common/simt/device/device_profile.h"

namespace ladder::reference {

simt::Device wide_device() { return simt::device_from(simt::device_profile("h100")); }

AttentionEntry on_wide_device(AttentionEntry entry) {
    return [entry = std::move(entry)](const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                      const AttentionOptions& options) {
        const simt::ScopedCpuDevice imitated(wide_device());
        return entry(q, k, v, options);
    };
}

}  // namespace ladder::reference
