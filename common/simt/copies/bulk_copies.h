#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "common/simt/copies/tensor_box.h"
#include "common/simt/machine/block.h"
#include "common/simt/machine/companion.h"
#include "common/simt/report/source_site.h"

namespace simt {
inline namespace cpu {

/// The copies that threads of a block ask the tensor memory accelerator for, on both CPU machines.
///
/// Loads report to a barrier in shared memory, and land as late as that allows: see Mbarriers. Their source is read at
/// the issue, and held until they have landed: whoever writes it in between is told so.
///
/// Stores read shared memory and write global memory at the issue. But their source counts as being read until the
/// thread that asked has waited for its group, and so does their target count as being written: the hardware may do
/// both at any time in between. Additions are stores that may meet each other.
class BulkCopies final : public Companion {
  public:
    explicit BulkCopies(Block& block);
    ~BulkCopies() override;
    static std::unique_ptr<Companion> make(Block& block);

    /// A copy of a box, by the running thread.
    struct Box {
        const TensorMapShape& map;
        int tensor;
        TensorCoordinates at;
        BoxPlace place;
        SourceSite site;
    };
    /// Of bytes side by side.
    struct Bytes {
        void* global;
        int tensor;
        std::uint32_t shared;  ///< offset
        int bytes, element_bytes;
        SourceSite site;
    };

    /// `call`: for messages, "tma_load".
    void load(const char* call, const Box& box, std::uint32_t barrier);
    void load(const char* call, const Bytes& bytes, std::uint32_t barrier);

    /// The same box for every block of the cluster whose bit of `blocks` is set: to the same place of its shared
    /// memory, with a report to its barrier there.
    void load_for_cluster(const char* call, const Box& box, std::uint32_t barrier, unsigned blocks);

    /// `add`: null for a store.
    void store(const char* call, const Box& box, GlobalSums::Add add);
    void store(const char* call, const Bytes& bytes, GlobalSums::Add add);

    /// Closes the running thread's group of stores.
    void commit(SourceSite site);

    /// The running thread has waited for all of its groups but the `allowed` newest: until they have read their
    /// sources, or until they are done.
    void wait(int allowed, bool until_read, SourceSite site);

    /// Checks a map that a thread names.
    void check_made(const char* call, const TensorMapShape& map, SourceSite site) const;

    void start_block(int threads) override;
    void thread_returns() override;
    void thread_touches(const char*, std::size_t, int, SourceSite) const override {}

  private:
    struct Store {
        std::string what;  ///< "tma_store of O from O_i(0, 0)"
        SourceSite site;
        int group = 0;
        std::uint32_t interval = 0;
        bool has_read = false;
        std::vector<GlobalShadow::HeldSource> targets{};
    };
    struct Thread {
        int agent = -1;
        int groups = 0;
        std::deque<Store> under_way;  ///< oldest first
    };

    bool is_checked() const { return block_.checks() == Checks::on; }
    std::string described(const char* call, int tensor, const char* way, std::uint32_t offset) const;
    void check(const char* call, const Box& box) const;
    void check_edges(const char* call, const Box& box) const;
    void check(const char* call, const Bytes& bytes) const;
    void read_global(int tensor, const void* from, std::size_t bytes, SourceSite site,
                     std::vector<GlobalShadow::HeldSource>* held);
    std::vector<std::byte> read_box(const Box& box, std::vector<GlobalShadow::HeldSource>* held);
    void bring(Block& to, std::uint32_t barrier, const BoxPlace& place, std::vector<std::byte>&& data,
               int element_bytes, std::string what, SourceSite site, std::vector<GlobalShadow::HeldSource>&& held);
    void set_off() const;
    Store& begin_store(std::string what, SourceSite site);
    void end_store(const Store& store) const;
    void read_shared(const Store& store, std::uint32_t offset, int bytes, int element_bytes);
    void write_global(Store& store, int tensor, void* to, const void* values, int bytes, int element_bytes,
                      GlobalSums::Add add);
    [[noreturn]] void fail(Fault fault, SourceSite site, std::string what, std::string advice) const;

    Block& block_;
    std::vector<Thread> threads_;
};

}  // namespace cpu
}  // namespace simt
