#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/simt/machine/awaited.h"
#include "common/simt/machine/block.h"
#include "common/simt/machine/companion.h"
#include "common/simt/memory/thread_clocks.h"
#include "common/simt/report/source_site.h"

namespace simt {
inline namespace cpu {

/// The mbarriers of a block, and what is under way to them. (PTX ISA, "mbarrier"; what each call does is documented
/// with the GPU's version, in mbarrier_cuda.h.)
///
/// A copy that reports to a barrier may bring its bytes at any time between its issue and the end of the phase that
/// counts them. The model does the latest that is allowed: it waits until no thread of the block can go on, and then
/// lets the phase come to its end that somebody waits for. Until then the destination is in flight, and whoever touches
/// it is told so.
class Mbarriers final : public Companion {
  public:
    /// Bytes on their way to shared memory, of one copy.
    struct Transfer {
        struct Piece {
            std::uint32_t offset, bytes;  ///< in shared memory, where the next so many bytes of `data` go
        };
        std::vector<Piece> pieces{};
        std::vector<std::byte> data{};
        std::size_t element_bytes = 1;
        std::string what{};  ///< for messages: "a bulk copy from K"
        SourceSite site{};   ///< where it was issued
        /// Called when it has come, with who brought it, and when; may be empty.
        std::function<void(int agent, std::uint32_t interval)> landed{};
        Witness issued{};  ///< by whom; bring() fills it in
    };

    explicit Mbarriers(Block& block);
    ~Mbarriers() override;
    static std::unique_ptr<Companion> make(Block& block);

    // Each is called for the running thread, with where the barrier lies in shared memory. Threads of other blocks of
    // the cluster may arrive, and bring.
    void init(std::uint32_t offset, std::string name, int count, SourceSite site);
    void publish(SourceSite site);
    void arrive(std::uint32_t offset, SourceSite site);
    void expect(std::uint32_t offset, int bytes, SourceSite site);
    bool is_over(std::uint32_t offset, unsigned parity, SourceSite site);
    /// `in_cluster`: what threads of other blocks did before they arrived is known after the wait, too.
    void wait(std::uint32_t offset, unsigned parity, bool in_cluster, SourceSite site);
    void invalidate(std::uint32_t offset, SourceSite site);

    /// A copy has been issued that reports to the barrier. Its destination is in flight from now on.
    void bring(std::uint32_t offset, Transfer&& transfer);

    void start_block(int) override;
    void thread_returns() override {}
    void all_have_returned() override;
    bool let_something_happen() override;
    void thread_touches(const char* does, std::size_t offset, int thread, SourceSite site) const override;

  private:
    struct Barrier final : Awaited {
        std::string name;
        int count = 0, pending = 0;           // arrivals of a phase, and those that are still to come
        std::uint64_t phase = 0;              // over so far
        std::int64_t expected = 0, came = 0;  // bytes, in this phase
        bool published = false, peeked = false;
        int init_thread = -1, agent = -1;
        std::uint32_t init_interval = 0;
        SourceSite init_site;
        Witness last_arrival;
        ThreadClocks::Clock arriving, passed;
        ClusterMessage arriving_from_afar, passed_from_afar;  // of other blocks
        std::deque<Transfer> transfers;

        std::string awaited() const override;
        std::string phase_name() const;
    };

    bool is_checked() const { return block_.checks() == Checks::on; }
    bool is_visited() const { return &Block::current() != &block_; }
    Witness here(SourceSite site) const;
    std::string whose(const Barrier& barrier) const;
    Barrier& used(const char* does, std::uint32_t offset, SourceSite site);
    bool has_passed(Barrier& barrier, unsigned parity);
    void begin_wait(const Barrier& barrier, unsigned parity, SourceSite site);
    void end_wait();
    void end_phase_if_complete(Barrier& barrier, const Witness& by);
    [[noreturn]] void report_late_arrival(const Barrier& barrier, SourceSite site) const;
    void land(Barrier& barrier, Transfer& transfer);
    [[noreturn]] void misused(SourceSite site, std::string what, std::string advice, Witness second = {}) const;

    Block& block_;
    std::map<std::uint32_t, Barrier> barriers_;  // by where they lie
};

}  // namespace cpu
}  // namespace simt
