#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "common/fuzz/entry.h"

namespace ladder::fuzz {

/// A problem, and the entry that it is drawn for.
struct Draw {
    std::size_t entry = 0;  ///< index into the entries
    Problem problem = {};
};

/// Whether the reference can tell right from wrong on this problem:
///
///   - Scores below 2^24. From there on float32 cannot tell neighbouring scores apart, and the contract ends. Up to
///     2^15 they are right to a narrow bound, and between the two the bound grows with them (docs/numerics.md). So
///     |scale| sqrt(D) is at most 2^20 in float32. In 16 bits it is at most 8, since plain torch, the yardstick there,
///     has rounded larger scores too much to be one. Families that divide by the scale get no scale near 0 nor below.
///   - An infinite or NaN value only where every weight is far from 0: infinity times a weight that is 0 in float32 but
///     not in float64, where the oracle lives, has two right answers.
///   - An entry that rounds its scores to 16 bits gets at least 64 rows, not counting those whose queries lie in the
///     same memory, and 1024 results. Its error is then of the size of the yardstick that it is held against, plain
///     torch in that dtype; of a few rows, one or the other may happen to come out exact. And its scale is a power of
///     two: plain torch rounds before and after it scales, the entry once, and only then are these the same roundings.
///     Otherwise it is chance whose largest error is larger, above all where one score outweighs the rest.
///   - An entry that rounds the weights P to 16 bits, as the yardstick does, but others of them, gets at least 64
///   results
///     that are not the same by construction. One result alone may be right by chance in the yardstick.
///   - An entry that adds up a row's terms one after another gets at most 256 keys of the family index_ramp in float32.
///     Its scores take few values, so most terms are equal and round the same way each time: errors add up in a line,
///     and for longer sums the bound takes roundings to be independent.
bool is_decidable(const Entry& entry, const Problem& problem);

/// Problem number `number` of `seed`: the same on every machine, for the same entries.
///
/// All are within the entry's contract and decidable. A problem may ask for more shared memory than its device has; it
/// must then be refused.
Draw draw_problem(std::span<const Entry> entries, std::uint64_t seed, std::uint64_t number);

}  // namespace ladder::fuzz
