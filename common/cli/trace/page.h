#pragma once

#include <string>

#include "common/cli/launch_json.h"

namespace ladder::cli {

/// One self-contained page that plays `trace`: docs/visualizer, with the trace inside.
std::string trace_page(const Json& trace);

}  // namespace ladder::cli
