#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace simt {
inline namespace cpu {

/// The memory that a fence.proxy.async speaks of.
enum class ShownSpace : std::uint8_t { shared, global, both };

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
/// knows nothing itself; others know of it once they have waited for it. Of a warpgroup's product each warp has a part
/// that only its own waits tell of: four agents, which what they do together has one number for.
///
/// Agents see memory through another proxy than threads do (PTX ISA, "Proxies"): what a thread stored may be known to
/// another, and still be unseen by an agent that this one sets off. So each thread also has a clock of what a
/// fence.proxy.async has shown in shared memory, and one of what it has shown in global memory.
///
/// In a cluster, threads of other blocks reach this block's memory. They are *visitors*, with numbers of their own, and
/// what they do lies in intervals of their own block. So each thread also knows how much of those blocks' past lies
/// before it, in their terms.
class ThreadClocks {
  public:
    /// The number of the first agent; threads have lower ones.
    static constexpr int kFirstAgent = 1024;
    static bool is_agent(int who) { return who >= kFirstAgent && who < kFirstVisitor; }

    /// Four agents as one, and `agent`, which has come right after them, as their name: what they do together is known
    /// to whoever knows what each of them did.
    static int together(int agent) { return agent | kTogether; }
    static bool is_together(int who) { return is_agent(who) && (who & kTogether); }
    static constexpr int kPartners = 4;
    /// Of those, the first.
    static int first_of(int together) { return (together & ~kTogether) - kPartners; }

    /// Thread t of the block with rank r in the cluster is visitor kFirstVisitor + 1024 r + t.
    static constexpr int kFirstVisitor = 1 << 15;
    static bool is_visitor(int who) { return who >= kFirstVisitor; }
    static int visitor(int rank, int thread) { return kFirstVisitor + rank * kFirstAgent + thread; }
    static int rank_of(int visitor) { return (visitor - kFirstVisitor) / kFirstAgent; }
    static int thread_of(int visitor) { return (visitor - kFirstVisitor) % kFirstAgent; }

    /// Where a visitor wrote, SharedMemory notes the visitor's interval with this bit.
    static constexpr std::uint32_t kVisit = 1u << 31;

    using Entries = std::vector<std::uint32_t>;

    /// What is known of one block, and shown of it: an entry for each thread, then for each agent. Missing ones are 0.
    struct Past {
        Entries known{}, shown{}, shown_global{};
        void join(const Past& other);
    };
    /// What is known of all blocks of a cluster, by rank.
    using ClusterClock = std::vector<Past>;
    static void join(ClusterClock& clock, const ClusterClock& other);

    /// What one thread passes on to another of its block.
    struct Clock : Past {
        ClusterClock others{};      ///< of the other blocks; empty without a cluster
        std::uint64_t version = 0;  ///< another one whenever something may be new in them

        void join(const Clock& other);
        void clear();
    };

    /// Where a thread stands in time: its number, the interval of its warp, when the lanes of its warp last met, and
    /// when the whole block last did.
    struct Now {
        int thread;
        std::uint32_t interval, since, block_since;
    };

    /// A block of so many threads begins; nobody knows anything of anybody, and there are no agents. `blocks`: of its
    /// cluster, among which it has a rank.
    void start_block(int threads, int blocks = 1, int rank = 0);

    int add_agent();

    /// Whether what `other` did in interval `interval` lies before all that `thread` does from now on.
    bool knows(int thread, int other, std::uint32_t interval) const {
        if (other >= kTogether) [[unlikely]]
            return is_visitor(other) ? knows_of(thread, rank_of(other), thread_of(other), interval & ~kVisit)
                                     : unknown_part(thread, other, interval) < 0;
        return of_[std::size_t(thread)].known[place(other)] >= interval;
    }

    /// Who of `other` did something in that interval which `thread` does not know: of several agents the first, or all
    /// as one if none is known. -1: nobody.
    int unknown_part(int thread, int other, std::uint32_t interval) const;

    /// Whether what thread `writer` stored in interval `interval` is seen by agents that `thread` sets off.
    bool has_shown(int thread, int writer, std::uint32_t interval) const {
        if (is_visitor(writer)) [[unlikely]]
            return has_shown_of(thread, rank_of(writer), thread_of(writer), interval & ~kVisit);
        return of_[std::size_t(thread)].shown[place(writer)] >= interval;
    }

    /// The same of what the thread stored in global memory.
    bool has_shown_global(int thread, int writer, std::uint32_t interval) const {
        const Entries& shown = of_[std::size_t(thread)].shown_global;
        return std::size_t(writer) < shown.size() && shown[std::size_t(writer)] >= interval;
    }

    /// The same of another block: what its thread or agent in that place did in an interval of that block.
    bool knows_of(int thread, int rank, std::size_t place, std::uint32_t interval) const {
        return reaches(&Past::known, thread, rank, place, interval);
    }
    bool has_shown_of(int thread, int rank, std::size_t place, std::uint32_t interval) const {
        return reaches(&Past::shown, thread, rank, place, interval);
    }
    /// Whether the thread knows anything of that block at all: then it has begun.
    bool has_met(int thread, int rank) const {
        const ClusterClock& others = of_[std::size_t(thread)].others;
        return std::size_t(rank) < others.size() && !others[std::size_t(rank)].known.empty();
    }
    /// Where a thread or agent of a block of so many threads stands among the entries.
    static std::size_t place_in(int threads, int who) {
        return is_agent(who) ? std::size_t(threads + (who & ~kTogether) - kFirstAgent) : std::size_t(who);
    }

    /// What the thread knows.
    const Clock& of(int thread) const { return of_[std::size_t(thread)]; }

    /// What the thread passes on to other blocks, and learns from them.
    void release_to_cluster(const Now&, ClusterClock& into) const;
    void acquire_from_cluster(int thread, const ClusterClock& from);

    /// What the thread passes on: what it knows, and what it and the lanes of its warp did: its own accesses up to its
    /// interval, those of the other lanes before they last met.
    void release(const Now&, Clock& into) const;

    /// From now on `thread` knows what the clock says.
    void acquire(int thread, const Clock& from);

    /// The thread has waited for what the agent did up to `interval`.
    void learn(int thread, int agent, std::uint32_t interval);

    /// The clock covers what the agent did up to `interval`, too.
    void add(int agent, std::uint32_t interval, Clock& to) const;

    /// All that the thread knows of, and has stored itself in that memory, is shown to agents.
    void show(const Now&, ShownSpace space);

    /// All threads have met. What they did themselves needs no clock for that; what else they know is everybody's now.
    void meet();

  private:
    static constexpr int kTogether = 1 << 14;
    static_assert(kTogether > kFirstAgent && kTogether < kFirstVisitor);

    std::size_t place(int who) const { return place_in(int(threads_), who); }
    bool reaches(Entries Past::*entries, int thread, int rank, std::size_t place, std::uint32_t interval) const {
        const ClusterClock& others = of_[std::size_t(thread)].others;
        if (std::size_t(rank) >= others.size()) return false;
        const Entries& of = others[std::size_t(rank)].*entries;
        return place < of.size() && of[place] >= interval;
    }
    void add_own(const Now&, Entries& entries) const;
    void show(const Now&, Clock& clock, Entries Past::*shown) const;

    std::size_t threads_ = 0, entries_ = 0, rank_ = 0;
    std::vector<Clock> of_;  // each thread's
};

}  // namespace cpu
}  // namespace simt
