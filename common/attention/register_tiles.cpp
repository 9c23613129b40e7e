#include "common/attention/register_tiles.h"

#include <stdexcept>

#include "common/attention/check.h"
#include "common/attention/machine.h"
#include "common/torch/torch.h"

namespace ladder {

bool register_tiles_pay(const torch::Tensor& q, std::size_t shared_bytes) {
    if (q.scalar_type() != torch::kFloat32) return false;
    const simt::Device device = device_limits(q.device());
    return device.has_feature(simt::Feature::cp_async) &&
           shared_bytes <= std::size_t(device.shared_bytes_per_block_optin);
}

void check_register_tiles(const std::string& kernel, const torch::Tensor& q, std::size_t shared_bytes) {
    check_register_tiles(kernel, q, shared_bytes, kMaxHeadDim);
}

void check_register_tiles(const std::string& kernel, const torch::Tensor& q, std::size_t shared_bytes, int64_t widest) {
    if (q.scalar_type() != torch::kFloat32)
        throw std::invalid_argument(kernel + ": q is " + c10::toString(q.scalar_type()) + "; accepts float32");
    if (q.size(3) > widest)
        throw std::invalid_argument(kernel + ": the head dimension is " + std::to_string(q.size(3)) +
                                    "; accepts up to " + std::to_string(widest));
    simt::require_feature(device_limits(q.device()), simt::Feature::cp_async, kernel);
    check_shared_memory(kernel, shared_bytes, q.device(), "a smaller head dimension needs less");
}

}  // namespace ladder
