#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "common/classroom/judge/attend.h"

namespace ladder::classroom {

/// The mistakes that lane_lookalike() knows, as lookalikes() has them.
std::vector<std::string_view> lane_lookalikes();

/// As lookalike(), for mistakes among the eight lanes that share a row in phases 3 and 4 (RowOwner, in
/// common/attention/row_tile.cuh): each of them has columns of its own, of the scores and of O.
std::optional<std::string_view> lane_lookalike(const Attended& result, const torch::Tensor& q, const torch::Tensor& k,
                                               const torch::Tensor& v, const Form& form, int64_t keys_per_tile);

}  // namespace ladder::classroom
