#pragma once

#include <cstdint>
#include <vector>

#include "common/simt/memory/knowledge.h"
#include "common/simt/memory/thread_clocks.h"

namespace simt {
inline namespace cpu {

/// What threads of a block in a cluster know of the other blocks', for global memory: their clocks have it, and here it
/// is said in a launch's terms, once for each thread and state of its clock.
class ClusterKnowledge {
  public:
    ClusterKnowledge();
    ~ClusterKnowledge();
    ClusterKnowledge(const ClusterKnowledge&) = delete;
    ClusterKnowledge& operator=(const ClusterKnowledge&) = delete;

    void start_block();

    /// The block is one of a cluster: the numbers of all, by rank; its own rank, and threads.
    void join(std::vector<std::uint64_t> numbers, int rank, int threads);
    bool is_of_cluster() const { return !numbers_.empty(); }

    /// What the thread knows, with what it knows besides.
    KnowledgePtr known_to(int thread, const ThreadClocks& clocks, const KnowledgePtr& besides);

    /// What any thread of the block knows.
    KnowledgePtr known_to_anybody(const ThreadClocks& clocks, const KnowledgePtr& besides) const;

  private:
    struct Known {
        std::uint64_t version = 0;  // 1 + that of the clock
        KnowledgePtr besides{}, all{};
    };

    KnowledgePtr of(const ThreadClocks::ClusterClock& others) const;

    std::vector<std::uint64_t> numbers_;
    std::size_t rank_ = 0, threads_ = 0;
    std::vector<Known> known_;  // by thread
};

}  // namespace cpu
}  // namespace simt
