#pragma once

#include <cstdint>
#include <string>

#include "common/torch/torch.h"

namespace ladder::classroom {

/// Where a result is wrong, in words that help to find out why.
struct Spread {
    std::string first;    ///< "first wrong: batch 0, head 1, row 33, column 0: got 0.51, expected 0.24"
    std::string pattern;  ///< "rows 33 to 96 of 97, in every head": what the wrong elements have in common
};

/// @param name           of the tensor: "O"
/// @param got, expected  [B, H, S, D], [B, H, S] or [rows, N]
/// @param wrong          true where they differ by too much; at least once
/// @param rows_per_tile  B_r of the kernel, so that patterns of tiles can be told; 0 if it has none
Spread spread_of(const std::string& name, const torch::Tensor& got, const torch::Tensor& expected,
                 const torch::Tensor& wrong, int64_t rows_per_tile);

/// True where `got` is not within `bound` of `expected`, or is not the same infinity or NaN.
torch::Tensor wrong_elements(const torch::Tensor& got, const torch::Tensor& expected, double bound);

}  // namespace ladder::classroom
