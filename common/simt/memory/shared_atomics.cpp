#include <algorithm>
#include <string_view>

#include "common/simt/memory/shared_memory.h"

// Atomic accesses to shared memory.

namespace simt {
inline namespace cpu {
namespace {

constexpr std::size_t kStep = 4;  // bytes: no element with atomics is smaller

}  // namespace

void SharedMemory::access_atomically(bool reads, bool modifies, Elements element, int thread,
                                     std::uint32_t warp_interval, SourceSite site) {
    const char* const does = modifies ? "writes atomically" : "reads atomically";
    const std::size_t line = element.offset() / kLineBytes;
    ask_cells(line, element.width);
    AtomicNote& note = atomics_[element.offset() / kStep];
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

/// Returns where all of them lie before what the thread does.
void SharedMemory::meet_atomics(const char* does, std::size_t cell, int thread, SourceSite site) const {
    const AtomicNote& note = atomics_.at(offset_of_cell(cell) / kStep);
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
