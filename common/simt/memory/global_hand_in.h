#pragma once

#include "common/simt/memory/global_shadow.h"

// What a block does for every element that it has touched, when it ends: inline, so that a Touch is made in registers.

namespace simt {
inline namespace cpu {

[[gnu::always_inline]] inline GlobalLaunchShadow::Party GlobalLaunchShadow::party(std::uint64_t block,
                                                                                  const GlobalAccessRecord& access) {
    const Instruction instruction{access.site, access.tensor};
    if (recent_instruction_ >= instructions_.size() || instructions_[recent_instruction_] != instruction) [[unlikely]]
        note(instruction);
    return {block, std::uint64_t(access.thread), recent_instruction_};
}

inline void GlobalLaunchShadow::keep_lowest(Party newcomer, Party& lowest, Party& next) {
    if (!lowest.known() || newcomer.block_after() < lowest.block_after()) std::swap(newcomer, lowest);
    if (newcomer.known() && (!next.known() || newcomer.block_after() < next.block_after())) next = newcomer;
}

[[gnu::always_inline]] inline void GlobalLaunchShadow::HandIn::take(const GlobalRegion& region, const Touch& touch) {
    if (!page_ || page_->region != &region || touch.cell - page_->first_cell >= kPageCells)
        page_ = &launch_.page_of(region, touch.cell);
    Cell& cell = page_->cells[touch.cell - page_->first_cell];
    const auto meet = [&](Party newcomer, Deed deed, Party other, Deed other_deed) {
        if (other.known() && other.block_after() != newcomer.block_after()) [[unlikely]]
            launch_.meet_other_block(newcomer, deed, other, other_deed, region, touch.cell);
    };
    const bool any_history = !launch_.histories_.empty();
    if (touch.read.thread >= 0) {
        const Party reader = launch_.party(block_, touch.read);
        meet(reader, Deed::reads, cell.writer, Deed::writes);
        if (any_history) [[unlikely]]
            launch_.meet_history(reader, Deed::reads, region, touch.cell);
        keep_lowest(reader, cell.reader, cell.other_reader);
    }
    if (touch.adds || !launch_.adders_.empty()) [[unlikely]]
        launch_.take_additions(region, Touch(touch), cell, block_);  // a copy: who has an address needs memory
    if (touch.write.thread >= 0 && !touch.adds) {
        const Party writer = launch_.party(block_, touch.write);
        meet(writer, Deed::writes, cell.writer, Deed::writes);
        meet(writer, Deed::writes, cell.reader, Deed::reads);
        meet(writer, Deed::writes, cell.other_reader, Deed::reads);
        if (any_history) [[unlikely]]
            launch_.meet_history(writer, Deed::writes, region, touch.cell);
        if (!cell.writer.known() || writer.block_after() < cell.writer.block_after()) cell.writer = writer;
    }
}

}  // namespace cpu
}  // namespace simt
