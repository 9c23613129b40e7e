#pragma once

#include <string>
#include <vector>

#include "common/cli/bench/problem.h"
#include "common/rung/case_list.h"

namespace ladder::cli::bench {

std::string name_of(Sweep sweep);
Sweep sweep_named(const std::string& name);

/// Every case of every phase, each problem of a phase once, the headlines first: whoever stops early has the most
/// important ones.
std::vector<Case> all_cases(Scale scale);

/// A few of them: one for each rung, and the shortest two of the sweeps that are drawn as curves.
std::vector<Case> quick_cases(Scale scale);

/// The entries of all phases.
const std::vector<Entry>& all_entries();

/// The one of that name; null if there is none.
const Entry* entry_named(const std::string& name);

}  // namespace ladder::cli::bench
