#include "common/simt/memory/global_shadow.h"

#include <algorithm>
#include <bit>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "common/simt/report/leniency.h"
#include "common/simt/report/race_advice.h"

namespace simt {
inline namespace cpu {
namespace {

std::uint64_t next_launch_number() {
    static std::atomic<std::uint64_t> numbers{0};
    return ++numbers;
}

}  // namespace

// --- A launch -------------------------------------------------------------------------------------------------------

GlobalLaunchShadow::GlobalLaunchShadow(const char* kernel, dim3 grid, Running running)
    : kernel_(kernel),
      grid_(grid),
      number_(next_launch_number()),
      running_(std::move(running)),
      starts_early_(!running_.empty()),
      regions_(global_regions()) {}

GlobalLaunchShadow::Running GlobalLaunchShadow::running_after(std::shared_ptr<const GlobalLaunchShadow> last) {
    if (!last) return {};
    Running running{last};
    running.insert(running.end(), last->running_.begin(), last->running_.end());
    if (running.size() > kMostRunning) running.resize(kMostRunning);
    return running;
}

void GlobalLaunchShadow::end() {
    if (next_starts_after_wait_) running_.clear();
    for (const auto& [key, page] : pages_) {
        if (!page->region->written) continue;
        for (std::size_t i = 0; i < kPageCells; ++i)
            if (page->cells[i].writer.known())
                page->region->written[page->first_cell + i].store(true, std::memory_order_relaxed);
    }
    // What was added to, was written before.
    for (const auto& [address, history] : histories_)
        if (history.region->written && history.is_written())
            history.region->written[history.cell].store(true, std::memory_order_relaxed);
}

std::optional<GlobalLaunchShadow::Claim> GlobalLaunchShadow::claim_of_running(std::uintptr_t address,
                                                                              bool reads) const {
    for (std::size_t i = 0; i < running_.size(); ++i)
        if (std::optional<Claim> claim = running_[i]->claim(address, reads)) {
            claim->launches_between = i;
            return claim;
        }
    return std::nullopt;
}

std::optional<GlobalLaunchShadow::Claim> GlobalLaunchShadow::claim(std::uintptr_t address, bool reads) const {
    const auto after = std::ranges::upper_bound(regions_, address, {}, [](const auto& r) { return r->begin; });
    if (after == regions_.begin()) return std::nullopt;
    const GlobalRegion& region = **std::prev(after);
    if (address >= region.end) return std::nullopt;
    const std::size_t number = region.cell_of(address);
    if (std::optional<Claim> claim = listed_claim(region.address_of(number), reads)) return claim;
    const auto page = pages_.find(region.address_of(number / kPageCells * kPageCells));
    if (page == pages_.end()) return std::nullopt;
    const Cell& cell = page->second->cells[number % kPageCells];
    const auto added = adders_.find(region.address_of(number));
    const Party writer = cell.writer.known() || added == adders_.end() ? cell.writer : added->second[0];
    const Party party = writer.known() || !reads ? writer : cell.reader;
    if (!party.known()) return std::nullopt;
    return Claim{.kernel = kernel_,
                 .wrote = writer.known(),
                 .witness = {.thread = int(party.thread),
                             .site = instructions_[party.instruction].site,
                             .block = index_of(party.block_after - 1)}};
}

[[gnu::always_inline]] inline GlobalLaunchShadow::Party GlobalLaunchShadow::party(std::uint64_t block,
                                                                                  const GlobalAccessRecord& access) {
    const Instruction instruction{access.site, access.tensor};
    if (recent_instruction_ >= instructions_.size() || instructions_[recent_instruction_] != instruction) [[unlikely]]
        note(instruction);
    return {.block_after = block + 1, .thread = std::uint64_t(access.thread), .instruction = recent_instruction_};
}

GlobalLaunchShadow::Party GlobalLaunchShadow::party(const Past& past, std::uint32_t lanes) {
    return party(past.block, {past.access.warp * 32 + std::countr_zero(lanes & past.access.lanes), past.access.tensor,
                              past.access.site});
}

void GlobalLaunchShadow::HandIn::take(std::span<const Touch> touched) {
    for (const Touch& touch : touched) {
        if (!page_ || page_->region != touch.region || touch.cell - page_->first_cell >= kPageCells)
            page_ = &launch_.page_of(*touch.region, touch.cell);
        Cell& cell = page_->cells[touch.cell - page_->first_cell];
        const auto meet = [&](Party newcomer, Deed deed, Party other, Deed other_deed) {
            if (other.known() && other.block_after != newcomer.block_after) [[unlikely]]
                launch_.meet_other_block(newcomer, deed, other, other_deed, *touch.region, touch.cell);
        };
        if (touch.read.thread >= 0) {
            const Party reader = launch_.party(block_, touch.read);
            meet(reader, Deed::reads, cell.writer, Deed::writes);
            if (!launch_.histories_.empty()) [[unlikely]]
                launch_.meet_history(reader, Deed::reads, touch);
            keep_lowest(reader, cell.reader, cell.other_reader);
        }
        if (touch.adds || !launch_.adders_.empty()) [[unlikely]]
            launch_.take_additions(touch, cell, block_);
        if (touch.write.thread >= 0 && !touch.adds) {
            const Party writer = launch_.party(block_, touch.write);
            meet(writer, Deed::writes, cell.writer, Deed::writes);
            meet(writer, Deed::writes, cell.reader, Deed::reads);
            meet(writer, Deed::writes, cell.other_reader, Deed::reads);
            if (!launch_.histories_.empty()) [[unlikely]]
                launch_.meet_history(writer, Deed::writes, touch);
            if (!cell.writer.known() || writer.block_after < cell.writer.block_after) cell.writer = writer;
        }
    }
}

GlobalLaunchShadow::Page& GlobalLaunchShadow::page_of(const GlobalRegion& region, std::size_t cell) {
    const std::size_t first = cell / kPageCells * kPageCells;
    std::unique_ptr<Page>& page = pages_[region.address_of(first)];
    if (!page) page = std::make_unique<Page>(Page{.region = &region, .first_cell = first});
    return *page;
}

void GlobalLaunchShadow::note(const Instruction& instruction) {
    const auto known = std::ranges::find(instructions_, instruction);
    recent_instruction_ = std::size_t(known - instructions_.begin());
    if (known == instructions_.end()) instructions_.push_back(instruction);
    if (instructions_.size() > UINT16_MAX) throw std::length_error("a kernel with more than 65535 source lines");
}

void GlobalLaunchShadow::keep_lowest(Party newcomer, Party& lowest, Party& next) {
    if (!lowest.known() || newcomer.block_after < lowest.block_after) std::swap(newcomer, lowest);
    if (newcomer.known() && (!next.known() || newcomer.block_after < next.block_after)) next = newcomer;
}

/// Who adds meets those who read and write plainly, and they meet him.
void GlobalLaunchShadow::take_additions(const Touch& touch, const Cell& cell, std::uint64_t block) {
    const auto meet = [&](Party newcomer, Deed deed, Party other, Deed other_deed) {
        if (other.known() && other.block_after != newcomer.block_after)
            meet_other_block(newcomer, deed, other, other_deed, *touch.region, touch.cell);
    };
    const std::uintptr_t address = touch.region->address_of(touch.cell);
    if (touch.adds) {
        const Party adder = party(block, touch.write);
        meet(adder, Deed::writes, cell.writer, Deed::writes);
        meet(adder, Deed::writes, cell.reader, Deed::reads);
        meet(adder, Deed::writes, cell.other_reader, Deed::reads);
        std::array<Party, 2>& adders = adders_[address];
        keep_lowest(adder, adders[0], adders[1]);
    }
    const auto adders = adders_.find(address);
    if (adders == adders_.end()) return;
    for (const Party adder : adders->second) {
        if (touch.read.thread >= 0) meet(party(block, touch.read), Deed::reads, adder, Deed::writes);
        if (touch.write.thread >= 0 && !touch.adds) meet(party(block, touch.write), Deed::writes, adder, Deed::writes);
    }
}

void GlobalLaunchShadow::meet_other_block(Party newcomer, Deed newcomer_does, Party other, Deed other_does,
                                          const GlobalRegion& region, std::size_t cell, Lack lack,
                                          bool newcomer_is_agent) {
    if (ScopedLeniency::active()) return;
    const bool newcomer_is_later = newcomer.block_after > other.block_after;
    const Conflict conflict{.later = newcomer_is_later ? newcomer : other,
                            .earlier = newcomer_is_later ? other : newcomer,
                            .later_deed = newcomer_is_later ? newcomer_does : other_does,
                            .earlier_deed = newcomer_is_later ? other_does : newcomer_does,
                            .region = &region,
                            .cell = cell,
                            .lack = lack,
                            .later_is_agent = newcomer_is_agent == newcomer_is_later};
    if (!first_conflict_ || conflict.comes_before(*first_conflict_)) first_conflict_ = conflict;
    has_conflict_ = true;
}

bool GlobalLaunchShadow::Conflict::comes_before(const Conflict& other) const {
    const auto order = [](const Conflict& c) {
        const int kind = !changes(c.later_deed) ? 1 : !changes(c.earlier_deed) ? 2 : 0;
        return std::tuple(std::uint64_t{c.later.block_after}, std::uint64_t{c.earlier.block_after}, c.region->number,
                          c.cell, kind, c.later_deed, c.earlier_deed);
    };
    return order(*this) < order(other);
}

std::array<unsigned, 3> GlobalLaunchShadow::index_of(std::uint64_t block) const {
    return {unsigned(block % grid_.x), unsigned(block / grid_.x % grid_.y), unsigned(block / grid_.x / grid_.y)};
}

Witness GlobalLaunchShadow::witness(Party party) const {
    return {.thread = int(party.thread),
            .site = instructions_[party.instruction].site,
            .block = index_of(party.block_after - 1)};
}

/// What the party calls the element.
std::string GlobalLaunchShadow::name_for(Party party, const Conflict& c) const {
    return global_element_name(instructions_[party.instruction].tensor, c.region->address_of(c.cell));
}

std::optional<MachineError::Report> GlobalLaunchShadow::conflict(std::uint64_t last_block) const {
    if (!first_conflict_ || first_conflict_->later.block_after - 1 > last_block) return unwritten_read(last_block);
    const Conflict& c = *first_conflict_;
    if (c.lack == Lack::proxy_fence) return unseen_report(c);
    const Witness later = witness(c.later), earlier = witness(c.earlier);
    const std::string element = name_for(c.later, c), alias = name_for(c.earlier, c);
    return MachineError::Report{.fault = Fault::global_race,
                                .block = *later.block,
                                .first = later,
                                .second = earlier,
                                .what = text_of(*later.block) + " " + words_for(c.later_deed) + " " + element +
                                        ", which " + text_of(*earlier.block) + " " + words_for(c.earlier_deed) +
                                        (alias == element ? "" : " as " + alias) + " in the same launch",
                                .advice = advice_for(c)};
}

// --- A block --------------------------------------------------------------------------------------------------------

void GlobalShadow::start_block(GlobalLaunchShadow& launch, std::uint64_t block) {
    if (launch.number() != launch_number_) {
        launch_number_ = launch.number();
        known_ = {};
    }
    launch_ = &launch;
    block_ = block;
    const bool copies_left = sources_.size() > free_sources_.size();  // by a block that failed
    if (block_interval_ > UINT32_MAX / 2 || copies_left) {
        chunks_.clear();
        block_interval_ = 0;
        sources_.clear();
        free_sources_.clear();
    }
    first_interval_ = ++block_interval_;
    if (clocks_) readers_.clear();
    clocks_ = nullptr;
    is_plain_ = true;
    waited_.reset();
    lets_next_start_unwaited_ = false;
    bulk_.reset();
    hand_over_.start_block(block);
    cluster_.start_block();
    if (lists_) forget_lists();
}

void GlobalShadow::end_block() {
    if (waited_.any() && !lets_next_start_unwaited_) launch_->note_that_next_starts_after_wait();
    launch_->sums.end_block(block_, sums_);
    for (std::size_t i = 0; i < sources_.size(); ++i)
        if (sources_[i].region && sources_[i].written)
            for_each_cell(let_go(HeldSource(i)), [](Cell& c, std::uintptr_t) { --c.stores; });
    if (used_chunks_ == 0) return;
    const std::size_t used = std::exchange(used_chunks_, 0);
    chunk_numbers_.clear();
    recent_key_ = 0;
    if (lists_) {
        hand_in_lists();
        return;
    }
    GlobalLaunchShadow::HandIn hand_in(*launch_, block_);
    std::array<GlobalLaunchShadow::Touch, kChunkCells> touched;
    for (std::size_t n = 0; n < used; ++n) {
        const Chunk& chunk = chunks_[n];
        std::size_t count = 0;
        for (std::size_t i = 0; i < kChunkCells; ++i) {
            const Cell& c = chunk.cells[i];
            GlobalLaunchShadow::Touch touch{.region = chunk.region, .cell = chunk.first_cell + i};
            if (c.write_interval >= first_interval_) {
                touch.write = {c.writer, c.write_tensor, c.write_site};
                touch.adds = c.adds & kOnlyAdds;
            }
            if (c.read_interval >= first_interval_) touch.read = {c.reader, c.read_tensor, c.read_site};
            if (touch.write.thread >= 0 || touch.read.thread >= 0) touched[count++] = touch;
        }
        hand_in.take(std::span(touched).first(count));
    }
}

void GlobalShadow::look_up(int tensor, std::uintptr_t address) {
    const GlobalRegions& regions = launch_->regions();
    const auto after = std::ranges::upper_bound(regions, address, {}, [](const auto& r) { return r->begin; });
    std::uintptr_t begin = 0;
    const std::uintptr_t end = after == regions.end() ? UINTPTR_MAX : (*after)->begin;
    if (after != regions.begin()) {
        const GlobalRegion& before = **std::prev(after);
        if (address < before.end) {
            known_[tensor] = {before.begin, before.end - before.begin, &before};
            return;
        }
        begin = before.end;
    }
    if (after != regions.end() && end - address < kWidestAccess)
        known_[tensor] = {address, 1, after->get()};
    else
        known_[tensor] = {begin, end - begin - (kWidestAccess - 1), nullptr};
}

void GlobalShadow::look_back(bool write, std::uintptr_t address, std::size_t bytes,
                             const GlobalAccessRecord& access) const {
    if (ScopedLeniency::active()) return;
    constexpr std::size_t step = 2;  // bytes: no element is smaller
    std::optional<GlobalLaunchShadow::Claim> claim;
    for (std::size_t offset = 0; offset < bytes && !claim; offset += step)
        if ((claim = launch_->claim_of_running(address + offset, write))) address += offset;
    if (!claim) return;
    const std::size_t between = claim->launches_between;
    const std::string order = between == 0 ? "the kernel before" : std::to_string(between + 1) + " kernels before";
    faults_.fail(
        {.fault = Fault::global_race,
         .first = {access.thread, access.site},
         .second = claim->witness,
         .what = "thread " + std::to_string(access.thread) + (write ? " writes " : " reads ") +
                 global_element_name(access.tensor, address) + ", which " + claim->kernel + ", " + order + ", " +
                 (claim->wrote ? "writes" : "reads") + "; this launch may have started before that one ended" +
                 (between == 0 ? "" : ": what was launched between them may start early too, and did not wait first"),
         .advice = "call simt::wait_for_previous_kernel() before the first line that touches what the kernel before "
                   "writes, or writes what it reads"});
}

template <class Use>
void GlobalShadow::for_each_cell(const Source& source, Use use) {
    const GlobalRegion& region = *source.region;
    const std::size_t last = region.cell_of(std::min(source.address + source.bytes, region.end) - 1);
    for (std::size_t cell = region.cell_of(source.address); cell <= last; ++cell)
        use(chunk_of(region, cell).cells[cell % kChunkCells], region.address_of(cell));
}

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
        read_cell<false>(c, address, source.reader, warp_interval);
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

/// The block reads or overwrites what it has added to: now the values matter.
void GlobalShadow::make_own_additions(Cell& c) {
    c.adds &= std::uint8_t(~kLastAdds);
    if (!sums_.empty()) launch_->sums.make_now(block_, sums_);
}

GlobalShadow::Chunk& GlobalShadow::chunk_of(const GlobalRegion& region, std::size_t cell) {
    const std::size_t first = cell / kChunkCells * kChunkCells;
    const std::uintptr_t key = region.address_of(first);
    if (key != recent_key_) {
        recent_key_ = key;
        recent_chunk_ = chunk_numbers_.find_or_add(key, std::uint32_t(used_chunks_));
        if (recent_chunk_ == used_chunks_) {
            if (used_chunks_ == chunks_.size()) chunks_.emplace_back();
            Chunk& chunk = chunks_[used_chunks_++];
            chunk.region = &region;
            chunk.first_cell = first;
        }
    }
    return chunks_[recent_chunk_];
}

void GlobalShadow::touch(bool write, const GlobalRegion& region, std::uintptr_t address, std::size_t bytes,
                         const GlobalAccessRecord& access, std::uint32_t warp_interval) {
    // A vector may begin before the region, and end behind it.
    const std::uintptr_t begin = std::max(address, region.begin), end = std::min(address + bytes, region.end);
    if (begin >= end) return;
    const std::size_t first = region.cell_of(begin);
    const bool in_one = end - region.address_of(first) <= region.cell_bytes;  // as nearly always: spares a division
    const std::size_t last = in_one ? first : region.cell_of(end - 1);
    for (std::size_t cell = first; cell <= last; ++cell) {
        const bool is_recent = region.address_of(cell / kChunkCells * kChunkCells) == recent_key_;
        Chunk& chunk = is_recent ? chunks_[recent_chunk_] : chunk_of(region, cell);
        Cell& c = chunk.cells[cell % kChunkCells];
        if (!is_plain_) [[unlikely]] {
            touch_cell(write, region, cell, c, access, warp_interval);
        } else if (write) {
            write_cell<true>(c, region.address_of(cell), access, warp_interval);
        } else {
            read_cell<true>(c, region.address_of(cell), access, warp_interval);
            if (region.written && !written_here(c) && !region.written[cell].load(std::memory_order_relaxed))
                [[unlikely]]
                unwritten(region.address_of(cell), access, warp_interval);
        }
    }
    if (address + bytes > end) [[unlikely]]
        this->access(write, access.tensor, reinterpret_cast<const void*>(end), address + bytes - end, access.thread,
                     warp_interval, access.site);
}

void GlobalShadow::touch_cell(bool write, const GlobalRegion& region, std::size_t cell, Cell& c,
                              const GlobalAccessRecord& access, std::uint32_t warp_interval) {
    const std::uintptr_t address = region.address_of(cell);
    const auto has_no_value = [&] {
        return region.written && !written_here(c) && !region.written[cell].load(std::memory_order_relaxed);
    };
    if (write) {
        if (bulk_ == Bulk::add && has_no_value()) unwritten(address, access, warp_interval);
        write_cell<false>(c, address, access, warp_interval);
        return;
    }
    read_cell<false>(c, address, access, warp_interval);
    if (has_no_value()) unwritten(address, access, warp_interval);
}

/// As SharedMemory's.
int GlobalShadow::noted_reader_unknown_to(const Cell& c, int thread) const {
    if (c.read_warp_interval > before_clocks_ || !noted_read_races_with(c, thread)) return -1;
    const auto is_known = [&](int reader) {
        return reader == thread || (same_warp(reader, thread) && c.read_warp_interval < since_) ||
               clocks_->knows(thread, reader, c.read_warp_interval);
    };
    if (!is_known(c.reader)) return c.reader;
    return c.readers != Readers::one_thread && !is_known(c.other_reader) ? c.other_reader : -1;
}

template <bool plain>
[[gnu::always_inline]] inline void GlobalShadow::read_cell(Cell& c, std::uintptr_t address,
                                                           const GlobalAccessRecord& access,
                                                           std::uint32_t warp_interval) {
    const int thread = access.thread;
    if (!plain && c.stores > 0) [[unlikely]]
        meets_store("reads", address, access);
    if (write_races_with(c, thread)) [[unlikely]] {
        if (!plain && c.writer == kAtomics)
            meet_atomics(false, address, access);
        else
            race("reads", address, access, "wrote", {c.writer, c.write_tensor, c.write_site},
                 c.read_interval == block_interval_ && c.reader == c.writer && c.read_site == access.site);
    }
    if (!plain && bulk_) [[unlikely]]
        check_shown(c, "reads", address, access);
    if (!plain && lists_) [[unlikely]]
        list(Deed::reads, bulk_.has_value(), address, access, warp_interval);

    if (!plain && written_here(c) && (c.adds & kLastAdds)) [[unlikely]]
        make_own_additions(c);

    if (!plain && clocks_) {
        if (!bulk_) readers_[address].add(thread, warp_interval, access.site);  // else its agent, when it has read
        if (c.read_interval == block_interval_) return;  // the note may be of a read before there were clocks
    }
    const bool starts_afresh =
        c.read_interval != block_interval_ ||
        (c.readers != Readers::several_warps && same_warp(c.reader, thread) && c.read_warp_interval < since_);
    if (starts_afresh) {
        c.readers = Readers::one_thread;
    } else if (!same_warp(c.reader, thread) || (c.reader != thread && c.readers != Readers::several_warps)) {
        c.readers = same_warp(c.reader, thread) ? Readers::one_warp : Readers::several_warps;
        c.other_reader = c.reader;
        c.other_read_site = c.read_site;
    }
    c.read_interval = block_interval_;
    c.read_warp_interval = warp_interval;
    c.reader = std::uint16_t(thread);
    c.read_tensor = std::uint8_t(access.tensor);
    c.read_site = access.site;
}

template <bool plain>
[[gnu::always_inline]] inline void GlobalShadow::write_cell(Cell& c, std::uintptr_t address,
                                                            const GlobalAccessRecord& access,
                                                            std::uint32_t warp_interval) {
    const int thread = access.thread;
    if (!plain && c.copies > 0) [[unlikely]]
        overwrites_source(address, access);
    const bool adds = !plain && bulk_ == Bulk::add, after_addition = !plain && written_here(c) && (c.adds & kLastAdds);
    if (!plain && c.stores > 0 && !(adds && after_addition)) [[unlikely]]
        meets_store(adds ? "adds to" : "writes", address, access);
    if (!(adds && after_addition) && write_races_with(c, thread)) [[unlikely]] {
        if (!plain && c.writer == kAtomics)
            meet_atomics(true, address, access);
        else
            race("writes", address, access, "wrote", {c.writer, c.write_tensor, c.write_site});
    }
    if (!plain && bulk_) [[unlikely]]
        check_shown(c, adds ? "adds to" : "overwrites", address, access);
    if (after_addition && !adds) [[unlikely]]
        make_own_additions(c);
    c.adds = !adds ? 0 : written_here(c) ? std::uint8_t((c.adds & kOnlyAdds) | kLastAdds) : kOnlyAdds | kLastAdds;
    if (!plain && bulk_) c.adds |= kByAgent;
    meet_readers_inline(c, "writes", address, access);
    if (!plain && lists_) [[unlikely]]  // additions commute, as atomic ones do
        list(adds ? Deed::modifies_atomically : Deed::writes, bulk_.has_value(), address, access,
             bulk_ ? kUnderWay : warp_interval);
    c.write_interval = block_interval_;
    c.write_warp_interval = warp_interval;
    c.writer = std::uint16_t(thread);
    c.write_tensor = std::uint8_t(access.tensor);
    c.write_site = access.site;
}

void GlobalShadow::meet_readers(const Cell& c, const char* does, std::uintptr_t address,
                                const GlobalAccessRecord& access) {
    meet_readers_inline(c, does, address, access);
}

[[gnu::always_inline]] inline void GlobalShadow::meet_readers_inline(const Cell& c, const char* does,
                                                                     std::uintptr_t address,
                                                                     const GlobalAccessRecord& access) {
    const int thread = access.thread;
    if (clocks_) [[unlikely]] {
        ReaderList& readers = readers_[address];
        if (const auto reader = readers.unknown_to(thread, since_, 0, *clocks_); reader.thread >= 0)
            race(does, address, access, "read", {reader.thread, c.read_tensor, reader.site});
        readers.clear();
        if (const int reader = noted_reader_unknown_to(c, thread); reader >= 0)
            race(does, address, access, "read",
                 {reader, c.read_tensor, reader == c.reader ? c.read_site : c.other_read_site});
    } else if (noted_read_races_with(c, thread)) [[unlikely]] {
        const bool other = c.reader == thread || (c.readers == Readers::several_warps && same_warp(c.reader, thread));
        race(does, address, access, "read",
             {other ? c.other_reader : c.reader, c.read_tensor, other ? c.other_read_site : c.read_site});
    }
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

void GlobalShadow::unwritten(std::uintptr_t address, const GlobalAccessRecord& reader, std::uint32_t warp_interval) {
    if (ScopedLeniency::active()) return;
    if ((hand_over_.has_any() || cluster_.is_of_cluster()) && leave_to_launch(address, reader, warp_interval)) return;
    faults_.fail(
        {.fault = Fault::unwritten_read,
         .first = {reader.thread, reader.site},
         .what = "thread " + std::to_string(reader.thread) + " reads " + global_element_name(reader.tensor, address) +
                 ", which neither an earlier launch nor this block has written",
         .advice =
             "outputs and workspaces hold garbage until a kernel writes them: write the element before it is read, "
             "or start from a value of your own, such as 0 for a sum"});
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

void GlobalShadow::race(const char* does, std::uintptr_t address, const GlobalAccessRecord& access, const char* did,
                        const GlobalAccessRecord& other, bool both_update) const {
    if (ScopedLeniency::active()) return;
    const std::string element = global_element_name(access.tensor, address),
                      alias = global_element_name(other.tensor, address);
    if (ThreadClocks::is_agent(other.thread))
        faults_.fail({.fault = Fault::global_race,
                      .first = {access.thread, access.site},
                      .second = {-1, other.site},
                      .what = "thread " + std::to_string(access.thread) + " " + does + " " + element +
                              ", which a copy set off at " + other.site.text() + " " + did +
                              (alias == element ? "" : " as " + alias) + "; nothing that thread " +
                              std::to_string(access.thread) + " has waited for comes after that",
                      .advice = "wait at the barrier that the copy reports to first, or meet somebody who has"});
    faults_.fail({.fault = Fault::global_race,
                  .first = {access.thread, access.site},
                  .second = {other.thread, other.site},
                  .what = "thread " + std::to_string(access.thread) + " " + does + " " + element + ", which thread " +
                          std::to_string(other.thread) + " " + did + (alias == element ? "" : " as " + alias) +
                          "; no barrier lies between",
                  .advice = is_atomic(does) || is_atomic(did) ? atomic_race_advice()
                            : both_update
                                ? update_race_advice()
                                : race_advice({access.thread, access.site, does == std::string_view("writes")},
                                              {other.thread, other.site, did == std::string_view("wrote")})});
}

}  // namespace cpu
}  // namespace simt
