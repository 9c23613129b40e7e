#include "common/rung/human.h"

#include <fmt/format.h>

namespace ladder {

std::string human_bytes(std::uint64_t bytes) {
    constexpr const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double value = double(bytes);
    int unit = 0;
    for (; value >= 1024 && unit < 4; ++unit) value /= 1024;
    return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.{}f} {}", value, value < 10 ? 2 : 1, units[unit]);
}

std::string human_time(double milliseconds) {
    if (milliseconds < 1) return fmt::format("{:.0f} us", milliseconds * 1000);
    if (milliseconds < 1000) return fmt::format("{:.{}f} ms", milliseconds, milliseconds < 10 ? 2 : 0);
    return fmt::format("{:.1f} s", milliseconds / 1000);
}

}  // namespace ladder
