#include "common/simt/memory/reader_list.h"

#include <bit>

namespace simt {
inline namespace cpu {

ReaderList::ReaderList(const allocator_type& memory) : entries_(memory) {}
ReaderList::ReaderList(const ReaderList&) = default;
ReaderList::ReaderList(ReaderList&&) noexcept = default;
ReaderList& ReaderList::operator=(const ReaderList&) = default;
ReaderList& ReaderList::operator=(ReaderList&&) = default;
ReaderList::~ReaderList() = default;

void ReaderList::add(int thread, std::uint32_t interval, SourceSite site) {
    const std::uint32_t bit = 1u << unsigned(thread) % 32;
    bool listed = false;
    for (Entry& entry : entries_) {
        if (entry.warp != thread / 32) continue;
        if (entry.interval == interval) {
            entry.lanes |= bit;
            listed = true;
        } else {
            entry.lanes &= ~bit;
        }
    }
    if (listed) return;
    std::erase_if(entries_, [](const Entry& entry) { return entry.lanes == 0; });
    entries_.push_back({interval, thread / 32, bit, site});
}

ReaderList::Reader ReaderList::unknown_to(int writer, std::uint32_t since, std::uint32_t block_since,
                                          const ThreadClocks* clocks) const {
    for (const Entry& entry : entries_) {
        const bool is_thread = entry.warp * 32 < ThreadClocks::kFirstAgent;
        if (is_thread && entry.interval < block_since) continue;
        if (entry.warp == writer / 32 && entry.interval < since) continue;
        for (std::uint32_t lanes = entry.lanes; lanes; lanes &= lanes - 1) {
            const int reader = entry.warp * 32 + std::countr_zero(lanes);
            if (reader != writer && !(clocks && clocks->knows(writer, reader, entry.interval)))
                return {clocks ? clocks->unknown_part(writer, reader, entry.interval) : reader, entry.site};
        }
    }
    return {-1, {}};
}

void ReaderList::clear() { entries_.clear(); }

}  // namespace cpu
}  // namespace simt
