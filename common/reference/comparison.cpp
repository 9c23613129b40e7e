#include "common/reference/comparison.h"

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <sstream>
#include <vector>

#include "common/reference/low_precision.h"
#include "common/reference/oracle.h"

namespace ladder::reference {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct DtypeLimits {
    double epsilon;
    double smallest_normal;
};

template <class T>
constexpr DtypeLimits limits_of() {
    return {static_cast<double>(std::numeric_limits<T>::epsilon()), static_cast<double>(std::numeric_limits<T>::min())};
}

DtypeLimits limits_of(torch::ScalarType dtype) {
    switch (dtype) {
        case torch::kFloat32:
            return limits_of<float>();
        case torch::kFloat16:
            return limits_of<c10::Half>();
        case torch::kBFloat16:
            return limits_of<c10::BFloat16>();
        default:
            TORCH_CHECK(false, "reference: no error bound for dtype ", dtype,
                        "; it is known for float32, float16 and bfloat16");
    }
}

double largest(const torch::Tensor& x, const torch::Tensor& where) {
    const auto chosen = x.masked_select(where);
    return chosen.numel() == 0 ? 0.0 : chosen.max().item<double>();
}

double largest_finite_magnitude(const torch::Tensor& x) {
    const auto wide = x.detach().to(torch::kFloat64);
    return largest(wide.abs(), at::isfinite(wide));
}

template <class T>
std::string text(const T& value) {
    std::ostringstream stream;
    stream << value;
    return stream.str();
}

/// "(b 0, h 1, s 32, d 5)" for the shapes that have names, "(3, 17)" for others.
std::string index_text(int64_t flat, at::IntArrayRef sizes) {
    constexpr std::array kNames{"b ", "h ", "s ", "d "};
    const bool named = sizes.size() == 3 || sizes.size() == 4;
    std::vector<std::string> parts(sizes.size());
    for (size_t n = sizes.size(); n-- > 0;) {
        parts[n] = fmt::format("{}{}", named ? kNames[n] : "", flat % sizes[n]);
        flat /= sizes[n];
    }
    return fmt::format("({})", fmt::join(parts, ", "));
}

Comparison failed(std::string report) { return {false, kInfinity, 0.0, std::move(report)}; }

}  // namespace

double error_floor(torch::ScalarType dtype, double max_abs_oracle, double magnitude) {
    const auto limits = limits_of(dtype);
    const double rounding = limits.epsilon * std::max(max_abs_oracle, limits.smallest_normal);
    const double accumulation = 16.0 * limits_of<float>().epsilon * magnitude;
    return rounding + accumulation;
}

Comparison compare(const torch::Tensor& actual, const torch::Tensor& oracle, const torch::Tensor& low_precision,
                   std::optional<double> magnitude, std::string_view name) {
    const auto dtype = low_precision.scalar_type();
    if (!actual.defined())
        return failed(fmt::format("{}: undefined tensor, expected shape {}", name, text(oracle.sizes())));
    if (actual.scalar_type() != dtype) {
        return failed(fmt::format("{}: dtype {}, expected {}", name, text(actual.scalar_type()), text(dtype)));
    }
    if (actual.sizes() != oracle.sizes()) {
        return failed(fmt::format("{}: shape {}, expected {}", name, text(actual.sizes()), text(oracle.sizes())));
    }
    if (actual.device() != oracle.device()) {
        return failed(fmt::format("{}: on device {}, expected {}", name, text(actual.device()), text(oracle.device())));
    }

    const auto got = actual.detach().to(torch::kFloat64);
    const auto expected = oracle.detach().to(torch::kFloat64);
    const auto fair = low_precision.detach().to(torch::kFloat64);
    const auto finite = at::isfinite(expected);

    const double low_precision_error = largest((fair - expected).abs(), finite.logical_and(at::isfinite(fair)));
    const double max_abs_oracle = largest_finite_magnitude(expected);
    const double floor = error_floor(dtype, max_abs_oracle, magnitude.value_or(max_abs_oracle));
    const double bound = 2.0 * low_precision_error + floor;

    const auto same_unusual = got.eq(expected).logical_or(got.isnan().logical_and(expected.isnan()));
    const auto missing = got.isnan().logical_and(expected.isnan().logical_not());
    // What is wrong counts as infinitely far off, so that the worst element is never hidden by a NaN.
    auto error = at::where(finite, (got - expected).abs(), at::zeros_like(expected));
    error = error.masked_fill(finite.logical_and(at::isfinite(got).logical_not()), kInfinity)
                .masked_fill(finite.logical_or(same_unusual).logical_not(), kInfinity);

    Comparison result;
    result.bound = bound;
    result.max_abs_error = error.numel() == 0 ? 0.0 : error.max().item<double>();
    result.passed = result.max_abs_error <= bound;
    const auto budget = fmt::format("bound {:.2e} = 2 x {:.2e} (plain torch in {}) + {:.2e}", bound,
                                    low_precision_error, text(dtype), floor);
    if (result.passed) {
        result.report = fmt::format("{}: max error {:.2e}, {}", name, result.max_abs_error, budget);
        return result;
    }
    const auto wrong = error.gt(bound).sum().item<int64_t>();
    const auto never_written = missing.sum().item<int64_t>();
    const auto worst = error.reshape({-1}).argmax().item<int64_t>();
    result.report = fmt::format(
        "{}: {} of {} elements wrong{}\n  worst at {}: got {:.9g}, expected {:.9g}, off by {:.2e}\n  {}", name, wrong,
        error.numel(), never_written ? fmt::format(", {} never written or NaN", never_written) : "",
        index_text(worst, oracle.sizes()), got.reshape({-1})[worst].item<double>(),
        expected.reshape({-1})[worst].item<double>(), error.reshape({-1})[worst].item<double>(), budget);
    return result;
}

Comparison compare_attention(const AttentionResult& actual, const torch::Tensor& q, const torch::Tensor& k,
                             const torch::Tensor& v, const AttentionOptions& options,
                             const std::optional<torch::Tensor>& kv_lengths, Lse lse) {
    const auto oracle = attention_oracle(q, k, v, options, kv_lengths);
    const auto fair = attention_low_precision(q, k, v, options, kv_lengths);
    auto result = compare(actual.out, oracle.out, fair.out, largest_finite_magnitude(v));
    if (lse == Lse::absent) return result;
    const double lse_magnitude = std::max(1.0, largest_finite_magnitude(oracle.lse));
    const auto lse_result = compare(actual.lse, oracle.lse, fair.lse, lse_magnitude, "lse");
    result.passed = result.passed && lse_result.passed;
    result.report += (result.passed ? "; " : "\n") + lse_result.report;
    return result;
}

}  // namespace ladder::reference
