#pragma once

#include <utility>

#include "common/simt/memory/global_launch.h"

namespace simt {
inline namespace cpu {

/// A block's turn to say what it touched. As long as one lives, no other block gets a word in.
class GlobalLaunchShadow::HandIn {
  public:
    HandIn(GlobalLaunchShadow& launch, std::uint64_t block)
        : launch_(launch), lock_(launch.mutex_), block_(block), meets_more_(launch.has_more()) {}

    /// Where the launch has its notes of an element, and of its neighbours with the same number / Page::kCells.
    Page& page_of(const GlobalRegion& region, std::size_t number);

    /// The block's last read of an element, its last write, or, if all that it wrote there were additions, which
    /// may come in any order, the last one. Each once for an element, or not at all. `page`: the element's.
    void read(Page& page, std::size_t number, const GlobalAccessRecord& access);
    void write(Page& page, std::size_t number, const GlobalAccessRecord& access);
    void add(Page& page, std::size_t number, const GlobalAccessRecord& access);

    /// All that the block did to one element. `hands_over`: whether anything of it can lie before or after what
    /// another block does. `gained`: what anybody in the block has learned of others, by its end.
    void take(const GlobalRegion& region, std::size_t cell, const AccessList& list, bool hands_over,
              const KnowledgePtr& gained);

    /// A read of what neither an earlier launch nor the block has written: another block must have, before it.
    void take_unwritten(const GlobalRegion& region, std::size_t cell, const ListedAccess& read);

  private:
    struct Recent {
        Instruction instruction{.site = {}, .tensor = -1};  // none
        std::uint64_t number = 0;
    };
    Party party(const GlobalAccessRecord& access, Recent& recent);
    void meet(Party newcomer, Deed deed, Party other, Deed other_deed, const GlobalRegion& region, std::size_t number);

    GlobalLaunchShadow& launch_;
    std::scoped_lock<std::mutex> lock_;
    std::uint64_t block_;
    const bool meets_more_;              // of other blocks than plain reads and writes
    Page* page_ = nullptr;               // that was asked for last
    Recent recent_read_, recent_write_;  // whose numbers were asked for last
};

// What a block does for every element that it has touched, when it ends: inline, so that a Party is made in registers.

inline void GlobalLaunchShadow::keep_lowest(Party newcomer, Party& lowest, Party& next) {
    if (!lowest.known() || newcomer.block_after() < lowest.block_after()) std::swap(newcomer, lowest);
    if (newcomer.known() && (!next.known() || newcomer.block_after() < next.block_after())) next = newcomer;
}

[[gnu::always_inline]] inline GlobalLaunchShadow::Page& GlobalLaunchShadow::HandIn::page_of(const GlobalRegion& region,
                                                                                            std::size_t cell) {
    if (!page_ || page_->region != &region || cell - page_->first_cell >= Page::kCells)
        page_ = &launch_.page_of(region, cell);
    return *page_;
}

[[gnu::always_inline]] inline GlobalLaunchShadow::Party GlobalLaunchShadow::HandIn::party(
    const GlobalAccessRecord& access, Recent& recent) {
    const Instruction instruction{access.site, access.tensor};
    if (recent.instruction != instruction) [[unlikely]]
        recent = {instruction, launch_.number_of(instruction)};
    return {block_, std::uint64_t(access.thread), recent.number};
}

[[gnu::always_inline]] inline void GlobalLaunchShadow::HandIn::meet(Party newcomer, Deed deed, Party other,
                                                                    Deed other_deed, const GlobalRegion& region,
                                                                    std::size_t cell) {
    if (other.known() && other.block_after() != newcomer.block_after()) [[unlikely]]
        launch_.meet_other_block(newcomer, deed, other, other_deed, region, cell);
}

[[gnu::always_inline]] inline void GlobalLaunchShadow::HandIn::read(Page& page, std::size_t number,
                                                                    const GlobalAccessRecord& access) {
    const std::size_t cell = number - page.first_cell;
    const Party reader = party(access, recent_read_);
    meet(reader, Deed::reads, page.writers[cell], Deed::writes, *page.region, number);
    if (meets_more_) [[unlikely]]
        launch_.meet_more(reader, Deed::reads, *page.region, number);
    if (!page.readers) [[unlikely]]
        give_readers(page);
    keep_lowest(reader, (*page.readers)[cell].lowest, (*page.readers)[cell].next);
}

[[gnu::always_inline]] inline void GlobalLaunchShadow::HandIn::write(Page& page, std::size_t number,
                                                                     const GlobalAccessRecord& access) {
    Party& known = page.writers[number - page.first_cell];
    const Party writer = party(access, recent_write_);
    meet(writer, Deed::writes, known, Deed::writes, *page.region, number);
    if (page.readers) [[unlikely]] {
        const Readers& readers = (*page.readers)[number - page.first_cell];
        meet(writer, Deed::writes, readers.lowest, Deed::reads, *page.region, number);
        meet(writer, Deed::writes, readers.next, Deed::reads, *page.region, number);
    }
    if (meets_more_) [[unlikely]]
        launch_.meet_more(writer, Deed::writes, *page.region, number);
    if (!known.known() || writer.block_after() < known.block_after()) known = writer;
}

}  // namespace cpu
}  // namespace simt
