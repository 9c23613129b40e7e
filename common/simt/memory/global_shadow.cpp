#include "common/simt/memory/global_shadow.h"

#include <algorithm>
#include <span>
#include <type_traits>
#include <utility>

#include "common/simt/memory/global_hand_in.h"
#include "common/simt/report/leniency.h"
#include "common/simt/report/race_advice.h"

// What the running block does to global memory, and whether it is in order inside the block.

namespace simt {
inline namespace cpu {
namespace {

constexpr std::uintptr_t kNoChunk = UINTPTR_MAX;  // 0 is the first one of a tensor without memory

}  // namespace

GlobalShadow::GlobalShadow(FaultHandler& faults)
    : faults_(faults), readers_(&memory_), listed_(&memory_), atomics_(&memory_) {}
GlobalShadow::~GlobalShadow() = default;

GlobalShadow::AtomicNote::AtomicNote(const allocator_type& memory)
    : modifiers(memory), loaders(memory), changes(memory), looks(memory) {}
GlobalShadow::AtomicNote::~AtomicNote() = default;

GlobalShadow::Listed::Listed(const allocator_type& memory) : list(memory) {}
GlobalShadow::Listed::~Listed() = default;

void GlobalShadow::open_block_interval() {
    ++block_interval_;
    if (clocks_) readers_.clear();
    if (waited_.any()) waited_.set();  // who comes out of a barrier has waited, if anyone before it had
}

void GlobalShadow::join_cluster(std::vector<std::uint64_t> numbers, int rank, int threads) {
    cluster_.join(std::move(numbers), rank, threads);
    begin_to_list();
}

void GlobalShadow::start_block(GlobalLaunchShadow& launch, std::uint64_t block) {
    if (launch.number() != launch_number_) {
        launch_number_ = launch.number();
        known_ = {};
    }
    launch_ = &launch;
    block_ = block;
    recent_key_ = kNoChunk;
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
    recent_key_ = kNoChunk;
    if (lists_) {
        hand_in_lists();
        return;
    }
    GlobalLaunchShadow::HandIn hand_in(*launch_, block_);
    const std::uint32_t first_interval = first_interval_;
    for (const Chunk& chunk : std::span(chunks_).first(used)) {
        auto& page = hand_in.page_of(*chunk.region, chunk.first_cell);  // that of all its cells
        static_assert(std::remove_reference_t<decltype(page)>::kCells % kChunkCells == 0);
        for (std::size_t i = 0; i < kChunkCells; ++i) {
            const Cell& c = chunk.cells[i];
            if (c.read_interval >= first_interval)
                hand_in.read(page, chunk.first_cell + i, {c.reader, c.read_tensor, c.read_site});
            if (c.write_interval < first_interval) continue;
            const GlobalAccessRecord write{c.writer, c.write_tensor, c.write_site};
            if (c.adds & kOnlyAdds) [[unlikely]]
                hand_in.add(page, chunk.first_cell + i, write);
            else
                hand_in.write(page, chunk.first_cell + i, write);
        }
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

void GlobalShadow::note_read(Cell& c, std::uintptr_t address, const GlobalAccessRecord& access,
                             std::uint32_t warp_interval) {
    read_cell<false>(c, address, access, warp_interval);
}

void GlobalShadow::meet_readers(const Cell& c, const char* does, std::uintptr_t address,
                                const GlobalAccessRecord& access) {
    meet_readers_inline(c, does, address, access);
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
