#pragma once

#include <cstdint>

namespace ladder::training {

/// The `index`-th of the numbers that belong to a seed, any of which can be had without those before it: whoever knows
/// how far a run has come knows all that it will draw. (SplitMix64: Steele, Lea, Flood 2014.)
constexpr std::uint64_t drawn(std::uint64_t seed, std::uint64_t index) {
    std::uint64_t x = seed * 0xd1342543de82ef95u + (index + 1) * 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/// The same as a number in [0, 1).
constexpr double drawn_fraction(std::uint64_t seed, std::uint64_t index) {
    return double(drawn(seed, index) >> 11) * 0x1p-53;
}

}  // namespace ladder::training
