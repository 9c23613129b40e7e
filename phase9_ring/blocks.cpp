#include "phase9_ring/blocks.h"

#include <algorithm>

namespace ladder {
namespace {

/// How many of the keys each row of the queries sees. Both are walked once.
std::vector<std::int64_t> seen_by_row(const std::vector<Interval>& queries, const std::vector<Interval>& keys,
                                      std::int64_t shift) {
    std::vector<std::int64_t> seen;
    seen.reserve(length_of(queries));
    std::int64_t before = 0;  // keys of the intervals that are seen in full
    auto interval = keys.begin();
    for (const Interval& part : queries)
        for (std::int64_t i = part.first; i < part.first + part.length; ++i) {
            const std::int64_t last_seen = i + shift;
            for (; interval != keys.end() && interval->first + interval->length - 1 <= last_seen; ++interval)
                before += interval->length;
            const std::int64_t of_this_interval =
                interval == keys.end() ? 0 : std::max<std::int64_t>(0, last_seen - interval->first + 1);
            seen.push_back(before + of_this_interval);
        }
    return seen;
}

}  // namespace

std::vector<Block> causal_blocks(const std::vector<Interval>& queries, const std::vector<Interval>& keys,
                                 std::int64_t shift) {
    const std::vector<std::int64_t> seen = seen_by_row(queries, keys, shift);
    const auto rows = std::int64_t(seen.size());
    std::vector<Block> blocks;
    for (std::int64_t first = 0, last = 0; first < rows; first = last + 1) {
        last = first;
        const std::int64_t rise = first + 1 < rows ? seen[first + 1] - seen[first] : 0;
        if (rise <= 1)
            while (last + 1 < rows && seen[last + 1] - seen[last] == rise) ++last;
        if (seen[first] == 0 && rise == 1) last = first;  // the row before the first that sees something
        if (seen[last] == 0) continue;
        const bool rises = seen[last] > seen[first];
        blocks.push_back({.queries = {first, last - first + 1},
                          .keys = {0, seen[last]},
                          .mask = rises ? Mask::causal_bottom_right : Mask::none});
    }
    return blocks;
}

std::vector<Block> blocks(Mask mask, const std::vector<Interval>& queries, const std::vector<Interval>& keys,
                          std::int64_t query_length, std::int64_t key_length) {
    if (mask != Mask::none)
        return causal_blocks(queries, keys, mask == Mask::causal_bottom_right ? key_length - query_length : 0);
    const std::int64_t rows = length_of(queries), columns = length_of(keys);
    if (rows == 0 || columns == 0) return {};
    return {{.queries = {0, rows}, .keys = {0, columns}, .mask = Mask::none}};
}

std::int64_t pairs(const std::vector<Block>& blocks) {
    std::int64_t sum = 0;
    for (const Block& block : blocks) {
        const std::int64_t rows = block.queries.length, columns = block.keys.length;
        sum += block.mask == Mask::none ? rows * columns : rows * columns - rows * (rows - 1) / 2;
    }
    return sum;
}

}  // namespace ladder
