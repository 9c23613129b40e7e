#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <memory>
#include <string>

#include "common/simt/machine/awaited.h"
#include "common/simt/machine/block.h"
#include "common/simt/machine/companion.h"
#include "common/simt/memory/thread_clocks.h"
#include "common/simt/report/source_site.h"

namespace simt {
inline namespace cpu {

/// A block's barriers 1 to 15, for a part of its threads each. (PTX ISA, "bar"; named_barrier_cuda.h says what each
/// call does.)
class NamedBarriers final : public Companion {
  public:
    explicit NamedBarriers(Block& block);
    ~NamedBarriers() override;
    static std::unique_ptr<Companion> make(Block& block);

    /// The running thread comes to barrier `id`, which is for so many threads.
    void arrive(int id, int threads, SourceSite site);

    /// The same; it goes on when all have come.
    void sync(int id, int threads, SourceSite site);

    void start_block(int) override;
    void thread_returns() override {}
    void all_have_returned() override;
    void thread_touches(const char*, std::size_t, int, SourceSite) const override {}

  private:
    struct Barrier final : Awaited {
        int id = 0, threads = 0, arrived = 0;  // threads means nothing before one has arrived
        std::uint64_t opened = 0;              // how often
        std::bitset<1024> who;
        Witness first, last;  // who has come since it opened last
        ThreadClocks::Clock arriving, passed;

        std::string name() const { return "barrier " + std::to_string(id); }
        std::string awaited() const override;
    };

    bool is_checked() const { return block_.checks() == Checks::on; }
    Barrier& come_to(const char* call, int id, int threads, SourceSite site);
    MachineError::Report left_half_full(const Barrier& barrier, std::string what, std::string advice) const;
    int part_of_a_warp(const Barrier& barrier) const;

    Block& block_;
    std::array<Barrier, 16> barriers_{};
};

}  // namespace cpu
}  // namespace simt
