#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/simt/report/source_site.h"
#include "common/simt/report/trace.h"

namespace simt {
inline namespace cpu {

/// Keeps what the parties of a block do beside reading and writing, and tells in which moment each thread is.
///
/// Moments are as early as the kernel's waits allow. Every thread has a clock, which counts moments. It goes on
///
///   - at each wait, for a phase of a barrier, for products or for stores: to the moment after the one in which what it
///     waited for has come to pass, and by one at least,
///   - at a __syncwarp() and a __syncthreads(): to the moment after the latest of those who meet,
///   - at a wgmma: to the latest of the warpgroup's.
///
/// A phase of a barrier is over in the moment of its last arrival. A copy lands in the moment after the one in which it
/// was asked for.
class EventRecorder {
  public:
    using Agent = TracedAccess::Agent;
    using Kind = TracedEvent::Kind;

    /// `launch` is where barriers are listed.
    void start_block(LaunchTrace& launch, int threads);

    /// Whether the block has parties: it has done something that is recorded here.
    bool any() const { return !events_.empty(); }

    /// In which moment a thread is.
    int now(int thread) const { return clocks_[std::size_t(thread)]; }
    /// The latest of all.
    int latest() const;
    void block_barrier();
    void warp_barrier(int warp) { meet(warp * 32, 32, 1); }

    /// Who reads and writes from now on, until the copy, product or store is handed in for which it does.
    void set_off(Agent agent) {
        agent_ = agent;
        boxes_.clear();
    }
    /// The copy writes now: to this block, or to another one of the cluster.
    void copy_lands(bool elsewhere) {
        agent_ = Agent::copies;
        lands_elsewhere_ = elsewhere;
    }
    Agent agent() const { return agent_; }
    /// An access of who was set off.
    void touched(const TracedAccess& access);
    /// Any access to shared memory.
    void shared(bool write, std::size_t offset, std::size_t bytes, int thread);

    // Barriers. A phase is numbered from 0 on.
    void made(const std::string& barrier, int arrivals, int thread, SourceSite site);
    void numbered(const std::string& barrier, int arrivals);
    void arrived(const std::string& barrier, std::uint64_t phase, int thread, SourceSite site);
    void announced(const std::string& barrier, std::uint64_t phase, int bytes, int thread, SourceSite site);
    void over(const std::string& barrier, std::uint64_t phase);
    /// No arrival at it comes after this moment.
    void arrived_by(const std::string& barrier, std::uint64_t phase, int moment);
    /// The thread arrives at a barrier of another block of the cluster, which has a recorder or none. Ranks: of that
    /// block, and of this one. Blocks of a cluster count their moments alike.
    void arrived_in(EventRecorder* other, int rank, int own_rank, const std::string& barrier, std::uint64_t phase,
                    int thread, SourceSite site);
    /// `phase`: -1 where it passes since none has begun.
    void waits(const std::string& barrier, std::int64_t phase, int thread, SourceSite site);
    void goes_on(int thread);

    // Copies to shared memory, and stores from there in groups of the thread.
    void copied(const std::string& barrier, std::uint64_t phase, std::uint64_t bytes, int thread, SourceSite site);
    /// The same to another block of the cluster, see arrived_in().
    void copied_to(EventRecorder* other, int rank, int own_rank, const std::string& barrier, std::uint64_t phase,
                   std::uint64_t bytes, int thread, SourceSite site);
    void stored(std::int64_t group, int thread, SourceSite site);
    void committed_stores(std::int64_t group, int thread, SourceSite site);
    /// For all groups before `group`.
    void waited_for_stores(std::int64_t group, bool until_read, int thread, SourceSite site);

    // Products in groups of the warpgroup.
    void multiplies(int warpgroup) {
        meet(warpgroup * 128, 128, 0);
        set_off(Agent::products);
    }
    void multiplied(std::int64_t group, int warpgroup, SourceSite site);
    void committed_products(std::int64_t group, int warp, SourceSite site);
    void waited_for_products(std::int64_t group, int warp, SourceSite site);

    void registers(bool claims, int count, int warpgroup, SourceSite site);

    /// What the block did, with threads for parties and clocks for moments. Parties are those that the warps with
    /// `acted` or an event belong to.
    void hand_over(TracedBlock& block, std::vector<bool> acted);
    /// The party of a warp; -1 if it did nothing. Known after hand_over() has begun.
    int party_of_warp(int warp) const { return party_[std::size_t(warp)]; }
    const std::vector<TracedEvent>& events() const { return events_; }

  private:
    /// Of a barrier's phase: the latest arrival so far, and when it was over.
    struct Phase {
        int arrival = 0, over = kNever;
    };
    struct Barrier {
        std::vector<Phase> phases;
        std::vector<std::pair<std::int64_t, std::size_t>> fills;  ///< phase and index into fills_
        bool has_fills() const { return !fills.empty(); }
    };
    struct LastWait {
        int barrier = TracedEvent::kNone;
        std::int64_t phase = 0;
        std::size_t event = 0;
    };
    /// Bytes of shared memory that a copy has filled.
    struct Filled {
        std::size_t first, end, fill;
    };
    struct Fill {
        TracedFill traced;
        LastWait before;  ///< the wait of the thread that asked for it
        int lands = 0;    ///< the last of its copies
    };
    struct Group {
        TracedGroup traced;
        std::vector<std::size_t> fills;  ///< that it reads
    };
    struct Store {
        TracedStore traced;
        std::int64_t group;
    };

    /// A copy as its block gets it.
    struct Coming {
        std::uint64_t bytes;
        int asked;
        LastWait before;  ///< of the thread that asked for it
        std::vector<TracedAccess> boxes;
        std::vector<Filled> places;
        SourceSite site;
    };

    void meet(int first_thread, int threads, int then);
    void take(int barrier, std::uint64_t phase, Coming&& copy);
    std::vector<TracedAccess> boxes_of_copy();
    int barrier_called(const std::string& name);
    Phase& phase_of(int barrier, std::uint64_t phase);
    TracedEvent& add(Kind kind, int thread, int barrier, std::int64_t number, SourceSite site);
    void find_parties(TracedBlock& block, const std::vector<bool>& acted);
    void hand_over_fills(TracedBlock& block);

    LaunchTrace* launch_ = nullptr;
    std::vector<int> clocks_;
    std::vector<TracedEvent> events_;  ///< party: a thread
    std::map<std::string, int> numbers_;
    std::vector<Barrier> barriers_;
    std::vector<LastWait> last_wait_;  ///< of each thread
    std::vector<Fill> fills_;
    std::vector<Filled> filled_;
    std::vector<Group> groups_;
    std::vector<Store> stores_;
    Agent agent_ = Agent::threads;
    bool lands_elsewhere_ = false;         ///< what it writes
    std::vector<TracedAccess> boxes_;      ///< of who was set off
    std::vector<std::size_t> fills_read_;  ///< by who was set off
    std::vector<Filled> filling_;          ///< likewise
    std::vector<int> party_;               ///< of each warp
};

}  // namespace cpu
}  // namespace simt
