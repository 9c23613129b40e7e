#include "common/simt/memory/hand_over.h"

#include <algorithm>
#include <utility>

#include "common/simt/language/cuda_names.h"

namespace simt {
inline namespace cpu {

void GainedKnowledge::clear() {
    if (!all_) return;
    gains_.clear();
    latest_.clear();
    before_ = all_ = nullptr;
}

bool GainedKnowledge::gain(const Moment& now, const KnowledgePtr& knowledge) {
    const KnowledgePtr known = known_at(now), more = joined(known, knowledge);
    if (more == known) return false;
    gains_.push_back({now.thread, now.interval, now.block_interval, knowledge});
    all_ = joined(all_, knowledge);
    return true;
}

KnowledgePtr GainedKnowledge::known_at(const Moment& now) {
    if (!all_) return nullptr;
    // What came before a barrier of the block is known to all.
    std::erase_if(gains_, [&](const Gain& gain) {
        if (gain.block_interval >= now.block_interval) return false;
        before_ = joined(before_, gain.knowledge);
        return true;
    });
    if (latest_.size() <= std::size_t(now.thread)) latest_.resize(std::size_t(now.thread) + 1);
    KnowledgePtr& known = latest_[std::size_t(now.thread)];
    known = joined(known, before_);
    for (const Gain& gain : gains_)
        if (now.comes_after(gain.thread, gain.interval, gain.block_interval)) known = joined(known, gain.knowledge);
    return known;
}

void HandOver::start_block(std::uint64_t block) {
    block_ = block;
    if (!has_any_) return;
    has_any_ = false;
    acquired_.clear();
    found_.clear();
    fenced_.clear();
}

KnowledgePtr HandOver::past_of(const Moment& now, std::uint32_t block_since) {
    BlockClock clock(blockDim.volume(), block_since - 1), shown;
    if (now.clocks) {
        ThreadClocks::Clock past;
        past.known = std::move(clock);
        now.clocks->release({now.thread, now.interval - 1, now.since, block_since}, past);
        past.known.resize(blockDim.volume());  // agents are the block's own affair
        clock = std::move(past.known);
        shown = std::move(past.shown_global);
        if (!shown.empty()) shown.resize(blockDim.volume());
    } else {
        const std::size_t warp = std::size_t(now.thread) / 32 * 32;
        for (std::size_t t = warp; t < std::min(warp + 32, clock.size()); ++t) clock[t] = now.since - 1;
        clock[std::size_t(now.thread)] = now.interval - 1;
    }
    return joined(acquired_.known_at(now),
                  std::make_shared<const Knowledge>(block_, std::move(clock), std::move(shown)));
}

void HandOver::fence(const Moment& now, std::uint32_t block_since, ThreadClocks* clocks) {
    has_any_ = true;
    acquire(now, found_.known_at(now), clocks);
    fenced_.gain(now, past_of(now, block_since));
}

void HandOver::show(const Moment& now) {
    if (has_any_) acquired_.gain(now, all_shown(acquired_.known_at(now)));
}

KnowledgePtr HandOver::published(const Moment& now, bool releases, std::uint32_t block_since) {
    has_any_ |= releases;
    if (!has_any_) return nullptr;
    const KnowledgePtr fenced = fenced_.known_at(now);
    return releases ? joined(past_of(now, block_since), fenced) : fenced;
}

void HandOver::take(const Moment& now, const KnowledgePtr& found, bool acquires, ThreadClocks* clocks) {
    if (!found) return;
    has_any_ = true;
    if (acquires)
        acquire(now, found, clocks);
    else
        found_.gain(now, found);
}

void HandOver::acquire(const Moment& now, const KnowledgePtr& found, ThreadClocks* clocks) {
    if (!found || !acquired_.gain(now, found)) return;
    const BlockClock* const own = found->of(block_);
    if (!own || !clocks) return;
    ThreadClocks::Clock clock;
    clock.known = *own;
    if (const BlockClock* const shown = found->shown_of(block_)) clock.shown_global = *shown;
    clocks->acquire(now.thread, clock);
}

}  // namespace cpu
}  // namespace simt
