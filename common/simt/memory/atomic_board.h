#pragma once

#include <cstdint>
#include <mutex>
#include <set>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "common/simt/memory/knowledge.h"
#include "common/simt/report/source_site.h"

namespace simt {
inline namespace cpu {

/// How an atomic access takes part in the order of threads.
struct AtomicUse {
    bool reads, modifies;
    bool acquires = false, releases = false;
    /// nvcc lets one lane make the update of all lanes of a warp, where they update one element. So it does with sums
    /// and maxima of integers.
    bool combines = false;
};

/// Where atomic accesses meet: what stands beside each address that they touch. One for a launch, for global memory;
/// one for each block, for its shared memory.
class AtomicBoard {
  public:
    /// Beside an address.
    struct Post {
        KnowledgePtr released;         ///< what the value that stands there makes known
        std::uint64_t number = 0;      ///< of the last atomic access: they are numbered, for each address from 1 on
        std::uint64_t last_store = 0;  ///< the number of the last write that did not read as well
        std::uint64_t owner = 0;  ///< the thread that released last, and what: its later writes go on with it (PTX)
        KnowledgePtr owned{};
    };

    /// An access of a thread that may have had a part in handing something over, for advice.
    struct Step {
        std::uint64_t block;
        int thread;
        SourceSite site;
        std::uintptr_t address;
        int tensor;
        AtomicUse use;
        bool releases, acquires;  ///< by itself, or through a fence
        /// Fences of block scope, which do not help other blocks: one before a write, and one behind a read.
        SourceSite narrow_release{}, narrow_acquire{};
    };

    AtomicBoard();
    ~AtomicBoard();

    void clear();

    /// Makes an access, alone: operate() says whether it changed the element. `thread`: a number of its own in the
    /// launch, not 0. `published`: what it leaves if it changes the element. What it found comes back, and its number.
    template <class Operate>
    Post access(std::uintptr_t address, std::uint64_t thread, const AtomicUse& use, const KnowledgePtr& published,
                Operate&& operate) {
        const std::scoped_lock lock(mutex_);
        Post& post = posts_[address];
        ++post.number;
        Post found = post;
        if (!operate()) return found;
        if (published) {
            post.owned = post.owner == thread ? joined(post.owned, published) : published;
            post.owner = thread;
        }
        // A read and write in one goes on with what it found: C++ calls that a release sequence.
        if (use.reads)
            post.released = joined(post.released, published);
        else
            post.released = post.owner == thread ? post.owned : published;
        if (!use.reads) post.last_store = post.number;
        return found;
    }

    /// Remembers a step; the first of its kind, and not without end.
    void note(const Step& step);

    /// The thread fences: what it read before acquires after all.
    void note_fence(std::uint64_t block, int thread);

    /// It does so for its block alone, at a line.
    void note_narrow_fence(std::uint64_t block, int thread, SourceSite site);

    const std::vector<Step>& steps() const { return steps_; }

  private:
    static constexpr std::size_t kMostSteps = 4096, kLastSteps = 64;

    template <class Use>
    void for_last_steps(std::uint64_t block, int thread, Use use);

    std::mutex mutex_;
    std::unordered_map<std::uintptr_t, Post> posts_;
    std::vector<Step> steps_;
    std::set<std::tuple<std::uint64_t, std::uintptr_t, unsigned, bool, bool>> noted_;
};

}  // namespace cpu
}  // namespace simt
