#pragma once

#include <atomic>
#include <cstdint>

namespace simt {
inline namespace cpu {

/// In which of the orders that CUDA allows the CPU machine runs what nothing orders.
struct Schedule {
    std::uint64_t seed = 0;  ///< 0: the usual one, which is the hardware's where that has one; else drawn from it
};

namespace detail {
inline std::atomic<std::uint64_t> schedule_seed = 0;
}

/// Of the launches from now on, in the whole program.
inline Schedule current_schedule() { return {detail::schedule_seed.load(std::memory_order_relaxed)}; }

/// While alive, launches run in an order drawn from a seed: their blocks begin in another order than by number, one
/// after the other on one worker, so that a seed gives the same run every time. What should not depend on the order,
/// such as the result of an addition of integers, stays the same with every seed; a sum of floats that blocks add up
/// with atomics does not. Of the whole program; change it between launches only.
class ScopedOrder {
  public:
    /// Seed 0 is the usual order.
    explicit ScopedOrder(std::uint64_t seed) : before_(detail::schedule_seed.exchange(seed)) {}
    ~ScopedOrder() { detail::schedule_seed = before_; }
    ScopedOrder(const ScopedOrder&) = delete;
    ScopedOrder& operator=(const ScopedOrder&) = delete;

  private:
    std::uint64_t before_;
};

}  // namespace cpu
}  // namespace simt
