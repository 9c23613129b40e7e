#include "common/classroom/judge/resemblance.h"
#include "phase4_causal/rung/judge/stage_trials.h"

namespace ladder::classroom::phase4_causal {
namespace {

/// A mask that is not the one which was asked for.
AttentionMistake mask_mistake(std::string_view name, void (*change)(Form&)) {
    return {name, [=](const AttentionQuestion& question, const Attended& result) {
                if (question.form.mask == Mask::none) return false;
                Form form = question.form;
                change(form);
                return resembles(question, result, attend(question.q, question.k, question.v, form, torch::kFloat64));
            }};
}

/// Garbage got into O, but not into LSE: its probability was 0.
bool zero_times_nan(const AttentionQuestion& question, const Attended& result) {
    const auto has_nan = [](const torch::Tensor& tensor) { return tensor.isnan().any().item<bool>(); };
    return question.garbage && has_nan(result.out) && !has_nan(result.lse);
}

}  // namespace

Part part() {
    return {.problems = {stage_problems()},
            .mistakes = {
                mask_mistake("phase4_causal/query_does_not_see_its_own_key", [](Form& form) { form.further = -1; }),
                mask_mistake("phase4_causal/query_sees_the_next_key", [](Form& form) { form.further = 1; }),
                mask_mistake("phase4_causal/alignments_swapped",
                             [](Form& form) {
                                 form.mask = form.mask == Mask::causal_top_left ? Mask::causal_bottom_right
                                                                                : Mask::causal_top_left;
                             }),
                {"phase4_causal/NaN_of_an_unseen_key", zero_times_nan}}};
}

}  // namespace ladder::classroom::phase4_causal
