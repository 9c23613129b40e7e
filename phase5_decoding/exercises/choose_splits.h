#pragma once

#include <algorithm>
#include <cmath>

namespace ladder {

/// Into how many pieces to split the keys of each sequence, by the rule of FlashAttention 2 and 3
/// (`num_splits_heuristic` in flash_api.cpp and heuristics.h): it looks at how well blocks fill the device, not at how
/// long they take, as split_plan.cpp does.
///
/// @param blocks  that there are without any split
/// @param places  blocks that the device holds at once
/// @param tiles   of keys, in the longest sequence
/// @param most    splits that the caller can use
inline int choose_splits(int blocks, int places, int tiles, int most) {
    // BEGIN SOLUTION rule: the fewest splits that fill the device nearly as well as any number of them
    if (5 * blocks >= 4 * places) return 1;  // 80 % of the places have a block already
    most = std::min({most, places, tiles});

    // A split more that leaves the longest block as long as before gains nothing.
    const auto tiles_of_a_block = [&](int splits) { return (tiles + splits - 1) / splits; };
    const auto is_candidate = [&](int splits) {
        return splits == 1 || tiles_of_a_block(splits) != tiles_of_a_block(splits - 1);
    };
    // The last wave of blocks leaves places empty.
    const auto efficiency = [&](int splits) {
        const double waves = double(blocks) * splits / places;
        return waves / std::ceil(waves);
    };

    double best = 0.0;
    for (int splits = 1; splits <= most; ++splits)
        if (is_candidate(splits)) best = std::max(best, efficiency(splits));
    for (int splits = 1; splits <= most; ++splits)
        if (is_candidate(splits) && efficiency(splits) >= 0.85 * best) return splits;
    return 1;
    //= return 1;
    // END SOLUTION rule
}

}  // namespace ladder
