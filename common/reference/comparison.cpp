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

#include "common/reference/comparison_notes.h"
#include "common/reference/error_bound.h"
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

/// What makes two tensors impossible to compare; empty if nothing does.
std::string misfit(const torch::Tensor& actual, const torch::Tensor& oracle, torch::ScalarType dtype) {
    if (!actual.defined()) return fmt::format("undefined tensor, expected shape {}", text(oracle.sizes()));
    if (actual.scalar_type() != dtype)
        return fmt::format("dtype {}, expected {}", text(actual.scalar_type()), text(dtype));
    if (actual.sizes() != oracle.sizes())
        return fmt::format("shape {}, expected {}", text(actual.sizes()), text(oracle.sizes()));
    if (actual.device() != oracle.device())
        return fmt::format("on device {}, expected {}", text(actual.device()), text(oracle.device()));
    return {};
}

/// |actual - oracle|, in float64. What is wrong in kind counts as infinitely far off, so that the worst element is
/// never hidden by a NaN.
torch::Tensor errors_of(const torch::Tensor& got, const torch::Tensor& expected) {
    const auto finite = at::isfinite(expected);
    const auto same_unusual = got.eq(expected).logical_or(got.isnan().logical_and(expected.isnan()));
    return at::where(finite, (got - expected).abs(), at::zeros_like(expected))
        .masked_fill(finite.logical_and(at::isfinite(got).logical_not()), kInfinity)
        .masked_fill(finite.logical_or(same_unusual).logical_not(), kInfinity);
}

thread_local ComparisonNotes* notes_of_thread = nullptr;

/// Each element against its own bound. `bound_of_finite` has the shape of both, and means nothing where `expected` is
/// not finite; `origin` says where it comes from.
Comparison judge(const torch::Tensor& got, const torch::Tensor& expected, const torch::Tensor& bound_of_finite,
                 const std::string& origin, std::string_view name) {
    Comparison result;
    if (got.numel() == 0) {
        result.passed = true;
        result.report = fmt::format("{}: no elements", name);
        return result;
    }
    if (ComparisonNotes* const notes = ComparisonNotes::current()) {
        notes->held.push_back({std::string(name), notes->about, expected, bound_of_finite});
        if (!notes->about.empty()) return {.passed = true};
    }
    const auto error = errors_of(got, expected);
    const auto bound = bound_of_finite.masked_fill(at::isfinite(expected).logical_not(), 0.0);
    // A bound that is not a number allows nothing.
    const auto wrong = error.le(bound).logical_not().logical_or(error.eq(kInfinity));
    constexpr double kNearZero = 1e-300;
    const auto share = (error / bound.clamp_min(kNearZero)).masked_fill(error.eq(kInfinity), kInfinity);
    const auto worst = at::where(share.isnan(), at::full_like(share, kInfinity), share).reshape({-1}).argmax();
    const auto at_worst = [&](const torch::Tensor& x) { return x.reshape({-1})[worst].item<double>(); };

    result.max_abs_error = at_worst(error);
    result.bound = at_worst(bound);
    result.passed = !wrong.any().item<bool>();
    const auto budget = fmt::format("bound {:.2e} {}", result.bound, origin);
    if (result.passed) {
        result.report = fmt::format("{}: max error {:.2e}, {}", name, result.max_abs_error, budget);
        return result;
    }
    result.wrong = wrong;
    const auto never_written = got.isnan().logical_and(expected.isnan().logical_not()).sum().item<int64_t>();
    result.report = fmt::format(
        "{}: {} of {} elements wrong{}\n  worst at {}: got {:.9g}, expected {:.9g}, off by {:.2e}, {:.3g} times its "
        "bound\n  {}",
        name, wrong.sum().item<int64_t>(), error.numel(),
        never_written ? fmt::format(", {} never written or NaN", never_written) : "",
        index_text(worst.item<int64_t>(), expected.sizes()), at_worst(got), at_worst(expected), result.max_abs_error,
        at_worst(share), budget);
    return result;
}

}  // namespace

ComparisonNotes::ComparisonNotes() { notes_of_thread = this; }
ComparisonNotes::~ComparisonNotes() { notes_of_thread = nullptr; }
ComparisonNotes* ComparisonNotes::current() { return notes_of_thread; }

double error_floor(torch::ScalarType dtype, double max_abs_oracle, double magnitude) {
    const auto limits = limits_of(dtype);
    const double rounding = limits.epsilon * std::max(max_abs_oracle, limits.smallest_normal);
    const double accumulation = 16.0 * limits_of<float>().epsilon * magnitude;
    return rounding + accumulation;
}

Comparison compare(const torch::Tensor& actual, const torch::Tensor& oracle, const torch::Tensor& low_precision,
                   std::optional<double> magnitude, std::string_view name, double factor) {
    const auto dtype = low_precision.scalar_type();
    if (const auto why = misfit(actual, oracle, dtype); !why.empty()) return failed(fmt::format("{}: {}", name, why));
    const auto got = actual.detach().to(torch::kFloat64);
    const auto expected = oracle.detach().to(torch::kFloat64);
    const auto fair = low_precision.detach().to(torch::kFloat64);

    const double low_precision_error =
        largest((fair - expected).abs(), at::isfinite(expected).logical_and(at::isfinite(fair)));
    const double max_abs_oracle = largest_finite_magnitude(expected);
    const double floor = error_floor(dtype, max_abs_oracle, magnitude.value_or(max_abs_oracle));
    return judge(
        got, expected, at::full_like(expected, factor * low_precision_error + floor),
        fmt::format("= {:.0f} x {:.2e} (plain torch in {}) + {:.2e}", factor, low_precision_error, text(dtype), floor),
        name);
}

Comparison compare_within(const torch::Tensor& actual, const torch::Tensor& oracle, const torch::Tensor& bound,
                          std::string_view name, std::string_view origin) {
    if (const auto why = misfit(actual, oracle, torch::kFloat32); !why.empty())
        return failed(fmt::format("{}: {}", name, why));
    return judge(actual.detach().to(torch::kFloat64), oracle.detach().to(torch::kFloat64), bound, std::string(origin),
                 name);
}

Comparison compare_attention(const AttentionResult& actual, const torch::Tensor& q, const torch::Tensor& k,
                             const torch::Tensor& v, const AttentionOptions& options,
                             const std::optional<torch::Tensor>& kv_lengths, Lse lse) {
    const auto oracle = attention_oracle(q, k, v, options, kv_lengths);
    Comparison result, of_lse;
    if (q.scalar_type() == torch::kFloat32) {
        const auto bound = attention_bound(q, k, v, options, kv_lengths);
        result = compare_within(actual.out, oracle.out, bound.out);
        if (lse == Lse::present) of_lse = compare_within(actual.lse, oracle.lse, bound.lse, "lse");
    } else {
        const auto fair = attention_low_precision(q, k, v, options, kv_lengths);
        result = compare(actual.out, oracle.out, fair.out, largest_finite_magnitude(v));
        const double lse_magnitude = std::max(1.0, largest_finite_magnitude(oracle.lse));
        if (lse == Lse::present) of_lse = compare(actual.lse, oracle.lse, fair.lse, lse_magnitude, "lse");
    }
    if (lse == Lse::absent) return result;
    result.passed = result.passed && of_lse.passed;
    result.report += (result.passed ? "; " : "\n") + of_lse.report;
    return result;
}

Comparison compare_softmax(const torch::Tensor& actual, const torch::Tensor& x, std::string_view name) {
    const auto oracle = softmax_oracle(x);
    if (x.scalar_type() == torch::kFloat32) return compare_within(actual, oracle, softmax_bound(x), name);
    return compare(actual, oracle, softmax_low_precision(x), {}, name);
}

}  // namespace ladder::reference
