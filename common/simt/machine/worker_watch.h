#pragma once

#include "common/simt/machine/budget.h"

namespace simt {
inline namespace cpu {

/// Lets the blocks that the calling OS thread runs end in a diagnosis where a program would hang or be killed: has the
/// thread's processor time reported to its block (Block::tick), and the signals that a kernel's mistakes raise
/// (Block::take_signal). While alive; one at a time.
class WorkerWatch {
  public:
    /// What the first of an OS thread sets up stays until the thread ends, since it takes longer than a small launch.
    explicit WorkerWatch(const Budget& budget);
    WorkerWatch(const WorkerWatch&) = delete;
    WorkerWatch& operator=(const WorkerWatch&) = delete;

    /// How often a block hears of the time, in the processor's seconds; and after how many times its budget is used up.
    static double tick_seconds(const Budget& budget);
    static int ticks_of(const Budget& budget);
};

}  // namespace cpu
}  // namespace simt
