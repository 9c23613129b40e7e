#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace ladder::classroom {

// The problems of a suite with their answers, for a judge that has no libtorch: what a hand-out has
// (recorded_trials.cpp). The full judge writes them (record.cpp). A recording is one Message:
//
//   words   {"trials": [{"property", "title", "name", "sizes", "problem", "asked", "mistaken", "mistakes": [NAME…]}]}
//   blobs   of each trial: its inputs; for each output the right elements and their bounds, in float64; for each
//   mistake and each
//           output a sample of what it gives, and the bound of that, in float64. An empty sample says that it gives
//           anything.

/// The file of a suite's recording, in the folder of all.
std::string recording_of(const nlohmann::json& suite);

/// Which elements of a tensor are kept of a known mistake's result.
std::vector<std::size_t> sampled(std::size_t elements);

}  // namespace ladder::classroom
