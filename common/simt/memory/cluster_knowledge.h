#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "common/simt/memory/knowledge.h"
#include "common/simt/memory/thread_clocks.h"

namespace simt {
inline namespace cpu {

/// What threads of a block in a cluster know of the other blocks', for global memory: their clocks have it, and here it
/// is said in a launch's terms, once for each thread and state of its clock.
class ClusterKnowledge {
  public:
    void start_block() {
        numbers_.clear();
        known_.clear();
    }

    /// The block is one of a cluster: the numbers of all, by rank; its own rank, and threads.
    void join(std::vector<std::uint64_t> numbers, int rank, int threads) {
        numbers_ = std::move(numbers);
        rank_ = std::size_t(rank);
        threads_ = std::size_t(threads);
        known_.assign(threads_, {});
    }
    bool is_of_cluster() const { return !numbers_.empty(); }

    /// What the thread knows, with what it knows besides.
    KnowledgePtr known_to(int thread, const ThreadClocks& clocks, const KnowledgePtr& besides) {
        const ThreadClocks::Clock& clock = clocks.of(thread);
        Known& known = known_[std::size_t(thread)];
        if (known.version == clock.version + 1 && known.besides == besides) return known.all;
        known = {clock.version + 1, besides, joined(besides, of(clock.others))};
        return known.all;
    }

    /// What any thread of the block knows.
    KnowledgePtr known_to_anybody(const ThreadClocks& clocks, const KnowledgePtr& besides) const {
        ThreadClocks::ClusterClock all;
        for (std::size_t t = 0; t < threads_; ++t) ThreadClocks::join(all, clocks.of(int(t)).others);
        return joined(besides, of(all));
    }

  private:
    struct Known {
        std::uint64_t version = 0;  // 1 + that of the clock
        KnowledgePtr besides{}, all{};
    };

    KnowledgePtr of(const ThreadClocks::ClusterClock& others) const {
        KnowledgePtr all;
        for (std::size_t rank = 0; rank < others.size(); ++rank) {
            if (rank == rank_ || others[rank].known.empty()) continue;
            BlockClock clock = others[rank].known, shown = others[rank].shown_global;
            clock.resize(threads_);  // agents are their block's own affair
            if (!shown.empty()) shown.resize(threads_);
            all = joined(all, std::make_shared<const Knowledge>(numbers_[rank], std::move(clock), std::move(shown)));
        }
        return all;
    }

    std::vector<std::uint64_t> numbers_;
    std::size_t rank_ = 0, threads_ = 0;
    std::vector<Known> known_;  // by thread
};

}  // namespace cpu
}  // namespace simt
