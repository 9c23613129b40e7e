#pragma once

#include "common/attention/arguments.h"

namespace ladder {

/// Whether what begins and ends a tile of queries is much of its time, so that a block had better take tile after tile,
/// the next one's keys on their way while O_i leaves. Under a mask tiles differ in length, and a fixed deal would
/// balance them badly; beyond D = 128, O_i has no room beside Q_i.
inline bool has_short_loops(const AttentionArguments& a) {
    return a.mask == Mask::none && a.key_length() <= 1024 && a.head_dim() <= 128;
}

}  // namespace ladder
