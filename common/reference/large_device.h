#pragma once

#include "common/reference/checks.h"
#include "common/simt/device.h"

namespace ladder::reference {

/// What the CPU machine imitates for kernels of wide tiles (common/attention/wide_tile.cuh): an H100, which has the
/// shared memory that they need.
simt::Device large_device();

/// The same entry. On the CPU machine it runs on the wide device.
AttentionEntry on_large_device(AttentionEntry entry);

}  // namespace ladder::reference
