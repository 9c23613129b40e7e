#pragma once

namespace simt {

/// Threads of a warpgroup: four warps in a row, the first of them a multiple of four.
inline constexpr int kWarpgroup = 128;

}  // namespace simt
