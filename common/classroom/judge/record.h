#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

namespace ladder::classroom {

/// Writes the problems of a suite with their answers into a file in `folder`, and returns its name; see recording.h.
/// Throws std::system_error.
std::string record(const nlohmann::json& suite, std::uint64_t seed, const std::string& folder);

}  // namespace ladder::classroom
