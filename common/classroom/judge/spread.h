#pragma once

#include <cstdint>
#include <string>

#include "common/classroom/judge/plain_spread.h"
#include "common/torch/torch.h"

namespace ladder::classroom {

/// @param name           of the tensor: "O"
/// @param got, expected  [B, H, S, D], [B, H, S] or [rows, N]
/// @param wrong          true where they differ by too much; at least once
/// @param rows_per_tile  B_r of the kernel, so that patterns of tiles can be told; 0 if it has none
Spread spread_of(const std::string& name, const torch::Tensor& got, const torch::Tensor& expected,
                 const torch::Tensor& wrong, int64_t rows_per_tile);

/// True where `got` is not within `bound` of `expected`, or is not the same infinity or NaN.
torch::Tensor wrong_elements(const torch::Tensor& got, const torch::Tensor& expected, double bound);

}  // namespace ladder::classroom
