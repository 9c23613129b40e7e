#pragma once

#include <atomic>
#include <cstddef>

#include "common/simt/language/cuda_names.h"
#include "common/simt/machine/drawn_order.h"
#include "common/simt/machine/schedule.h"

namespace simt {
inline namespace cpu {

/// The blocks of a grid, handed out by clusters of so many, or one by one, in the order of the hardware, x fastest, or
/// in one drawn from a seed.
class BlockQueue {
  public:
    BlockQueue(dim3 grid, dim3 cluster, Schedule schedule)
        : clusters_(grid.x / cluster.x, grid.y / cluster.y, grid.z / cluster.z),
          cluster_(cluster),
          count_(clusters_.volume()),
          seed_(schedule.seed),
          order_(count_, schedule.seed) {}

    /// The first block of the next cluster.
    bool next(uint3& first) {
        const std::size_t turn = next_.fetch_add(1, std::memory_order_relaxed);
        if (turn >= count_) return false;
        const std::size_t number = order_.at(turn);
        first = {unsigned(number % clusters_.x) * cluster_.x, unsigned(number / clusters_.x % clusters_.y) * cluster_.y,
                 unsigned(number / clusters_.x / clusters_.y) * cluster_.z};
        return true;
    }
    std::size_t blocks_of_cluster() const { return cluster_.volume(); }
    /// The block of a rank in the cluster that begins there.
    uint3 block_of(uint3 first, unsigned rank) const {
        return {first.x + rank % cluster_.x, first.y + rank / cluster_.x % cluster_.y,
                first.z + rank / cluster_.x / cluster_.y};
    }
    /// Its number in the grid.
    std::uint64_t number_of(uint3 block) const {
        const std::uint64_t x = std::uint64_t{clusters_.x} * cluster_.x, y = std::uint64_t{clusters_.y} * cluster_.y;
        return block.x + x * (block.y + y * block.z);
    }
    bool is_empty() const { return next_.load(std::memory_order_relaxed) >= count_; }

    /// No more are handed out: somebody has failed.
    void stop() {
        stopped_.store(true, std::memory_order_relaxed);
        next_.store(count_, std::memory_order_relaxed);
    }
    bool is_stopped() const { return stopped_.load(std::memory_order_relaxed); }

    std::size_t blocks() const { return count_ * cluster_.volume(); }
    std::uint64_t seed() const { return seed_; }

  private:
    dim3 clusters_, cluster_;
    std::size_t count_;
    std::uint64_t seed_;
    DrawnOrder order_;
    std::atomic<std::size_t> next_{0};
    std::atomic<bool> stopped_ = false;
};

}  // namespace cpu
}  // namespace simt
