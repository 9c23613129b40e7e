#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "common/simt/machine/awaited.h"
#include "common/simt/machine/block.h"
#include "common/simt/machine/companion.h"

namespace simt {
inline namespace cpu {

/// The registers of a block, as its warpgroups hand them to each other: setmaxnreg.
///
/// A multiprocessor has 64 Ki of them. A kernel that says how many threads its blocks have, and that one block is
/// enough for a multiprocessor (__launch_bounds__(threads, 1), which setmaxnreg asks for), is given an equal share of
/// them for each thread, rounded down to a multiple of 8: 168 of 384 threads. What a warpgroup gives back the others
/// can claim, and nothing else.
class RegisterPool final : public Companion, public Awaited {
  public:
    static constexpr int kRegisters = 64 * 1024;
    static constexpr int kStep = 8, kFewest = 24, kMost = 256;

    explicit RegisterPool(Block& block);
    ~RegisterPool() override;
    static std::unique_ptr<Companion> make(Block& block);

    void start_block(int threads) override;
    void thread_returns() override {}
    void thread_touches(const char*, std::size_t, int, SourceSite) const override {}
    std::string awaited() const override;

    /// setmaxnreg.dec and .inc of the running thread's warpgroup. The second sleeps until there are enough.
    void release(int count, SourceSite site);
    void claim(int count, SourceSite site);

  private:
    struct Change {
        bool claims;
        int count;
        SourceSite site;
    };
    struct Warpgroup {
        int count;  // registers of each of its threads
        int threads;
        int claimed = 0;  // that it waits for; 0: it does not
        SourceSite changed_at;
    };

    void change(int warpgroup, const Change& change);
    int free() const;
    void grant();
    std::string shares() const;
    [[noreturn, gnu::cold, gnu::noinline]] void report_bad_change(int warpgroup, const Change& change) const;
    Warpgroup& own() { return warpgroups_[std::size_t(block_.thread() / kWarpgroup)]; }

    Block& block_;
    std::vector<Warpgroup> warpgroups_;
    int pool_ = 0;  // of the block
    static const Block::WarpgroupInstruction kRelease, kClaim;
};

}  // namespace cpu
}  // namespace simt
