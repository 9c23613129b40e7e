#pragma once

#include <cstdint>
#include <string>

#include "common/simt/sync/mbarriers.h"
#include "common/simt/sync/ring_position.h"

// Barriers in shared memory, as the CPU machine models them: see Mbarriers. What each function does is documented with
// the GPU's version, in mbarrier_cuda.h. Both CPU machines have them.

namespace simt {
inline namespace SIMT_NAMESPACE {

/// See simt::cuda::Mbarrier.
class Mbarrier {
  public:
    Mbarrier(std::uint32_t offset, const char* name, int index) : offset_(offset), name_(name), index_(index) {}

    void init(int count, SourceSite site = SourceSite::here()) const { barriers().init(offset_, name(), count, site); }
    void arrive(SourceSite site = SourceSite::here()) const { barriers().arrive(offset_, site); }
    void arrive_expecting(int bytes, SourceSite site = SourceSite::here()) const {
        barriers().expect(offset_, bytes, site);
        barriers().arrive(offset_, site);
    }
    void expect(int bytes, SourceSite site = SourceSite::here()) const { barriers().expect(offset_, bytes, site); }
    bool is_over(unsigned parity, SourceSite site = SourceSite::here()) const {
        return barriers().is_over(offset_, parity, site);
    }
    void wait(unsigned parity, SourceSite site = SourceSite::here()) const {
        barriers().wait(offset_, parity, false, site);
    }
    void wait_in_cluster(unsigned parity, SourceSite site = SourceSite::here()) const {
        barriers().wait(offset_, parity, true, site);
    }
    void invalidate(SourceSite site = SourceSite::here()) const { barriers().invalidate(offset_, site); }

    /// Where it lies in the block's shared memory.
    std::uint32_t offset() const { return offset_; }
    std::string name() const { return std::string(name_) + "[" + std::to_string(index_) + "]"; }

  private:
    static Mbarriers& barriers() { return Block::current().companion<Mbarriers>(); }

    std::uint32_t offset_;
    const char* name_;
    int index_;
};

/// See simt::cuda::SharedBarriers.
template <int Count>
class SharedBarriers {
  public:
    /// The first of them; `name` is what messages call them.
    explicit SharedBarriers(const void* first, const char* name = "barrier")
        : first_(std::uint32_t(Block::current().shared.offset_of(first))), name_(name) {}

    Mbarrier operator[](int i) const { return {first_ + std::uint32_t(i) * 8, name_, i}; }
    static constexpr int count() { return Count; }

  private:
    std::uint32_t first_;
    const char* name_;
};

/// See simt::cuda::publish_barriers.
inline void publish_barriers(SourceSite site = SourceSite::here()) {
    Block::current().companion<Mbarriers>().publish(site);
}

/// A fence between the proxies, for that memory.
inline void fence_proxy(ShownSpace space, SourceSite site) {
    Block& block = Block::current();
    block.require_feature(Feature::tma, site);
    if (block.checks() == Checks::on) block.show_to_agents(space);
}

/// See simt::cuda::show_to_async.
inline void show_to_async(SourceSite site = SourceSite::here()) { fence_proxy(ShownSpace::shared, site); }

/// See simt::cuda::show_global_to_async.
inline void show_global_to_async(SourceSite site = SourceSite::here()) { fence_proxy(ShownSpace::global, site); }

/// See simt::cuda::show_all_to_async.
inline void show_all_to_async(SourceSite site = SourceSite::here()) { fence_proxy(ShownSpace::both, site); }

}  // namespace SIMT_NAMESPACE
}  // namespace simt
