#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "common/simt/machine/block.h"
#include "common/simt/machine/companion.h"
#include "common/simt/matrix/product_call.h"
#include "common/simt/matrix/product_operands.h"
#include "common/simt/matrix/product_registers.h"

namespace simt {
inline namespace cpu {

/// What products under way have computed of one accumulator.
struct ProductResult {
    int n;
    std::vector<float> values;                                  ///< [64, n]
    std::array<AccumulatorRegisters*, kWarpgroup> accumulator;  ///< null: it is not there any more
    std::array<float*, kWarpgroup> registers;
    std::uint64_t last_product;
    unsigned warps_under_way;  ///< by bit: have not waited for the last product
};

/// The products that the warpgroups of a block have under way.
///
/// The tensor cores may read operands and write accumulators at any time between multiply() and the wait for its group.
/// The model reads when the product is issued, since whoever writes an operand later is told so; and it delivers when
/// the wait comes, as late as is allowed. Until then the accumulators hold NaN.
///
/// Groups are a warp's affair: each of the four commits and waits by itself, and its wait covers what it has set off
/// itself: the reads of its own rows of A, and of B for them. Of the other warps' reads it learns when it meets them
/// after their waits.
class WarpgroupProducts final : public Companion {
  public:
    explicit WarpgroupProducts(Block& block);
    ~WarpgroupProducts() override;
    static std::unique_ptr<Companion> make(Block& block);

    void start_block(int threads) override;
    void thread_returns() override;
    void thread_touches(const char*, std::size_t, int, SourceSite) const override {}

    /// The running thread's part of the instructions, before its warp or warpgroup meets.
    void check_ready(const ProductCall& call);
    void fence(const NamedRegisters& registers);
    /// Whether an accumulator of its has ceased to exist under way.
    void check_lost(SourceSite site);
    /// And after it.
    void check_named(const NamedRegisters& registers, int allowed, SourceSite site);

    /// The instructions' own: of a warpgroup, and of a warp.
    void begin(int warpgroup, const ProductCalls& calls);
    void commit(int warp, SourceSite site);
    void wait(int warp, int allowed, SourceSite site);

    /// The running thread touches registers that are not its own to touch at the moment.
    void report_touch(const AccumulatorRegisters& registers, const char* does, int i, SourceSite site) const;
    /// Or perhaps: those of an A that product number `product` reads, if it is under way.
    void report_touch_of_operand(std::uint64_t product, const char* does, int r, SourceSite site) const;

    /// An accumulator of the running thread ceases to exist while a product computes it.
    void lose(AccumulatorRegisters& registers, ProductResult& result);

  private:
    struct Product {
        std::uint64_t number;
        SourceSite site;
        std::uint32_t interval;    // of the agents that read its operands
        std::array<int, 4> group;  // of each warp: how many it had committed before
    };
    struct Warp {
        int groups = 0;             // committed so far
        std::uint64_t retired = 0;  // number of the last product that it has waited for
        int last_allowed = -1;      // of its last wait; -1 before the first
        SourceSite last_wait;
    };
    struct Warpgroup {
        int first_agent = -1;           // of its four warps; -1: there are none yet
        int all_agents = -1;            // see ThreadClocks::together
        std::uint64_t products = 0;     // so far
        std::deque<Product> under_way;  // oldest first
        std::array<Warp, 4> warps{};
        std::vector<std::unique_ptr<ProductResult>> results;
    };

    Warpgroup& own_group() { return warpgroups_[std::size_t(block_.thread() / kWarpgroup)]; }
    const Warpgroup& own_group() const { return warpgroups_[std::size_t(block_.thread() / kWarpgroup)]; }
    Warp& own_warp() { return own_group().warps[std::size_t(block_.thread() / 32 % 4)]; }
    const Warp& own_warp() const { return own_group().warps[std::size_t(block_.thread() / 32 % 4)]; }
    const Product* find(const Warpgroup& group, std::uint64_t number) const;

    void add_agents(Warpgroup& group, int warpgroup);
    ProductResult& result_of(Warpgroup& group, const ProductCalls& calls);
    void gather(const ProductCalls& calls, ProductResult& result);
    void deliver(ProductResult& result, int warp_in_group, int first_thread, SourceSite wait_site);
    void check_same_operands(int warpgroup, const ProductCalls& calls) const;
    std::string since_then(const Product& product) const;
    std::string way_out(const Product& product) const;
    void complain(MachineError::Report report) const;

    Block& block_;
    std::vector<Warpgroup> warpgroups_;
    std::vector<SourceSite> lost_;  // of each thread: a product whose accumulator is not there any more
    ProductOperands operands_;
};

}  // namespace cpu
}  // namespace simt
