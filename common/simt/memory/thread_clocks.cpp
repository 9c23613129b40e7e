#include "common/simt/memory/thread_clocks.h"

#include <algorithm>

namespace simt {
inline namespace cpu {
namespace {

using Entries = ThreadClocks::Entries;

void raise(Entries& entries, const Entries& to) {
    if (entries.size() < to.size()) entries.resize(to.size(), 0);
    for (std::size_t i = 0; i < to.size(); ++i) entries[i] = std::max(entries[i], to[i]);
}

}  // namespace

void ThreadClocks::Past::join(const Past& other) {
    raise(known, other.known);
    raise(shown, other.shown);
    raise(shown_global, other.shown_global);
}

void ThreadClocks::join(ClusterClock& clock, const ClusterClock& other) {
    if (clock.size() < other.size()) clock.resize(other.size());
    for (std::size_t rank = 0; rank < other.size(); ++rank) clock[rank].join(other[rank]);
}

void ThreadClocks::Clock::clear() { *this = {}; }

void ThreadClocks::Clock::join(const Clock& other) {
    Past::join(other);
    if (other.others.empty()) return;
    ThreadClocks::join(others, other.others);
    ++version;
}

void ThreadClocks::start_block(int threads, int blocks, int rank) {
    threads_ = entries_ = std::size_t(threads);
    rank_ = std::size_t(rank);
    of_.resize(threads_);
    for (Clock& clock : of_) {
        clock.others.assign(blocks > 1 ? std::size_t(blocks) : 0, {});
        clock.known.assign(entries_, 0);
        clock.shown.assign(entries_, 0);
        clock.shown_global.clear();
    }
}

int ThreadClocks::add_agent() {
    ++entries_;
    for (Clock& clock : of_) {
        clock.known.push_back(0);
        clock.shown.push_back(0);
    }
    return kFirstAgent + int(entries_ - threads_) - 1;
}

void ThreadClocks::add_own(const Now& now, Entries& entries) const {
    const std::size_t first = std::size_t(now.thread) / 32 * 32;
    for (std::size_t u = first; u < std::min(first + 32, threads_); ++u)
        entries[u] = std::max(entries[u], now.since - 1);
    entries[std::size_t(now.thread)] = std::max(entries[std::size_t(now.thread)], now.interval);
}

void ThreadClocks::release(const Now& now, Clock& into) const {
    into.join(of_[std::size_t(now.thread)]);
    add_own(now, into.known);
}

void ThreadClocks::acquire(int thread, const Clock& from) { of_[std::size_t(thread)].join(from); }

void ThreadClocks::release_to_cluster(const Now& now, ClusterClock& into) const {
    const Clock& mine = of_[std::size_t(now.thread)];
    join(into, mine.others);
    if (into.size() <= rank_) into.resize(rank_ + 1);
    Past own{mine.known, mine.shown, mine.shown_global};
    add_own(now, own.known);
    for (std::size_t u = 0; u < threads_; ++u) own.known[u] = std::max(own.known[u], now.block_since - 1);
    into[rank_].join(own);
}

void ThreadClocks::acquire_from_cluster(int thread, const ClusterClock& from) {
    Clock& mine = of_[std::size_t(thread)];
    if (rank_ < from.size()) mine.Past::join(from[rank_]);
    if (mine.others.empty()) return;
    ++mine.version;
    for (std::size_t rank = 0; rank < from.size(); ++rank)
        if (rank != rank_) mine.others[rank].join(from[rank]);
}

int ThreadClocks::unknown_part(int thread, int other, std::uint32_t interval) const {
    if (!is_together(other)) return knows(thread, other, interval) ? -1 : other;
    int first_unknown = -1, unknown = 0;
    for (int agent = first_of(other); agent < first_of(other) + kPartners; ++agent)
        if (!knows(thread, agent, interval) && ++unknown == 1) first_unknown = agent;
    return unknown == kPartners ? other : first_unknown;
}

void ThreadClocks::learn(int thread, int agent, std::uint32_t interval) {
    std::uint32_t& known = of_[std::size_t(thread)].known[place(agent)];
    known = std::max(known, interval);
}

void ThreadClocks::add(int agent, std::uint32_t interval, Clock& to) const {
    to.known.resize(entries_, 0);
    to.known[place(agent)] = std::max(to.known[place(agent)], interval);
}

void ThreadClocks::show(const Now& now, Clock& clock, Entries Past::*of) const {
    Entries& shown = clock.*of;
    raise(shown, clock.known);
    add_own(now, shown);
    for (std::size_t u = 0; u < threads_; ++u) shown[u] = std::max(shown[u], now.block_since - 1);
}

void ThreadClocks::show(const Now& now, ShownSpace space) {
    Clock& clock = of_[std::size_t(now.thread)];
    if (space != ShownSpace::global) show(now, clock, &Past::shown);
    if (space == ShownSpace::shared) return;
    show(now, clock, &Past::shown_global);
    for (Past& other : clock.others) raise(other.shown_global, other.known);
    if (!clock.others.empty()) ++clock.version;
}

void ThreadClocks::meet() {
    Clock all;
    for (const Clock& clock : of_) {
        raise(all.shown, clock.shown);
        raise(all.shown_global, clock.shown_global);
        all.known.resize(entries_, 0);
        for (std::size_t u = threads_; u < entries_; ++u) all.known[u] = std::max(all.known[u], clock.known[u]);
        if (!clock.others.empty()) join(all.others, clock.others);
    }
    const auto first_agent = std::ptrdiff_t(threads_);
    for (Clock& clock : of_) {  // none of them knew more than all together
        std::copy(all.known.begin() + first_agent, all.known.end(), clock.known.begin() + first_agent);
        clock.shown = all.shown;
        clock.shown_global = all.shown_global;
        if (all.others.empty()) continue;
        clock.others = all.others;
        ++clock.version;
    }
}

}  // namespace cpu
}  // namespace simt
