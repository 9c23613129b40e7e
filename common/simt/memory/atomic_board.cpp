#include "common/simt/memory/atomic_board.h"

namespace simt {
inline namespace cpu {

AtomicBoard::AtomicBoard() = default;
AtomicBoard::~AtomicBoard() = default;

void AtomicBoard::clear() {
    posts_.clear();
    steps_.clear();
    noted_.clear();
}

void AtomicBoard::note(const Step& step) {
    const std::scoped_lock lock(mutex_);
    if (noted_.size() < kMostSteps &&
        noted_.insert({step.block, step.address, step.site.line(), step.releases, step.acquires}).second)
        steps_.push_back(step);
}

template <class Use>
void AtomicBoard::for_last_steps(std::uint64_t block, int thread, Use use) {
    const std::scoped_lock lock(mutex_);
    for (std::size_t i = steps_.size(); i-- > 0 && steps_.size() - i <= kLastSteps;)
        if (steps_[i].block == block && steps_[i].thread == thread) use(steps_[i]);
}

void AtomicBoard::note_fence(std::uint64_t block, int thread) {
    for_last_steps(block, thread, [](Step& step) { step.acquires = step.use.reads; });
}

void AtomicBoard::note_narrow_fence(std::uint64_t block, int thread, SourceSite site) {
    for_last_steps(block, thread, [site](Step& step) {
        if (step.use.reads && !step.narrow_acquire.known()) step.narrow_acquire = site;
    });
}

}  // namespace cpu
}  // namespace simt
