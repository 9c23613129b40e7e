#include "common/simt/machine/block.h"

#include <bit>
#include <string>
#include <utility>

// What lies before what, where intervals cannot tell: threads that pass on what they know, and learn from others.

namespace simt {
inline namespace cpu {

/// Intervals cannot tell the order of what comes now. All that happened so far keeps its number.
void Block::order_by_clocks() {
    if (has_clocks_) return;
    has_clocks_ = true;
    launch_->needs_clocks.store(true, std::memory_order_relaxed);
    clocks_.start_block(threads_, launch_->cluster ? int(launch_->cluster->volume()) : 1, rank_);
    global.order_by(clocks_, shared.last_interval());
    shared.order_by(clocks_);
    for (Warp& w : warps_) w.interval = shared.open_warp_interval();
    enter_warp(warp_index());
}

/// These lanes of a warp have met: each knows what any of them did and knew.
void Block::order_lanes(Warp& w, std::uint32_t lanes) {
    order_by_clocks();
    const int first = int(&w - warps_.data()) * 32;
    ThreadClocks::Clock together;
    for (std::uint32_t l = lanes; l; l &= l - 1)
        clocks_.release({first + std::countr_zero(l), w.interval, w.since, shared.block_interval()}, together);
    for (std::uint32_t l = lanes; l; l &= l - 1) clocks_.acquire(first + std::countr_zero(l), together);
    w.interval = shared.open_warp_interval();
    enter_warp(warp_index());
}

void Block::release(ThreadClocks::Clock& into) {
    Warp& w = *warp_;
    clocks_.release({current_thread_, w.interval, w.since, shared.block_interval()}, into);
    begin_interval();  // what follows is not passed on
}

void Block::begin_interval() {
    warp_->interval = shared.open_warp_interval();
    enter_warp(warp_index());
}

void Block::show_to_agents(ShownSpace space) {
    need_clocks();
    Warp& w = *warp_;
    clocks_.show({current_thread_, w.interval, w.since, shared.block_interval()}, space);
    if (space != ShownSpace::shared) global.hand_over().show(global.moment(current_thread_, w.interval));
    begin_interval();  // what follows is not shown
}

bool Block::knows(int thread, std::uint32_t interval) const {
    return thread == current_thread_ || interval < shared.block_interval() ||
           (thread / 32 == current_thread_ / 32 && interval < warp_->since) ||
           (has_clocks_ && clocks_.knows(current_thread_, thread, interval));
}

int Block::add_agent(std::string name) {
    need_clocks();
    agents_.push_back(std::move(name));
    return clocks_.add_agent();
}

void Block::release_to_cluster(ClusterMessage& into) {
    const Warp& w = *warp_;
    const ThreadClocks::Now now{current_thread_, w.interval, w.since, shared.block_interval()};
    clocks_.release_to_cluster(now, into.clock);
    begin_interval();  // what follows is not passed on
    // What blocks outside of the cluster have handed over, if any have.
    if (global.hand_over().has_any())
        into.knowledge =
            joined(into.knowledge, global.hand_over().published(global.moment(current_thread_, warp_interval_), true,
                                                                shared.block_interval()));
}

void Block::acquire_from_cluster(const ClusterMessage& from) {
    clocks_.acquire_from_cluster(current_thread_, from.clock);
    if (from.knowledge)
        global.hand_over().take(global.moment(current_thread_, warp_interval_), from.knowledge, nullptr, true,
                                global.clocks());
}

}  // namespace cpu
}  // namespace simt
