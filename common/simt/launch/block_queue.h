#pragma once

#include <atomic>
#include <cstddef>

#include "common/simt/language/cuda_names.h"
#include "common/simt/machine/drawn_order.h"
#include "common/simt/machine/schedule.h"

namespace simt {
inline namespace cpu {

/// The blocks of a grid, handed out one by one in the order of the hardware, x fastest, or in one drawn from a seed.
class BlockQueue {
  public:
    BlockQueue(dim3 grid, Schedule schedule)
        : grid_(grid), count_(grid.volume()), seed_(schedule.seed), order_(count_, schedule.seed) {}

    bool next(uint3& index) {
        const std::size_t turn = next_.fetch_add(1, std::memory_order_relaxed);
        if (turn >= count_) return false;
        const std::size_t number = order_.at(turn);
        index = {unsigned(number % grid_.x), unsigned(number / grid_.x % grid_.y),
                 unsigned(number / grid_.x / grid_.y)};
        return true;
    }
    bool is_empty() const { return next_.load(std::memory_order_relaxed) >= count_; }

    /// No more are handed out: somebody has failed.
    void stop() {
        stopped_.store(true, std::memory_order_relaxed);
        next_.store(count_, std::memory_order_relaxed);
    }
    bool is_stopped() const { return stopped_.load(std::memory_order_relaxed); }

    std::size_t count() const { return count_; }
    std::uint64_t seed() const { return seed_; }

  private:
    dim3 grid_;
    std::size_t count_;
    std::uint64_t seed_;
    DrawnOrder order_;
    std::atomic<std::size_t> next_{0};
    std::atomic<bool> stopped_ = false;
};

}  // namespace cpu
}  // namespace simt
