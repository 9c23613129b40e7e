#pragma once

#include <cstdint>

namespace simt {
inline namespace cpu {

/// How much one block may take before the CPU machine says that it does not end. Far more than any right kernel takes.
struct Budget {
    double seconds = 20;                   ///< of the processor's time, whatever a clock says; 0: without end
    std::uint64_t meetings = 100'000'000;  ///< at barriers and in warp collectives; 0: without end
};

/// What each block may take, in the whole program: what LADDER_BLOCK_SECONDS and LADDER_BLOCK_MEETINGS in the
/// environment say, unless set. Throws std::invalid_argument if these are no numbers.
Budget block_budget();
/// Sets it; change it between launches only.
void set_block_budget(Budget budget);

/// Gives blocks another budget while alive.
class ScopedBudget {
  public:
    /// Until this object ends, in the whole program.
    explicit ScopedBudget(Budget budget) : before_(block_budget()) { set_block_budget(budget); }
    ~ScopedBudget() { set_block_budget(before_); }
    ScopedBudget(const ScopedBudget&) = delete;
    ScopedBudget& operator=(const ScopedBudget&) = delete;

  private:
    Budget before_;
};

}  // namespace cpu
}  // namespace simt
