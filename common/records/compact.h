#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace ladder {

/// JSON as people compare it: what fits a line stands on one, anything longer opens up, an element a line. So a
/// measurement is one line of a recorded file. compact.py beside this file writes the same.
std::string compact_text(const nlohmann::ordered_json& json);

}  // namespace ladder
