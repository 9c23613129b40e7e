#pragma once

#include <string>
#include <vector>

#include "common/cli/bench/report.h"

namespace ladder::cli::bench {

/// One figure, as a script for gnuplot that lacks only the name of the file to draw into.
struct Plot {
    std::string file = {};       ///< "ladder.svg"
    std::string script = {};     ///< empty where the report has nothing to show
    std::string not_drawn = {};  ///< then the reason
};

/// The ladder chart, throughput against length, decoding against the length of the cache, and the roofline:
/// transparent, in colours that can be read on light and on dark paper.
std::vector<Plot> plots_of(const Report& report);

}  // namespace ladder::cli::bench
