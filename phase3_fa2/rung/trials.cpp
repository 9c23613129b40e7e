#include <utility>

#include "phase3_fa2/fa2.h"
#include "tests/mutants/trials.h"

namespace ladder::mutants {

std::vector<Trial> trials(torch::ScalarType dtype) {
    std::vector<Trial> trials = attention_trials(fa2_plain_forward, dtype);
    if (dtype == torch::kFloat32) trials.push_back(infinities_trial("infinities", fa2_plain_forward));
    for (Trial& trial : register_tile_trials(fa2_tiled_forward, dtype)) trials.push_back(std::move(trial));
    return trials;
}

}  // namespace ladder::mutants
