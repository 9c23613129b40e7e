#include "common/simt/memory/shared_memory.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string_view>

#include "common/simt/memory/sanitizers.h"
#include "common/simt/report/leniency.h"
#include "common/simt/report/race_advice.h"

namespace simt {
inline namespace cpu {

void SharedMemory::Free::operator()(std::byte* p) const { std::free(p); }

void SharedMemory::start_block(std::size_t bytes) {
    const std::size_t rounded = (bytes + kForbiddenBytes + kNowhereBytes + kAlignment - 1) / kAlignment * kAlignment;
    if (rounded > capacity_) {
        memory_.reset(static_cast<std::byte*>(std::aligned_alloc(kAlignment, rounded)));
        if (!memory_) throw std::bad_alloc();
        capacity_ = rounded;
        cells_.assign(rounded / kCellBytes, Cell{});
        sites_.resize(cells_.size());
        lines_.assign(cells_.size() / kLineCells, Line{});
        open_to_.assign(lines_.size(), 0);
    }
    bytes_ = bytes;
    allow_access(memory_.get(), capacity_);
    forbid_access(memory_.get() + bytes, capacity_ - kNowhereBytes - bytes);
    std::memset(memory_.get(), 0xFF, bytes);
    regions_.clear();
    if (last_interval_ > UINT32_MAX / 2 || copies_in_flight_ > 0) {  // a block that failed leaves copies behind
        std::ranges::fill(cells_, Cell{});
        std::ranges::fill(lines_, Line{});
        std::ranges::fill(open_to_, 0);
        last_interval_ = 0;
        copies_in_flight_ = 0;
    }
    first_interval_ = open_block_interval();
}

void* SharedMemory::nowhere() { return std::memset(memory_.get() + capacity_ - kNowhereBytes, 0xFF, kNowhereBytes); }

void SharedMemory::name_region(const Region& region) {
    const auto same = [&](const Region& r) { return r.offset == region.offset && r.name == region.name; };
    if (std::ranges::none_of(regions_, same)) regions_.push_back(region);
}

std::string SharedMemory::element_name(std::size_t offset) const {
    for (const Region& r : regions_) {
        const std::size_t end = r.offset + std::size_t(r.rows) * r.pitch * r.element_bytes;
        if (offset < r.offset || offset >= end) continue;
        const std::size_t element = (offset - r.offset) / r.element_bytes;
        return std::string(r.name) + "(" + std::to_string(element / r.pitch) + ", " +
               std::to_string(element % r.pitch) + ")";
    }
    return "shared byte " + std::to_string(offset);
}

void SharedMemory::read_vector(Cells cells, int thread, std::uint32_t warp_interval, SourceSite site) {
    Line* const line = line_of(cells);
    if (!line || !may_read(line->cell, thread, warp_interval)) {
        read_one_by_one(cells, thread, warp_interval, site);
        return;
    }
    if (!knows_reader(line->cell, thread, warp_interval))
        remember_reader(line->cell, line->sites, thread, warp_interval, site);
    // Now that the note has this reader: whoever else may read the same need not be looked at.
    if (line->cell.readers != Readers::one_thread)
        open_to_[cells.first / kLineCells] =
            (line->cell.readers == Readers::one_warp ? warp_ : whole_block_) + cells.step;
}

void SharedMemory::read_one_by_one(Cells cells, int thread, std::uint32_t warp_interval, SourceSite site) {
    for (std::size_t i = 0; i < cells.count; ++i) read_cell(cells.first + i * cells.step, thread, warp_interval, site);
    hand_to_line(cells);
}

void SharedMemory::write_vector(Cells cells, int thread, std::uint32_t warp_interval, SourceSite site) {
    const Line* const same = line_of(cells);
    if (!same || write_races_with(same->cell, thread, warp_interval) ||
        reads_race_with(same->cell, thread, warp_interval))
        write_one_by_one(cells, thread, warp_interval, site);
    if (!is_line(cells)) return;
    Line& line = lines_[cells.first / kLineCells];
    line.cell.write_interval = warp_interval;
    line.cell.writer = static_cast<std::uint16_t>(thread);
    // Whoever may write after this may do so after the reads before it too: they need no memory any more.
    line.cell.read_interval = 0;
    line.sites.write = site;
    line.step = cells.step;
    line.cells_know_writer = false;
}

void SharedMemory::write_one_by_one(Cells cells, int thread, std::uint32_t warp_interval, SourceSite site) {
    for (std::size_t i = 0; i < cells.count; ++i) write_cell(cells.first + i * cells.step, thread, warp_interval, site);
}

void SharedMemory::remember_reader(Cell& c, Sites& sites, int thread, std::uint32_t warp_interval,
                                   SourceSite site) const {
    // Earlier reads of this warp that a __syncwarp() already orders before this one need no memory of their own:
    // whatever races with them races with this read too.
    const bool starts_afresh =
        c.read_interval < block_interval_ || (same_warp(c.reader, thread) && c.read_interval < warp_interval);
    if (starts_afresh) {
        c.readers = Readers::one_thread;
    } else {
        c.readers = same_warp(c.reader, thread) ? Readers::one_warp : Readers::several_warps;
        c.other_reader = c.reader;
        sites.other_read = sites.read;
    }
    c.read_interval = warp_interval;
    c.reader = static_cast<std::uint16_t>(thread);
    sites.read = site;
}

/// From now on the cells of a line are touched in another way than all at once.
void SharedMemory::hand_to_cells(std::size_t number) {
    Line& line = lines_[number];
    for (std::size_t i = number * kLineCells; i < (number + 1) * kLineCells; i += line.step) {
        const Cell before = cells_[i];
        const SourceSite written_at = sites_[i].write;
        cells_[i] = line.cell;
        sites_[i] = line.sites;
        if (!line.cells_know_writer) continue;
        cells_[i].write_interval = before.write_interval;
        cells_[i].writer = before.writer;
        sites_[i].write = written_at;
    }
    line.step = 0;
}

/// A thread has just read these cells without a race. If they are a line, and the same happened to all of them, the
/// line takes over. Who wrote which may differ: of those written in one interval the reader wrote all, or they are
/// ordered before it, and then before its whole warp.
void SharedMemory::hand_to_line(Cells cells) {
    if (!is_line(cells)) return;
    const Cell& first = cells_[cells.first];
    const Sites& sites = sites_[cells.first];
    for (std::size_t i = 1; i < cells.count; ++i) {
        const Cell& c = cells_[cells.first + i * cells.step];
        const Sites& s = sites_[cells.first + i * cells.step];
        if (c.write_interval != first.write_interval || c.read_interval != first.read_interval ||
            c.readers != first.readers || c.reader != first.reader || s.read != sites.read)
            return;
        if (c.readers != Readers::one_thread &&
            (c.other_reader != first.other_reader || s.other_read != sites.other_read))
            return;
    }
    Line& line = lines_[cells.first / kLineCells];
    line.cell = first;
    line.sites = sites;
    line.step = cells.step;
    line.cells_know_writer = true;
}

void SharedMemory::take_off(Cells cells, int thread, std::uint32_t warp_interval, SourceSite site) {
    write(cells, thread, warp_interval, site);
    const auto depart = [](Cell& c) {
        c.write_interval = kInFlight;
        c.writer = kNoThread;
    };
    if (Line* const line = line_of(cells))
        depart(line->cell);
    else
        for (std::size_t i = 0; i < cells.count; ++i) depart(cell(cells.first + i * cells.step));
    ++copies_in_flight_;
}

void SharedMemory::land(Cells cells, int thread, std::uint32_t warp_interval, SourceSite site) {
    const auto arrive = [&](Cell& c, Sites& sites) {
        c.write_interval = warp_interval;
        c.writer = static_cast<std::uint16_t>(thread);
        sites.write = site;
    };
    if (Line* const line = line_of(cells)) {
        arrive(line->cell, line->sites);
        line->cells_know_writer = false;
    } else {
        for (std::size_t i = 0; i < cells.count; ++i) {
            const std::size_t index = cells.first + i * cells.step;
            arrive(cell(index), sites_[index]);
        }
    }
    --copies_in_flight_;
}

void SharedMemory::uninitialised(std::size_t cell, int thread, SourceSite site) const {
    if (ScopedLeniency::active()) return;
    owner_.fail({.fault = Fault::uninitialised_read,
                 .first = {thread, site},
                 .what = "thread " + std::to_string(thread) + " reads " + element_name(cell * kCellBytes) +
                         ", which nobody has written yet in this block",
                 .advice = "shared memory holds garbage when a block starts: write every element that is read, "
                           "the padding of ragged tiles too, and if another thread was to write it, let a "
                           "barrier lie between"});
}

void SharedMemory::race(const char* does, std::size_t cell, int thread, SourceSite site, const char* did, int other,
                        SourceSite other_site) const {
    if (ScopedLeniency::active()) return;
    if (cells_[cell].write_interval == kInFlight) owner_.fail_in_flight(does, cell * kCellBytes, thread, site);
    const bool writes = does == std::string_view("writes"), wrote = did == std::string_view("wrote");
    // The one who wrote had read it before, at the line where it is read now.
    const bool both_update = !writes && wrote && cells_[cell].reader == other && sites_[cell].read == site &&
                             cells_[cell].read_interval == cells_[cell].write_interval;
    owner_.fail({.fault = Fault::race,
                 .first = {thread, site},
                 .second = {other, other_site},
                 .what = "thread " + std::to_string(thread) + " " + does + " " + element_name(cell * kCellBytes) +
                         ", which thread " + std::to_string(other) + " " + did + "; no barrier lies between",
                 .advice = both_update ? update_race_advice()
                                       : race_advice({thread, site, writes}, {other, other_site, wrote})});
}

}  // namespace cpu
}  // namespace simt
