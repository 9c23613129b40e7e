#include "common/attention/wide_tiles.h"

#include <c10/core/ScalarType.h>

#include <stdexcept>

#include "common/attention/check.h"
#include "common/attention/machine.h"

namespace ladder {
namespace {

constexpr int64_t kWideQueryRows = 128;

}  // namespace

bool wide_tiles_pay(const torch::Tensor& q, std::size_t shared_bytes) {
    if (q.scalar_type() != torch::kFloat32 || q.size(3) > kWidestWideHeadDim) return false;
    const simt::Device device = device_limits(q.device());
    const int64_t blocks = q.size(0) * q.size(1) * ((q.size(2) + kWideQueryRows - 1) / kWideQueryRows);
    return device.has_feature(simt::Feature::cp_async) &&
           shared_bytes <= std::size_t(device.shared_bytes_per_block_optin) && blocks >= device.multiprocessors;
}

void check_wide_tiles(const std::string& kernel, const torch::Tensor& q, std::size_t shared_bytes) {
    if (q.scalar_type() != torch::kFloat32)
        throw std::invalid_argument(kernel + ": q is " + c10::toString(q.scalar_type()) + "; accepts float32");
    if (q.size(3) > kWidestWideHeadDim)
        throw std::invalid_argument(kernel + ": the head dimension is " + std::to_string(q.size(3)) +
                                    "; accepts up to " + std::to_string(kWidestWideHeadDim));
    simt::require_feature(device_limits(q.device()), simt::Feature::cp_async, kernel);
    check_shared_memory(kernel, shared_bytes, q.device(), "a smaller head dimension needs less");
}

}  // namespace ladder
