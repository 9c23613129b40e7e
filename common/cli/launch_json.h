#pragma once

#include <nlohmann/json.hpp>

#include "common/simt/report/launch_log.h"

namespace ladder::cli {

using Json = nlohmann::ordered_json;  // keeps the order in which things are written

/// A launch and, where it was counted, its counters.
Json json_of(const simt::LaunchRecord& launch);

/// Writes to the file that --json names. Throws std::runtime_error if it cannot be written.
void write_json(const Json& json, const std::string& file);

}  // namespace ladder::cli
