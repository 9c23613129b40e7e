#pragma once

#include <functional>

#include "common/distributed/group.h"

namespace ladder::distributed {

/// Runs `body` once for each rank of a group, on threads of this process that talk through Gloo as processes do, and
/// returns when all have ended. Throws what a rank threw: of several, what the others were not told by it.
void on_local_ranks(int ranks, const std::function<void(const Group&)>& body, Patience patience = Patience(60'000));

}  // namespace ladder::distributed
