#include "common/reference/gradient_comparison.h"

#include <limits>

#include "common/reference/gradient_bound.h"
#include "common/reference/gradient_oracle.h"

namespace ladder::reference {

Comparison compare_gradients(const AttentionGradients& actual, const torch::Tensor& q, const torch::Tensor& k,
                             const torch::Tensor& v, const AttentionResult& given, const torch::Tensor& dout,
                             const AttentionOptions& options, const std::optional<torch::Tensor>& dlse) {
    const bool is_float32 = q.scalar_type() == torch::kFloat32;
    const AttentionGradients oracle = gradient_oracle(q, k, v, dout, options, dlse);
    const AttentionGradients bound = gradient_bound(q, k, v, given, dout, options, dlse);
    const AttentionGradients fair =
        is_float32 ? AttentionGradients{} : gradients_low_precision(q, k, v, dout, options, dlse);

    Comparison worst;
    bool passed = true;
    std::string report;
    const auto judge = [&](const char* name, torch::Tensor AttentionGradients::*gradient) {
        // error_floor() turns it back into the largest bound.
        const auto of_sums = [&] {
            return (bound.*gradient).max().item<double>() / (16.0 * std::numeric_limits<float>::epsilon());
        };
        Comparison one = is_float32 ? compare_within(actual.*gradient, oracle.*gradient, bound.*gradient, name)
                                    : compare(actual.*gradient, oracle.*gradient, fair.*gradient, of_sums(), name,
                                              /*factor=*/3.0);
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

}  // namespace ladder::reference
