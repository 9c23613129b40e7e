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

Comparison ExpectedGradients::compare(const AttentionGradients& actual) const {
    const bool is_float32 = !fair_.dq.defined();
    Comparison worst;
    bool passed = true;
    std::string report;
    const auto judge = [&](const char* name, torch::Tensor AttentionGradients::*gradient) {
        // error_floor() turns it back into the largest bound.
        const auto of_sums = [&] {
            return (bound_.*gradient).max().item<double>() / (16.0 * std::numeric_limits<float>::epsilon());
        };
        Comparison one = is_float32 ? compare_within(actual.*gradient, oracle_.*gradient, bound_.*gradient, name)
                                    : reference::compare(actual.*gradient, oracle_.*gradient, fair_.*gradient,
                                                         of_sums(), name, /*factor=*/3.0);
        passed = passed && one.passed;
        report += (report.empty() ? "" : one.passed ? "; " : "\n") + one.report;
        if (worst.report.empty() || one.max_abs_error * worst.bound > worst.max_abs_error * one.bound) worst = one;
    };
    judge("dq", &AttentionGradients::dq);
    judge("dk", &AttentionGradients::dk);
    judge("dv", &AttentionGradients::dv);
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
