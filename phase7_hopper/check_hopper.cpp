#include "phase7_hopper/check_hopper.h"

#include <limits>
#include <stdexcept>

#include "common/attention/check.h"
#include "common/attention/machine.h"

namespace ladder {

void check_hopper(const std::string& name, const torch::Tensor& q, std::size_t shared_bytes) {
    if (q.scalar_type() == torch::kFloat32)
        throw std::invalid_argument(name +
                                    ": q is Float; accepts float16 and bfloat16, which tensor cores multiply. For "
                                    "float32 there are phases 3 and 4: fa2_forward and causal_forward");
    const simt::Device device = device_limits(q.device());
    if (!device.has_feature(simt::Feature::wgmma))
        throw std::runtime_error(
            simt::feature_complaint(device, simt::Feature::wgmma, name) +
            ". On other devices phase 6 computes the same, mma_forward; the CPU machine imitates one "
            "of these with --profile h100");
    if (q.size(0) * q.size(1) * ((q.size(2) + 63) / 64) > std::numeric_limits<int>::max())
        throw std::invalid_argument(name + ": q has more than 2^31 - 1 tiles of 64 queries; split the batch");
    check_shared_memory(name, shared_bytes, q.device(), "a smaller head dimension needs less");
}

}  // namespace ladder
