#include <algorithm>
#include <bit>

#include "common/simt/memory/global_hand_in.h"
#include "common/simt/memory/global_shadow.h"
#include "common/simt/report/leniency.h"
#include "common/simt/report/race_advice.h"

// What a block does to global memory atomically, and all that it does there once it may hand over to other blocks.

namespace simt {
inline namespace cpu {

void GlobalShadow::begin_atomic(const AtomicUse& use, int tensor, const void* p, std::size_t bytes, int thread,
                                std::uint32_t warp_interval, SourceSite site) {
    begin_to_list();
    const auto address = reinterpret_cast<std::uintptr_t>(p);
    if (address - known_[tensor].begin >= known_[tensor].bytes) look_up(tensor, address);
    const GlobalRegion* const region = known_[tensor].region;
    if (!region) return;
    const GlobalAccessRecord access{thread, tensor, site};
    if (launch_->starts_early() && !waited_[std::size_t(thread)]) look_back(use.modifies, address, bytes, access);
    for (std::size_t cell = region->cell_of(address); cell <= region->cell_of(address + bytes - 1); ++cell) {
        Cell& c = chunk_of(*region, cell).cells[cell % kChunkCells];
        const bool holds_value = !region->written || region->written[cell].load(std::memory_order_relaxed);
        begin_atomic_on(c, use, {address, bytes}, region->address_of(cell), holds_value, access, warp_interval);
    }
}

/// Atomic accesses may meet if they are of the same bytes.
void GlobalShadow::meet_other_width(const AtomicNote& note, const AtomicUse& use, const AtomicElement& element,
                                    const GlobalAccessRecord& access) const {
    const char* did = "wrote";
    auto other = note.modifiers.unknown_to(access.thread, since_, 0, clocks_);
    if (other.thread < 0 && use.modifies) {
        other = note.loaders.unknown_to(access.thread, since_, 0, clocks_);
        did = "read";
    }
    if (other.thread < 0 || ScopedLeniency::active()) return;
    faults_.fail({.fault = Fault::global_race,
                  .first = {access.thread, access.site},
                  .second = {other.thread, other.site},
                  .what = "thread " + std::to_string(access.thread) + (use.modifies ? " writes" : " reads") + " the " +
                          std::to_string(element.bytes) + " bytes of " +
                          global_element_name(access.tensor, element.address) + " atomically, of which thread " +
                          std::to_string(other.thread) + " " + did + " " + std::to_string(note.width) +
                          " atomically; no barrier lies between",
                  .advice = mixed_atomics_advice()});
}

void GlobalShadow::begin_atomic_on(Cell& c, const AtomicUse& use, const AtomicElement& element, std::uintptr_t address,
                                   bool holds_value, const GlobalAccessRecord& access, std::uint32_t warp_interval) {
    const int thread = access.thread;
    const char* const does = words_for(use.modifies ? Deed::modifies_atomically : Deed::loads_atomically);
    AtomicNote& note = atomics_[address];
    if (note.block_interval != block_interval_) {
        note.modifiers.clear();
        note.loaders.clear();
        note.changes.clear();
        note.block_interval = block_interval_;
    } else if (note.element != element.address || note.width != element.bytes) {
        meet_other_width(note, use, element, access);
    }
    note.element = element.address;
    note.width = element.bytes;
    if (use.modifies && c.copies > 0) overwrites_source(address, access);
    const bool is_among_atomics = c.writer == kAtomics && written_here(c);
    const Cell& plain = is_among_atomics ? note.before : c;
    if (write_races_with(plain, thread))
        race(does, address, access, "wrote", {plain.writer, plain.write_tensor, plain.write_site});
    if (use.modifies) meet_readers(c, does, address, access);
    if (use.reads && !holds_value && !written_here(c)) unwritten(address, access, warp_interval);
    if (!is_among_atomics) note.before = c;
    if (written_here(c) && c.adds & kLastAdds) make_own_additions(c);
    c.adds = 0;
    c.writer = kAtomics;
    c.write_interval = block_interval_;
    c.write_tensor = std::uint8_t(access.tensor);

    (use.modifies ? note.modifiers : note.loaders).add(thread, warp_interval, access.site);
}

void GlobalShadow::meet_atomics(bool write, std::uintptr_t address, const GlobalAccessRecord& access) {
    const AtomicNote& note = atomics_.at(address);
    const char* const does = write ? "writes" : "reads";
    if (write_races_with(note.before, access.thread))
        race(does, address, access, "wrote", {note.before.writer, note.before.write_tensor, note.before.write_site});
    if (note.block_interval != block_interval_) return;
    // Who has seen what one of them left comes after that one and those before it (PTX: observation order).
    const Moment now = moment(access.thread, 0);
    if (const std::uint64_t seen = note.seen_by(now); seen < note.last_change)
        if (const auto other = note.modifiers.first_unknown([&](int changer, std::uint32_t interval) {
                return now.comes_after(changer, interval, block_interval_) || note.last_change_of(changer) <= seen;
            });
            other.thread >= 0)
            race(does, address, access, "wrote atomically", {other.thread, access.tensor, other.site});
    if (!write) return;
    if (const auto other = note.loaders.unknown_to(access.thread, since_, 0, clocks_); other.thread >= 0)
        race(does, address, access, "read atomically", {other.thread, access.tensor, other.site});
}

void GlobalShadow::end_atomic(const AtomicUse& use, int tensor, const void* p, std::size_t bytes, int thread,
                              std::uint32_t warp_interval, SourceSite site, std::uint64_t number) {
    const GlobalRegion* const region = known_[tensor].region;
    if (!region) return;
    const auto address = reinterpret_cast<std::uintptr_t>(p);
    for (std::size_t cell = region->cell_of(address); cell <= region->cell_of(address + bytes - 1); ++cell) {
        AtomicNote& note = atomics_[region->address_of(cell)];
        if (use.modifies) note.change(thread, number);
        if (use.reads) note.look(moment(thread, warp_interval), number);
        list(use.modifies ? Deed::modifies_atomically : Deed::loads_atomically, false, region->address_of(cell),
             {thread, tensor, site}, warp_interval, number, use.reads);
    }
}

void GlobalShadow::AtomicNote::change(int thread, std::uint64_t number) {
    last_change = number;
    auto of_warp = std::ranges::find(changes, thread / 32, &Changes::warp);
    if (of_warp == changes.end()) of_warp = changes.insert(changes.end(), {thread / 32, {}});
    of_warp->numbers[std::size_t(thread % 32)] = number;
}

std::uint64_t GlobalShadow::AtomicNote::last_change_of(int thread) const {
    const auto of_warp = std::ranges::find(changes, thread / 32, &Changes::warp);
    return of_warp == changes.end() ? last_change : of_warp->numbers[std::size_t(thread % 32)];
}

void GlobalShadow::AtomicNote::look(const Moment& now, std::uint64_t number) {
    std::erase_if(looks, [&](const Look& look) {
        if (look.block_interval < now.block_interval) seen = std::max(seen, look.number);
        return look.block_interval < now.block_interval || (look.thread == now.thread && look.interval == now.interval);
    });
    looks.push_back({now.thread, now.interval, now.block_interval, number});
}

std::uint64_t GlobalShadow::AtomicNote::seen_by(const Moment& now) const {
    std::uint64_t number = seen;
    for (const Look& look : looks)
        if (now.comes_after(look.thread, look.interval, look.block_interval)) number = std::max(number, look.number);
    return number;
}

// --- Lists ----------------------------------------------------------------------------------------------------------

/// What lies in the cells is what the block did so far, when it knew nothing of others. Of several who read it is one.
void GlobalShadow::begin_to_list() {
    if (lists_) return;
    lists_ = true;
    is_plain_ = false;
    for (std::size_t n = 0; n < used_chunks_; ++n)
        for (std::size_t i = 0; i < kChunkCells; ++i) {
            const Cell& c = chunks_[n].cells[i];
            const std::uintptr_t address = chunks_[n].region->address_of(chunks_[n].first_cell + i);
            if (c.write_interval >= first_interval_)
                list(Deed::writes, c.adds & kByAgent, address, {c.writer, c.write_tensor, c.write_site},
                     c.stores > 0 ? kUnderWay : c.write_warp_interval);
            if (c.read_interval >= first_interval_)
                list(Deed::reads, false, address, {c.reader, c.read_tensor, c.read_site}, c.read_warp_interval);
        }
}

/// What a thread knows of other blocks.
KnowledgePtr GlobalShadow::known_at(const Moment& now) {
    const KnowledgePtr handed_over = hand_over_.known_at(now);
    return cluster_.is_of_cluster() ? cluster_.known_to(now.thread, *clocks_, handed_over) : handed_over;
}

void GlobalShadow::forget_lists() {
    lists_ = false;
    listed_.clear();
    atomics_.clear();
    unwritten_.clear();
}

GlobalShadow::Listed& GlobalShadow::listed_at(std::uintptr_t address) {
    Listed& listed = listed_[address];
    if (listed.region) return listed;
    const GlobalRegions& regions = launch_->regions();
    listed.region =
        std::prev(std::ranges::upper_bound(regions, address, {}, [](const auto& r) { return r->begin; }))->get();
    listed.cell = listed.region->cell_of(address);
    return listed;
}

void GlobalShadow::list(Deed deed, bool by_agent, std::uintptr_t address, const GlobalAccessRecord& access,
                        std::uint32_t warp_interval, std::uint64_t number, bool looks) {
    AccessList& list = listed_at(address).list;
    if (number) {
        list.has_atomics = true;
    } else if (const auto note = atomics_.find(address); note != atomics_.end()) {
        number = note->second.seen_by(moment(access.thread, warp_interval));
    }
    list.add({.deed = deed,
              .looks = looks,
              .by_agent = by_agent,
              .warp = std::uint16_t(access.thread / 32),
              .lanes = 1u << access.thread % 32,
              .interval = warp_interval,
              .knowledge = known_at(moment(access.thread, warp_interval)),
              .number = number,
              .tensor = access.tensor,
              .site = access.site});
}

bool GlobalShadow::leave_to_launch(std::uintptr_t address, const GlobalAccessRecord& reader,
                                   std::uint32_t warp_interval) {
    const KnowledgePtr knowledge = known_at(moment(reader.thread, warp_interval));
    if (!knowledge) return false;
    unwritten_.emplace_back(address, ListedAccess{.deed = Deed::reads,
                                                  .looks = true,
                                                  .by_agent = bulk_.has_value(),
                                                  .warp = std::uint16_t(reader.thread / 32),
                                                  .lanes = 1u << reader.thread % 32,
                                                  .interval = warp_interval,
                                                  .knowledge = knowledge,
                                                  .number = 0,
                                                  .tensor = reader.tensor,
                                                  .site = reader.site});
    return true;
}

void GlobalShadow::hand_in_lists() {
    const bool hands_over = hand_over_.has_any() || cluster_.is_of_cluster();
    const KnowledgePtr gained = cluster_.is_of_cluster()
                                    ? cluster_.known_to_anybody(*clocks_, hand_over_.known_to_anybody())
                                    : hand_over_.known_to_anybody();
    GlobalLaunchShadow::HandIn hand_in(*launch_, block_);
    for (const auto& [address, listed] : listed_) {
        const auto& all = listed.list.all();
        if (hands_over || listed.list.has_atomics) {
            hand_in.take(*listed.region, listed.cell, listed.list, hands_over, gained);
            continue;
        }
        GlobalAccessRecord read, write;
        for (const ListedAccess& access : all)
            (access.deed == Deed::writes ? write : read) =
                GlobalAccessRecord{access.warp * 32 + std::countr_zero(access.lanes), access.tensor, access.site};
        auto& page = hand_in.page_of(*listed.region, listed.cell);
        if (read.thread >= 0) hand_in.read(page, listed.cell, read);
        if (write.thread >= 0) hand_in.write(page, listed.cell, write);
    }
    for (const auto& [address, read] : unwritten_) {
        const Listed& listed = listed_at(address);
        hand_in.take_unwritten(*listed.region, listed.cell, read);
    }
}

}  // namespace cpu
}  // namespace simt
