// What the machine says of wrong uses of products and their registers.

#include <string>
#include <utility>

#include "common/simt/matrix/warpgroup.h"
#include "common/simt/matrix/warpgroup_products.h"
#include "common/simt/report/leniency.h"

namespace simt {
inline namespace cpu {
namespace {

std::string element_name(int thread, int i) {
    return "element " + std::to_string(i) + " of an accumulator, row " +
           std::to_string(AccumulatorLayout::row(thread, i)) + " and column " +
           std::to_string(AccumulatorLayout::column(thread, i));
}

constexpr const char* kFenceAdvice =
    "call begin_products() (wgmma.fence) between the last use of the registers and the product, and name them: it "
    "orders "
    "the threads' accesses before the tensor cores', and keeps the compiler from moving them";

}  // namespace

void AccumulatorRegisters::touch_first(int i, SourceSite site) {
    if (state_ == State::ready) {
        state_ = State::touched;
        touched_at_ = site;
    } else {
        Block::current().companion<WarpgroupProducts>().report_touch(*this, "uses", i, site);
    }
}

void AccumulatorRegisters::check_copy(SourceSite site) const {
    if (state_ == State::under_way || state_ == State::unnamed) [[unlikely]]
        Block::current().companion<WarpgroupProducts>().report_touch(*this, "copies", -1, site);
}

void AccumulatorRegisters::lose() { Block::current().companion<WarpgroupProducts>().lose(*this, *result_); }

void AccumulatorRegisters::fail_index(int i, int size, SourceSite site) {
    Block& block = Block::current();
    block.fail(
        {.fault = Fault::out_of_bounds,
         .first = {block.thread(), site},
         .what = "element " + std::to_string(i) + " of an accumulator, of which a thread has " + std::to_string(size),
         .advice = "an Accumulator<N> has N / 2 elements: Accumulator<N>::size"});
}

void OperandRegisters::fail_index(int r, SourceSite site) {
    Block& block = Block::current();
    block.fail({.fault = Fault::out_of_bounds,
                .first = {block.thread(), site},
                .what = "register " + std::to_string(r) + " of an operand A, of which a thread has 4",
                .advice = "each holds 32 bits: two elements of 16, or four of 8"});
}

void OperandRegisters::ask_product(const char* does, int r, SourceSite site) const {
    Block::current().companion<WarpgroupProducts>().report_touch_of_operand(read_by_, does, r, site);
}

void WarpgroupProducts::complain(MachineError::Report report) const {
    if (!ScopedLeniency::active()) block_.fail(std::move(report));
}

/// ", which …": what the running thread has done since about a product under way.
std::string WarpgroupProducts::since_then(const Product& product) const {
    const Warp& own = own_warp();
    const auto w = std::size_t(block_.thread() / 32 % 4);
    if (product.group[w] == own.groups) return "; no commit_products() has followed the product";
    const int newer = own.groups - 1 - product.group[w];
    if (own.last_allowed < 0) return "; nobody has waited for its group yet";
    return "; the last wait, at " + own.last_wait.text() + ", was for all but the newest " +
           std::to_string(own.last_allowed) + " of the groups, and " + std::to_string(newer) +
           (newer == 1 ? " is" : " are") + " newer than the product's";
}

std::string WarpgroupProducts::way_out(const Product& product) const {
    const auto w = std::size_t(block_.thread() / 32 % 4);
    const int newer = own_warp().groups - 1 - product.group[w];
    return newer < 0 ? "a wait covers closed groups only: commit_products() after the products, then wait_products<0>()"
                     : "wait_products<" + std::to_string(newer) + ">() first";
}

void WarpgroupProducts::report_touch(const AccumulatorRegisters& registers, const char* does, int i,
                                     SourceSite site) const {
    const int thread = block_.thread();
    const std::string what =
        thread_name(thread) + " " + does + " " + (i < 0 ? "an accumulator" : element_name(thread, i));
    if (registers.state_ == ProductRegisters::State::unnamed) {
        complain({.fault = Fault::product_in_flight,
                  .first = {thread, site},
                  .second = {thread, own_warp().last_wait},
                  .what = what + "; its product is done, but no wait_products() has named the accumulator",
                  .advice =
                      "name it in the wait: wait_products<n>(S). Else the compiler sees no connection, and may use "
                      "the register before the wait"});
        return;
    }
    const Product* const product = find(own_group(), registers.result_->last_product);
    if (!product) return;
    complain({.fault = Fault::product_in_flight,
              .first = {thread, site},
              .second = {thread, product->site},
              .what = what + ", which a product is still computing" + since_then(*product),
              .advice = "until then its registers belong to the tensor cores: " + way_out(*product)});
}

void WarpgroupProducts::report_touch_of_operand(std::uint64_t number, const char* does, int r, SourceSite site) const {
    if (number <= own_warp().retired) return;
    const Product* const product = find(own_group(), number);
    if (!product) return;
    const int thread = block_.thread();
    complain({.fault = Fault::product_in_flight,
              .first = {thread, site},
              .second = {thread, product->site},
              .what = thread_name(thread) + " " + does + " register " + std::to_string(r) +
                      " of an operand A, which a product may still be reading" + since_then(*product),
              .advice = "an operand in registers is read until the product is done: " + way_out(*product) +
                        ", or use other registers for the next product"});
}

void WarpgroupProducts::check_lost(SourceSite site) {
    const int thread = block_.thread();
    const SourceSite lost = std::exchange(lost_[std::size_t(thread)], {});
    if (lost.known()) [[unlikely]]
        complain({.fault = Fault::product_in_flight,
                  .first = {thread, site},
                  .second = {thread, lost},
                  .what = "an accumulator of " + thread_name(thread) +
                          " has gone out of scope while a product was computing it",
                  .advice = "declare accumulators where they live from the first product to the wait"});
}

void WarpgroupProducts::check_ready(const ProductCall& call) {
    check_lost(call.site);
    const int thread = block_.thread();
    const auto unfenced = [&](const std::string& registers, SourceSite touched_at) {
        complain({.fault = Fault::unready_registers,
                  .first = {thread, call.site},
                  .second = {thread, touched_at},
                  .what = "a product uses " + registers + " of " + thread_name(thread) +
                          ", and no begin_products() has named it since " + thread_name(thread) + " used it at " +
                          touched_at.text(),
                  .advice = kFenceAdvice});
    };
    if (call.accumulator->state_ == ProductRegisters::State::touched) [[unlikely]]
        unfenced("an accumulator", call.accumulator->touched_at_);
    if (!call.a_notes) return;
    if (call.a_notes->written_ != 0xf) [[unlikely]]
        complain({.fault = Fault::unready_registers,
                  .first = {thread, call.site},
                  .second = {thread, call.a_notes->touched_at_},
                  .what = "a product reads an operand A of " + thread_name(thread) + " whose register " +
                          std::to_string(std::countr_one(call.a_notes->written_)) + " nobody has written",
                  .advice = "set all four, or let to_operand() make them"});
    if (call.a_notes->state_ == ProductRegisters::State::touched) [[unlikely]]
        unfenced("an operand A", call.a_notes->touched_at_);
}

void WarpgroupProducts::check_named(const NamedRegisters& registers, int allowed, SourceSite site) {
    const int thread = block_.thread();
    const std::string wait = "wait_products<" + std::to_string(allowed) + ">()";
    const auto too_early = [&](const Product& product, const std::string& what) {
        const auto w = std::size_t(thread / 32 % 4);
        const int newer = own_warp().groups - 1 - product.group[w];
        const std::string why = newer < 0 ? "no commit_products() has followed it, and a wait covers closed groups only"
                                          : "it leaves the newest " + std::to_string(allowed) +
                                                " of the groups under way, and only " + std::to_string(newer) +
                                                (newer == 1 ? " is" : " are") + " newer than the product's";
        complain({.fault = Fault::product_not_awaited,
                  .first = {thread, site},
                  .second = {thread, product.site},
                  .what = wait + " of " + thread_name(thread) + " names " + what +
                          ", but does not wait for its product: " + why,
                  .advice = newer < 0 ? "call commit_products() after the last multiply() of a group"
                                      : "wait_products<" + std::to_string(newer) + ">() waits for it"});
    };
    registers.for_each([&](ProductRegisters& r) {
        if (r.kind() == ProductRegisters::Kind::operand) {
            const std::uint64_t number = static_cast<OperandRegisters&>(r).read_by_;
            if (number > own_warp().retired)
                if (const Product* const product = find(own_group(), number)) too_early(*product, "an operand A");
            return;
        }
        if (r.state_ == ProductRegisters::State::unnamed) r.state_ = ProductRegisters::State::ready;
        if (r.state_ != ProductRegisters::State::under_way) return;
        if (const auto* const result = static_cast<AccumulatorRegisters&>(r).result_)
            if (const Product* const product = find(own_group(), result->last_product))
                too_early(*product, "an accumulator");
    });
}

void WarpgroupProducts::check_same_operands(int warpgroup, const ProductCalls& calls) const {
    const ProductCall& first = *calls[0];
    for (std::size_t t = 1; t < calls.size(); ++t) {
        const ProductCall& other = *calls[t];
        const char* const differs = other.b.bits != first.b.bits                         ? "descriptor of B"
                                    : !first.a_registers && other.a.bits != first.a.bits ? "descriptor of A"
                                    : other.accumulate != first.accumulate               ? "value of `accumulate`"
                                                                                         : nullptr;
        if (!differs) continue;
        const int thread = warpgroup * kWarpgroup;
        block_.fail({.fault = Fault::invalid_collective,
                     .first = {thread + int(t), other.site},
                     .second = {thread, first.site},
                     .what = "in one wgmma.mma_async, " + thread_name(thread + int(t)) + " passes another " + differs +
                             " than " + thread_name(thread),
                     .advice = "the four warps of a warpgroup execute one product: rows of A are dealt out to them by "
                               "the hardware, and nothing that a thread passes may depend on its warp or lane"});
    }
}

void WarpgroupProducts::thread_returns() {
    if (warpgroups_.empty()) return;
    const int thread = block_.thread();
    const Warpgroup& group = own_group();
    if (group.under_way.empty()) return;
    for (const Product& product : group.under_way) {
        if (product.number <= own_warp().retired) continue;
        const bool committed = product.group[std::size_t(thread / 32 % 4)] < own_warp().groups;
        complain(
            {.fault = Fault::product_not_awaited,
             .first = {thread, product.site},
             .what = thread_name(thread) + " returns while a product is under way" +
                     (committed ? ", whose group it has never waited for" : ", which it never committed to a group"),
             .advice = "nobody can use what such a product computes: wait_products<0>() in the last step"});
        return;
    }
}

}  // namespace cpu
}  // namespace simt
