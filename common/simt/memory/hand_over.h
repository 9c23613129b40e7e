#pragma once

#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/simt/memory/knowledge.h"
#include "common/simt/memory/thread_clocks.h"
#include "common/simt/report/source_site.h"

namespace simt {
inline namespace cpu {

/// A thread of the running block, now. Intervals as SharedMemory has them, except the block's, which GlobalShadow
/// numbers by itself.
struct Moment {
    int thread;
    std::uint32_t interval, since, block_interval;
    const ThreadClocks* clocks;  ///< null: the block has none

    /// Whether what `other` did in an interval lies before this.
    bool comes_after(int other, std::uint32_t then, std::uint32_t block_then) const {
        return other == thread || block_then < block_interval || (other / 32 == thread / 32 && then < since) ||
               (clocks && clocks->knows(thread, other, then));
    }
};

/// Knowledge that single threads of a block have come by. Whoever comes after such a thread, by a barrier or in any
/// other way that the block knows, knows it too; nobody has to pass it on.
class GainedKnowledge {
  public:
    void clear();

    /// The thread has come by this. Whether it did not know it all before.
    bool gain(const Moment& now, const KnowledgePtr& knowledge);

    /// What the thread knows by now. The same pointer as long as nothing is new.
    KnowledgePtr known_at(const Moment& now);

    /// All that somebody in the block has come by.
    const KnowledgePtr& of_anybody() const { return all_; }

  private:
    struct Gain {
        int thread;
        std::uint32_t interval, block_interval;
        KnowledgePtr knowledge;
    };

    /// What known_at() said to a thread last, and what is in that already: joining it again would take the longer, the
    /// longer a block's threads go without a barrier for all.
    struct Latest {
        KnowledgePtr known, before;  // before: the `before_` that is in it
        std::vector<bool> gains;     // by their places
    };

    std::vector<Gain> gains_;     // since the block last met
    KnowledgePtr before_, all_;   // what all threads know; what any of them does
    std::vector<Latest> latest_;  // by thread
};

/// How the threads of the running block hand over to, and take over from, others of the same launch: by a release, or
/// a fence and then an atomic write, here; by an atomic read that finds what was written so, and acquires, or is
/// followed by a fence, there. PTX calls these release and acquire patterns ("Memory Consistency Model").
///
/// A fence of the block's own scope takes part in patterns among threads of the block alone: what it releases no other
/// block acquires, and it acquires nothing of theirs.
///
/// A fence also speaks for those that come after its thread in the block. PTX wants one in the thread that makes the
/// atomic access, but the old idiom of a fence in every thread, a barrier, and the flag by one of them works.
class HandOver {
  public:
    void start_block(std::uint64_t block);

    /// Whether it has handed over, or taken over, anything.
    bool has_any() const { return has_any_; }

    /// A fence of all blocks. The thread is in an interval of its warp that began just now. `block_since`: when the
    /// block last met, as SharedMemory numbers it. `clocks`: null if the block has none.
    void fence(const Moment& now, std::uint32_t block_since, ThreadClocks* clocks);

    /// A fence of this block alone, at a line.
    void fence_in_block(const Moment& now, std::uint32_t block_since, ThreadClocks* clocks, SourceSite site);

    /// Where such a fence stood, the thread's own if it made one; else unknown.
    SourceSite fence_in_block_of(int thread) const;

    /// What the thread knows of other blocks is shown to the asynchronous proxy.
    void show(const Moment& now);

    /// What an atomic write makes known to who acquires it; null: nothing. If it releases: as fence().
    KnowledgePtr published(const Moment& now, bool releases, std::uint32_t block_since);

    /// An atomic write to `address`, as number `number` of its element; what it makes known to everybody. `last_store`:
    /// the number of the last write before it that went on with nothing.
    void note_write(const Moment& now, std::uintptr_t address, std::uint64_t number, std::uint64_t last_store,
                    bool reads, bool releases, const KnowledgePtr& published);

    /// What the value that stands there makes known to threads of this block, by writes of this block.
    KnowledgePtr released_here(std::uintptr_t address, std::uint64_t last_store) const;

    /// An atomic read has found what was written with this knowledge: by anybody, and by this block.
    void take(const Moment& now, const KnowledgePtr& found, const KnowledgePtr& found_here, bool acquires,
              ThreadClocks* clocks);

    /// What the thread knows of others.
    KnowledgePtr known_at(const Moment& now) { return has_any_ ? acquired_.known_at(now) : nullptr; }
    const KnowledgePtr& known_to_anybody() const { return acquired_.of_anybody(); }

  private:
    KnowledgePtr past_of(const Moment& now, std::uint32_t block_since);
    void acquire(const Moment& now, const KnowledgePtr& found, ThreadClocks* clocks);

    /// Beside an address that threads of this block have written atomically: what they make known to each other.
    struct Post {
        std::uint64_t number = 0;  // of the last such write
        KnowledgePtr released{};
        std::vector<std::pair<int, KnowledgePtr>>
            owned{};  // by thread: its releases, which its later writes go on with
    };

    std::uint64_t block_ = 0;
    bool has_any_ = false;
    GainedKnowledge acquired_, found_, fenced_;
    GainedKnowledge found_here_, fenced_here_;  // for fences of the block's scope, and by them
    std::unordered_map<std::uintptr_t, Post> posts_;
    std::vector<std::pair<int, SourceSite>> fences_here_;  // the last one of each thread
};

}  // namespace cpu
}  // namespace simt
