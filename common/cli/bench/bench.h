#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/cli/bench/report.h"
#include "common/torch/torch.h"

namespace ladder::cli::bench {

/// What ./ladder bench is asked for.
struct Request {
    std::vector<int> phases = {};  ///< empty: all
    torch::Device device = torch::kCPU;
    std::string profile = {};  ///< what the CPU machine imitates; empty on a GPU
    bool quick = false;
    std::optional<double> seconds = {};  ///< after which no further case is begun
    std::string json = {};               ///< written after each case, so that an interrupted run leaves what it had
};

/// Measures the cases, most important first, and prints a line for each as it is done. What goes wrong in a case is
/// part of its result, and the next one goes on. Throws std::runtime_error where `json` cannot be written.
Report run(const Request& request);

}  // namespace ladder::cli::bench
