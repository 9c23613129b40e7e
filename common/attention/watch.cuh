#pragma once

#include "common/simt/simt.h"

namespace ladder::SIMT_MACHINE {

// What `./ladder trace` shows of a kernel beyond the memory that it touches. Nothing of it is left in a GPU's code.
// `part` tells apart those who keep a state of their own for one row, such as the lanes or the warps of a block.

/// A score of one query and one key, scaled; -inf where the query does not see the key.
__device__ __forceinline__ void watch_score(std::int64_t query, std::int64_t key, float score) {
    simt::watch("S", query, key, score);
}

/// Scores of neighbouring keys, from `first_key` on.
template <class T, int N>
__device__ __forceinline__ void watch_scores(std::int64_t query, std::int64_t first_key,
                                             const simt::Vector<T, N>& scores) {
    simt::watch("S", query, first_key, scores);
}

/// The row's maximum so far.
__device__ __forceinline__ void watch_maximum(std::int64_t query, float m, int part = 0) {
    simt::watch("m", query, part, m);
}

/// The row's sum so far, under the maximum so far.
__device__ __forceinline__ void watch_sum(std::int64_t query, float l, int part = 0) {
    simt::watch("l", query, part, l);
}

/// The row's maximum and its sum so far.
__device__ __forceinline__ void watch_state(std::int64_t query, float m, float l, int part = 0) {
    watch_maximum(query, m, part);
    watch_sum(query, l, part);
}

/// What the row's output so far is multiplied by, now that the maximum has moved.
__device__ __forceinline__ void watch_rescale(std::int64_t query, float factor, int part = 0) {
    simt::watch("rescale", query, part, factor);
}

}  // namespace ladder::SIMT_MACHINE
