#include <algorithm>
#include <utility>

#include "common/simt/memory/global_shadow.h"
#include "common/simt/report/leniency.h"
#include "common/simt/report/race_advice.h"

// What copies of a block read and write in global memory while they are under way, and what they have not been shown.

namespace simt {
inline namespace cpu {

GlobalShadow::HeldSource GlobalShadow::hold_source(int tensor, const void* p, std::size_t bytes, int thread,
                                                   SourceSite site) {
    return hold(false, tensor, p, bytes, thread, site);
}

GlobalShadow::HeldSource GlobalShadow::hold_target(int tensor, const void* p, std::size_t bytes, int thread,
                                                   SourceSite site) {
    return hold(true, tensor, p, bytes, thread, site);
}

GlobalShadow::HeldSource GlobalShadow::hold(bool write, int tensor, const void* p, std::size_t bytes, int thread,
                                            SourceSite site) {
    const auto address = reinterpret_cast<std::uintptr_t>(p);
    if (address - known_[tensor].begin >= known_[tensor].bytes) look_up(tensor, address);
    const GlobalRegion* const region = known_[tensor].region;
    const std::uintptr_t begin = region ? std::max(address, region->begin) : address;
    if (!region || begin >= address + bytes) return kUnwatched;
    is_plain_ = false;
    const Source source{region, begin, address + bytes - begin, {thread, tensor, site}, write};
    for_each_cell(source, [&](Cell& c, std::uintptr_t cell_address) {
        if (write) {
            ++c.stores;
            return;
        }
        ++c.copies;
        if (lists_) list(Deed::reads, false, cell_address, source.reader, 0);  // it may read at once
    });
    if (free_sources_.empty()) {
        sources_.push_back(source);
        return HeldSource(sources_.size() - 1);
    }
    const HeldSource place = free_sources_.back();
    free_sources_.pop_back();
    sources_[place] = source;
    return place;
}

void GlobalShadow::release_source(HeldSource place, std::uint32_t warp_interval, SourceSite site) {
    if (place == kUnwatched) return;
    Source source = let_go(place);
    source.reader.site = site;
    for_each_cell(source, [&](Cell& c, std::uintptr_t address) {
        --c.copies;
        note_read(c, address, source.reader, warp_interval);
    });
}

void GlobalShadow::release_source_of_agent(HeldSource place, int agent, std::uint32_t interval) {
    if (place == kUnwatched) return;
    const Source source = let_go(place);
    for_each_cell(source, [&](Cell& c, std::uintptr_t address) {
        --c.copies;
        if (clocks_) readers_[address].add(agent, interval, source.reader.site);
    });
}

void GlobalShadow::release_target(HeldSource place, std::uint32_t warp_interval, SourceSite site) {
    if (place == kUnwatched) return;
    const Source target = let_go(place);
    for_each_cell(target, [&](Cell& c, std::uintptr_t address) {
        --c.stores;
        if (lists_) listed_at(address).list.land(target.reader.thread, warp_interval);
        c.write_interval = block_interval_;
        c.write_warp_interval = warp_interval;
        c.writer = std::uint16_t(target.reader.thread);
        c.write_site = site;
    });
}

GlobalShadow::Source GlobalShadow::let_go(HeldSource place) {
    free_sources_.push_back(place);
    return std::exchange(sources_[place], Source{});
}

void GlobalShadow::access_in_bulk(Bulk how, int tensor, const void* p, std::size_t bytes, int thread,
                                  std::uint32_t warp_interval, SourceSite site) {
    bulk_ = how;
    is_plain_ = false;
    const auto* const first = static_cast<const std::byte*>(p);
    for (std::size_t done = 0; done < bytes; done += kWidestAccess)
        access(how != Bulk::read, tensor, first + done, std::min(kWidestAccess, bytes - done), thread, warp_interval,
               site);
    bulk_.reset();
}

/// A bulk copy comes to what threads of its block have stored in the ordinary way.
void GlobalShadow::check_shown(const Cell& c, const char* does, std::uintptr_t address,
                               const GlobalAccessRecord& access) const {
    if (!written_here(c) || c.adds & kByAgent) return;
    const auto is_shown = [&](int writer, std::uint32_t interval) {
        return clocks_ && clocks_->has_shown_global(access.thread, writer, interval);
    };
    if (c.writer == kAtomics) {
        if (const auto writer = atomics_.at(address).modifiers.first_unknown(is_shown); writer.thread >= 0)
            not_shown(does, address, access, {writer.thread, c.write_tensor, writer.site});
    } else if (!is_shown(c.writer, c.write_warp_interval)) {
        not_shown(does, address, access, {c.writer, c.write_tensor, c.write_site});
    }
}

void GlobalShadow::not_shown(const char* does, std::uintptr_t address, const GlobalAccessRecord& access,
                             const GlobalAccessRecord& writer) const {
    if (ScopedLeniency::active()) return;
    const std::string element = global_element_name(access.tensor, address),
                      alias = global_element_name(writer.tensor, address);
    faults_.fail({.fault = Fault::unseen_by_agent,
                  .first = {access.thread, access.site},
                  .second = {writer.thread, writer.site},
                  .what = "what thread " + std::to_string(access.thread) + " sets off " + does + " " + element +
                          " in global memory, which thread " + std::to_string(writer.thread) +
                          " stored in the ordinary way" + (alias == element ? "" : " as " + alias) +
                          "; nobody has shown that to the asynchronous proxy since",
                  .advice = global_proxy_advice()});
}

/// The copy or store under way that has the cell at `address`. A cell may be larger than what one copy touches of it.
const GlobalShadow::Source* GlobalShadow::holder_of(std::uintptr_t address, bool written) const {
    return &*std::ranges::find_if(sources_, [&](const Source& s) {
        return s.region && s.written == written && s.region->address_of(s.region->cell_of(s.address)) <= address &&
               address < s.address + s.bytes;
    });
}

void GlobalShadow::meets_store(const char* does, std::uintptr_t address, const GlobalAccessRecord& access) const {
    if (ScopedLeniency::active()) return;
    const GlobalAccessRecord& writer = holder_of(address, true)->reader;
    const std::string storer = "thread " + std::to_string(writer.thread),
                      element = global_element_name(access.tensor, address),
                      alias = global_element_name(writer.tensor, address);
    faults_.fail({.fault = Fault::global_race,
                  .first = {access.thread, access.site},
                  .second = {writer.thread, writer.site},
                  .what = "thread " + std::to_string(access.thread) + " " + does + " " + element +
                          ", which a bulk store of " + storer + " is still writing" +
                          (alias == element ? "" : " as " + alias) + "; " + storer + " has not waited for it yet",
                  .advice = "let " + storer +
                            " call wait_stores<N>() first: wait_stores_read<N>() waits only until "
                            "shared memory has been read" +
                            (writer.thread == access.thread ? "" : ", and put a barrier after the wait")});
}

void GlobalShadow::overwrites_source(std::uintptr_t address, const GlobalAccessRecord& writer) const {
    if (ScopedLeniency::active()) return;
    const GlobalAccessRecord& reader = holder_of(address, false)->reader;
    const std::string copier = "thread " + std::to_string(reader.thread),
                      element = global_element_name(writer.tensor, address),
                      alias = global_element_name(reader.tensor, address);
    faults_.fail({.fault = Fault::global_race,
                  .first = {writer.thread, writer.site},
                  .second = {reader.thread, reader.site},
                  .what = "thread " + std::to_string(writer.thread) + " writes " + element +
                          ", which an asynchronous copy of " + copier + " is still reading" +
                          (alias == element ? "" : " as " + alias) + "; " + copier + " has not waited for it yet",
                  .advice = "the hardware reads the source at any time up to the wait, so it may get the old value or "
                            "the new one, even if both are equal by then: let " +
                            copier + " wait for its copy first" +
                            (writer.thread == reader.thread ? "" : ", and put a barrier after the wait")});
}

}  // namespace cpu
}  // namespace simt
