#include "phase1_naive/naive.h"
#include "tests/mutants/trials.h"

namespace ladder::mutants {

std::vector<Trial> trials() {
    constexpr int64_t kBlockRows = 16;  // leaves shared memory for the keys
    std::vector<Trial> trials = attention_trials(standard_attention);
    for (const auto scheme : {q_blocked_attention, qv_blocked_attention})
        for (Trial& trial : attention_trials([scheme](const auto&q, const auto&k, const auto&v, const auto&options) {
                 return scheme(q, k, v, options, kBlockRows);
             }))
            trials.push_back(std::move(trial));
    return trials;
}

}  // namespace ladder::mutants
