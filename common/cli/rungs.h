#pragma once

#include <torch/types.h>

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/attention/global_bytes.h"
#include "common/reference/comparison.h"

namespace ladder::cli {

/// The real input of the tour, on the device it runs on.
struct TourInput {
    torch::Tensor q, k, v;  ///< [1, 12, S, 32] float16
    torch::Tensor scores;   ///< [12 S, S] float16: the rows that softmax meets inside attention
    std::string description;
};

/// One kernel's turn in the tour, made ready for one input.
struct Rung {
    int phase;
    std::string kernel;   ///< the entry's name
    std::string changes;  ///< what is new on this rung, in a sentence or two
    std::vector<std::pair<std::string, torch::Tensor>> inputs;
    std::function<std::vector<torch::Tensor>()> run;
    std::function<reference::Comparison(const std::vector<torch::Tensor>&)> check;
    GlobalBytes bytes;  ///< what it moves, by formula
};

inline constexpr int kPhases = 6;
std::string phase_title(int phase);

/// The rungs of one phase on `input`, in the order in which the chapter brings them.
std::vector<Rung> rungs_of_phase(int phase, const TourInput& input);

}  // namespace ladder::cli
