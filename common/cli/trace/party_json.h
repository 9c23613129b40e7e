#pragma once

#include <functional>

#include "common/cli/launch_json.h"
#include "common/simt/report/trace.h"

namespace ladder::cli {

/// The number of a source line in a launch's list of sites.
using SiteNumber = std::function<int(simt::SourceSite)>;

/// [memory, object, write, site, bytes, first 0, last 0, …]
Json access_json(const simt::TracedAccess& access, const SiteNumber& site);

/// What a trace has of a block's parties, and of what they had under way. Written into a block's `json` and a moment's,
/// and not at all where a block has no parties.
void add_parties(Json& json, const simt::TracedBlock& block, const SiteNumber& site);
void add_events(Json& json, const simt::TracedMoment& moment, const SiteNumber& site);

/// The barriers that a launch's parties meet at.
Json barriers_json(const simt::LaunchTrace& launch);

/// The text of the files in which `sites` lie, as far as they are there to be read: by their names in `sites`, a list
/// of lines each.
Json sources_json(const std::vector<simt::SourceSite>& sites);

}  // namespace ladder::cli
