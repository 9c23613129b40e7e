#pragma once

#include "common/reference/checks.h"
#include "common/simt/device/device.h"

namespace ladder::reference {

/// What the CPU machine imitates for kernels of register tiles (common/attention/register_tile.cuh): an H100, which has
/// the shared memory that they need.
simt::Device large_device();

/// The same entry. On the CPU machine it runs on the large device.
AttentionEntry on_large_device(AttentionEntry entry);

/// The same, with a single multiprocessor: large tiles are then enough for it, whatever the problem.
AttentionEntry on_one_multiprocessor(AttentionEntry entry);

}  // namespace ladder::reference
