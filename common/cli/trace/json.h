#pragma once

#include <span>
#include <string>

#include "common/cli/launch_json.h"
#include "common/cli/trace/run.h"

namespace ladder::cli {

inline constexpr const char* kTraceFormat = "flash-ladder-trace";
inline constexpr int kTraceVersion = 1;

/// Traces as docs/trace.md describes them.
Json trace_json(std::span<const TracedRun> runs);

}  // namespace ladder::cli
