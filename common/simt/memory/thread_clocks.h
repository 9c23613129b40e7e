#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace simt {
inline namespace cpu {

/// For each thread of a block how much of every other thread's past has happened before its own next access: vector
/// clocks (Lamport 1978; Mattern 1989). A clock's entries are numbers of intervals, see SharedMemory: entry u covers
/// all that thread u did in intervals up to this one.
///
/// Barriers of a whole block or warp do without, since their threads know alike. Clocks are kept in blocks that meet in
/// other ways, from the first time that they do. What a barrier of the whole block orders stands in no clock.
class ThreadClocks {
  public:
    using Clock = std::vector<std::uint32_t>;  ///< an entry for each thread

    /// A block of so many threads begins; nobody knows anything of anybody.
    void start_block(int threads) {
        threads_ = std::size_t(threads);
        known_.assign(threads_ * threads_, 0);
    }

    /// Whether what `other` did in interval `interval` lies before all that `thread` does from now on.
    bool knows(int thread, int other, std::uint32_t interval) const {
        return row(thread)[std::size_t(other)] >= interval;
    }

    /// What `thread` passes on: what it knows, and what it and the lanes of its warp did: its own accesses up to
    /// `interval`, those of the other lanes before `since`, when it last met them all.
    void release(int thread, std::uint32_t interval, std::uint32_t since, Clock& into) const;

    /// From now on `thread` knows what the clock says.
    void acquire(int thread, const Clock& from);

  private:
    std::span<const std::uint32_t> row(int thread) const {
        return {known_.data() + std::size_t(thread) * threads_, threads_};
    }

    std::size_t threads_ = 0;
    std::vector<std::uint32_t> known_;  // a row for each thread
};

}  // namespace cpu
}  // namespace simt
