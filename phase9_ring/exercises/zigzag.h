#pragma once

#include <cstdint>

namespace ladder {

/// Which position of a sequence is the `index`-th that a rank holds, in zigzag parts: the sequence is cut into 2 R
/// intervals, interval i from i N / (2 R) to (i + 1) N / (2 R), rounded down, and rank r holds intervals r and
/// 2 R - 1 - r, in this order. -1 where the rank does not hold so many.
inline std::int64_t zigzag_position(std::int64_t length, std::int64_t rank, std::int64_t ranks, std::int64_t index) {
    // BEGIN SOLUTION position: from the number of the position to the position
    for (const std::int64_t interval : {rank, 2 * ranks - 1 - rank}) {
        const std::int64_t first = interval * length / (2 * ranks), end = (interval + 1) * length / (2 * ranks);
        if (index < end - first) return first + index;
        index -= end - first;
    }
    return -1;
    //= return rank * length / ranks + index;
    // END SOLUTION position
}

}  // namespace ladder
