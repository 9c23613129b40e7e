#pragma once

#include <exception>
#include <map>
#include <string>

#include "common/cli/bench/report.h"
#include "common/torch/torch.h"

namespace ladder::cli::bench {

/// What this run is made with, and on. Clocks are left empty.
Environment environment_of(torch::Device device, const std::string& profile);

/// Clocks, power and temperature of a GPU, as nvidia-smi reads them at this moment, each with its unit in the key;
/// empty where it cannot say, and for the CPU.
std::map<std::string, std::string> clocks_of(torch::Device device);

/// "2026-11-21T14:03:10Z"
std::string utc_now();

/// Gives memory that PyTorch keeps for later back to the device, so that the next case finds all of it.
void release_cached_memory(torch::Device device);

/// The first sentence of what an exception says, without the backtrace that libtorch appends.
std::string short_reason(const std::exception& error);

}  // namespace ladder::cli::bench
