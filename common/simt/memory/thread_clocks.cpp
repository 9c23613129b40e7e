#include "common/simt/memory/thread_clocks.h"

#include <algorithm>

namespace simt {
inline namespace cpu {
namespace {

using Entries = std::vector<std::uint32_t>;

void raise(Entries& entries, const Entries& to) {
    if (entries.size() < to.size()) entries.resize(to.size(), 0);
    for (std::size_t i = 0; i < to.size(); ++i) entries[i] = std::max(entries[i], to[i]);
}

}  // namespace

void ThreadClocks::Clock::join(const Clock& other) {
    raise(known, other.known);
    raise(shown, other.shown);
}

void ThreadClocks::start_block(int threads) {
    threads_ = entries_ = std::size_t(threads);
    of_.resize(threads_);
    for (Clock& clock : of_) {
        clock.known.assign(entries_, 0);
        clock.shown.assign(entries_, 0);
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

void ThreadClocks::learn(int thread, int agent, std::uint32_t interval) {
    std::uint32_t& known = of_[std::size_t(thread)].known[place(agent)];
    known = std::max(known, interval);
}

void ThreadClocks::add(int agent, std::uint32_t interval, Clock& to) const {
    to.known.resize(entries_, 0);
    to.known[place(agent)] = std::max(to.known[place(agent)], interval);
}

void ThreadClocks::show(const Now& now) {
    Clock& clock = of_[std::size_t(now.thread)];
    raise(clock.shown, clock.known);
    add_own(now, clock.shown);
    for (std::size_t u = 0; u < threads_; ++u) clock.shown[u] = std::max(clock.shown[u], now.block_since - 1);
}

void ThreadClocks::meet() {
    Clock all;
    for (const Clock& clock : of_) {
        raise(all.shown, clock.shown);
        all.known.resize(entries_, 0);
        for (std::size_t u = threads_; u < entries_; ++u) all.known[u] = std::max(all.known[u], clock.known[u]);
    }
    for (Clock& clock : of_) clock.join(all);
}

}  // namespace cpu
}  // namespace simt
