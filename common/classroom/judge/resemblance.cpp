#include "common/classroom/judge/resemblance.h"

#include <algorithm>

#include "common/reference/comparison.h"

namespace ladder::classroom {
namespace {

bool agrees(const char* name, const torch::Tensor& got, const torch::Tensor& wrong, std::optional<double> magnitude) {
    return reference::compare(got, wrong, wrong.to(got.scalar_type()), magnitude, name).passed;
}

}  // namespace

bool resembles(const AttentionQuestion& question, const Attended& result, const Attended& wrong) {
    // Behind keys that nobody sees there may be NaN, and then a result of nothing but NaN need not come from
    // arithmetic.
    const bool nan_may_come_from_keys = question.form.mask != Mask::none || question.form.lengths;
    if (nan_may_come_from_keys && wrong.out.isnan().all().item<bool>()) return false;
    const torch::Tensor numbers = wrong.out.masked_select(at::isfinite(wrong.out)).abs();
    // A division by too small a sum makes results larger than the values, and their roundings with them.
    const double largest = numbers.numel() == 0 ? 0 : numbers.max().item<double>();
    const double magnitude = std::max({1.0, question.v.abs().max().item<double>(), largest});
    return agrees("O", result.out, wrong.out, magnitude) && agrees("LSE", result.lse, wrong.lse, {});
}

}  // namespace ladder::classroom
