#pragma once

#include <string>
#include <string_view>

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

/// What helps where one of the two accesses is atomic and the other is not.
std::string atomic_race_advice();

/// What helps where atomic accesses of two widths have bytes in common.
std::string mixed_atomics_advice();

/// What helps where threads of two blocks of a cluster touch one element of shared memory.
std::string cluster_race_advice();

/// What helps where a bulk copy comes to global memory that threads have stored in the ordinary way.
std::string global_proxy_advice();

/// Whether the words for an access, such as "writes atomically", say that it is atomic.
inline bool is_atomic(std::string_view does) { return does.ends_with("atomically"); }

}  // namespace cpu
}  // namespace simt
