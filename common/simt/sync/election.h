#pragma once

#include "common/simt/machine/block.h"

namespace simt {
inline namespace cpu {

inline constexpr Block::WarpInstruction kElect{"elect.sync", [](Block&, int, const std::array<const void*, 32>&) {}};

/// All lanes of the warp meet; the number of the running one.
inline int elect_lane(SourceSite site) {
    Block& block = Block::current();
    block.require_feature(Feature::tma, site);
    block.warp_instruction(kElect, nullptr, site);
    return block.lane();
}

}  // namespace cpu
}  // namespace simt
