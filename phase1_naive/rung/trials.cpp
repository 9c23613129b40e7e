#include "tests/mutants/trials.h"
#include "phase1_naive/naive.h"

namespace ladder::mutants {

std::vector<Trial> trials(torch::ScalarType dtype) {
    constexpr int64_t kBlockRows = 16;  // leaves shared memory for the keys
    std::vector<Trial> trials = attention_trials(standard_attention, dtype, "standard ");
    // A dot product in more than one step.
    trials.push_back(attention_trial(
        standard_attention,
        {.name = "standard two_steps", .query_length = 9, .key_length = 20, .head_dim = 40, .dtype = dtype}));
    const auto add_scheme = [&](const std::string& name, auto scheme) {
        for (Trial& trial :
             attention_trials([scheme](const auto&q, const auto&k, const auto&v,
                                       const auto&options) { return scheme(q, k, v, options, kBlockRows); },
                              dtype, name + " "))
            trials.push_back(std::move(trial));
    };
    add_scheme("q_blocked", q_blocked_attention);
    add_scheme("qv_blocked", qv_blocked_attention);
    return trials;
}

}  // namespace ladder::mutants
