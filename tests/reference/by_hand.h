#pragma once

#include <array>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "common/reference/cases.h"
#include "common/reference/checks.h"
#include "common/torch/torch.h"

namespace ladder::reference {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
inline constexpr std::array kDtypes{torch::kFloat32, torch::kFloat16, torch::kBFloat16};

/// What a kernel could get wrong. `none` is the correct implementation.
enum class Mistake {
    none,
    dropped_last_key,
    scale_one_over_d,
    scale_off_by_percents,
    swapped_heads,
    swapped_batch,
    kv_head_modulo,
    causal_one_key_short,
    causal_one_key_more,
    top_left_for_bottom_right,
    mask_ignored,
    missing_rescale_of_sum,
    missing_rescale_of_output,
    max_seeded_with_zero,
    max_seeded_with_smallest_positive,
    max_seeded_with_finite_sentinel,
    no_max_at_all,
    not_normalised,
    lse_in_log2,
    lse_without_max,
    lse_negated,
    last_row_not_written,
    last_row_stale,
    last_column_not_written,
    one_element_not_written,
    v_shifted_by_one_row,
    k_shifted_by_one_row,
    length_one_more,
    length_one_less,
    length_ignored,
};

/// The legitimate freedoms of a kernel.
enum class Arithmetic {
    plain,            ///< exp in float32, weights in float32
    rounded_weights,  ///< P rounded to the dtype before P V, as tensor cores need it
    base_two,         ///< exp2 with the scale and log2(e) folded into one factor
};

struct Implementation {
    Mistake mistake = Mistake::none;
    Arithmetic arithmetic = Arithmetic::plain;
};

std::string name_of(Mistake mistake);
std::string name_of(torch::ScalarType dtype);

/// Online attention in float32, one key at a time, with any one mistake built in on request.
AttentionResult attention_key_by_key(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                     const AttentionOptions& options, const std::optional<torch::Tensor>& kv_lengths,
                                     Implementation implementation);
AttentionEntry entry_of(Implementation implementation, const std::optional<torch::Tensor>& kv_lengths = {});

/// Attention in double, written as sums over indices: shares nothing with the oracle's tensor operations.
AttentionResult attention_by_hand(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                  const AttentionOptions& options, const std::vector<int64_t>& lengths);

/// Largest difference, where equal infinities count as no difference and NaN as an infinite one.
double distance(const torch::Tensor& a, const torch::Tensor& b);

/// Two sequences, four query heads that share two heads of keys, lengths that are no multiples of a tile.
AttentionCase grouped_case(torch::ScalarType dtype, Mask mask = Mask::none);

torch::Tensor lengths_tensor(const std::vector<int64_t>& lengths);
torch::Tensor tensor_of(const std::vector<double>& values, at::IntArrayRef sizes);

}  // namespace ladder::reference
