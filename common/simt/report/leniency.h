#pragma once

#include <atomic>

namespace simt {
inline namespace cpu {

/// While one is alive, the CPU machine lets pass what a GPU lets pass, so that one sees which numbers come out of a
/// wrong kernel. Of the whole program, like the imitated device; change it between launches only.
///
///   race                 ignored; the order in which the machine runs threads decides, the same on every run (between
///                        blocks: on every run with one worker)
///   uninitialised read   gives the poison that fills shared memory: NaN, or -1 as an integer; outputs and workspaces
///                        are filled with NaN
///   asynchronous copy    is seen once its thread waits for it: who looks earlier sees what was there before
///   product under way    registers hold NaN until the wait, and take part as they are where a fence is missing
///   wrong descriptor     reads what lies at its addresses, NaN beyond the last
///   partial write        ignored; what nobody wrote stays NaN
///   out of bounds        a read gives the same poison, a write goes nowhere
///   overlapping tiles    are let be; messages and traces know the first one alone
///   shuffle              from a lane that does not take part gives the same poison
///
/// All else is diagnosed as ever, since the kernel cannot go on: diverged barriers and collectives, deadlock, a
/// misaligned vector (which a GPU refuses too), and more shared memory than the launch asked for.
class ScopedLeniency {
  public:
    ScopedLeniency() { ++alive_; }
    ~ScopedLeniency() { --alive_; }
    ScopedLeniency(const ScopedLeniency&) = delete;
    ScopedLeniency& operator=(const ScopedLeniency&) = delete;

    /// Asked only once something is wrong, so that leniency costs right kernels nothing.
    static bool active() { return alive_ > 0; }

  private:
    static inline std::atomic<int> alive_ = 0;
};

}  // namespace cpu
}  // namespace simt
