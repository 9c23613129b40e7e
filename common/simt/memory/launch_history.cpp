#include <algorithm>
#include <bit>
#include <ranges>

#include "common/simt/memory/global_hand_in.h"
#include "common/simt/report/leniency.h"
#include "common/simt/report/race_advice.h"

// What a launch knows of blocks that hand over to each other, and of atomic accesses.

namespace simt {
inline namespace cpu {

void GlobalLaunchShadow::HandIn::take(const GlobalRegion& region, std::size_t cell, const AccessList& list,
                                      bool hands_over, const KnowledgePtr& gained) {
    History& history = launch_.histories_[region.address_of(cell)];
    history.region = &region;
    history.cell = cell;
    const Page& page = launch_.page_of(region, cell);
    const Party writer = page.writers[cell - page.first_cell];
    const Readers readers = page.readers_of(cell - page.first_cell);
    for (const ListedAccess& access : list.all()) {
        const Past past{block_, hands_over, access};
        const Party party = launch_.party(past);
        const auto meet = [&](Party other, Deed deed) {
            if (other.known() && other.block_after() != party.block_after() && are_in_conflict(access.deed, deed))
                launch_.meet_other_block(party, access.deed, other, deed, region, cell);
        };
        meet(writer, Deed::writes);
        meet(readers.lowest, Deed::reads);
        meet(readers.next, Deed::reads);
        launch_.meet_history(past, history, gained);
    }
    for (const ListedAccess& access : list.all()) launch_.keep({block_, hands_over, access}, history);
}

void GlobalLaunchShadow::HandIn::take_unwritten(const GlobalRegion& region, std::size_t cell,
                                                const ListedAccess& read) {
    launch_.unwritten_.push_back({&region, cell, {block_, true, read}});
}

/// A plain access of a block that does not hand over: it is in order with no other.
void GlobalLaunchShadow::meet_more(Party newcomer, Deed deed, const GlobalRegion& region, std::size_t cell) {
    const std::uintptr_t address = region.address_of(cell);
    if (const auto adders = adders_.find(address); adders != adders_.end())
        for (const Party adder : adders->second)
            if (adder.known() && adder.block_after() != newcomer.block_after())
                meet_other_block(newcomer, deed, adder, Deed::writes, region, cell);
    if (const auto history = histories_.find(address); history != histories_.end())
        for (const auto& pasts : history->second.by_deed)
            for (const Past& past : pasts)
                if (past.block + 1 != newcomer.block_after() && are_in_conflict(deed, past.access.deed))
                    meet_other_block(newcomer, deed, party(past), past.access.deed, region, cell);
}

void GlobalLaunchShadow::meet_history(const Past& newcomer, const History& history, const KnowledgePtr& gained) {
    const ListedAccess& here = newcomer.access;
    // Who has seen what an atomic access left comes after it (PTX: observation order), or knows of one who has.
    const auto saw = [&](const ListedAccess& plain, const ListedAccess& atomic) {
        if (is_atomic(plain.deed) || atomic.deed != Deed::modifies_atomically) return false;
        if (atomic.number <= plain.number) return true;
        const auto is_known_look = [&](const Past& look) {
            return look.access.looks && look.access.number >= atomic.number &&
                   look.access.lanes_unknown_to(plain.knowledge, look.block) == 0;
        };
        return std::ranges::any_of(history.by_deed[std::size_t(Deed::loads_atomically)], is_known_look) ||
               std::ranges::any_of(history.by_deed[std::size_t(Deed::modifies_atomically)], is_known_look);
    };
    for (const auto& pasts : history.by_deed)
        for (const Past& past : pasts) {
            const ListedAccess& there = past.access;
            if (!are_in_conflict(here.deed, there.deed)) break;
            if (past.block == newcomer.block || saw(here, there) || saw(there, here)) continue;
            const std::uint32_t lanes_there = there.lanes_unknown_to(here.knowledge, past.block),
                                lanes_here = here.lanes_unknown_to(there.knowledge, newcomer.block);
            if (!lanes_there || !lanes_here) {
                meet_in_order(newcomer, past, !lanes_there, history);
                continue;
            }
            const bool took_over = gained && gained->of(past.block),
                       was_taken_over = there.knowledge && there.knowledge->of(newcomer.block),
                       is_under_way =
                           (took_over && there.interval == kUnderWay) || (was_taken_over && here.interval == kUnderWay);
            Lack lack = Lack::unknown;
            if (is_under_way)
                lack = Lack::store_under_way;
            else if (took_over)
                lack = there.lanes_unknown_to(gained, past.block) ? Lack::before_release : Lack::after_acquire;
            else if (was_taken_over)
                lack = Lack::before_release;
            meet_other_block(party(newcomer, lanes_here), here.deed, party(past, lanes_there), there.deed,
                             *history.region, history.cell, lack);
        }
}

/// One of the two comes after the other. Where it is a bulk copy's, it must also see the other.
void GlobalLaunchShadow::meet_in_order(const Past& newcomer, const Past& past, bool newcomer_is_after,
                                       const History& history) {
    const Past &after = newcomer_is_after ? newcomer : past, &before = newcomer_is_after ? past : newcomer;
    if (!after.access.by_agent || before.access.by_agent || !changes(before.access.deed)) return;
    const std::uint32_t unshown = before.access.lanes_unshown_to(after.access.knowledge, before.block);
    if (!unshown) return;
    meet_other_block(party(newcomer, newcomer_is_after ? ~0u : unshown), newcomer.access.deed,
                     party(past, newcomer_is_after ? unshown : ~0u), past.access.deed, *history.region, history.cell,
                     Lack::proxy_fence, newcomer_is_after);
}

/// Of blocks that do not hand over there may be very many, all adding to one element. The lowest two are enough to name
/// one that is not the newcomer's, and the last two to tell whether he has seen all.
void GlobalLaunchShadow::keep(const Past& past, History& history) {
    auto& pasts = history.by_deed[std::size_t(past.access.deed)];
    pasts.push_back(past);
    if (past.hands_over || !is_atomic(past.access.deed)) return;
    constexpr std::size_t kFew = 2;
    std::vector<Past*> loose;
    for (Past& p : pasts)
        if (!p.hands_over && p.block != past.block) loose.push_back(&p);
    if (loose.size() <= 2 * kFew) return;
    const auto keeps = [&](const Past& p) {
        const auto lower = std::ranges::count_if(loose, [&](const Past* o) { return o->block < p.block; });
        const auto later =
            std::ranges::count_if(loose, [&](const Past* o) { return o->access.number > p.access.number; });
        return lower < std::ptrdiff_t(kFew) || later < std::ptrdiff_t(kFew);
    };
    std::vector<std::uint64_t> goes;
    for (const Past* p : loose)
        if (!keeps(*p)) goes.push_back(p->block);
    std::erase_if(pasts,
                  [&](const Past& p) { return !p.hands_over && std::ranges::find(goes, p.block) != goes.end(); });
}

bool GlobalLaunchShadow::History::is_written() const {
    return !by_deed[std::size_t(Deed::writes)].empty() || !by_deed[std::size_t(Deed::modifies_atomically)].empty();
}

std::optional<GlobalLaunchShadow::Claim> GlobalLaunchShadow::listed_claim(std::uintptr_t address, bool reads) const {
    const auto found = histories_.find(address);
    if (found == histories_.end()) return std::nullopt;
    for (const Deed deed : {Deed::writes, Deed::modifies_atomically, Deed::reads, Deed::loads_atomically}) {
        const auto& pasts = found->second.by_deed[std::size_t(deed)];
        if (pasts.empty() || !(changes(deed) || reads)) continue;
        const Past& past = *std::ranges::min_element(pasts, {}, &Past::block);
        return Claim{.kernel = kernel_,
                     .wrote = changes(deed),
                     .witness = {.thread = past.access.warp * 32 + std::countr_zero(past.access.lanes),
                                 .site = past.access.site,
                                 .block = index_of(past.block)}};
    }
    return std::nullopt;
}

bool GlobalLaunchShadow::is_written_before(const Unwritten& unwritten) const {
    const auto found = histories_.find(unwritten.region->address_of(unwritten.cell));
    if (found == histories_.end()) return false;
    const ListedAccess& read = unwritten.read.access;
    for (const Deed deed : {Deed::writes, Deed::modifies_atomically})
        for (const Past& past : found->second.by_deed[std::size_t(deed)])
            if (past.block != unwritten.read.block &&
                past.access.lanes_unknown_to(read.knowledge, past.block) != past.access.lanes)
                return true;
    return false;
}

std::optional<MachineError::Report> GlobalLaunchShadow::unwritten_read(std::uint64_t last_block) const {
    const Unwritten* first = nullptr;
    for (const Unwritten& u : unwritten_)
        if (u.read.block <= last_block && (!first || u.read.block < first->read.block) && !is_written_before(u))
            first = &u;
    if (!first) return std::nullopt;
    const ListedAccess& read = first->read.access;
    const int thread = read.warp * 32 + std::countr_zero(read.lanes);
    return MachineError::Report{
        .fault = Fault::unwritten_read,
        .block = index_of(first->read.block),
        .first = {.thread = thread, .site = read.site},
        .what = "thread " + std::to_string(thread) + " reads " +
                global_element_name(read.tensor, first->region->address_of(first->cell)) +
                ", which neither an earlier launch, nor this block, nor one that it took over from has written",
        .advice =
            "outputs and workspaces hold garbage until a kernel writes them: write the element before it is "
            "handed over, or start from a value of your own, such as 0 for a sum"};
}

/// What one block's bulk copy comes to, another block has stored in the ordinary way, in order, but unseen.
MachineError::Report GlobalLaunchShadow::unseen_report(const Conflict& c) const {
    const Party agent = c.later_is_agent ? c.later : c.earlier, writer = c.later_is_agent ? c.earlier : c.later;
    const Deed deed = c.later_is_agent ? c.later_deed : c.earlier_deed;
    const Witness first = witness(agent), second = witness(writer);
    const std::string element = name_for(agent, c), alias = name_for(writer, c);
    const char* const does = deed == Deed::reads                 ? " reads "
                             : deed == Deed::modifies_atomically ? " adds to "
                                                                 : " overwrites ";
    return {.fault = Fault::unseen_by_agent,
            .block = *first.block,
            .first = first,
            .second = second,
            .what = "what thread " + std::to_string(first.thread) + " of " + text_of(*first.block) + " sets off" +
                    does + element + " in global memory, which thread " + std::to_string(second.thread) + " of " +
                    text_of(*second.block) + " stored in the ordinary way" + (alias == element ? "" : " as " + alias) +
                    "; the one block takes over from the other, but nobody has shown that to the asynchronous proxy "
                    "since",
            .advice = global_proxy_advice()};
}

// --- Advice ---------------------------------------------------------------------------------------------------------

std::string GlobalLaunchShadow::place_of(const AtomicBoard::Step& step) const {
    return "thread " + std::to_string(step.thread) + " of " + text_of(index_of(step.block)) + " at " + step.site.text();
}

/// Where two blocks meet at an atomic access, and one has a fence of block scope there; with what follows from it.
std::string GlobalLaunchShadow::narrow_fences(std::uint64_t one, std::uint64_t other) const {
    SourceSite site;
    for (const AtomicBoard::Step& step : board_.steps()) {
        if (step.block != one && step.block != other) continue;
        for (const SourceSite fence : {step.narrow_release, step.narrow_acquire})
            if (!site.known()) site = fence;
    }
    if (!site.known()) return "";
    return "the fence_block() at " + site.text() +
           " orders the threads of its own block alone, and nothing between two blocks: simt::fence() is what holds "
           "for "
           "the whole device. ";
}

/// Whether both blocks write at one line, which also reads the element.
bool GlobalLaunchShadow::is_update(const Conflict& c) const {
    if (c.later_deed != Deed::writes || c.earlier_deed != Deed::writes ||
        c.later.instruction() != c.earlier.instruction())
        return false;
    const Page* const page = known_page(*c.region, c.cell);
    const Party reader = page ? page->readers_of(c.cell - page->first_cell).lowest : Party();
    return reader.known() && reader.instruction() == c.later.instruction();
}

std::string GlobalLaunchShadow::advice_for(const Conflict& c) const {
    const std::uint64_t one = c.earlier.block_after() - 1, other = c.later.block_after() - 1;
    const std::uintptr_t address = c.region->address_of(c.cell);
    const auto element = [&](const AtomicBoard::Step& step) { return global_element_name(step.tensor, step.address); };
    if (is_atomic(c.later_deed) != is_atomic(c.earlier_deed))
        return "atomic accesses may meet each other, and no other access: reach the element atomically in every block "
               "that touches it, with simt::load_acquire() and simt::store_release() where it is a flag, and set it "
               "back in a launch of its own";
    if (c.lack == Lack::store_under_way)
        return "one block takes over from the other, whose bulk store may still be on its way: let the thread that "
               "stored "
               "call wait_stores<0>() before the release. wait_stores_read<0>() waits only until shared memory has "
               "been read";
    const std::string narrow = narrow_fences(one, other);
    if (c.lack == Lack::before_release)
        return narrow +
               "one block takes over from the other, but this access of the other does not lie before its release: "
               "first all threads write, then a __syncthreads(), then one thread fences or releases, and nobody "
               "touches the element after that";
    if (c.lack == Lack::after_acquire)
        return narrow +
               "one block takes over from the other, but this access does not lie behind the acquire: let the thread "
               "that finds the flag acquire first, then a __syncthreads(), then all threads read";
    // Was there a flag, and what does it lack?
    for (const AtomicBoard::Step& writes : board_.steps()) {
        if (!writes.use.modifies || writes.address == address || (writes.block != one && writes.block != other))
            continue;
        for (const AtomicBoard::Step& reads : board_.steps()) {
            if (!reads.use.reads || reads.address != writes.address || reads.block == writes.block ||
                (reads.block != one && reads.block != other))
                continue;
            const bool releases = writes.releases, acquires = reads.acquires;
            if (releases && acquires) continue;
            const std::string flag = element(writes);
            const std::string release = "the write of " + flag + " (" + place_of(writes) +
                                        ") releases nothing: let a simt::fence() stand before it, or store with "
                                        "simt::store_release() or Order::release",
                              acquire = "the read of " + flag + " (" + place_of(reads) +
                                        ") acquires nothing: let a simt::fence() stand behind it, or load with "
                                        "simt::load_acquire() or Order::acquire";
            return narrow + (releases ? acquire : acquires ? release : release + "; and " + acquire);
        }
    }
    if (is_update(c))
        return "blocks run at the same time and in any order: let one block own the element, or leave the second step "
               "to a launch of its own; where blocks add to one element, simt::atomic_add() does";
    return "blocks run at the same time and in any order: let one block own the element, or leave the second step to a "
           "launch of its own";
}

}  // namespace cpu
}  // namespace simt
