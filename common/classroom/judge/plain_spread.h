#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ladder::classroom {

/// Where a result is wrong, in words that help to find out why.
struct Spread {
    std::string first;    ///< "first wrong: batch 0, head 1, row 33, column 0: got 0.51, expected 0.24"
    std::string pattern;  ///< "rows 33 to 96 of 97, in every head": what the wrong elements have in common
};

/// A result beside the right one, row by row.
struct Compared {
    std::vector<std::int64_t> extents;  ///< [B, H, S, D], [B, H, S] or [rows, N]
    std::vector<double> got;            ///< what the kernel gave
    std::vector<double> expected;       ///< what is right
    std::vector<bool> wrong;            ///< where they differ by too much; at least once
};

/// @param name           of the tensor: "O"
/// @param rows_per_tile  B_r of the kernel, so that patterns of tiles can be told; 0 if it has none
Spread spread_of(const std::string& name, const Compared& compared, std::int64_t rows_per_tile);

}  // namespace ladder::classroom
