#include "common/classroom/judge/online_attention.h"
#include "phase3_fa2/rung/judge/lane_lookalikes.h"
#include "phase3_fa2/rung/judge/softcap_lookalikes.h"

namespace ladder::classroom::phase3_fa2 {
namespace {

std::vector<AttentionMistake> tile_mistakes() {
    return {
        online_mistake("phase3_fa2/O_not_rescaled", {.output_rescalings = 0}),
        online_mistake("phase3_fa2/l_not_rescaled", {.sum_rescalings = 0}),
        online_mistake("phase3_fa2/O_rescaled_twice", {.output_rescalings = 2}),
        online_mistake("phase3_fa2/l_not_collected", {.sum_collected = false}),
        online_mistake("phase3_fa2/new_sum_rescaled_too", {.tile_rescaled = true}),
        online_mistake("phase3_fa2/old_sum_of_every_lane", {.copies_of_old_sum = 8}),
        online_mistake("phase3_fa2/maximum_not_carried_over", {.maximum_kept = false}),
        online_mistake("phase3_fa2/maximum_starts_at_zero", {.first_maximum = 0}),
        online_mistake("phase3_fa2/infinity_minus_infinity", {.infinities_guarded = false}),
        online_mistake("phase3_fa2/rescale_upside_down", {.factor_upside_down = true}),
        online_mistake("phase3_fa2/O_not_collected", {.output_collected = false}),
        online_mistake("phase3_fa2/probabilities_without_the_maximum", {.maximum_subtracted = false}),
        online_mistake("phase3_fa2/no_scale", {.scaled = false}),
        online_mistake("phase3_fa2/scale_twice", {.scaled_twice = true}),
        online_mistake("phase3_fa2/no_division_by_l", {.divided = false}),
        online_mistake("phase3_fa2/division_each_tile_and_at_the_end", {.divided_each_tile = true}),
        online_mistake("phase3_fa2/lse_without_m", {.lse = OnlineAttention::Lse::without_maximum}),
        online_mistake("phase3_fa2/lse_in_log2", {.lse = OnlineAttention::Lse::base_2}),
        online_mistake("phase3_fa2/l_for_the_lse", {.lse = OnlineAttention::Lse::sum}),
        online_mistake("phase3_fa2/keys_beyond_the_end_count_as_zero", {.ragged_keys_count = true}),
        online_mistake("phase3_fa2/last_key_dropped", {.last_key_dropped = true}),
        online_mistake("phase3_fa2/first_tile_only", {.first_tile_only = true}),
        online_mistake("phase3_fa2/last_tile_dropped", {.last_tile_dropped = true}),
        online_mistake("phase3_fa2/first_tile_twice", {.first_tile_twice = true}),
        online_mistake("phase3_fa2/tiles_counted_for_keys", {.fetch = OnlineAttention::Fetch::from_number_of_tile}),
        online_mistake("phase3_fa2/first_tile_fetched_always", {.fetch = OnlineAttention::Fetch::always_first}),
        online_mistake("phase3_fa2/V_from_K", {.values_from_keys = true}),
        online_mistake("phase3_fa2/grouped_heads_taken_in_turn", {.kv_heads_in_turn = true}),
        online_mistake("phase3_fa2/heads_swapped", {.query_heads_turned_round = true}),
        online_mistake("phase3_fa2/batch_index_forgotten", {.first_sequence = true}),
    };
}

}  // namespace

Part part() {
    Part part;
    for (const auto make : {softcap_mistakes, tile_mistakes, lane_mistakes})
        for (AttentionMistake& mistake : make()) part.mistakes.push_back(std::move(mistake));
    return part;
}

}  // namespace ladder::classroom::phase3_fa2
