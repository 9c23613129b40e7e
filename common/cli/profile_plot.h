#pragma once

#include <span>
#include <string>

#include "common/cli/sweep.h"

namespace ladder::cli {

/// Draws the sweeps into `folder`, which is made if it is missing: one figure for N, one for M, each as the measured
/// points (NAME.dat), the drawing (NAME.gp) and, by gnuplot, the figure (NAME.svg). Returns the figures' paths.
///
/// Throws std::runtime_error if the folder cannot be written, and if gnuplot is missing or fails; the other files are
/// there then, and the message says what to run.
std::vector<std::string> plot_sweeps(std::span<const Sweep> sweeps, const std::string& folder);

}  // namespace ladder::cli
