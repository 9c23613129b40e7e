#pragma once

#include <string>
#include <vector>

#include "common/cli/bench/report.h"

namespace ladder::cli::bench {

/// One figure, as a script for gnuplot that lacks only the name of the file to draw into.
struct Plot {
    std::string file = {};       ///< "ladder.svg"
    std::string title = {};      ///< what a screen reader says of it
    std::string script = {};     ///< empty where the report has nothing to show
    std::string not_drawn = {};  ///< then the reason
};

/// The ladder chart, throughput against length, decoding against the length of the cache, and the roofline. Ground and
/// colours that suit light and dark pages are draw()'s business.
std::vector<Plot> plots_of(const Report& report);

}  // namespace ladder::cli::bench
