#include "common/simt/sync/whole_warp.h"

#include <array>
#include <string>

#include "common/simt/machine/block.h"

namespace simt {
inline namespace cpu {
namespace {

struct Shared {
    int value;
    SourceSite site;
};

constexpr Block::WarpInstruction kElect{"elect.sync", [](Block&, int, const std::array<const void*, 32>&) {}};

constexpr Block::WarpInstruction kShare{
    "same_in_warp", [](Block& block, int warp, const std::array<const void*, 32>& lanes) {
        const Shared& first = *static_cast<const Shared*>(lanes[0]);
        for (int lane = 1; lane < 32; ++lane) {
            const Shared& other = *static_cast<const Shared*>(lanes[std::size_t(lane)]);
            if (other.value != first.value)
                block.fail({.fault = Fault::invalid_collective,
                            .first = {warp * 32 + lane, other.site},
                            .second = {warp * 32, first.site},
                            .what = "same_in_warp() of thread " + std::to_string(warp * 32 + lane) + " with " +
                                    std::to_string(other.value) + ", but thread " + std::to_string(warp * 32) +
                                    " of its warp has " + std::to_string(first.value),
                            .advice = "all lanes get what lane 0 has: it is for values that depend on the warp alone"});
        }
    }};

}  // namespace

bool elect_lane(SourceSite site) {
    Block& block = Block::current();
    block.require_feature(Feature::tma, site);
    block.warp_instruction(kElect, nullptr, site);
    return block.lane() == 0;
}

int value_of_warp(int value, SourceSite site) {
    const Shared own{value, site};
    Block::current().warp_instruction(kShare, &own, site);
    return value;
}

}  // namespace cpu
}  // namespace simt
