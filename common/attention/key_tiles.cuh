#pragma once

#include <algorithm>

#include "common/attention/arguments.h"
#include "common/simt/simt.h"

namespace ladder::SIMT_MACHINE {

/// How many keys query `query` sees: always the first ones, keys [0, visible_keys). 0 if it sees none, all that exist
/// if there is no mask; so one number stands for the mask and for the end of the keys alike. It never falls from a
/// query to the next.
///
/// Queries beyond the last one, which a ragged tile contains, are answered as if they existed. Lengths up to kMaxLength
/// do not overflow.
__host__ __device__ constexpr int visible_keys(Mask mask, int query, int query_length, int key_length) {
    if (mask == Mask::none) return key_length;
    // BEGIN SOLUTION alignment: how many keys lie on and before the diagonal, which may be more or fewer than there are
    const int diagonal = query + 1 - (mask == Mask::causal_bottom_right ? query_length - key_length : 0);
    //= const int diagonal = key_length - query_length + query + 1;
    // END SOLUTION alignment
    return diagonal < 0 ? 0 : diagonal > key_length ? key_length : diagonal;
}

/// What the key tiles of one query tile are to it, from left to right:
///
///   [0, full)        every query of the tile that exists sees every key of the tile
///   [full, visited)  some pairs are visible and some are not, or the keys end inside
///   [visited, …)     nothing is visible
struct KeyTiles {
    int full;     ///< the first tile that is not
    int visited;  ///< the first tile that nobody needs

    /// The same boundaries.
    friend constexpr bool operator==(const KeyTiles&, const KeyTiles&) = default;
};

/// The boundaries for queries [first_query, first_query + B_r) and key tiles of B_c keys. `first_query` must exist.
///
/// The first query of the tile sees the fewest keys, so a tile that lies within its sight is full. The last query that
/// exists sees the most, so a tile beyond its sight is not visited. What lies between need not touch the diagonal in
/// every row, but no tile there is full and none is empty.
__host__ __device__ constexpr KeyTiles key_tiles(Mask mask, int first_query, int B_r, int B_c, int query_length,
                                                 int key_length) {
    // BEGIN SOLUTION stages: how many tiles are full, and how many are to be visited
    const int last_query = query_length - first_query < B_r ? query_length - 1 : first_query + B_r - 1;
    const int fewest = visible_keys(mask, first_query, query_length, key_length);
    const int most = visible_keys(mask, last_query, query_length, key_length);
    return {.full = fewest / B_c, .visited = (most + B_c - 1) / B_c};
    //= return {.full = 0, .visited = 0};
    // END SOLUTION stages
}

/// Keys in the tiles that all query tiles of a head visit, each counted as often as it is visited.
inline std::uint64_t visited_keys(const AttentionArguments& a, int B_r, int B_c) {
    std::uint64_t keys = 0;
    for (std::int64_t first_query = 0; first_query < a.query_length(); first_query += B_r) {
        const KeyTiles tiles =
            key_tiles(a.mask, int(first_query), B_r, B_c, int(a.query_length()), int(a.key_length()));
        keys += std::min(std::int64_t{tiles.visited} * B_c, a.key_length());
    }
    return keys;
}

/// What a kernel of 16-bit elements moves whose blocks own B_r queries and visit tiles of B_c keys: Q once; for each
/// query tile of each query head, the rows of K and V in the key tiles that it visits; O and LSE once.
inline GlobalBytes forward_bytes_in_16_bits(const AttentionArguments& a, int B_r, int B_c) {
    constexpr std::uint64_t element = 2;
    const std::uint64_t heads = a.batch() * a.query_heads(), row = a.head_dim() * element;
    return {.read = heads * row * (a.query_length() + 2 * visited_keys(a, B_r, B_c)),
            .written = heads * a.query_length() * (row + sizeof(float))};
}

}  // namespace ladder::SIMT_MACHINE
