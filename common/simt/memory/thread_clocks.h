#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace simt {
inline namespace cpu {

/// For each thread of a block how much of every other thread's past has happened before its own next access: vector
/// clocks (Lamport 1978; Mattern 1989). A clock's entries are numbers of intervals, see SharedMemory: entry u covers
/// all that thread u did in intervals up to this one.
///
/// Barriers of a whole block or warp do without, since their threads know alike. Clocks are kept in blocks that meet in
/// other ways, from the first time that they do. What a barrier of the whole block orders between threads stands in no
/// clock.
///
/// Not only threads touch memory. A copy by the tensor memory accelerator, or a product that reads its operands from
/// shared memory, goes on by itself once a thread has set it off: an *agent*, which has an entry like a thread's. It
/// knows nothing itself; others know of it once they have waited for it.
///
/// Agents see memory through another proxy than threads do (PTX ISA, "Proxies"): what a thread stored may be known to
/// another, and still be unseen by an agent that this one sets off. So each thread also has a clock of what a
/// fence.proxy.async has shown.
class ThreadClocks {
  public:
    /// The number of the first agent; threads have lower ones.
    static constexpr int kFirstAgent = 1024;
    static bool is_agent(int who) { return who >= kFirstAgent; }

    /// What one thread passes on to another: an entry for each thread, then for each agent. Missing ones are 0.
    struct Clock {
        std::vector<std::uint32_t> known, shown;

        void join(const Clock& other);
        void clear() { *this = {}; }
    };

    /// Where a thread stands in time: its number, the interval of its warp, when the lanes of its warp last met, and
    /// when the whole block last did.
    struct Now {
        int thread;
        std::uint32_t interval, since, block_since;
    };

    /// A block of so many threads begins; nobody knows anything of anybody, and there are no agents.
    void start_block(int threads);

    int add_agent();

    /// Whether what `other` did in interval `interval` lies before all that `thread` does from now on.
    bool knows(int thread, int other, std::uint32_t interval) const {
        return of_[std::size_t(thread)].known[place(other)] >= interval;
    }

    /// Whether what thread `writer` stored in interval `interval` is seen by agents that `thread` sets off.
    bool has_shown(int thread, int writer, std::uint32_t interval) const {
        return of_[std::size_t(thread)].shown[place(writer)] >= interval;
    }

    /// What the thread passes on: what it knows, and what it and the lanes of its warp did: its own accesses up to its
    /// interval, those of the other lanes before they last met.
    void release(const Now&, Clock& into) const;

    /// From now on `thread` knows what the clock says.
    void acquire(int thread, const Clock& from);

    /// The thread has waited for what the agent did up to `interval`.
    void learn(int thread, int agent, std::uint32_t interval);

    /// The clock covers what the agent did up to `interval`, too.
    void add(int agent, std::uint32_t interval, Clock& to) const;

    /// All that the thread knows of, and has stored itself, is shown to agents.
    void show(const Now&);

    /// All threads have met. What they did themselves needs no clock for that; what else they know is everybody's now.
    void meet();

  private:
    std::size_t place(int who) const {
        return is_agent(who) ? threads_ + std::size_t(who - kFirstAgent) : std::size_t(who);
    }
    void add_own(const Now&, std::vector<std::uint32_t>& entries) const;

    std::size_t threads_ = 0, entries_ = 0;
    std::vector<Clock> of_;  // each thread's
};

}  // namespace cpu
}  // namespace simt
