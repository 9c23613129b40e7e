#pragma once

#include "common/simt/report/source_site.h"

// What the lanes of a whole warp agree on, as the CPU machine models it.

namespace simt {
inline namespace cpu {

/// elect.sync: all lanes meet, and one of them is told so. Here it is always the lowest.
bool elect_lane(SourceSite site);

/// All lanes meet, and should have the same value; which lane 0 has.
int value_of_warp(int value, SourceSite site);

}  // namespace cpu
}  // namespace simt
