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
    /// Of one block alone.
    Knowledge(std::uint64_t block, BlockClock clock)
        : items_{{block, std::make_shared<const BlockClock>(std::move(clock))}} {}

    /// Whether that includes what a thread of a block did in one of its intervals.
    bool covers(std::uint64_t block, int thread, std::uint32_t interval) const {
        const BlockClock* const clock = of(block);
        return clock && std::size_t(thread) < clock->size() && (*clock)[std::size_t(thread)] >= interval;
    }

    /// What it says of a block; null: nothing.
    const BlockClock* of(std::uint64_t block) const;

    /// All that either knows; one of the two themselves where that knows it all.
    friend KnowledgePtr joined(const KnowledgePtr& one, const KnowledgePtr& other);

  private:
    struct Item {
        std::uint64_t block;
        std::shared_ptr<const BlockClock> clock;
    };
    Knowledge() = default;
    bool includes(const Knowledge& other) const;

    std::vector<Item> items_;  // by block
};

KnowledgePtr joined(const KnowledgePtr& one, const KnowledgePtr& other);

}  // namespace cpu
}  // namespace simt
