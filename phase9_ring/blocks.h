#pragma once

#include <cstdint>
#include <vector>

#include "common/attention/arguments.h"
#include "phase9_ring/parts.h"

namespace ladder {

/// Rows of a rank's queries and keys of another rank's part, with a mask that a kernel knows: one call of attention.
struct Block {
    Interval queries;        ///< rows of the part, not positions of the sequence
    Interval keys;           ///< likewise; they begin at row 0
    Mask mask = Mask::none;  ///< none or causal_bottom_right, counted within the block
};

/// The blocks in which the queries of one part see keys of another, where in the whole sequence query i sees key j if
/// j <= i + shift.
///
/// Positions in a part rise, so the number of its keys that a row sees rises from row to row. Where it stays the same,
/// a block has no mask; where it rises by one each row, the mask is that of one sequence. Rows that see nothing are in
/// no block.
std::vector<Block> causal_blocks(const std::vector<Interval>& queries, const std::vector<Interval>& keys,
                                 std::int64_t shift);

/// The same for any mask of a sequence with Sq queries and Sk keys.
std::vector<Block> blocks(Mask mask, const std::vector<Interval>& queries, const std::vector<Interval>& keys,
                          std::int64_t query_length, std::int64_t key_length);

/// Pairs of a query and a key that see each other in these blocks: what the step costs.
std::int64_t pairs(const std::vector<Block>& blocks);

}  // namespace ladder
