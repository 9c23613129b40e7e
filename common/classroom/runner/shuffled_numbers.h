#pragma once

#include <concepts>
#include <type_traits>

#include "common/simt/simt.h"

// CUDA's shuffles move numbers, and so they do where an exercise is judged. A pointer, or what holds one, would give a
// lane the variables of its neighbour: memory that nobody counts.

namespace ladder::classroom {

/// What CUDA has shuffles for.
template <class T>
concept Shuffled = std::is_arithmetic_v<T> || std::same_as<T, simt::f16> || std::same_as<T, simt::bf16>;

}  // namespace ladder::classroom

template <class T>
requires(!ladder::classroom::Shuffled<T>) T
    __shfl_sync(unsigned mask, T value, int source, int width = 32, simt::SourceSite site = simt::SourceSite::here())
= delete;
template <class T>
requires(!ladder::classroom::Shuffled<T>) T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32,
                                                           simt::SourceSite site = simt::SourceSite::here())
= delete;
template <class T>
requires(!ladder::classroom::Shuffled<T>) T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32,
                                                             simt::SourceSite site = simt::SourceSite::here())
= delete;
template <class T>
requires(!ladder::classroom::Shuffled<T>) T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = 32,
                                                            simt::SourceSite site = simt::SourceSite::here())
= delete;
