#pragma once

#include <string>

#include "common/simt/report/source_site.h"

namespace simt {
inline namespace cpu {

/// One of the two accesses that make a race.
struct RacingAccess {
    int thread;       ///< of the block
    SourceSite site;  ///< its line
    bool writes;
};

/// What would order two accesses of one block's threads, in a sentence.
std::string race_advice(const RacingAccess& one, const RacingAccess& other);

/// What helps where each of several threads reads one element, changes it and writes it back.
std::string update_race_advice();

}  // namespace cpu
}  // namespace simt
