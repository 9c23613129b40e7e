#include <algorithm>
#include <bit>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "common/simt/memory/global_hand_in.h"
#include "common/simt/report/leniency.h"

// What the blocks of a launch hand in, and the conflicts between them.

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
      regions_(global_regions()),
      pages_(&memory_),
      adders_(&memory_),
      histories_(&memory_) {}

// 4 million elements, more than the kernels of a lesson write: 32 MiB, and twice that for readers.
constexpr std::size_t kMostSparePages = 1 << 14;

Spare<GlobalLaunchShadow::Page>& GlobalLaunchShadow::spare_pages() {
    static Spare<Page> pages(kMostSparePages);
    return pages;
}

Spare<GlobalLaunchShadow::Page::AllReaders>& GlobalLaunchShadow::spare_readers() {
    static Spare<Page::AllReaders> readers(kMostSparePages);
    return readers;
}

GlobalLaunchShadow::~GlobalLaunchShadow() {
    for (auto& [key, page] : pages_) {
        if (page->readers) spare_readers().keep(std::move(page->readers));
        spare_pages().keep(std::move(page));
    }
}

GlobalLaunchShadow::Page::~Page() = default;

GlobalLaunchShadow::History::History(const allocator_type& memory)
    : by_deed{Pasts(memory), Pasts(memory), Pasts(memory), Pasts(memory)} {}
GlobalLaunchShadow::History::~History() = default;

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
        for (std::size_t i = 0; i < Page::kCells; ++i)
            if (page->writers[i].known())
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
    const Page* const page = known_page(region, number);
    if (!page) return std::nullopt;
    const auto added = adders_.find(region.address_of(number));
    const Party plain_writer = page->writers[number - page->first_cell];
    const Party writer = plain_writer.known() || added == adders_.end() ? plain_writer : added->second[0];
    const Party party = writer.known() || !reads ? writer : page->readers_of(number - page->first_cell).lowest;
    if (!party.known()) return std::nullopt;
    return Claim{.kernel = kernel_,
                 .wrote = writer.known(),
                 .witness = {.thread = party.thread(),
                             .site = instructions_[party.instruction()].site,
                             .block = index_of(party.block_after() - 1)}};
}

GlobalLaunchShadow::Party GlobalLaunchShadow::party(const Past& past, std::uint32_t lanes) {
    return {past.block, std::uint64_t(past.access.warp * 32 + std::countr_zero(lanes & past.access.lanes)),
            number_of({past.access.site, past.access.tensor})};
}

GlobalLaunchShadow::Page& GlobalLaunchShadow::page_of(const GlobalRegion& region, std::size_t cell) {
    const std::size_t first = cell / Page::kCells * Page::kCells;
    std::unique_ptr<Page>& page = pages_[region.address_of(first)];
    if (!page) {
        page = spare_pages().take();
        page->region = &region;
        page->first_cell = first;
        page->writers.fill({});
    }
    return *page;
}

void GlobalLaunchShadow::give_readers(Page& page) {
    page.readers = spare_readers().take();
    page.readers->fill({});
}

/// Null: no block has read or written its cells.
const GlobalLaunchShadow::Page* GlobalLaunchShadow::known_page(const GlobalRegion& region, std::size_t cell) const {
    const auto page = pages_.find(region.address_of(cell / Page::kCells * Page::kCells));
    return page == pages_.end() ? nullptr : page->second.get();
}

std::uint64_t GlobalLaunchShadow::number_of(const Instruction& instruction) {
    if (recent_instruction_ < instructions_.size() && instructions_[recent_instruction_] == instruction)
        return recent_instruction_;
    const auto known = std::ranges::find(instructions_, instruction);
    recent_instruction_ = std::size_t(known - instructions_.begin());
    if (known == instructions_.end()) instructions_.push_back(instruction);
    if (instructions_.size() > UINT16_MAX) throw std::length_error("a kernel with more than 65535 source lines");
    return recent_instruction_;
}

/// Who adds meets those who read and write plainly, and they meet him.
void GlobalLaunchShadow::HandIn::add(Page& page, std::size_t number, const GlobalAccessRecord& access) {
    const GlobalRegion& region = *page.region;
    const std::size_t cell = number - page.first_cell;
    const Party adder = party(access, recent_write_);
    meet(adder, Deed::writes, page.writers[cell], Deed::writes, region, number);
    meet(adder, Deed::writes, page.readers_of(cell).lowest, Deed::reads, region, number);
    meet(adder, Deed::writes, page.readers_of(cell).next, Deed::reads, region, number);
    std::array<Party, 2>& adders = launch_.adders_[region.address_of(number)];
    keep_lowest(adder, adders[0], adders[1]);
}

void GlobalLaunchShadow::meet_other_block(Party newcomer, Deed newcomer_does, Party other, Deed other_does,
                                          const GlobalRegion& region, std::size_t cell, Lack lack,
                                          bool newcomer_is_agent) {
    if (ScopedLeniency::active()) return;
    const bool newcomer_is_later = newcomer.block_after() > other.block_after();
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
        return std::tuple(c.later.block_after(), c.earlier.block_after(), c.region->number, c.cell, kind, c.later_deed,
                          c.earlier_deed);
    };
    return order(*this) < order(other);
}

std::array<unsigned, 3> GlobalLaunchShadow::index_of(std::uint64_t block) const {
    return {unsigned(block % grid_.x), unsigned(block / grid_.x % grid_.y), unsigned(block / grid_.x / grid_.y)};
}

Witness GlobalLaunchShadow::witness(Party party) const {
    return {.thread = party.thread(),
            .site = instructions_[party.instruction()].site,
            .block = index_of(party.block_after() - 1)};
}

/// What the party calls the element.
std::string GlobalLaunchShadow::name_for(Party party, const Conflict& c) const {
    return global_element_name(instructions_[party.instruction()].tensor, c.region->address_of(c.cell));
}

std::optional<MachineError::Report> GlobalLaunchShadow::conflict(std::uint64_t last_block) const {
    if (!first_conflict_ || first_conflict_->later.block_after() - 1 > last_block) return unwritten_read(last_block);
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

}  // namespace cpu
}  // namespace simt
