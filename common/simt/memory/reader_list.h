#pragma once

#include <bit>
#include <cstdint>
#include <memory_resource>
#include <vector>

#include "common/simt/memory/thread_clocks.h"
#include "common/simt/report/source_site.h"

namespace simt {
inline namespace cpu {

/// Who has read some memory since it was last written, where clocks must tell which of them lie before a write.
class ReaderList {
  public:
    using allocator_type = std::pmr::polymorphic_allocator<>;
    explicit ReaderList(const allocator_type& memory = {});
    ReaderList(const ReaderList&);
    ReaderList(ReaderList&&) noexcept;
    ReaderList& operator=(const ReaderList&);
    ReaderList& operator=(ReaderList&&);
    ~ReaderList();

    /// A reader, and where it read.
    struct Reader {
        int thread;
        SourceSite site;
    };

    /// A thread has read in interval `interval` of its warp. Its own earlier reads need no memory any more: whatever
    /// races with them races with this one too.
    void add(int thread, std::uint32_t interval, SourceSite site);

    /// One of them whose read does not lie before what `writer` does now; thread -1: there is none. `since` and
    /// `block_since`: when the lanes of the writer's warp, and the whole block, last met. That says nothing of agents:
    /// one may read on while all threads meet.
    Reader unknown_to(int writer, std::uint32_t since, std::uint32_t block_since, const ThreadClocks& clocks) const {
        return unknown_to(writer, since, block_since, &clocks);
    }
    /// The same in a block that may have no clocks: null.
    Reader unknown_to(int writer, std::uint32_t since, std::uint32_t block_since, const ThreadClocks* clocks) const;

    /// One of them of whom know(reader, interval) says no; thread -1: there is none.
    template <class Knows>
    Reader first_unknown(Knows&& knows) const {
        for (const Entry& entry : entries_)
            for (std::uint32_t lanes = entry.lanes; lanes; lanes &= lanes - 1) {
                const int reader = entry.warp * 32 + std::countr_zero(lanes);
                if (!knows(reader, entry.interval)) return {reader, entry.site};
            }
        return {-1, {}};
    }

    void clear();

    /// Readers in a block before the `number`-th are forgotten.
    void start_block(std::uint32_t number) {
        if (block_ == number) return;
        block_ = number;
        clear();
    }

  private:
    /// The lanes of a warp that read in one of its intervals, and where the first of them did.
    struct Entry {
        std::uint32_t interval;
        int warp;
        std::uint32_t lanes;
        SourceSite site;
    };

    std::pmr::vector<Entry> entries_;
    std::uint32_t block_ = 0;
};

}  // namespace cpu
}  // namespace simt
