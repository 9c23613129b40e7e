#include "common/classroom/judge/resemblance.h"

#include <algorithm>

#include "common/reference/comparison.h"

namespace ladder::classroom {
namespace {

bool agrees(const torch::Tensor& got, const torch::Tensor& wrong, std::optional<double> magnitude) {
    return reference::compare(got.to(torch::kFloat32), wrong, wrong.to(torch::kFloat32), magnitude).passed;
}

}  // namespace

bool resembles(const Attended& result, const Attended& wrong, double magnitude) {
    const torch::Tensor numbers = wrong.out.masked_select(at::isfinite(wrong.out)).abs();
    // A division by too small a sum makes results larger than the values, and their roundings with them.
    const double largest = numbers.numel() == 0 ? 0 : numbers.max().item<double>();
    return agrees(result.out, wrong.out, std::max(magnitude, largest)) && agrees(result.lse, wrong.lse, {});
}

}  // namespace ladder::classroom
