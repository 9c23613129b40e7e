#include "common/classroom/judge/online_attention.h"
#include "phase0_softmax/rung/judge/softmax_trials.h"

namespace ladder::classroom::phase0_softmax {

Part part() {
    return {
        .problems = {softmax_problems()},
        .mistakes = {
            online_mistake("phase0_softmax/attention_factor_after_the_maximum",
                           {.sum_rescalings = 0, .output_rescalings = 0}),
            online_mistake("phase0_softmax/attention_O_not_rescaled", {.output_rescalings = 0}, Steps::keys),
            online_mistake("phase0_softmax/attention_l_not_rescaled", {.sum_rescalings = 0}, Steps::keys),
            online_mistake("phase0_softmax/attention_l_not_collected", {.sum_collected = false}, Steps::keys),
            online_mistake("phase0_softmax/attention_new_term_of_l_rescaled_too", {.tile_rescaled = true}, Steps::keys),
            online_mistake("phase0_softmax/attention_new_key_rescaled_too",
                           {.tile_rescaled = true, .tile_output_rescaled = true}, Steps::keys),
            online_mistake("phase0_softmax/attention_weight_under_the_old_maximum", {.under_new_maximum = false},
                           Steps::keys),
            online_mistake("phase0_softmax/attention_values_not_weighted", {.values_weighted = false}, Steps::keys),
            online_mistake("phase0_softmax/attention_maximum_not_kept", {.maximum_kept = false}, Steps::keys),
            online_mistake("phase0_softmax/attention_maximum_starts_at_zero", {.first_maximum = 0}, Steps::keys),
            online_mistake("phase0_softmax/attention_infinity_minus_infinity", {.infinities_guarded = false},
                           Steps::keys),
            online_mistake("phase0_softmax/attention_factor_upside_down", {.factor_upside_down = true}, Steps::keys),
            online_mistake("phase0_softmax/attention_o_not_collected", {.output_collected = false}, Steps::keys),
            online_mistake("phase0_softmax/attention_no_scale", {.scaled = false}, Steps::keys),
            online_mistake("phase0_softmax/attention_scale_twice", {.scaled_twice = true}, Steps::keys),
            online_mistake("phase0_softmax/attention_no_division", {.divided = false}, Steps::keys),
            online_mistake("phase0_softmax/attention_division_at_each_key_and_at_the_end", {.divided_each_tile = true},
                           Steps::keys),
            online_mistake("phase0_softmax/attention_lse_without_m", {.lse = OnlineAttention::Lse::without_maximum},
                           Steps::keys),
            online_mistake("phase0_softmax/attention_lse_in_log2", {.lse = OnlineAttention::Lse::base_2}, Steps::keys),
            online_mistake("phase0_softmax/attention_last_key_dropped", {.last_key_dropped = true}, Steps::keys),
        }};
}

}  // namespace ladder::classroom::phase0_softmax
