#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "common/simt/machine/awaited.h"
#include "common/simt/memory/knowledge.h"
#include "common/simt/memory/sanitizers.h"
#include "common/simt/memory/shared_memory.h"
#include "common/simt/memory/thread_clocks.h"
#include "common/simt/report/source_site.h"

namespace simt {
inline namespace cpu {

class Block;

/// What a thread passes on to threads of its own and of other blocks of the cluster: of shared memory, and of global.
struct ClusterMessage {
    ThreadClocks::ClusterClock clock{};
    KnowledgePtr knowledge{};

    void join(const ClusterMessage& other);
    void clear();
};

/// The running thread of a block as a visitor of another block's shared memory.
class ClusterVisitor final : public SharedMemory::Visitor {
  public:
    ClusterVisitor(const Block& from, const Block& visited);
    bool knows(int who, std::uint32_t interval) const override;
    bool has_shown(int who, std::uint32_t interval) const override;

  private:
    const Block& from_;
    const Block& visited_;
};

/// The blocks of a cluster. They begin together and one worker runs them all, in turns: so they may touch each other's
/// shared memory as they are.
class Cluster final : public Awaited {
  public:
    /// `numbers`: of its blocks in the grid, by rank.
    explicit Cluster(std::vector<std::uint64_t> numbers);
    ~Cluster();

    /// The next block, in the order of ranks.
    void add(Block& block);
    const std::vector<std::uint64_t>& numbers() const { return numbers_; }

    int size() const { return int(blocks_.size()); }
    Block& block(int rank) const { return *blocks_[std::size_t(rank)]; }

    /// The block of that rank, whose memory the running thread is about to reach. Diagnoses a rank that does not exist,
    /// and a block that may not have begun, or has ended. `does`: "reads tile(0, 3)".
    Block& visit(int rank, const std::string& does, SourceSite site) const;

    // The barrier of the cluster, by the running thread.
    void arrive(SourceSite site);
    void wait(SourceSite site);

    /// The running thread of a block returns from the kernel, and its block ends if it is the last.
    void thread_returns();
    void block_ends();

    std::string awaited() const override;

  private:
    struct Thread {
        bool has_arrived = false;  // and not waited since
        std::uint64_t phase = 0;   // at which it did
        SourceSite site;
    };
    Thread& running_thread();
    void end_phase_if_complete();

    const std::vector<std::uint64_t> numbers_;
    std::vector<Block*> blocks_;
    std::vector<std::vector<Thread>> threads_;  // by rank
    int live_ = 0, arrived_ = 0;
    std::uint64_t phase_ = 0;
    int last_arrival_ = 0;  // of this phase: its moment in the trace
    ClusterMessage arriving_, passed_;
    SanitizedMeeting order_[2];  // of phases in turn
};

}  // namespace cpu
}  // namespace simt
