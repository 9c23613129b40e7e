#include <algorithm>
#include <string_view>

#include "common/simt/memory/shared_memory.h"
#include "common/simt/report/leniency.h"
#include "common/simt/report/race_advice.h"

// What threads of other blocks of a cluster do to a block's shared memory. Barriers of this block order none of it:
// only what the visitor knows counts. What it leaves in a cell looks later than any interval of this block, so that
// every access here meets a conflict in the comparisons that it makes anyway, and then asks the clocks.

namespace simt {
inline namespace cpu {
namespace {

/// Calls use(offset, width) for 16 bytes at a time, or for single elements where these do not fill them.
template <class Use>
void for_each_piece(std::size_t offset, std::size_t bytes, std::size_t element_bytes, Use&& use) {
    for (std::size_t at = offset, end = offset + bytes; at < end;) {
        const std::size_t width = at % 16 == 0 && end - at >= 16 ? 16 : element_bytes;
        use(at, width);
        at += width;
    }
}

}  // namespace

void SharedMemory::note_visit(const Visit& visit) {
    const auto same = std::ranges::find(visits_, visit.who, &Visit::who);
    if (same == visits_.end())
        visits_.push_back(visit);
    else
        *same = visit;
}

void SharedMemory::forget_visits() {
    for (const std::uint32_t number : visited_) {
        const std::size_t begin = number * kLineBytes;
        for (std::size_t byte = begin; byte < begin + kLineBytes; ++byte) {
            cells_[byte / 2] = {};
            cells_[first_byte_cell() + byte] = {};
        }
        lines_[number] = {};
    }
    visited_.clear();
    visits_.clear();
}

/// Whether the visitor may go on. Not while the machine is lenient, which lets wrong accesses pass.
bool SharedMemory::check_visit(const char* does, const Cell& c, const Sites& sites, std::size_t offset,
                               const Visitor& visitor, SourceSite site) {
    if (c.write_interval == kInFlight) {
        if (!ScopedLeniency::active()) owner_.fail_in_flight(does, offset, visitor.who, site);
        return false;
    }
    if (c.write_interval == kAtomics) {
        const AtomicNote& note = atomics_.at(offset / 4);
        const auto other =
            note.modifiers.first_unknown([&](int who, std::uint32_t interval) { return visitor.knows(who, interval); });
        if (other.thread >= 0)
            race_of_visitor(does, offset, visitor, site, "wrote atomically", other.thread, other.site);
        return other.thread < 0;
    }
    if (c.write_interval < first_interval_ || c.writer == visitor.who || visitor.knows(c.writer, c.write_interval))
        return true;
    race_of_visitor(does, offset, visitor, site, "wrote", c.writer, sites.write);
    return false;
}

void SharedMemory::read_by_visitor(Elements elements, const Visitor& visitor, SourceSite site) {
    for (std::size_t i = 0; i < elements.count; ++i)
        with_cells(elements.offset() + i * elements.width, elements.width, [&](std::size_t index) {
            const Cell& c = cells_[index];
            const std::size_t offset = offset_of_cell(index);
            if (c.write_interval < first_interval_ && !may_be_of_bare_pointer(offset, visitor.who) &&
                !ScopedLeniency::active())
                owner_.fail({.fault = Fault::uninitialised_read,
                             .first = owner_.witness(visitor.who, site),
                             .what = owner_.party(visitor.who) + " reads " + element_name(offset, visitor.who) +
                                     " of " + owner_.home() + ", which nobody has written yet in that block",
                             .advice = "each block of a cluster has its own shared memory, which holds garbage when it "
                                       "starts: let that block write the element, and cluster_sync() lie between"});
            if (check_visit("reads", c, sites_[index], offset, visitor, site))
                readers_of(c).add(visitor.who, visitor.interval | ThreadClocks::kVisit, site);
        });
    note_visit({visitor.who, visitor.interval, elements.first, false, site});
}

void SharedMemory::write_by_visitor(Elements elements, const Visitor& visitor, SourceSite site) {
    for (std::size_t i = 0; i < elements.count; ++i)
        with_cells(elements.offset() + i * elements.width, elements.width, [&](std::size_t index) {
            Cell& c = cells_[index];
            const std::size_t offset = offset_of_cell(index);
            meet_readers(index, visitor, site);
            check_visit("writes", c, sites_[index], offset, visitor, site);
            readers_of(c).clear();
            c.write_interval = visitor.interval | ThreadClocks::kVisit;
            c.read_interval = 0;
            c.writer = std::uint16_t(visitor.who);
            sites_[index].write = site;
            visited_.push_back(std::uint32_t(offset / kLineBytes));
        });
    note_visit({visitor.who, visitor.interval, elements.first, true, site});
}

void SharedMemory::take_off_for_visitor(std::size_t offset, std::size_t bytes, std::size_t element_bytes,
                                        const Visitor& visitor, SourceSite site) {
    // Who still reads is worth more words than who wrote what he reads.
    for_each_piece(offset, bytes, element_bytes, [&](std::size_t at, std::size_t width) {
        with_cells(at, width, [&](std::size_t index) { meet_readers(index, visitor, site); });
    });
    for_each_piece(offset, bytes, element_bytes, [&](std::size_t at, std::size_t width) {
        with_cells(at, width, [&](std::size_t index) {
            const Cell& c = cells_[index];
            if (c.write_interval >= first_interval_ && c.write_interval < kAtomics &&
                !ThreadClocks::is_agent(c.writer) && visitor.knows(c.writer, c.write_interval) &&
                !visitor.has_shown(c.writer, c.write_interval))
                not_shown_to_visitor(index, visitor, site);
        });
        write_by_visitor(elements_of(at, width, width), visitor, site);
        with_cells(at, width, [&](std::size_t index) {
            cells_[index].write_interval = kInFlight;
            cells_[index].writer = kNoThread;
        });
    });
    // land() counts a line at a time.
    copies_in_flight_ += (offset + bytes - 1) / kLineBytes - offset / kLineBytes + 1;
}

void SharedMemory::meet_readers(std::size_t cell, const Visitor& visitor, SourceSite site) {
    const auto reader = readers_of(cells_[cell]).first_unknown([&](int who, std::uint32_t interval) {
        return who == visitor.who || visitor.knows(who, interval);
    });
    if (reader.thread >= 0)
        race_of_visitor("writes", offset_of_cell(cell), visitor, site, "read", reader.thread, reader.site);
}

void SharedMemory::not_shown_to_visitor(std::size_t cell, const Visitor& visitor, SourceSite site) const {
    if (ScopedLeniency::active()) return;
    const Cell& c = cells_[cell];
    owner_.fail({.fault = Fault::unseen_by_agent,
                 .first = owner_.witness(visitor.who, site),
                 .second = owner_.witness(c.writer, sites_[cell].write),
                 .what = "what " + owner_.party(visitor.who) + " sets off overwrites " +
                         element_name(offset_of_cell(cell), visitor.who) + " of " + owner_.home() + ", which " +
                         owner_.party(c.writer) + (ThreadClocks::is_visitor(c.writer) ? "" : " of that block") +
                         " stored in the ordinary way; nobody has shown that to the asynchronous proxy since",
                 .advice = "let each thread that stored call show_to_async() after it, before the cluster meets"});
}

void SharedMemory::race_of_visitor(const char* does, std::size_t offset, const Visitor& visitor, SourceSite site,
                                   const char* did, int other, SourceSite other_site) const {
    if (ScopedLeniency::active()) return;
    const bool is_agent = ThreadClocks::is_agent(other), wrote = did == std::string_view("wrote");
    const auto mate = [&] {  // of the visitor's own block
        return ThreadClocks::is_visitor(other) && ThreadClocks::rank_of(other) == ThreadClocks::rank_of(visitor.who);
    };
    owner_.fail(
        {.fault = Fault::race,
         .first = owner_.witness(visitor.who, site),
         .second = is_agent ? Witness{-1, other_site} : owner_.witness(other, other_site),
         .what = owner_.party(visitor.who) + " " + does + " " + element_name(offset, visitor.who) + " of " +
                 owner_.home() + ", which " + owner_.party(other) +
                 (ThreadClocks::is_visitor(other) ? "" : " of " + owner_.home()) +
                 (!is_agent ? std::string(" ") + did
                            : std::string(wrote ? " wrote" : " may still read") + ", set off at " + other_site.text()) +
                 "; nothing in the cluster orders the two",
         .advice = is_agent ? "let the block that waited for that tell the others: by cluster_sync(), or by "
                              "arriving at an mbarrier for which they wait by wait_in_cluster()"
                   : mate() ? race_advice({ThreadClocks::thread_of(visitor.who), site, does[0] == 'w'},
                                          {ThreadClocks::thread_of(other), other_site, did[0] == 'w'})
                            : cluster_race_advice()});
}

}  // namespace cpu
}  // namespace simt
