#include "common/simt/memory/knowledge.h"

#include <algorithm>

namespace simt {
inline namespace cpu {
namespace {

using ClockPtr = std::shared_ptr<const BlockClock>;

/// One of the two where it is the later in every thread.
ClockPtr later(const ClockPtr& one, const ClockPtr& other) {
    if (one == other || !other) return one;
    if (!one) return other;
    bool one_is = one->size() >= other->size(), other_is = other->size() >= one->size();
    for (std::size_t t = 0; t < std::min(one->size(), other->size()); ++t) {
        one_is &= (*one)[t] >= (*other)[t];
        other_is &= (*other)[t] >= (*one)[t];
    }
    if (one_is) return one;
    if (other_is) return other;
    BlockClock both(std::max(one->size(), other->size()));
    for (std::size_t t = 0; t < both.size(); ++t)
        both[t] = std::max(t < one->size() ? (*one)[t] : 0, t < other->size() ? (*other)[t] : 0);
    return std::make_shared<const BlockClock>(std::move(both));
}

/// Whether `one` is no earlier than `other` in any thread.
bool includes(const ClockPtr& one, const ClockPtr& other) {
    if (one == other || !other) return true;
    if (!one || one->size() < other->size()) return false;
    bool all = true;  // without a way out of the loop, so that it is compiled for vectors
    for (std::size_t t = 0; t < other->size(); ++t) all &= (*other)[t] <= (*one)[t];
    return all;
}

}  // namespace

Knowledge::Knowledge(std::uint64_t block, BlockClock clock, BlockClock shown)
    : items_{{block, std::make_shared<const BlockClock>(std::move(clock)),
              shown.empty() ? nullptr : std::make_shared<const BlockClock>(std::move(shown))}} {}

const Knowledge::Item* Knowledge::item_of(std::uint64_t block) const {
    const auto item = std::ranges::lower_bound(items_, block, {}, &Item::block);
    return item != items_.end() && item->block == block ? &*item : nullptr;
}

const BlockClock* Knowledge::of(std::uint64_t block) const {
    const Item* const item = item_of(block);
    return item ? item->clock.get() : nullptr;
}

const BlockClock* Knowledge::shown_of(std::uint64_t block) const {
    const Item* const item = item_of(block);
    return item ? item->shown.get() : nullptr;
}

bool Knowledge::includes(const Knowledge& other) const {
    return std::ranges::all_of(other.items_, [this](const Item& item) {
        const Item* const mine = item_of(item.block);
        return mine && cpu::includes(mine->clock, item.clock) && cpu::includes(mine->shown, item.shown);
    });
}

KnowledgePtr all_shown(const KnowledgePtr& known) {
    if (!known) return nullptr;
    auto shown = std::make_shared<Knowledge>(*known);
    for (Knowledge::Item& item : shown->items_) item.shown = item.clock;
    return shown;
}

KnowledgePtr joined(const KnowledgePtr& one, const KnowledgePtr& other) {
    if (one == other || !other) return one;
    if (!one) return other;
    if (one->includes(*other)) return one;
    auto both = std::shared_ptr<Knowledge>(new Knowledge());
    both->items_.reserve(one->items_.size() + other->items_.size());
    bool is_other = true;
    auto a = one->items_.begin(), b = other->items_.begin();
    while (a != one->items_.end() || b != other->items_.end()) {
        if (b == other->items_.end() || (a != one->items_.end() && a->block < b->block)) {
            is_other = false;
            both->items_.push_back(*a++);
        } else if (a == one->items_.end() || b->block < a->block) {
            both->items_.push_back(*b++);
        } else {
            both->items_.push_back({a->block, later(a->clock, b->clock), later(a->shown, b->shown)});
            is_other &= both->items_.back().clock == b->clock && both->items_.back().shown == b->shown;
            ++a, ++b;
        }
    }
    if (is_other) return other;
    return both;
}

}  // namespace cpu
}  // namespace simt
