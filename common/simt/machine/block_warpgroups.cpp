#include "common/simt/machine/block.h"

#include <array>
#include <string>
#include <utility>

// Instructions of four warps.

namespace simt {
inline namespace cpu {

void Block::warpgroup_instruction(const WarpgroupInstruction& instruction, const void* argument, SourceSite site) {
    if (warpgroups_.empty()) warpgroups_.resize(std::size_t(threads_ + kWarpgroup - 1) / kWarpgroup);
    Warpgroup& group = warpgroups_[std::size_t(current_thread_ / kWarpgroup)];
    const std::uint64_t before = group.done;
    const WarpgroupCall call{&instruction, argument, site};
    warp_instruction(instruction.on_warp, &call, site);
    while (group.done == before) sleep(group, site);
}

void Block::gather_warp(Block& block, int warp, const std::array<const void*, 32>& argument) {
    const auto call = [&](int lane) -> const WarpgroupCall& {
        return *static_cast<const WarpgroupCall*>(argument[std::size_t(lane)]);
    };
    Warpgroup& group = block.warpgroups_[std::size_t(warp / 4)];
    if (group.arrived == 0) {
        group.instruction = call(0).instruction;
        group.site = call(0).site;
        group.first_warp = warp / 4 * 4;
        group.first_thread = warp * 32;
        if (std::size_t(group.first_warp) + 4 > block.warps_.size())
            block.report_diverged_warpgroup(group, warp, call(0));
    } else if (group.instruction != call(0).instruction || group.site != call(0).site) {
        block.report_diverged_warpgroup(group, warp, call(0));
    }
    for (int lane = 0; lane < 32; ++lane) group.argument[std::size_t(warp % 4 * 32 + lane)] = call(lane).argument;
    group.arrived |= 1u << warp % 4;
    if (group.arrived != 0xf) return;
    group.arrived = 0;
    const auto arguments = group.argument;
    std::exchange(group.instruction, nullptr)->run(block, warp / 4, arguments);
    ++group.done;
    block.wake(group);
}

std::string Block::Warpgroup::awaited() const {
    std::string text;
    for (int w = 0; w < 4; ++w)
        if (!(arrived >> w & 1)) text += (text.empty() ? "" : ", ") + std::to_string(first_warp + w);
    return std::string(instruction ? instruction->on_warp.name : "an instruction of their warpgroup") + ", for warps " +
           text + " of their warpgroup";
}

}  // namespace cpu
}  // namespace simt
