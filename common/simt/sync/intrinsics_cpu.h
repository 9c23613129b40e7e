#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "common/simt/machine/block.h"

// Barriers, shuffles and votes under CUDA's names, with CUDA's meaning. The extra last argument carries the caller's
// source line.

namespace simt {
inline namespace cpu {

/// A value of up to 8 bytes as what a shuffle moves, and back.
template <class T>
[[gnu::always_inline]] inline std::uint64_t to_register(T value) {
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 8, "a shuffle moves 1 to 8 bytes");
    std::uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof(T));
    return bits;
}

/// The value that to_register() packed.
template <class T>
[[gnu::always_inline]] inline T from_register(std::uint64_t bits) {
    T value;
    std::memcpy(&value, &bits, sizeof(T));
    return value;
}

/// One shuffle, as the PTX instruction `shfl.sync` defines it: the warp is cut into segments of `width` lanes, and only
/// the lowest five bits of `operand` count. Lanes whose source lies beyond the end of their segment that they look
/// towards keep their own value.
template <class T>
[[gnu::always_inline]] inline T shuffle(Collective kind, unsigned mask, T value, unsigned operand, int width,
                                        SourceSite site) {
    Block& block = Block::current();
    if (!std::has_single_bit(unsigned(width)) || unsigned(width) > 32) [[unlikely]]
        block.report_bad_width(kind, width, site);
    const int lane = block.lane(), first = lane & -width, last = first + width - 1, b = int(operand % 32);
    int source = lane;
    if (kind == Collective::shfl) source = first | (b & (width - 1));
    if (kind == Collective::shfl_up && lane - b >= first) source = lane - b;
    if (kind == Collective::shfl_down && lane + b <= last) source = lane + b;
    if (kind == Collective::shfl_xor && (lane ^ b) <= last) source = lane ^ b;
    return from_register<T>(block.collective(kind, mask, to_register(value), source, site));
}

}  // namespace cpu
}  // namespace simt

/// All threads of the block wait for each other. What they wrote before, in shared and in global memory, the others see
/// after.
__forceinline__ void __syncthreads(simt::SourceSite site = simt::SourceSite::here()) {
    simt::Block::current().barrier(site);
}

/// The same, and what all threads of the block say of a condition: how many say yes, whether anyone does, whether all
/// do.
__forceinline__ int __syncthreads_count(int predicate, simt::SourceSite site = simt::SourceSite::here()) {
    return simt::Block::current().barrier_vote(simt::Barrier::count, predicate != 0, site);
}
__forceinline__ int __syncthreads_or(int predicate, simt::SourceSite site = simt::SourceSite::here()) {
    return simt::Block::current().barrier_vote(simt::Barrier::any, predicate != 0, site) > 0;
}
__forceinline__ int __syncthreads_and(int predicate, simt::SourceSite site = simt::SourceSite::here()) {
    return simt::Block::current().barrier_vote(simt::Barrier::all, predicate == 0, site) == 0;
}

/// The lanes in `mask` wait for each other, with the same effect on memory among them.
__forceinline__ void __syncwarp(unsigned mask = 0xffffffffu, simt::SourceSite site = simt::SourceSite::here()) {
    simt::Block::current().collective(simt::Collective::syncwarp, mask, 0, 0, site);
}

/// The value of lane `source` (modulo `width`) of the caller's segment of `width` lanes.
template <class T>
__forceinline__ T __shfl_sync(unsigned mask, T value, int source, int width = 32,
                              simt::SourceSite site = simt::SourceSite::here()) {
    return simt::shuffle(simt::Collective::shfl, mask, value, unsigned(source), width, site);
}

/// The value of the lane `delta` below; lanes that have none in their segment keep their own.
template <class T>
__forceinline__ T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32,
                                 simt::SourceSite site = simt::SourceSite::here()) {
    return simt::shuffle(simt::Collective::shfl_up, mask, value, delta, width, site);
}

/// The value of the lane `delta` above; lanes that have none in their segment keep their own.
template <class T>
__forceinline__ T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32,
                                   simt::SourceSite site = simt::SourceSite::here()) {
    return simt::shuffle(simt::Collective::shfl_down, mask, value, delta, width, site);
}

/// The value of lane `lane ^ lane_mask`; lanes for which that lies beyond their segment keep their own. (An earlier
/// segment may be read.)
template <class T>
__forceinline__ T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = 32,
                                  simt::SourceSite site = simt::SourceSite::here()) {
    return simt::shuffle(simt::Collective::shfl_xor, mask, value, unsigned(lane_mask), width, site);
}

/// Votes of the lanes in `mask`: who said yes as bits, whether anyone did, whether all did.
__forceinline__ unsigned __ballot_sync(unsigned mask, int predicate, simt::SourceSite site = simt::SourceSite::here()) {
    return unsigned(simt::Block::current().collective(simt::Collective::ballot, mask, predicate != 0, 0, site));
}
__forceinline__ int __any_sync(unsigned mask, int predicate, simt::SourceSite site = simt::SourceSite::here()) {
    return int(simt::Block::current().collective(simt::Collective::any, mask, predicate != 0, 0, site));
}
__forceinline__ int __all_sync(unsigned mask, int predicate, simt::SourceSite site = simt::SourceSite::here()) {
    return int(simt::Block::current().collective(simt::Collective::all, mask, predicate != 0, 0, site));
}
