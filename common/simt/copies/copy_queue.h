#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "common/simt/machine/block.h"
#include "common/simt/machine/companion.h"
#include "common/simt/report/source_site.h"

namespace simt {
inline namespace cpu {

/// The asynchronous copies that the threads of a block have under way, in the groups that they committed.
///
/// Hardware may read the source and write the destination at any time between the issue of a copy and the wait for its
/// group. The model does the latest that is allowed: it writes when the thread waits. Until then the destination is in
/// flight, and whoever touches it is told so. The source counts as being read from the issue to the wait; whoever
/// writes it in between races with the copy. What a bare pointer writes there shows if the value has changed at the
/// wait.
class CopyQueue final : public Companion {
  public:
    struct Copy {
        std::size_t destination;  ///< offset in shared memory
        const void* source;       ///< null for a copy of zeros
        std::size_t bytes;        ///< 4, 8 or 16
        std::size_t element_bytes;
        int tensor;  ///< of the source
        SourceSite site;
    };

    explicit CopyQueue(Block& block);
    ~CopyQueue() override;
    static std::unique_ptr<Companion> make(Block& block);

    void start_block(int threads) override;

    /// Issues a copy of the running thread.
    void issue(const Copy& copy);

    /// Closes the running thread's group: all copies that it issued since the last one.
    void commit();

    /// Lands all groups of the running thread but the `allowed` newest. Copies in no group yet are not waited for.
    void wait(int allowed, SourceSite site);

    void thread_returns() override {
        if (under_way_ > 0) [[unlikely]]
            check_returning_thread();
    }

    void thread_touches(const char* does, std::size_t offset, int thread, SourceSite site) const override;

  private:
    struct Issued {
        Copy copy;
        int group;
        GlobalShadow::HeldSource source;  // means nothing for a copy of zeros
        std::array<std::byte, 16> value;
    };
    struct Thread {
        std::vector<Issued> under_way;  ///< oldest first
        int groups = 0;                 ///< committed so far; copies of the open group carry this number
        int last_allowed = -1;          ///< of the last wait; -1 before the first
        SourceSite last_wait;
    };

    void check_returning_thread() const;
    [[noreturn, gnu::cold, gnu::noinline]] void report_overwritten_source(const Issued& issued,
                                                                          SourceSite wait_site) const;
    void land(const Issued& issued, SourceSite wait_site);

    Block& block_;
    std::vector<Thread> threads_;
    std::size_t under_way_ = 0;
};

}  // namespace cpu
}  // namespace simt
