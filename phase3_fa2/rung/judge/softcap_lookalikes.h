#pragma once

#include <vector>

#include "common/classroom/judge/parts.h"

namespace ladder::classroom::phase3_fa2 {

/// Mistakes in capping scores, as this phase's exercises.toml names them.
std::vector<AttentionMistake> softcap_mistakes();

}  // namespace ladder::classroom::phase3_fa2
