#pragma once

#include <cstdint>

#include "common/simt/machine/splitmix64.h"

namespace simt {
inline namespace cpu {

/// The numbers below `count`, each once, in an order drawn from a seed; with seed 0 as they come. Takes no memory: a
/// permutation of the next larger square of a power of two (Feistel), of which what lies beyond is passed over.
class DrawnOrder {
  public:
    DrawnOrder(std::uint64_t count, std::uint64_t seed) : count_(count), seed_(seed) {
        while (std::uint64_t{1} << 2 * half_ < count) ++half_;
    }

    /// The number whose turn it is; turns count from 0.
    std::uint64_t at(std::uint64_t turn) const {
        if (seed_ == 0) return turn;
        do turn = permuted(turn);
        while (turn >= count_);
        return turn;
    }

  private:
    std::uint64_t permuted(std::uint64_t x) const {
        const std::uint64_t mask = (std::uint64_t{1} << half_) - 1;
        std::uint64_t left = x >> half_, right = x & mask;
        for (std::uint64_t round = 1; round <= 6; ++round) {
            const std::uint64_t next = left ^ (scattered(right + seed_ * kSplitmixStep + round) & mask);
            left = right;
            right = next;
        }
        return left << half_ | right;
    }

    std::uint64_t count_, seed_;
    unsigned half_ = 1;
};

}  // namespace cpu
}  // namespace simt
