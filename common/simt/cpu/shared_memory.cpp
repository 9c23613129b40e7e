#include "common/simt/cpu/shared_memory.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string_view>

#include "common/simt/cpu/block.h"
#include "common/simt/cpu/leniency.h"
#include "common/simt/cpu/race_advice.h"
#include "common/simt/cpu/sanitizers.h"

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
        lines_.assign(cells_.size() / kLineCells, 0);
    }
    bytes_ = bytes;
    allow_access(memory_.get(), capacity_);
    forbid_access(memory_.get() + bytes, capacity_ - kNowhereBytes - bytes);
    std::memset(memory_.get(), 0xFF, bytes);
    regions_.clear();
    if (last_interval_ > UINT32_MAX / 2 || copies_in_flight_ > 0) {  // a block that failed leaves copies behind
        std::ranges::fill(cells_, Cell{});
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

void SharedMemory::take_off(std::size_t offset, std::size_t bytes, std::size_t element_bytes, int thread,
                            std::uint32_t warp_interval, SourceSite site) {
    write(offset, bytes, element_bytes, thread, warp_interval, site);
    for (std::size_t i = offset; i < offset + bytes; i += element_bytes) {
        cells_[i / kCellBytes].write_interval = kInFlight;
        cells_[i / kCellBytes].writer = kNoThread;
    }
    ++copies_in_flight_;
}

void SharedMemory::land(std::size_t offset, std::size_t bytes, std::size_t element_bytes, int thread,
                        std::uint32_t warp_interval, SourceSite site) {
    for (std::size_t i = offset; i < offset + bytes; i += element_bytes) {
        Cell& c = cells_[i / kCellBytes];
        c.write_interval = warp_interval;
        c.writer = static_cast<std::uint16_t>(thread);
        sites_[i / kCellBytes].write = site;
    }
    --copies_in_flight_;
}

void SharedMemory::uninitialised(std::size_t cell, int thread, SourceSite site) const {
    if (ScopedLeniency::active()) return;
    Block::current().fail({.fault = Fault::uninitialised_read,
                           .first = {thread, site},
                           .what = "thread " + std::to_string(thread) + " reads " + element_name(cell * kCellBytes) +
                                   ", which nobody has written yet in this block",
                           .advice =
                               "shared memory holds garbage when a block starts: write every element that is read, "
                               "the padding of ragged tiles too, and if another thread was to write it, let a "
                               "barrier lie between"});
}

void SharedMemory::race(const char* does, std::size_t cell, int thread, SourceSite site, const char* did, int other,
                        SourceSite other_site) const {
    if (ScopedLeniency::active()) return;
    if (cells_[cell].write_interval == kInFlight)
        Block::current().copies.report_touch(Block::current(), does, cell * kCellBytes, thread, site);
    const bool writes = does == std::string_view("writes"), wrote = did == std::string_view("wrote");
    Block::current().fail({.fault = Fault::race,
                           .first = {thread, site},
                           .second = {other, other_site},
                           .what = "thread " + std::to_string(thread) + " " + does + " " +
                                   element_name(cell * kCellBytes) + ", which thread " + std::to_string(other) + " " +
                                   did + "; no barrier lies between",
                           .advice = race_advice({thread, site, writes}, {other, other_site, wrote})});
}

}  // namespace cpu
}  // namespace simt
