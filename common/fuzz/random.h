#pragma once

#include <cstdint>
#include <initializer_list>
#include <iterator>

#include "common/simt/machine/splitmix64.h"

namespace ladder::fuzz {

/// Random numbers that are the same everywhere: SplitMix64 (Steele, Lea and Flood 2014), with distributions of its own,
/// since those of the standard library differ between implementations. Each (seed, stream) is a sequence of its own.
class Random {
  public:
    Random(std::uint64_t seed, std::uint64_t stream) : state_(simt::scattered(seed) ^ stream * simt::kSplitmixStep) {}

    std::uint64_t next() { return simt::scattered(state_ += simt::kSplitmixStep); }

    /// 0 to n - 1, n >= 1. The bias of the remainder is below 2^-50 for the small n that are asked for.
    std::int64_t below(std::int64_t n) { return std::int64_t(next() % std::uint64_t(n)); }

    /// Both ends included.
    std::int64_t between(std::int64_t first, std::int64_t last) { return first + below(last - first + 1); }

    bool one_in(std::int64_t n) { return below(n) == 0; }

    template <class Range>
    auto pick(const Range& range) {
        return *std::next(std::begin(range), std::ptrdiff_t(below(std::int64_t(std::size(range)))));
    }
    template <class T>
    T pick(std::initializer_list<T> list) {
        return *std::next(list.begin(), std::ptrdiff_t(below(std::int64_t(list.size()))));
    }

  private:
    std::uint64_t state_;
};

}  // namespace ladder::fuzz
