#pragma once

#include "common/simt/counters/lane_streams.h"

namespace simt {
inline namespace cpu {

/// What one warp-wide memory instruction costs, and what it would cost at best.
struct RequestCost {
    int taken = 0;
    int ideal = 0;
    friend bool operator==(const RequestCost&, const RequestCost&) = default;
};

/// What lanes of a request do that want the same element of global memory.
enum class Lanes : signed char {
    together,    ///< they share it
    one_by_one,  ///< they take turns, as atomic updates do
    combined,    ///< they take turns, unless all want it: then one does for all
};

/// Sectors of 32 bytes in global memory that a request touches, each lane accessing `bytes` bytes. Ideally those that
/// its distinct bytes fill when they lie side by side. Lanes that take turns touch the sector each time: 32 for a
/// warp that adds floats to one element, by measurement.
RequestCost sectors_of(const LaneStreams::Request& request, int bytes, Lanes lanes = Lanes::together);

/// Passes through shared memory that a request takes (Nsight Compute: wavefronts). Ideally as many as there are groups
/// of lanes that are served together; more means bank conflicts.
///
/// Shared memory has 32 banks of 4-byte words, and a pass takes one word of each. Lanes that want the same word share
/// it; lanes that want different words of one bank take turns. Which lanes are served together depends on the width:
///
///   up to 4 bytes   all 32
///   8 bytes         each half of the warp, or both at once if lanes pair up
///   16 bytes        each quarter, or each half at once if lanes pair up
///
/// Lanes pair up if every active lane n has the address of lane n ^ 1, or every one that of lane n ^ 2; a lane that
/// takes no part pairs with any. NVIDIA documents the rules for 4 bytes only (CUDA C++ Programming Guide, Shared
/// Memory); those for 8 and 16 were found by measurement: see docs/counters.md.
RequestCost wavefronts_of(const LaneStreams::Request& request, int bytes);

}  // namespace cpu
}  // namespace simt
