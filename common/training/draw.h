#pragma once

#include <cstdint>

#include "common/simt/machine/splitmix64.h"

namespace ladder::training {

/// The `index`-th of the numbers that belong to a seed, any of which can be had without those before it: whoever knows
/// how far a run has come knows all that it will draw.
constexpr std::uint64_t drawn(std::uint64_t seed, std::uint64_t index) {
    return simt::splitmix64(simt::scattered(seed) + index * simt::kSplitmixStep);
}

/// The same as a number in [0, 1).
constexpr double drawn_fraction(std::uint64_t seed, std::uint64_t index) {
    return double(drawn(seed, index) >> 11) * 0x1p-53;
}

}  // namespace ladder::training
