#include "common/simt/memory/cluster_knowledge.h"

#include <memory>
#include <utility>

namespace simt {
inline namespace cpu {

ClusterKnowledge::ClusterKnowledge() = default;
ClusterKnowledge::~ClusterKnowledge() = default;

void ClusterKnowledge::start_block() {
    numbers_.clear();
    known_.clear();
}

void ClusterKnowledge::join(std::vector<std::uint64_t> numbers, int rank, int threads) {
    numbers_ = std::move(numbers);
    rank_ = std::size_t(rank);
    threads_ = std::size_t(threads);
    known_.assign(threads_, {});
}

KnowledgePtr ClusterKnowledge::known_to(int thread, const ThreadClocks& clocks, const KnowledgePtr& besides) {
    const ThreadClocks::Clock& clock = clocks.of(thread);
    Known& known = known_[std::size_t(thread)];
    if (known.version == clock.version + 1 && known.besides == besides) return known.all;
    known = {clock.version + 1, besides, joined(besides, of(clock.others))};
    return known.all;
}

KnowledgePtr ClusterKnowledge::known_to_anybody(const ThreadClocks& clocks, const KnowledgePtr& besides) const {
    ThreadClocks::ClusterClock all;
    for (std::size_t t = 0; t < threads_; ++t) ThreadClocks::join(all, clocks.of(int(t)).others);
    return joined(besides, of(all));
}

KnowledgePtr ClusterKnowledge::of(const ThreadClocks::ClusterClock& others) const {
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

}  // namespace cpu
}  // namespace simt
