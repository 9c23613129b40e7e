#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/simt/report/source_site.h"
#include "common/simt/report/traced_access.h"

namespace simt {

/// In place of a moment: that has not come to pass.
inline constexpr int kNever = -1;

/// Threads of a block that do one thing: a warpgroup that multiplies, or a warp.
struct TracedParty {
    std::string name;           ///< "warpgroup 1", "warp 0 of warpgroup 0"
    std::string role;           ///< by what it did: "issues copies"
    int first_thread, threads;  ///< which they are
};

/// What parties wait for: an mbarrier, or one of a block's numbered barriers.
struct TracedBarrier {
    std::string name;  ///< as in messages: "K_j full[0]", "barrier 1"
    int arrivals;      ///< that end a phase
    bool is_numbered;  ///< bar.sync: then a phase is from one opening to the next
};

/// What a party did, or what came to pass for it, beside accesses and values. Each belongs to a TracedMoment.
struct TracedEvent {
    /// What happened.
    enum class Kind : std::uint8_t {
        init,            ///< of an mbarrier
        arrive,          ///< at a barrier, in phase `number`, and announced `bytes`
        wait,            ///< at a barrier, for phase `number`; -1: the one before the first
        over,            ///< phase `number` of a barrier
        copy,            ///< to shared memory is asked for; it reports to phase `number` of a barrier
        land,            ///< of copies that report to phase `number`
        multiply,        ///< one wgmma, of group `number` of its warpgroup
        commit,          ///< group `number` of products is closed
        wait_products,   ///< for all groups before `number`
        store,           ///< from shared memory is asked for, in the thread's group `number`
        commit_stores,   ///< group `number` of stores is closed
        wait_read,       ///< until stores of all groups before `number` have read their tiles
        wait_stores,     ///< until stores of all groups before `number` are done
        give_registers,  ///< setmaxnreg.dec to `number`
        take_registers,  ///< setmaxnreg.inc to `number`
    };
    static constexpr int kNobody = -1;  ///< it came to pass
    static constexpr int kNone = -1;    ///< of barriers
    static constexpr int kHere = -1;    ///< of blocks

    Kind kind;                ///< what
    int party = kNobody;      ///< index into TracedBlock::parties
    int barrier = kNone;      ///< index into LaunchTrace::barriers
    std::int64_t number = 0;  ///< see Kind
    std::uint64_t bytes = 0;  ///< announced, copied or stored
    int times = 1;            ///< by so many threads, warps or instructions
    SourceSite site = {};     ///< the line
    int moment = kNever;      ///< in which it happened
    int until = kNever;       ///< of a wait: the first moment after it
    /// The other block of the cluster, by rank, at whose barrier it is; or, where the party is nobody, that did it.
    int block = kHere;
    std::vector<TracedAccess> boxes = {};  ///< of a copy, store or product: what it reads and writes
};

/// What a phase of an mbarrier brought: copies to a stage of a ring, say, and what became of them.
struct TracedFill {
    int barrier;                           ///< to which the copies report; index into LaunchTrace::barriers
    std::int64_t phase;                    ///< of it
    int emptied_at = TracedEvent::kNone;   ///< the barrier at which readers say that they are done, if there is one
    std::uint64_t bytes = 0;               ///< that came
    SourceSite site = {};                  ///< of the first copy
    std::vector<TracedAccess> boxes = {};  ///< what was read of tensors, and which tiles were written
    // Moments:
    int asked = kNever, full = kNever;            ///< the first copy was issued; the phase is over
    int first_read = kNever, last_read = kNever;  ///< by anybody, and as long as products under way may read
    int released = kNever;                        ///< the phase of `emptied_at` is over
};

/// A group of products that a warpgroup had under way.
struct TracedGroup {
    int party;                             ///< index into TracedBlock::parties
    std::int64_t number;                   ///< of the warpgroup's
    int products = 0;                      ///< how many wgmma
    SourceSite site = {};                  ///< of the first
    std::vector<TracedAccess> reads = {};  ///< tiles
    // Moments:
    int begun = kNever, committed = kNever;  ///< the first was issued; the group was closed
    int done = kNever;                       ///< the first moment after the wait for it
};

/// A store that the tensor memory accelerator had under way, or those that one line asked for in one moment.
struct TracedStore {
    int party;                             ///< index into TracedBlock::parties
    std::uint64_t bytes = 0;               ///< of shared memory
    SourceSite site = {};                  ///< the line
    std::vector<TracedAccess> boxes = {};  ///< what it reads of tiles and writes of tensors
    // Moments:
    int asked = kNever, committed = kNever;  ///< it was issued; its group was closed
    int read = kNever, done = kNever;        ///< the first after a wait for its reading, and for its writing
};

}  // namespace simt
