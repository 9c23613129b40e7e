#pragma once

#include <cstdint>

namespace simt {
inline namespace cpu {

/// The finalizer of splitmix64 (Steele, Lea and Flood 2014): each bit of the result depends on all.
constexpr std::uint64_t scattered(std::uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
}

/// What its state steps by: 2^64 over the golden ratio.
inline constexpr std::uint64_t kSplitmixStep = 0x9e3779b97f4a7c15;

/// A number that looks like chance, from any other.
constexpr std::uint64_t splitmix64(std::uint64_t x) { return scattered(x + kSplitmixStep); }

}  // namespace cpu
}  // namespace simt
