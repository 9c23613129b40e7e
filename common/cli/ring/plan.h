#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/rung/ring.h"
#include "common/torch/torch.h"

namespace ladder::cli::ring {

/// What ./ladder ring was asked for.
struct Plan {
    int ranks = 4;
    RingSizes sizes = {};
    torch::ScalarType dtype = torch::kFloat32;
    RingCall call = {};
    bool backward = false;                 ///< also the gradients
    std::optional<std::string> only = {};  ///< one method; all of them if absent
    int repeats = 1;                       ///< timed runs
    double patience = 30;                  ///< seconds
    bool on_gpus = false;                  ///< each rank on one
    std::string json = {};                 ///< file
    std::string trace = {};                ///< file, in which is also what each rank did when
    std::optional<double> link = {};       ///< bytes a second that it carries each way; as fast as it is if absent
};

}  // namespace ladder::cli::ring
