#include "common/simt/memory/shared_memory.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string_view>
#include <utility>

#include "common/simt/memory/sanitizers.h"
#include "common/simt/report/leniency.h"
#include "common/simt/report/race_advice.h"

namespace simt {
inline namespace cpu {

SharedMemory::SharedMemory(Owner& owner) : owner_(owner) {}
SharedMemory::~SharedMemory() = default;

void SharedMemory::Free::operator()(std::byte* p) const { std::free(p); }

void SharedMemory::start_block(std::size_t bytes) {
    const std::size_t rounded = (bytes + kForbiddenBytes + kNowhereBytes + kAlignment - 1) / kAlignment * kAlignment;
    if (rounded > capacity_) {
        memory_.reset(static_cast<std::byte*>(std::aligned_alloc(kAlignment, rounded)));
        if (!memory_) throw std::bad_alloc();
        capacity_ = rounded;
        lines_.assign(rounded / kLineBytes, Line{});
        cells_.assign(first_byte_cell() + rounded, Cell{});
        sites_.resize(cells_.size());
        open_to_.assign(lines_.size(), 0);
    }
    bytes_ = bytes;
    allow_access(memory_.get(), capacity_);
    forbid_access(memory_.get() + bytes, capacity_ - kNowhereBytes - bytes);
    std::memset(memory_.get(), int(kGarbage), bytes);
    regions_.clear();
    clocks_ = nullptr;
    if (!atomics_.empty()) forget_atomics();
    if (!visits_.empty()) forget_visits();
    rounds_.clear();
    lent_ = lent_for_any_bits_ = false;
    if (last_interval_ > UINT32_MAX / 2 || copies_in_flight_ > 0) {  // a block that failed leaves copies behind
        std::ranges::fill(cells_, Cell{});
        std::ranges::fill(lines_, Line{});
        std::ranges::fill(open_to_, 0);
        last_interval_ = 0;
        copies_in_flight_ = 0;
    }
    first_interval_ = open_block_interval();
}

void SharedMemory::order_by(const ThreadClocks& clocks) {
    clocks_ = &clocks;
    noted_since_ = 0;
    whole_block_ = audience(open_warp_interval(), 0);  // nothing is open to anybody: each reader comes into a list
    cell_readers_.resize(cells_.size());
    line_readers_.resize(lines_.size());
    ++ordered_blocks_;  // the lists of the one before are emptied as this one meets them
}

void* SharedMemory::nowhere() { return std::memset(memory_.get() + capacity_ - kNowhereBytes, 0xFF, kNowhereBytes); }

bool SharedMemory::Region::same_tile(const Region& other) const {
    return offset == other.offset && rows == other.rows && columns == other.columns && pitch == other.pitch &&
           element_bytes == other.element_bytes && panel_columns == other.panel_columns &&
           swizzle_bits == other.swizzle_bits && std::string_view(name) == other.name;
}

std::array<std::size_t, 2> SharedMemory::Region::indices_of(std::size_t byte) const {
    const std::size_t width = std::size_t(panel_columns ? panel_columns : pitch),
                      panel_bytes = std::size_t(rows) * width * std::size_t(element_bytes);
    std::size_t place = byte - offset, panel = 0;
    if (panel_columns) {
        panel = place / panel_bytes;
        place %= panel_bytes;
        place ^= place >> 3 & swizzle_bits;
    }
    const std::size_t element = place / std::size_t(element_bytes);
    return {element / width, panel * width + element % width};
}

const SharedMemory::Region* SharedMemory::name_region(const Region& region) {
    if (region.offset == region.end()) return nullptr;
    if (region.round > 0 && rounds_.empty()) rounds_.resize(kMostThreads);
    if (!rounds_.empty()) rounds_[std::size_t(region.thread)] = region.round;
    const auto same = std::ranges::find_if(regions_, [&](const Region& r) { return r.same_tile(region); });
    if (same != regions_.end() && same->round >= region.round) return nullptr;
    for (const Region& r : regions_)
        if (r.round == region.round && r.overlaps(region)) return &r;
    if (same == regions_.end())
        regions_.push_back(region);
    else
        *same = region;
    return nullptr;
}

const SharedMemory::Region* SharedMemory::region_at(std::size_t offset, int thread) const {
    const unsigned round = rounds_.empty() || std::size_t(thread) >= kMostThreads ? 0 : rounds_[std::size_t(thread)];
    const Region* found = nullptr;
    for (const Region& r : regions_) {
        if (offset < r.offset || offset >= r.end()) continue;
        // A tile that the thread has not come to yet is in its words only where it has no other.
        const auto rank = [round](const Region& tile) {
            return std::pair(tile.round <= round, tile.round <= round ? tile.round : 0);
        };
        if (!found || rank(*found) < rank(r)) found = &r;
    }
    return found;
}

std::string SharedMemory::element_name(std::size_t offset, int thread) const {
    const Region* const tile = region_at(offset, thread);
    if (!tile) return "shared byte " + std::to_string(offset);
    const auto [row, column] = tile->indices_of(offset);
    return std::string(tile->name) + "(" + std::to_string(row) + ", " + std::to_string(column) + ")";
}

void SharedMemory::read_vector(Elements elements, int thread, std::uint32_t warp_interval, SourceSite site) {
    Line* const line = line_of(elements);
    if (!line || !may_read(line->cell, thread)) return read_one_by_one(elements, thread, warp_interval, site);
    Cell& c = line->cell;
    const bool is_known = knows_reader(c, thread, warp_interval);
    if (clocks_) [[unlikely]] {
        if (!is_known) list_reader(c, thread, warp_interval, site);
        return;
    }
    if (!is_known) note_reader(c, line->sites, thread, warp_interval, site);
    // Now that the note has this reader: whoever else may read the same need not be looked at.
    if (c.readers != Readers::one_thread)
        open_to_[elements.first / kLineBytes] =
            (c.readers == Readers::one_warp ? warp_ : whole_block_) + elements.width;
}

void SharedMemory::read_one_by_one(Elements elements, int thread, std::uint32_t warp_interval, SourceSite site) {
    for (std::size_t i = 0; i < elements.count; ++i)
        read_element(elements.first + i * elements.width, elements.width, thread, warp_interval, site);
    hand_to_line(elements);
}

void SharedMemory::write_vector(Elements elements, int thread, std::uint32_t warp_interval, SourceSite site) {
    const Line* const same = line_of(elements);
    if (!same || write_races_with(same->cell, thread) || reads_race_with(same->cell, thread))
        write_one_by_one(elements, thread, warp_interval, site);
    if (!is_line(elements)) return;
    Line& line = lines_[elements.first / kLineBytes];
    line.cell.write_interval = warp_interval;
    line.cell.writer = static_cast<std::uint16_t>(thread);
    // Whoever may write after this may do so after the reads before it too: they need no memory any more.
    line.cell.read_interval = 0;
    line.sites.write = site;
    line.step = elements.width;
    line.cell_bytes = 0;
    line.cells_know_writer = false;
    if (clocks_) line_readers_[elements.first / kLineBytes].clear();
}

void SharedMemory::write_one_by_one(Elements elements, int thread, std::uint32_t warp_interval, SourceSite site) {
    for (std::size_t i = 0; i < elements.count; ++i)
        write_element(elements.first + i * elements.width, elements.width, thread, warp_interval, site);
}

void SharedMemory::read_finer(std::size_t offset, std::size_t width, int thread, std::uint32_t warp_interval,
                              SourceSite site) {
    with_cells(offset, width, [&](std::size_t cell) { read_cell(cell, thread, warp_interval, site); });
}

void SharedMemory::write_finer(std::size_t offset, std::size_t width, int thread, std::uint32_t warp_interval,
                               SourceSite site) {
    with_cells(offset, width, [&](std::size_t cell) { write_cell(cell, thread, warp_interval, site); });
}

void SharedMemory::remember_reader(Cell& c, Sites& sites, int thread, std::uint32_t warp_interval, SourceSite site) {
    if (clocks_) [[unlikely]]
        return list_reader(c, thread, warp_interval, site);
    note_reader(c, sites, thread, warp_interval, site);
}

void SharedMemory::list_reader(const Cell& c, int thread, std::uint32_t warp_interval, SourceSite site) {
    readers_of(c).add(thread, warp_interval, site);
}

ReaderList& SharedMemory::readers_of(const Cell& c) {
    const auto bytes_after = [&c](const auto& notes) {
        return std::size_t(reinterpret_cast<const std::byte*>(&c) - reinterpret_cast<const std::byte*>(notes.data()));
    };
    const bool is_cell = &c >= cells_.data() && &c < cells_.data() + cells_.size();
    ReaderList& readers =
        is_cell ? cell_readers_[bytes_after(cells_) / sizeof(Cell)] : line_readers_[bytes_after(lines_) / sizeof(Line)];
    readers.start_block(ordered_blocks_);
    return readers;
}

bool SharedMemory::reads_race_by_clocks(const Cell& c, int thread) {
    ReaderList& readers = readers_of(c);
    if (readers.unknown_to(thread, since_, block_interval_, *clocks_).thread >= 0) return true;
    readers.clear();  // whoever may write after this write may do so after those reads too
    return noted_reader_unknown_to(c, thread) >= 0;
}

/// Of reads before there were clocks one or two readers are noted, though more may have read. Where the writer knows
/// those, it is believed to know the others.
int SharedMemory::noted_reader_unknown_to(const Cell& c, int thread) const {
    if (!noted_reader_races_with(c, thread)) return -1;
    const auto is_known = [&](int reader) {
        return reader == thread || (same_warp(reader, thread) && c.read_interval < since_) ||
               clocks_->knows(thread, reader, c.read_interval);
    };
    if (!is_known(c.reader)) return c.reader;
    return c.readers != Readers::one_thread && !is_known(c.other_reader) ? c.other_reader : -1;
}

/// From now on the cells of a line speak for themselves, and none of them for more than `width` bytes.
void SharedMemory::ask_cells(std::size_t number, std::size_t width) {
    Line& line = lines_[number];
    if (line.step) hand_to_cells(number);
    if (line.cell_bytes == width) return;
    const std::size_t begin = number * kLineBytes, end = begin + kLineBytes, from_width = line.cell_bytes;
    bool of_this_block = false;
    for (std::size_t o = begin; from_width && o < end; o += from_width) {
        const Cell& c = cells_[cell_of(o, from_width)];
        of_this_block |= c.write_interval >= first_interval_ || c.read_interval >= first_interval_;
    }
    if (of_this_block && from_width < width) return;
    for (std::size_t o = begin; o < end; o += width) {
        const std::size_t to = cell_of(o, width),
                          from = of_this_block ? cell_of(o / from_width * from_width, from_width) : to;
        if (!of_this_block) cells_[to] = {};
        if (to == from) continue;
        cells_[to] = cells_[from];
        sites_[to] = sites_[from];
        if (clocks_) cell_readers_[to] = cell_readers_[from];
    }
    line.cell_bytes = std::uint16_t(width);
}

/// From now on the cells of a line are touched in another way than all at once.
void SharedMemory::hand_to_cells(std::size_t number) {
    Line& line = lines_[number];
    for (std::size_t o = number * kLineBytes; o < (number + 1) * kLineBytes; o += line.step) {
        const std::size_t i = cell_of(o, line.step);
        Cell cell = line.cell;
        Sites sites = line.sites;
        if (line.cells_know_writer) {
            cell.write_interval = cells_[i].write_interval;
            cell.writer = cells_[i].writer;
            sites.write = sites_[i].write;
        }
        cells_[i] = cell;
        sites_[i] = sites;
        if (clocks_) cell_readers_[i] = line_readers_[number];
    }
    line.cell_bytes = line.step;
    line.step = 0;
}

/// A thread has just read these elements without a race. If they are a line, and the same happened to all of them, the
/// line takes over. Who wrote which may differ: of those written in one interval the reader wrote all, or they are
/// ordered before it, and then before its whole warp. Clocks know each thread by itself.
void SharedMemory::hand_to_line(Elements elements) {
    if (!is_line(elements) || clocks_) return;
    Line& line = lines_[elements.first / kLineBytes];
    if (line.cell_bytes != elements.width) return;
    const std::size_t first_cell = cell_of(elements.first, elements.width);
    const Cell& first = cells_[first_cell];
    const Sites& sites = sites_[first_cell];
    for (std::size_t o = elements.width; o < kLineBytes; o += elements.width) {
        const Cell& c = cells_[cell_of(elements.first + o, elements.width)];
        const Sites& s = sites_[cell_of(elements.first + o, elements.width)];
        if (c.write_interval != first.write_interval || c.read_interval != first.read_interval ||
            c.readers != first.readers || c.reader != first.reader || s.read != sites.read)
            return;
        if (c.readers != Readers::one_thread &&
            (c.other_reader != first.other_reader || s.other_read != sites.other_read))
            return;
    }
    if (first.write_interval == kAtomics) return;
    line.cell = first;
    line.sites = sites;
    line.step = elements.width;
    line.cell_bytes = 0;
    line.cells_know_writer = true;
}

void SharedMemory::take_off(Elements elements, int thread, std::uint32_t warp_interval, SourceSite site) {
    write(elements, thread, warp_interval, site);
    const auto depart = [](Cell& c) {
        c.write_interval = kInFlight;
        c.writer = kNoThread;
    };
    if (Line* const line = line_of(elements))
        depart(line->cell);
    else
        with_cells(elements.first, elements.bytes(), [&](std::size_t cell) { depart(cells_[cell]); });
    ++copies_in_flight_;
}

void SharedMemory::land(Elements elements, int writer, std::uint32_t interval, SourceSite site) {
    const auto arrive = [&](Cell& c, Sites& sites) {
        c.write_interval = interval;
        c.writer = static_cast<std::uint16_t>(writer);
        sites.write = site;
    };
    if (Line* const line = line_of(elements)) {
        arrive(line->cell, line->sites);
        line->cells_know_writer = false;
    } else {
        with_cells(elements.first, elements.bytes(), [&](std::size_t cell) { arrive(cells_[cell], sites_[cell]); });
    }
    --copies_in_flight_;
}

/// Elements of 16 bytes each from `offset` on, and of less at the end; an element is never parted.
template <class Use>
void for_each_line(std::size_t offset, std::size_t bytes, std::size_t element_bytes, Use&& use) {
    for (std::size_t at = offset, end = offset + bytes; at < end;) {
        const std::size_t next = std::min(end, (at / 16 + 1) * 16);
        use(SharedMemory::elements_of(at, next - at, element_bytes));
        at = next;
    }
}

template <class Use>
void SharedMemory::with_notes(Elements elements, Use&& use) {
    if (Line* const line = line_of(elements)) {
        use(line->cell, line->sites, elements.offset());
        return;
    }
    with_cells(elements.first, elements.bytes(),
               [&](std::size_t cell) { use(cells_[cell], sites_[cell], offset_of_cell(cell)); });
}

void SharedMemory::check_shown(const Cell& c, const char* does, std::size_t offset, int thread, SourceSite site,
                               SourceSite write_site) const {
    if (c.write_interval < first_interval_ || c.write_interval >= kAtomics || ThreadClocks::is_agent(c.writer)) return;
    if (!clocks_->has_shown(thread, c.writer, c.write_interval)) [[unlikely]]
        not_shown(c, does, offset, thread, site, write_site);
}

void SharedMemory::take_off_for_agent(std::size_t offset, std::size_t bytes, std::size_t element_bytes, int thread,
                                      std::uint32_t warp_interval, SourceSite site) {
    for_each_line(offset, bytes, element_bytes, [&](Elements elements) {
        with_notes(elements, [&](const Cell& c, const Sites& sites, std::size_t at) {
            if (!write_races_with(c, thread)) check_shown(c, "writes", at, thread, site, sites.write);
        });
        take_off(elements, thread, warp_interval, site);
    });
}

void SharedMemory::land_of_agent(std::size_t offset, std::size_t bytes, std::size_t element_bytes, int agent,
                                 std::uint32_t interval, SourceSite site) {
    for_each_line(offset, bytes, element_bytes, [&](Elements elements) { land(elements, agent, interval, site); });
}

void SharedMemory::read_by_agent(std::size_t offset, std::size_t bytes, std::size_t element_bytes, int thread,
                                 int agent, std::uint32_t interval, SourceSite site) {
    for_each_line(offset, bytes, element_bytes, [&](Elements elements) {
        with_notes(elements, [&](const Cell& c, const Sites& sites, std::size_t at) {
            if (c.write_interval < first_interval_) [[unlikely]]
                uninitialised(cell_of(at, elements.width), thread, site);
            if (c.write_interval == kAtomics) [[unlikely]]
                meet_atomics("reads", cell_of(at, elements.width), thread, site);
            else if (write_races_with(c, thread)) [[unlikely]]
                race("reads", c, at, thread, site, "wrote", c.writer, sites.write);
            else
                check_shown(c, "reads", at, thread, site, sites.write);
            readers_of(c).add(agent, interval, site);
        });
    });
}

bool SharedMemory::may_be_of_bare_pointer(std::size_t offset, int thread) const {
    if (!lent_ || lent_for_any_bits_) return lent_;
    // A cell may be narrower than the tile's elements, and part of a number may look like garbage.
    const Region* const tile = region_at(offset, thread);
    const std::size_t width = tile ? std::size_t(tile->element_bytes) : lines_[offset / kLineBytes].cell_bytes;
    const std::size_t begin = tile ? offset - (offset - tile->offset) % width : offset;
    const std::span element(memory_.get() + begin, width);
    return std::ranges::any_of(element, [](std::byte b) { return b != kGarbage; });
}

void SharedMemory::uninitialised(std::size_t cell, int thread, SourceSite site) const {
    if (ScopedLeniency::active() || may_be_of_bare_pointer(offset_of_cell(cell), thread)) return;
    owner_.fail({.fault = Fault::uninitialised_read,
                 .first = {thread, site},
                 .what = "thread " + std::to_string(thread) + " reads " + element_name(offset_of_cell(cell), thread) +
                         ", which nobody has written yet in this block",
                 .advice = "shared memory holds garbage when a block starts: write every element that is read, "
                           "the padding of ragged tiles too, and if another thread was to write it, let a "
                           "barrier lie between"});
}

void SharedMemory::race_with_reader(std::size_t cell, int thread, SourceSite site, const char* does) {
    const Cell& c = cells_[cell];
    if (clocks_)
        if (const auto reader = readers_of(c).unknown_to(thread, since_, block_interval_, *clocks_);
            reader.thread >= 0) {
            report_race(does, cell, thread, site, "read", reader.thread, reader.site);
            return;
        }
    const bool other = clocks_
                           ? noted_reader_unknown_to(c, thread) != c.reader
                           : c.reader == thread || (c.readers == Readers::several_warps && same_warp(c.reader, thread));
    report_race(does, cell, thread, site, "read", other ? c.other_reader : c.reader,
                other ? sites_[cell].other_read : sites_[cell].read);
}

void SharedMemory::not_shown(const Cell& c, const char* does, std::size_t offset, int thread, SourceSite site,
                             SourceSite write_site) const {
    if (ScopedLeniency::active()) return;
    const std::string agent = does == std::string_view("reads") ? "reads" : "overwrites";
    owner_.fail({.fault = Fault::unseen_by_agent,
                 .first = {thread, site},
                 .second = owner_.witness(c.writer, write_site),
                 .what = "what " + owner_.party(thread) + " sets off " + agent + " " + element_name(offset, thread) +
                         ", which " + owner_.party(c.writer) +
                         " stored in the ordinary way; nobody has shown that to the asynchronous proxy since",
                 .advice = "tensor cores and bulk copies look at shared memory past the threads' stores: let each "
                           "thread that stored call show_to_async() after it, and then meet the one who sets off "
                           "what reads it"});
}

void SharedMemory::race(const char* does, std::size_t cell, int thread, SourceSite site, const char* did, int other,
                        SourceSite other_site) const {
    if (cells_[cell].write_interval == kAtomics)
        meet_atomics(does, cell, thread, site);
    else
        report_race(does, cell, thread, site, did, other, other_site);
}

void SharedMemory::report_race(const char* does, std::size_t cell, int thread, SourceSite site, const char* did,
                               int other, SourceSite other_site) const {
    const Cell& c = cells_[cell];
    // The one who wrote had read it before, at the line where it is read now.
    const bool both_update = does == std::string_view("reads") && did == std::string_view("wrote") &&
                             c.reader == other && sites_[cell].read == site && c.read_interval == c.write_interval;
    race(does, c, offset_of_cell(cell), thread, site, did, other, other_site, both_update);
}

void SharedMemory::race(const char* does, const Cell& c, std::size_t offset, int thread, SourceSite site,
                        const char* did, int other, SourceSite other_site, bool both_update) const {
    if (ScopedLeniency::active()) return;
    if (c.write_interval == kInFlight) owner_.fail_in_flight(does, offset, thread, site);
    const bool writes = does == std::string_view("writes"), wrote = did == std::string_view("wrote");
    const std::string element = element_name(offset, thread);
    if (ThreadClocks::is_agent(other)) {
        owner_.fail({.fault = Fault::race,
                     .first = {thread, site},
                     .second = {-1, other_site},
                     .what = owner_.party(thread) + " " + does + " " + element + ", which " + owner_.party(other) +
                             (wrote ? " wrote, set off at " : " may still read, set off at ") + other_site.text() +
                             "; nothing that " + owner_.party(thread) + " has waited for comes after that",
                     .advice = wrote
                                   ? "wait at the barrier that the copy reports to, in the phase that it belongs to, "
                                     "or meet somebody who has"
                                   : "wait until it has read, where it was set off (of products, in each warp for "
                                     "itself), and only then let others know that the memory is free: by a barrier, or "
                                     "by an arrival at one"});
    }
    if (ThreadClocks::is_visitor(other))
        owner_.fail({.fault = Fault::race,
                     .first = owner_.witness(thread, site),
                     .second = owner_.witness(other, other_site),
                     .what = owner_.party(thread) + " " + does + " " + element + ", which " + owner_.party(other) +
                             " " + did + "; nothing in the cluster orders the two",
                     .advice = cluster_race_advice()});
    const std::string alias = element_name(offset, other);
    owner_.fail({.fault = Fault::race,
                 .first = {thread, site},
                 .second = {other, other_site},
                 .what = owner_.party(thread) + " " + does + " " + element + ", which " + owner_.party(other) + " " +
                         did + (alias == element ? "" : " as " + alias) + "; no barrier lies between",
                 .advice = is_atomic(does) || is_atomic(did) ? atomic_race_advice()
                           : both_update                     ? update_race_advice()
                                         : race_advice({thread, site, writes}, {other, other_site, wrote})});
}

}  // namespace cpu
}  // namespace simt
