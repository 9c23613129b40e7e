#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "common/attention/options.h"
#include "common/torch/torch.h"

namespace ladder::reference {

/// Does the entry under test return a log-sum-exp?
enum class Lse { present, absent };

/// The verdict on one tensor, or on one attention result.
///
/// The worst element is the one that is farthest beyond its bound or, if none is, comes closest to it.
struct Comparison {
    bool passed = false;       ///< Within the bound everywhere, and of the right shape and dtype.
    double max_abs_error = 0;  ///< |actual - oracle| of the worst element; infinite when it is NaN or misshapen.
    double bound = 0;          ///< What that had to stay within.
    std::string report = {};   ///< One line when passed; otherwise how many are wrong, the worst index, got, expected.
    torch::Tensor wrong = {};  ///< Of actual's shape: which elements are; undefined when passed or misshapen.
};

/// What `actual` may differ from the oracle by, whatever the low-precision error happened to be:
///
///   eps(dtype) * max|oracle|  +  16 * eps(float32) * magnitude
///
/// The first term is one unit in the last place of the largest result: storing a perfect result in the dtype already
/// costs half of it. The second is for float32 accumulation: a sum of a few hundred terms taken one after another
/// strays by some ten roundings of its largest terms, which blocked sums in torch do not. `magnitude` is the size of
/// those terms: the largest |v| for attention, where results can be much smaller than the values they average.
/// Without a floor a case with one key would allow no error at all, since torch is exact there. Both terms stay far
/// below any mistake: losing one key of 1000 costs about 1e-3 of |v|, the float32 floor is 2e-6 of it.
double error_floor(torch::ScalarType dtype, double max_abs_oracle, double magnitude);

/// The rule for 16 bits, and for what has no derived bound:
///
///   max|actual - oracle| <= factor * max|low_precision - oracle| + error_floor(...)
///
/// `actual` must have the oracle's shape and device and the dtype of `low_precision`. Where the oracle is finite,
/// `actual` must be finite; where it is NaN or infinite, `actual` must be NaN or the same infinity. Elements at which
/// `low_precision` is not finite say nothing about fair error and do not widen the bound.
///
/// @param magnitude  size of the terms that were summed, for the floor; the largest finite |oracle| when absent
/// @param name       what the report calls the tensor
/// @param factor     2 for results of the forward pass, 3 for gradients: FlashAttention's own rule
Comparison compare(const torch::Tensor& actual, const torch::Tensor& oracle, const torch::Tensor& low_precision,
                   std::optional<double> magnitude = {}, std::string_view name = "out", double factor = 2.0);

/// The rule for float32: |actual - oracle| <= bound in each element, and what is not finite as above.
///
/// @param actual  float32
/// @param bound   of the oracle's shape, from common/reference/error_bound.h
/// @param origin  where the bound is from, for the report
Comparison compare_within(const torch::Tensor& actual, const torch::Tensor& oracle, const torch::Tensor& bound,
                          std::string_view name = "out",
                          std::string_view origin = "there, from the roundings of float32");

/// Holds an attention result against the oracle by the rule for the dtype of q, `out` and `lse` each with a bound of
/// its own.
///
/// `max_abs_error` and `bound` are those of `out`; `passed` and `report` cover both. With Lse::absent the result's lse
/// is ignored; with Lse::present an undefined lse fails.
Comparison compare_attention(const AttentionResult& actual, const torch::Tensor& q, const torch::Tensor& k,
                             const torch::Tensor& v, const AttentionOptions& options = {},
                             const std::optional<torch::Tensor>& kv_lengths = {}, Lse lse = Lse::present);

/// Holds softmax(x) over the last dimension against the oracle, by the rule for the dtype of x.
Comparison compare_softmax(const torch::Tensor& actual, const torch::Tensor& x, std::string_view name = "out");

}  // namespace ladder::reference
