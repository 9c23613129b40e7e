#pragma once

#include <cstdint>
#include <string>

namespace ladder {

/// "23.5 KiB"
std::string human_bytes(std::uint64_t bytes);

/// "412 ms", "3.1 s", "85 us"
std::string human_time(double milliseconds);

}  // namespace ladder
