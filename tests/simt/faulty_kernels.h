#pragma once

#include "tests/simt/fault_checks.h"

// What the kernels of the tests of diagnoses have in common.

namespace simt::testing {

inline constexpr std::size_t kOneTile = 8 * 8 * sizeof(float);

/// Two warps and the tile.
inline constexpr Shape kTwoWarps{.block = 64, .shared_bytes = kOneTile};

/// The tile that most of them work on.
inline auto K_j() { return SharedArena().tile<float, 8, 8>("K_j"); }

inline bool is_thread(unsigned n) { return threadIdx.x == n; }

}  // namespace simt::testing
