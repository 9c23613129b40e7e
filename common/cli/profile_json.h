#pragma once

#include <span>
#include <string>

#include "common/cli/sweep.h"
#include "common/rung/profile.h"

namespace ladder::cli {

/// Everything that was counted, as JSON. Throws std::runtime_error if the file cannot be written.
void write_profile_json(const ProfileRequest& request, std::span<const RungProfile> rungs,
                        std::span<const Sweep> sweeps, const std::string& file);

}  // namespace ladder::cli
