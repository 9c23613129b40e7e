#pragma once

#include <string>

#include "common/cli/bench/plots.h"

namespace ladder::cli::bench {

/// Throws std::runtime_error if there is no gnuplot, saying how to get it and that plots can be drawn later.
void require_gnuplot();

/// Draws into `folder`, which is made if need be. Returns a line for the user: the file, or why there is none. Throws
/// std::runtime_error if gnuplot fails or the folder cannot be written.
std::string draw(const Plot& plot, const std::string& folder);

}  // namespace ladder::cli::bench
