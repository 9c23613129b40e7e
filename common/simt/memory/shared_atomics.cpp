#include <algorithm>
#include <string_view>

#include "common/simt/memory/shared_memory.h"
#include "common/simt/report/leniency.h"
#include "common/simt/report/race_advice.h"

// Atomic accesses to shared memory.

namespace simt {
inline namespace cpu {
namespace {

constexpr std::size_t kStep = 4, kWidest = 8;  // bytes: elements with atomics have one or the other

}  // namespace

/// Calls use(note) for what is kept of elements that have some of these bytes.
template <class Use>
void SharedMemory::for_each_note(std::size_t offset, std::size_t width, Use&& use) const {
    const std::size_t first = offset / kWidest * kWidest / kStep, last = (offset + width - 1) / kStep;
    for (std::size_t place = first; place <= last; ++place)
        if (const auto found = atomics_.find(place);
            found != atomics_.end() && place * kStep + found->second.width > offset)
            use(found->second);
}

void SharedMemory::access_atomically(bool reads, bool modifies, Elements element, int thread,
                                     std::uint32_t warp_interval, SourceSite site) {
    const char* const does = modifies ? "writes atomically" : "reads atomically";
    const std::size_t line = element.offset() / kLineBytes;
    ask_cells(line, element.width);
    AtomicNote& note = atomics_[element.offset() / kStep];
    if (note.width != element.width) {
        for_each_note(element.offset(), element.width, [&](const AtomicNote& other) {
            meet_other_width(other, modifies, element, thread, site);
            if (&other == &note || note.block_interval > 0) return;
            note.before = other.before;
            note.before_sites = other.before_sites;
        });
        note.width = element.width;
        note.block_interval = 0;
    }
    if (note.block_interval != block_interval_) {
        note.modifiers.clear();
        note.loaders.clear();
        note.looks.clear();
        note.block_interval = block_interval_;
    }
    for (std::size_t o = element.offset(); o < element.offset() + element.width; o += lines_[line].cell_bytes) {
        const std::size_t index = cell_of(o, lines_[line].cell_bytes);
        Cell& c = cells_[index];
        const bool is_among_atomics = c.write_interval == kAtomics;
        const Cell& plain = is_among_atomics ? note.before : c;
        const Sites& sites = is_among_atomics ? note.before_sites : sites_[index];
        if (reads && c.write_interval < first_interval_) uninitialised(index, thread, site);
        if (write_races_with(plain, thread)) report_race(does, index, thread, site, "wrote", plain.writer, sites.write);
        if (modifies && reads_race_with(c, thread)) race_with_reader(index, thread, site, does);
        if (is_among_atomics) continue;
        note.before = c;
        note.before_sites = sites_[index];
        c.write_interval = kAtomics;
        c.writer = kNoThread;
    }
    (modifies ? note.modifiers : note.loaders).add(thread, warp_interval, site);
    if (modifies) note.looks.clear();
    std::erase_if(note.looks,
                  [=](const auto& look) { return look.thread == thread && look.interval == warp_interval; });
    if (reads) note.looks.push_back({thread, warp_interval});
}

/// Atomic accesses may meet if they are of the same bytes.
void SharedMemory::meet_other_width(const AtomicNote& note, bool modifies, Elements element, int thread,
                                    SourceSite site) const {
    if (note.block_interval != block_interval_ || note.width == element.width) return;
    const char* did = "wrote";
    auto other = note.modifiers.unknown_to(thread, since_, block_interval_, clocks_);
    if (other.thread < 0 && modifies) {
        other = note.loaders.unknown_to(thread, since_, block_interval_, clocks_);
        did = "read";
    }
    if (other.thread < 0 || ScopedLeniency::active()) return;
    owner_.fail({.fault = Fault::race,
                 .first = {thread, site},
                 .second = {other.thread, other.site},
                 .what = owner_.party(thread) + (modifies ? " writes" : " reads") + " the " +
                         std::to_string(element.width) + " bytes of " + element_name(element.offset(), thread) +
                         " atomically, of which " + owner_.party(other.thread) + " " + did + " " +
                         std::to_string(note.width) + " atomically; no barrier lies between",
                 .advice = mixed_atomics_advice()});
}

/// Returns where all of them lie before what the thread does.
void SharedMemory::meet_atomics(const char* does, std::size_t cell, int thread, SourceSite site) const {
    for_each_note(offset_of_cell(cell), 1,
                  [&](const AtomicNote& note) { meet_atomics(note, does, cell, thread, site); });
}

void SharedMemory::meet_atomics(const AtomicNote& note, const char* does, std::size_t cell, int thread,
                                SourceSite site) const {
    if (write_races_with(note.before, thread))
        report_race(does, cell, thread, site, "wrote", note.before.writer, note.before_sites.write);
    if (note.block_interval != block_interval_) return;
    // Who has seen what the last of them left comes after all of them (PTX: observation order).
    const bool has_seen_last = std::ranges::any_of(note.looks, [&](const AtomicNote::Look& look) {
        return look.thread == thread || (same_warp(look.thread, thread) && look.interval < since_) ||
               (clocks_ && clocks_->knows(thread, look.thread, look.interval));
    });
    if (!has_seen_last)
        if (const auto other = note.modifiers.unknown_to(thread, since_, block_interval_, clocks_); other.thread >= 0)
            report_race(does, cell, thread, site, "wrote atomically", other.thread, other.site);
    if (does == std::string_view("reads")) return;
    if (const auto other = note.loaders.unknown_to(thread, since_, block_interval_, clocks_); other.thread >= 0)
        report_race(does, cell, thread, site, "read atomically", other.thread, other.site);
}

void SharedMemory::forget_atomics() {
    for (const auto& [place, note] : atomics_) {
        const std::size_t begin = place * kStep / kLineBytes * kLineBytes;
        const auto reset = [this](std::size_t cell) {
            if (cells_[cell].write_interval == kAtomics) cells_[cell] = {};
        };
        for (std::size_t byte = begin; byte < begin + kLineBytes; ++byte) {
            reset(byte / 2);
            reset(first_byte_cell() + byte);
        }
    }
    atomics_.clear();
}

}  // namespace cpu
}  // namespace simt
