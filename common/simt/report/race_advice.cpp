#include "common/simt/report/race_advice.h"

namespace simt {
inline namespace cpu {

std::string race_advice(const RacingAccess& one, const RacingAccess& other) {
    if (one.site == other.site && one.site.known()) {
        if (one.writes && other.writes)
            return "both write at the same line: two threads own one element, so let a single one of them write it, "
                   "or, "
                   "where they wrote in different steps of a loop, let a __syncthreads() lie between the steps";
        return "one line both reads and writes what several threads touch: split it, and let a __syncthreads() lie "
               "between the reading and the writing";
    }
    // Other threads may meet here than the two that were met first, so that these share a warp decides nothing.
    if (one.thread / 32 == other.thread / 32)
        return "__syncthreads() between the two lines orders them; since the two threads share a warp, __syncwarp() is "
               "enough if no thread of another warp meets them there";
    return "the two threads are in different warps: only __syncthreads() between the two lines orders them";
}

std::string update_race_advice() {
    return "several threads read this element, change it and write it back, so that one would undo what another did, "
           "and a barrier between reading and writing does not mend it: give each element one owner who adds up what "
           "is to come together, or update it with simt::atomic_add(), in every thread that touches it meanwhile; "
           "where "
           "threads take turns in the steps of a loop, let a __syncthreads() lie between the steps";
}

std::string atomic_race_advice() {
    return "atomic accesses may meet each other, and no other access: reach the element atomically wherever threads "
           "may "
           "meet on it, with simt::load_relaxed() and simt::store_relaxed() too, or let a __syncthreads() lie between "
           "the one kind and the other";
}

std::string global_proxy_advice() {
    return "bulk copies look at global memory past the threads' stores: let each thread that stored call "
           "show_global_to_async() after it, and then meet the one who sets off the copy, or let that one call it "
           "behind "
           "the barrier or the acquire, and before the copy. show_to_async() speaks of shared memory alone; a launch "
           "of "
           "its own needs no fence";
}

std::string mixed_atomics_advice() {
    return "atomic accesses may meet each other only if they are of the same bytes: reach the element everywhere as "
           "one of "
           "64 bits, or everywhere as two of 32";
}

std::string cluster_race_advice() {
    return "__syncthreads() orders the threads of one block: let a cluster_sync() lie between the two lines, or an "
           "mbarrier at which the one arrives after it, and for which the other waits before, by wait_in_cluster()";
}

}  // namespace cpu
}  // namespace simt
