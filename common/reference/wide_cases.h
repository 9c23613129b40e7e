#pragma once

#include <vector>

#include "common/reference/checks.h"

namespace ladder::reference {

/// For tests of kernels of wide tiles (common/attention/wide_tile.cuh), which take float32 and D <= 128 and need more
/// shared memory than many a device has.

/// The same cases in float32, those that such a kernel takes. On a GPU, only those that it has the shared memory for.
std::vector<AttentionCase> wide_cases(const std::vector<AttentionCase>& cases);

/// The same entry. On the CPU machine it runs on an imitated H100, which has the shared memory.
AttentionEntry on_wide_device(AttentionEntry entry);

}  // namespace ladder::reference
