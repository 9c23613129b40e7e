#include "common/reference/gradient_comparison.h"

#include <limits>

#include "common/reference/gradient_bound.h"
#include "common/reference/gradient_oracle.h"

namespace ladder::reference {

ExpectedGradients::ExpectedGradients(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                     const AttentionResult& given, const torch::Tensor& dout,
                                     const AttentionOptions& options, const std::optional<torch::Tensor>& dlse)
    : oracle_(gradient_oracle(q, k, v, dout, options, dlse)),
      bound_(gradient_bound(q, k, v, given, dout, options, dlse)) {
    if (q.scalar_type() != torch::kFloat32) fair_ = gradients_low_precision(q, k, v, dout, options, dlse);
}

GradientComparisons ExpectedGradients::compare_each(const AttentionGradients& actual) const {
    const auto judge = [&](const char* name, torch::Tensor AttentionGradients::*gradient) {
        if (!fair_.dq.defined()) return compare_within(actual.*gradient, oracle_.*gradient, bound_.*gradient, name);
        // error_floor() turns it back into the largest bound.
        const double of_sums = (bound_.*gradient).max().item<double>() / (16.0 * std::numeric_limits<float>::epsilon());
        return reference::compare(actual.*gradient, oracle_.*gradient, fair_.*gradient, of_sums, name, /*factor=*/3.0);
    };
    return {.dq = judge("dq", &AttentionGradients::dq),
            .dk = judge("dk", &AttentionGradients::dk),
            .dv = judge("dv", &AttentionGradients::dv)};
}

Comparison ExpectedGradients::compare(const AttentionGradients& actual) const {
    const GradientComparisons each = compare_each(actual);
    Comparison worst;
    bool passed = true;
    std::string report;
    for (const Comparison* one : {&each.dq, &each.dk, &each.dv}) {
        passed = passed && one->passed;
        report += (report.empty() ? "" : one->passed ? "; " : "\n") + one->report;
        if (worst.report.empty() || one->max_abs_error * worst.bound > worst.max_abs_error * one->bound) worst = *one;
    }
    worst.passed = passed;
    worst.report = report;
    return worst;
}

Comparison compare_gradients(const AttentionGradients& actual, const torch::Tensor& q, const torch::Tensor& k,
                             const torch::Tensor& v, const AttentionResult& given, const torch::Tensor& dout,
                             const AttentionOptions& options, const std::optional<torch::Tensor>& dlse) {
    return ExpectedGradients(q, k, v, given, dout, options, dlse).compare(actual);
}

}  // namespace ladder::reference
