#pragma once

#include <cstdint>

namespace ladder {

/// How many of the keys that rank `owner` holds a query of rank `rank` sees under a causal mask, in striped parts
/// (Brandon et al. 2023): position p is held by rank p mod R, as number p / R of its part. Queries and keys are equally
/// many, and each part holds `held` of them. The query is number `row` of its part.
inline std::int64_t striped_seen(std::int64_t rank, std::int64_t owner, std::int64_t row, std::int64_t held) {
    // BEGIN SOLUTION seen: the keys of the owner at or before the query's position
    return owner <= rank ? row + 1 : row;
    //= return held;
    // END SOLUTION seen
}

}  // namespace ladder
