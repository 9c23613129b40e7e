#pragma once

#include <string>
#include <vector>

#include "common/cli/launch_json.h"
#include "common/cli/ring/plan.h"
#include "common/cli/ring/rank.h"

namespace ladder::cli::ring {

/// What all ranks have, in words and tables.
std::string in_words(const Plan& plan, const RingDemo& demo, const std::vector<RankRun>& ranks);

/// The same for --json.
Json in_json(const Plan& plan, const RingDemo& demo, const std::vector<RankRun>& ranks);

/// Whether every result that was checked is right, and every rank sent what the formula says.
bool all_right(const Plan& plan, const RingDemo& demo, const std::vector<RankRun>& ranks);

}  // namespace ladder::cli::ring
