#pragma once

#include <limits>
#include <string_view>

#include "common/classroom/judge/parts.h"

namespace ladder::classroom {

/// How attention is computed with an online softmax, tile by tile of the keys. As it stands here it is right; a mistake
/// changes a field or two.
struct OnlineAttention {
    /// What is returned for the log-sum-exp.
    enum class Lse { natural, base_2, without_maximum, sum };
    /// Which keys a step gets: its own, those from the number of its tile on, always the first tile's.
    enum class Fetch { from_first_key, from_number_of_tile, always_first };

    /// Scores.
    bool scaled = true, scaled_twice = false;
    bool ragged_keys_count = false;  ///< keys beyond the last, as scores of 0, up to a whole tile

    /// The maximum.
    double first_maximum = -std::numeric_limits<double>::infinity();
    bool maximum_subtracted = true;
    bool maximum_kept = true;        ///< for the next tile
    bool infinities_guarded = true;  ///< -inf - (-inf) never computed
    bool under_new_maximum = true;   ///< the new weights, and not under the old one

    /// What is brought to a new maximum.
    int sum_rescalings = 1, output_rescalings = 1;  ///< how often the old l_i and O_i are
    bool tile_rescaled = false;                     ///< the sum of the new tile, too
    bool tile_output_rescaled = false;              ///< and what it adds to O_i
    bool factor_upside_down = false;                ///< exp(new - old) for exp(old - new)

    /// What is added up.
    bool values_weighted = true, sum_collected = true, output_collected = true;
    int copies_of_old_sum = 1;  ///< that are added to l_i

    /// Which keys are visited.
    Fetch fetch = Fetch::from_first_key;
    bool first_tile_only = false, first_tile_twice = false, last_tile_dropped = false, last_key_dropped = false;

    /// What is returned.
    bool divided = true, divided_each_tile = false;
    Lse lse = Lse::natural;

    /// Which heads and sequences are read or written, and which tensor.
    bool kv_heads_in_turn = false, query_heads_turned_round = false, first_sequence = false;
    bool values_from_keys = false;
};

/// Kernels in which a mistake goes by this name: all, or those alone that take one key after the other.
enum class Steps { any, keys };

/// Recognises what `wrong` makes of a question, in float64.
AttentionMistake online_mistake(std::string_view name, const OnlineAttention& wrong, Steps steps = Steps::any);

}  // namespace ladder::classroom
