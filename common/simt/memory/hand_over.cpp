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
    const std::size_t ended = std::erase_if(gains_, [&](const Gain& gain) {
        if (gain.block_interval >= now.block_interval) return false;
        before_ = joined(before_, gain.knowledge);
        return true;
    });
    if (ended > 0)
        for (Latest& latest : latest_) latest.gains.clear();
    if (latest_.size() <= std::size_t(now.thread)) latest_.resize(std::size_t(now.thread) + 1);
    Latest& latest = latest_[std::size_t(now.thread)];
    if (latest.before != before_) latest.known = joined(latest.known, before_);
    latest.before = before_;
    latest.gains.resize(gains_.size());
    for (std::size_t n = 0; n < gains_.size(); ++n) {
        const Gain& gain = gains_[n];
        if (latest.gains[n] || !now.comes_after(gain.thread, gain.interval, gain.block_interval)) continue;
        latest.known = joined(latest.known, gain.knowledge);
        latest.gains[n] = true;
    }
    return latest.known;
}

void HandOver::start_block(std::uint64_t block) {
    block_ = block;
    if (!has_any_) return;
    has_any_ = false;
    acquired_.clear();
    found_.clear();
    fenced_.clear();
    found_here_.clear();
    fenced_here_.clear();
    posts_.clear();
    fences_here_.clear();
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

void HandOver::fence_in_block(const Moment& now, std::uint32_t block_since, ThreadClocks* clocks, SourceSite site) {
    has_any_ = true;
    acquire(now, found_here_.known_at(now), clocks);
    fenced_here_.gain(now, past_of(now, block_since));
    std::erase_if(fences_here_, [&](const auto& fence) { return fence.first == now.thread; });
    fences_here_.emplace_back(now.thread, site);
}

SourceSite HandOver::fence_in_block_of(int thread) const {
    if (fences_here_.empty()) return {};
    const auto own = std::ranges::find(fences_here_, thread, [](const auto& fence) { return fence.first; });
    return own != fences_here_.end() ? own->second : fences_here_.back().second;
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

void HandOver::note_write(const Moment& now, std::uintptr_t address, std::uint64_t number, std::uint64_t last_store,
                          bool reads, bool releases, const KnowledgePtr& published) {
    if (!has_any_) return;
    Post& post = posts_[address];
    KnowledgePtr released = joined(published, fenced_here_.known_at(now));
    const auto own = std::ranges::find(post.owned, now.thread, [](const auto& owned) { return owned.first; });
    if (own != post.owned.end()) released = joined(released, own->second);
    if (releases && own != post.owned.end()) own->second = joined(own->second, published);
    if (releases && own == post.owned.end()) post.owned.emplace_back(now.thread, published);
    const bool goes_on = reads && post.number >= last_store;
    post.released = goes_on ? joined(post.released, released) : released;
    post.number = number;
}

KnowledgePtr HandOver::released_here(std::uintptr_t address, std::uint64_t last_store) const {
    const auto post = posts_.find(address);
    return post != posts_.end() && post->second.number >= last_store ? post->second.released : nullptr;
}

void HandOver::take(const Moment& now, const KnowledgePtr& found, const KnowledgePtr& found_here, bool acquires,
                    ThreadClocks* clocks) {
    const KnowledgePtr all = joined(found, found_here);
    if (!all) return;
    has_any_ = true;
    if (acquires) {
        acquire(now, all, clocks);
        return;
    }
    found_.gain(now, all);
    if (found_here) found_here_.gain(now, found_here);
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
