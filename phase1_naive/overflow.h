#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "common/attention/options.h"
#include "common/simt/device/device.h"
#include "common/simt/report/machine_error.h"
#include "phase1_naive/shared_need.h"

namespace ladder {

/// The overflow demo, without its printing: how many keys can a block of scheme A or B hold, and what happens then?
struct OverflowQuestion {
    /// A GPU, or the CPU machine as the device that simt::cpu_device() names (simt::ScopedCpuDevice sets it).
    torch::Device device = torch::kCPU;
    BlockedShape shape;  ///< the scheme and what decides its shared memory
};

/// One line of the table: N keys against the bytes that a block needs.
struct OverflowRow {
    int64_t key_length = 0;            ///< N
    SharedNeed need;                   ///< in bytes, matrix by matrix
    bool fits_without_asking = false;  ///< within Device::shared_bytes_per_block
    bool fits = false;                 ///< within Device::shared_bytes_per_block_optin
};

/// A problem that ran, with what came of it. One sequence, one head, one block of queries: a block's shared memory
/// depends on nothing else.
struct OverflowRun {
    torch::Tensor q;                         ///< [1, 1, B_r, D]
    torch::Tensor k;                         ///< [1, 1, N, D]
    torch::Tensor v;                         ///< [1, 1, N, D]
    AttentionResult result;                  ///< out [1, 1, B_r, D] and lse [1, 1, B_r]
    std::size_t shared_bytes_per_block = 0;  ///< as launched
};

/// What the demo found out.
struct OverflowAnswer {
    simt::Device limits;  ///< of the device that was asked
    BlockedShape shape;   ///< as in the question

    /// N = 32, 64, 128, … up to the second one that does not fit, and among them the largest N that does, and the next.
    std::vector<OverflowRow> rows;
    int64_t largest_key_length = 0;  ///< 0: B_r query rows leave no room for a single key
    std::optional<OverflowRun> run;  ///< of largest_key_length; empty if that is 0
    simt::LaunchError refusal;       ///< what the device said to one key more
};

/// Works out the table, then launches the kernel twice: with the largest N that fits, and with one key more. The host's
/// own check is not asked; the second launch fails with the device's own error, which `refusal` keeps.
///
/// Throws std::invalid_argument for a head dimension outside 1 … 256 or block rows outside 1 … 1024, and
/// std::logic_error if the device runs what should not fit.
OverflowAnswer overflow(const OverflowQuestion& question);

}  // namespace ladder
