#include "common/simt/counters/event_recorder.h"

#include <algorithm>
#include <utility>

namespace simt {
inline namespace cpu {
namespace {

constexpr int kWarp = 32, kWarpsOfGroup = 4;

void include(std::vector<TracedAccess>& boxes, const TracedAccess& more) {
    const auto same = [&](const TracedAccess& box) {
        return box.memory == more.memory && box.object == more.object && box.write == more.write;
    };
    const auto known = std::ranges::find_if(boxes, same);
    if (known == boxes.end())
        boxes.push_back(more);
    else
        known->include(more);
}

void include(std::vector<TracedAccess>& boxes, const std::vector<TracedAccess>& more) {
    for (const TracedAccess& box : more) include(boxes, box);
}

std::uint64_t shared_bytes(const std::vector<TracedAccess>& boxes) {
    std::uint64_t bytes = 0;
    for (const TracedAccess& box : boxes)
        if (box.memory == TracedAccess::Memory::shared) bytes += box.bytes;
    return bytes;
}

}  // namespace

void EventRecorder::start_block(LaunchTrace& launch, int threads) {
    *this = {};
    launch_ = &launch;
    clocks_.assign(std::size_t(threads), 0);
    last_wait_.assign(std::size_t(threads), {});
    party_.assign(std::size_t(threads + kWarp - 1) / kWarp, TracedEvent::kNobody);
}

// --- Clocks ---------------------------------------------------------------------------------------------------------

int EventRecorder::latest() const { return *std::ranges::max_element(clocks_); }

void EventRecorder::block_barrier() { meet(0, int(clocks_.size()), 1); }

void EventRecorder::meet(int first_thread, int threads, int then) {
    const auto begin = clocks_.begin() + first_thread;
    const auto end = clocks_.begin() + std::min(std::ptrdiff_t(clocks_.size()), std::ptrdiff_t(first_thread + threads));
    std::fill(begin, end, *std::max_element(begin, end) + then);
}

// --- Accesses of who was set off ------------------------------------------------------------------------------------

void EventRecorder::touched(const TracedAccess& access) { include(boxes_, access); }

void EventRecorder::shared(bool write, std::size_t offset, std::size_t bytes, int thread) {
    if (write && agent_ == Agent::copies) filling_.push_back({offset, offset + bytes, 0});
    if (filled_.empty() || lands_elsewhere_) return;
    if (write) {  // what the copy brought is not there any more
        std::erase_if(filled_, [&](const Filled& f) { return offset < f.end && f.first < offset + bytes; });
        return;
    }
    const auto place =
        std::ranges::find_if(filled_, [&](const Filled& f) { return offset >= f.first && offset < f.end; });
    if (place == filled_.end()) return;
    TracedFill& fill = fills_[place->fill].traced;
    if (fill.first_read == kNever) fill.first_read = now(thread);
    fill.first_read = std::min(fill.first_read, now(thread));
    fill.last_read = std::max(fill.last_read, now(thread));
    if (agent_ == Agent::products && std::ranges::find(fills_read_, place->fill) == fills_read_.end())
        fills_read_.push_back(place->fill);
}

// --- Barriers -------------------------------------------------------------------------------------------------------

int EventRecorder::barrier_called(const std::string& name) {
    const auto [known, is_new] = numbers_.try_emplace(name, 0);
    if (!is_new) return known->second;
    auto& list = launch_->barriers;
    const auto listed = std::ranges::find(list, name, &TracedBarrier::name);
    known->second = int(listed - list.begin());
    if (listed == list.end()) list.push_back({.name = name, .arrivals = 0, .is_numbered = false});
    if (barriers_.size() < list.size()) barriers_.resize(list.size());
    return known->second;
}

EventRecorder::Phase& EventRecorder::phase_of(int barrier, std::uint64_t phase) {
    std::vector<Phase>& phases = barriers_[std::size_t(barrier)].phases;
    if (phases.size() <= phase) phases.resize(phase + 1);
    return phases[phase];
}

TracedEvent& EventRecorder::add(Kind kind, int thread, int barrier, std::int64_t number, SourceSite site) {
    return events_.emplace_back(TracedEvent{
        .kind = kind, .party = thread, .barrier = barrier, .number = number, .site = site, .moment = now(thread)});
}

void EventRecorder::made(const std::string& barrier, int arrivals, int thread, SourceSite site) {
    const int number = barrier_called(barrier);
    launch_->barriers[std::size_t(number)].arrivals = arrivals;
    barriers_[std::size_t(number)] = {};
    add(Kind::init, thread, number, arrivals, site);
}

void EventRecorder::numbered(const std::string& barrier, int arrivals) {
    TracedBarrier& traced = launch_->barriers[std::size_t(barrier_called(barrier))];
    traced.arrivals = arrivals;
    traced.is_numbered = true;
}

void EventRecorder::arrived(const std::string& barrier, std::uint64_t phase, int thread, SourceSite site) {
    const int number = barrier_called(barrier);
    Phase& of = phase_of(number, phase);
    of.arrival = std::max(of.arrival, now(thread));
    add(Kind::arrive, thread, number, std::int64_t(phase), site);
}

void EventRecorder::announced(const std::string& barrier, std::uint64_t phase, int bytes, int thread, SourceSite site) {
    add(Kind::arrive, thread, barrier_called(barrier), std::int64_t(phase), site).bytes = std::uint64_t(bytes);
    events_.back().times = 0;  // it counts no arrival
}

void EventRecorder::arrived_by(const std::string& barrier, std::uint64_t phase, int moment) {
    Phase& of = phase_of(barrier_called(barrier), phase);
    of.arrival = std::max(of.arrival, moment);
}

void EventRecorder::arrived_in(EventRecorder* other, int rank, int own_rank, const std::string& barrier,
                               std::uint64_t phase, int thread, SourceSite site) {
    add(Kind::arrive, thread, barrier_called(barrier), std::int64_t(phase), site).block = rank;
    if (!other) return;
    other->arrived_by(barrier, phase, now(thread));
    other->events_.push_back({.kind = Kind::arrive,
                              .barrier = other->barrier_called(barrier),
                              .number = std::int64_t(phase),
                              .site = site,
                              .moment = now(thread),
                              .block = own_rank});
}

void EventRecorder::over(const std::string& barrier, std::uint64_t phase) {
    const int number = barrier_called(barrier);
    Phase& of = phase_of(number, phase);
    of.over = of.arrival;
    for (const auto& [filled_phase, index] : barriers_[std::size_t(number)].fills) {
        if (filled_phase != std::int64_t(phase)) continue;
        Fill& fill = fills_[index];
        of.over = fill.traced.full = std::max(of.over, fill.lands);
        events_.push_back({.kind = Kind::land,
                           .barrier = number,
                           .number = std::int64_t(phase),
                           .bytes = fill.traced.bytes,
                           .site = fill.traced.site,
                           .moment = fill.lands});
    }
    events_.push_back({.kind = Kind::over, .barrier = number, .number = std::int64_t(phase), .moment = of.over});
}

void EventRecorder::waits(const std::string& barrier, std::int64_t phase, int thread, SourceSite site) {
    const int number = barrier_called(barrier);
    add(Kind::wait, thread, number, phase, site);
    last_wait_[std::size_t(thread)] = {number, phase, events_.size() - 1};
}

void EventRecorder::goes_on(int thread) {
    const LastWait& wait = last_wait_[std::size_t(thread)];
    int& clock = clocks_[std::size_t(thread)];
    if (wait.phase >= 0) clock = std::max(clock, phase_of(wait.barrier, std::uint64_t(wait.phase)).over) + 1;
    events_[wait.event].until = clock;
}

// --- Copies and stores ----------------------------------------------------------------------------------------------

void EventRecorder::copied(const std::string& barrier, std::uint64_t phase, std::uint64_t bytes, int thread,
                           SourceSite site) {
    const int number = barrier_called(barrier);
    TracedEvent& event = add(Kind::copy, thread, number, std::int64_t(phase), site);
    event.bytes = bytes;
    event.boxes = boxes_of_copy();
    take(number, phase,
         {bytes, now(thread), last_wait_[std::size_t(thread)], event.boxes, std::exchange(filling_, {}), site});
}

void EventRecorder::copied_to(EventRecorder* other, int rank, int own_rank, const std::string& barrier,
                              std::uint64_t phase, std::uint64_t bytes, int thread, SourceSite site) {
    TracedEvent& event = add(Kind::copy, thread, barrier_called(barrier), std::int64_t(phase), site);
    event.bytes = bytes;
    event.boxes = boxes_of_copy();
    event.block = rank;
    Coming copy{bytes, now(thread), last_wait_[std::size_t(thread)], event.boxes, std::exchange(filling_, {}), site};
    if (!other) return;
    TracedEvent comes = event;
    comes.party = TracedEvent::kNobody;
    comes.barrier = other->barrier_called(barrier);
    comes.block = own_rank;
    other->take(comes.barrier, phase, std::move(copy));
    other->events_.push_back(std::move(comes));
}

/// What it reads, and where it lands; what it reads is the same for other blocks that it goes to.
std::vector<TracedAccess> EventRecorder::boxes_of_copy() {
    agent_ = Agent::threads;
    lands_elsewhere_ = false;
    std::vector<TracedAccess> boxes = boxes_;
    std::erase_if(boxes_, [](const TracedAccess& box) { return box.write; });
    return boxes;
}

void EventRecorder::take(int barrier, std::uint64_t phase, Coming&& copy) {
    Barrier& reports_to = barriers_[std::size_t(barrier)];
    if (!reports_to.has_fills() || reports_to.fills.back().first != std::int64_t(phase)) {
        reports_to.fills.emplace_back(phase, fills_.size());
        fills_.push_back(
            {.traced = {.barrier = barrier, .phase = std::int64_t(phase), .site = copy.site, .asked = copy.asked},
             .before = copy.before});
    }
    const std::size_t index = reports_to.fills.back().second;
    Fill& fill = fills_[index];
    fill.lands = std::max(fill.lands, copy.asked + 1);
    fill.traced.bytes += copy.bytes;
    include(fill.traced.boxes, copy.boxes);
    for (Filled& place : copy.places) {
        std::erase_if(filled_, [&](const Filled& f) { return place.first < f.end && f.first < place.end; });
        place.fill = index;
        filled_.push_back(place);
    }
}

void EventRecorder::stored(std::int64_t group, int thread, SourceSite site) {
    agent_ = Agent::threads;
    TracedEvent& event = add(Kind::store, thread, TracedEvent::kNone, group, site);
    event.bytes = shared_bytes(boxes_);
    event.boxes = std::exchange(boxes_, {});
    stores_.push_back(
        {.traced = {.party = thread, .bytes = event.bytes, .site = site, .boxes = event.boxes, .asked = now(thread)},
         .group = group});
}

void EventRecorder::committed_stores(std::int64_t group, int thread, SourceSite site) {
    add(Kind::commit_stores, thread, TracedEvent::kNone, group, site);
    for (Store& store : stores_)
        if (store.traced.party == thread && store.group == group) store.traced.committed = now(thread);
}

void EventRecorder::waited_for_stores(std::int64_t group, bool until_read, int thread, SourceSite site) {
    TracedEvent& wait = add(until_read ? Kind::wait_read : Kind::wait_stores, thread, TracedEvent::kNone, group, site);
    if (group > 0) ++clocks_[std::size_t(thread)];
    wait.until = now(thread);
    for (Store& store : stores_) {
        if (store.traced.party != thread || store.group >= group) continue;
        if (store.traced.read == kNever) store.traced.read = now(thread);
        if (!until_read && store.traced.done == kNever) store.traced.done = now(thread);
    }
}

// --- Products -------------------------------------------------------------------------------------------------------

void EventRecorder::multiplied(std::int64_t group, int warpgroup, SourceSite site) {
    agent_ = Agent::threads;
    const int thread = warpgroup * kWarpsOfGroup * kWarp;
    TracedEvent& event = add(Kind::multiply, thread, TracedEvent::kNone, group, site);
    event.boxes = std::exchange(boxes_, {});
    auto known = std::ranges::find_if(
        groups_, [&](const Group& g) { return g.traced.party == thread && g.traced.number == group; });
    if (known == groups_.end()) {
        groups_.push_back(
            {.traced = {.party = thread, .number = group, .site = site, .begun = now(thread)}, .fills = {}});
        known = groups_.end() - 1;
    }
    ++known->traced.products;
    include(known->traced.reads, event.boxes);
    known->fills.insert(known->fills.end(), fills_read_.begin(), fills_read_.end());
    fills_read_.clear();
}

void EventRecorder::committed_products(std::int64_t group, int warp, SourceSite site) {
    const int first = warp / kWarpsOfGroup * kWarpsOfGroup * kWarp;
    add(Kind::commit, warp * kWarp, TracedEvent::kNone, group, site);
    for (Group& g : groups_)
        if (g.traced.party == first && g.traced.number == group) g.traced.committed = now(warp * kWarp);
}

void EventRecorder::waited_for_products(std::int64_t group, int warp, SourceSite site) {
    const int first = warp / kWarpsOfGroup * kWarpsOfGroup * kWarp;
    TracedEvent& wait = add(Kind::wait_products, warp * kWarp, TracedEvent::kNone, group, site);
    meet(warp * kWarp, kWarp, 1);
    const int then = wait.until = now(warp * kWarp);
    for (Group& g : groups_) {
        if (g.traced.party != first || g.traced.number >= group || g.traced.done != kNever) continue;
        g.traced.done = then;
        for (const std::size_t fill : g.fills)
            fills_[fill].traced.last_read = std::max(fills_[fill].traced.last_read, then - 1);
    }
}

void EventRecorder::registers(bool claims, int count, int warpgroup, SourceSite site) {
    add(claims ? Kind::take_registers : Kind::give_registers, warpgroup * kWarpsOfGroup * kWarp, TracedEvent::kNone,
        count, site);
}

// --- The whole block ------------------------------------------------------------------------------------------------

void EventRecorder::find_parties(TracedBlock& block, const std::vector<bool>& acted) {
    const int warps = int(party_.size());
    struct Deeds {
        bool any = false, copies = false, products = false, stores = false;
    };
    std::vector<Deeds> deeds(std::size_t(warps) + kWarpsOfGroup);
    for (int w = 0; w < warps; ++w) deeds[std::size_t(w)].any = acted[std::size_t(w)];
    for (const TracedEvent& e : events_) {
        if (e.party < 0 || e.kind == Kind::give_registers || e.kind == Kind::take_registers) continue;
        Deeds& of = deeds[std::size_t(e.party / kWarp)];
        if (e.kind != Kind::init) of.any = true;
        of.copies = of.copies || e.kind == Kind::copy;
        of.products = of.products || e.kind == Kind::multiply;
        of.stores = of.stores || e.kind == Kind::store;
    }
    for (int w = 0; w < warps;) {
        const bool is_warpgroup = w % kWarpsOfGroup == 0 && deeds[std::size_t(w)].products;
        Deeds of = deeds[std::size_t(w)];
        const int count = is_warpgroup ? kWarpsOfGroup : 1;
        for (int i = 0; i < count; ++i) {
            const Deeds& one = deeds[std::size_t(w + i)];
            of = {of.any || one.any, of.copies || one.copies, of.products || one.products, of.stores || one.stores};
        }
        if (of.any) {
            const std::string group = "warpgroup " + std::to_string(w / kWarpsOfGroup);
            const bool in_group = w / kWarpsOfGroup * kWarpsOfGroup + kWarpsOfGroup <= warps;
            std::string role;
            const auto does = [&](bool yes, const char* what) {
                if (yes) role += (role.empty() ? "" : ", ") + std::string(what);
            };
            does(of.copies, "issues copies");
            does(of.products, "multiplies");
            does(of.stores, "stores");
            for (int i = 0; i < count; ++i) party_[std::size_t(w + i)] = int(block.parties.size());
            block.parties.push_back({.name = is_warpgroup ? group
                                             : in_group   ? "warp " + std::to_string(w % kWarpsOfGroup) + " of " + group
                                                          : "warp " + std::to_string(w),
                                     .role = std::move(role),
                                     .first_thread = w * kWarp,
                                     .threads = count * kWarp});
        }
        w += count;
    }
}

void EventRecorder::hand_over_fills(TracedBlock& block) {
    for (Fill& fill : fills_) {
        const int emptied_at = fill.before.barrier;
        // A barrier that copies report to says when they have come, not that their places are free.
        if (emptied_at != TracedEvent::kNone && !barriers_[std::size_t(emptied_at)].has_fills()) {
            fill.traced.emptied_at = emptied_at;
            const std::vector<Phase>& phases = barriers_[std::size_t(emptied_at)].phases;
            const auto phase = std::size_t(fill.before.phase + 1);
            if (phase < phases.size()) fill.traced.released = phases[phase].over;
        }
        block.fills.push_back(std::move(fill.traced));
    }
}

void EventRecorder::hand_over(TracedBlock& block, std::vector<bool> acted) {
    find_parties(block, acted);
    const auto party_of = [&](int thread) { return thread < 0 ? thread : party_of_warp(thread / kWarp); };
    std::vector<TracedEvent> events;
    for (TracedEvent& e : events_) {
        e.party = party_of(e.party);
        for (TracedAccess& box : e.boxes) box.party = e.party;
        const auto same = [&](const TracedEvent& other) {
            return e.kind == other.kind && e.party == other.party && e.barrier == other.barrier &&
                   e.number == other.number && e.site == other.site && e.moment == other.moment &&
                   e.until == other.until && e.block == other.block;
        };
        const auto known = std::find_if(events.rbegin(), events.rend(), same);
        if (known == events.rend()) {
            events.push_back(std::move(e));
            continue;
        }
        known->times += e.times;
        known->bytes += e.bytes;
        include(known->boxes, e.boxes);
    }
    events_ = std::move(events);
    hand_over_fills(block);
    for (Group& group : groups_) {
        group.traced.party = party_of(group.traced.party);
        block.groups.push_back(std::move(group.traced));
    }
    for (Store& s : stores_) {
        s.traced.party = party_of(s.traced.party);
        const auto same = [&](const TracedStore& other) {
            return s.traced.party == other.party && s.traced.site == other.site && s.traced.asked == other.asked &&
                   s.traced.committed == other.committed && s.traced.read == other.read && s.traced.done == other.done;
        };
        const auto known = std::ranges::find_if(block.stores, same);
        if (known == block.stores.end()) {
            block.stores.push_back(std::move(s.traced));
            continue;
        }
        known->bytes += s.traced.bytes;
        include(known->boxes, s.traced.boxes);
    }
}

}  // namespace cpu
}  // namespace simt
