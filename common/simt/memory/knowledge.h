#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace simt {
inline namespace cpu {

/// What is known of a block's past: for each of its threads, up to which interval of its warp (see SharedMemory).
using BlockClock = std::vector<std::uint32_t>;

class Knowledge;

/// Null: nothing is known of anybody.
using KnowledgePtr = std::shared_ptr<const Knowledge>;

/// How much of the past of a launch's blocks has happened before something: a vector clock over all of their threads.
/// A release stores one beside its flag, and who acquires the flag joins it to its own. It never changes, so that the
/// accesses made with it may share it.
class Knowledge {
  public:
    /// Of one block alone. `shown`: what of its past in global memory has been shown to the asynchronous proxy; empty:
    /// nothing.
    Knowledge(std::uint64_t block, BlockClock clock, BlockClock shown = {});

    /// Whether that includes what a thread of a block did in one of its intervals.
    bool covers(std::uint64_t block, int thread, std::uint32_t interval) const {
        return reaches(of(block), thread, interval);
    }

    /// Whether that, too, was shown to the asynchronous proxy.
    bool has_shown(std::uint64_t block, int thread, std::uint32_t interval) const {
        return reaches(shown_of(block), thread, interval);
    }

    /// What it says of a block; null: nothing.
    const BlockClock* of(std::uint64_t block) const;

    /// What of that is shown; null: nothing.
    const BlockClock* shown_of(std::uint64_t block) const;

    /// The same knowledge after a fence that shows all of it.
    friend KnowledgePtr all_shown(const KnowledgePtr& known);

    /// All that either knows; one of the two themselves where that knows it all.
    friend KnowledgePtr joined(const KnowledgePtr& one, const KnowledgePtr& other);

  private:
    struct Item {
        std::uint64_t block;
        std::shared_ptr<const BlockClock> clock, shown;  // shown: null for nothing
    };
    Knowledge() = default;
    static bool reaches(const BlockClock* clock, int thread, std::uint32_t interval) {
        return clock && std::size_t(thread) < clock->size() && (*clock)[std::size_t(thread)] >= interval;
    }
    const Item* item_of(std::uint64_t block) const;
    bool includes(const Knowledge& other) const;

    std::vector<Item> items_;  // by block
};

KnowledgePtr joined(const KnowledgePtr& one, const KnowledgePtr& other);
KnowledgePtr all_shown(const KnowledgePtr& known);

}  // namespace cpu
}  // namespace simt
