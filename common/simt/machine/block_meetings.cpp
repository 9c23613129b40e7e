#include "common/simt/machine/block_turns.h"

#include <array>
#include <bit>
#include <utility>

#include "common/simt/counters/block_recorder.h"
#include "common/simt/report/leniency.h"

// Where threads meet: the barriers of the block, and the collectives of a warp.

namespace simt {
inline namespace cpu {

void Block::meet_at_barrier_out_of_sight(SourceSite site) { meet_at_barrier(site); }

void Block::vote_at_barrier_out_of_sight(Barrier kind, bool yes, SourceSite site) { vote_at_barrier(kind, yes, site); }

std::uint64_t Block::meet_warp_out_of_sight(Call call, std::uint64_t value, int source_lane, SourceSite site,
                                            const WarpInstruction* run) {
    return meet_warp(call, value, source_lane, site, run);
}

void Block::enter_warp(int w) {
    warp_ = &warps_[w];
    enter_interval(w, warp_->interval, warp_->since);
}

void Block::enter_interval(int warp, std::uint32_t interval, std::uint32_t since) {
    warp_interval_ = interval;
    shared.enter_warp(warp, interval, since);
    global.enter_warp(since);
}

Block::Arrival Block::arrive_at_barrier(SourceSite site) {
    const auto from = reinterpret_cast<std::uintptr_t>(__builtin_return_address(0));
    if (at_barrier_ > 0 && alive_ == threads_ && site == barrier_site_ && from == barrier_from_) [[likely]]
        return take_part_in_barrier();
    arriving_from_ = from;
    return arrive_by_path_at_barrier(Barrier::plain, site);
}

Block::Arrival Block::arrive_at_vote(Barrier kind, bool yes, SourceSite site) {
    const auto from = reinterpret_cast<std::uintptr_t>(__builtin_return_address(0));
    arriving_votes_ += yes;
    if (at_barrier_ > 0 && alive_ == threads_ && kind == barrier_kind_ && site == barrier_site_ &&
        from == barrier_from_) [[likely]]
        return take_part_in_barrier();
    arriving_from_ = from;
    return arrive_by_path_at_barrier(kind, site);
}

Block::Arrival Block::arrive_by_path_at_barrier(Barrier kind, SourceSite site) {
    if (alive_ < threads_ || (at_barrier_ > 0 && (kind != barrier_kind_ || site != barrier_site_))) [[unlikely]]
        report_diverged_barrier(current_thread_, kind, site);
    const CallPath& path = path_here(__builtin_frame_address(0));
    if (at_barrier_ == 0) {
        barrier_kind_ = kind;
        barrier_site_ = site;
        first_at_barrier_ = current_thread_;
        barrier_path_ = &path;
        barrier_from_ = path.has_callers() ? 0 : path.from;
    } else if (barrier_path_ != &path) {
        if (const auto& parting = call_paths_.parting(path, *barrier_path_)) report_parted_at_barrier(*parting);
    }
    return take_part_in_barrier();
}

[[gnu::always_inline]] inline Block::Arrival Block::take_part_in_barrier() {
    Fiber& fiber = *fiber_;
    const int thread = current_thread_;
    order_.next().enter();
    if (++at_barrier_ < alive_) return let_others_run(*warp_, fiber, thread);
    release_barrier();
    return {&fiber, nullptr};
}

void Block::release_barrier() {
    if (is_looked_at()) [[unlikely]]
        look_at_barrier();
    const std::uint32_t interval = shared.open_block_interval();
    for (Warp& w : warps_) {
        w.runnable = w.live;
        w.interval = w.since = interval;
    }
    enter_warp(warp_index());
    if (has_clocks_) clocks_.meet();
    at_barrier_ = 0;
    votes_ = std::exchange(arriving_votes_, 0);
    order_.complete();
    global.open_block_interval();
    if (recorder_) recorder_->block_barrier(barrier_site_);
    traffic.block_barrier();
    traffic.warp_meets(warp_index());  // the other warps waited, and met when they began to
}

// Nothing here calls and returns: whatever is not usual comes last, in the place of a return. So the usual case saves
// no registers, which would be a quarter of its instructions.
Block::Arrival Block::arrive(Call call, std::uint64_t value, int source_lane, SourceSite site,
                             const WarpInstruction* run) {
    Warp& w = *warp_;
    const auto from = reinterpret_cast<std::uintptr_t>(__builtin_return_address(0));
    if (w.pending[0].same(call, site, run, from)) [[likely]]
        return take_part(w, 0, value, source_lane);
    arriving_from_ = from;
    return arrive_first(call, value, source_lane, site, run);
}

Block::Arrival Block::arrive_first(Call call, std::uint64_t value, int source_lane, SourceSite site,
                                   const WarpInstruction* run) {
    if (!(call.mask >> lane() & 1)) report_foreign_mask(call, site);  // before join() reports what follows from it
    const CallPath& path = path_here(__builtin_frame_address(0));
    return take_part(*warp_, join(*warp_, call, site, run, path), value, source_lane);
}

[[gnu::always_inline]] inline Block::Arrival Block::take_part(Warp& w, int pending_index, std::uint64_t value,
                                                              int source_lane) {
    Pending& pending = w.pending[pending_index];
    Fiber& fiber = *fiber_;
    const int thread = current_thread_, me = int(unsigned(thread) % 32);
    const std::uint32_t bit = 1u << me;
    if (!(pending.call.mask & bit)) [[unlikely]]
        report_foreign_lane(pending);
    w.value[me] = value;
    w.source[me] = source_lane;
    if (pending.call.kind == Collective::syncwarp) w.order.next().enter();
    const std::uint32_t arrived = pending.arrived |= bit;
    if (arrived != (pending.call.mask & w.live)) return let_others_run(w, fiber, thread);
    return complete_and_go_on(w, pending_index, fiber);
}

Block::Arrival Block::complete_and_go_on(Warp& w, int pending_index, Fiber& fiber) {
    complete(w, pending_index);
    return {&fiber, nullptr};
}

int Block::join(Warp& w, Call call, SourceSite site, const WarpInstruction* run, const CallPath& path) {
    int p = w.pending_count;
    for (int i = 0; i < w.pending_count; ++i) {
        const Pending& other = w.pending[i];
        if (meet_each_other(other, call, site, run, path))
            p = i;
        else if ((other.call.mask >> lane() & 1) && (other.arrived & call.mask)) [[unlikely]]
            report_diverged_collective(call, run, other, site, path);
    }
    if (p == w.pending_count) {
        const bool is_only_one = w.pending_count++ == 0;
        w.pending[p] = {call, site, run, 0, lane(), &path, is_only_one && !path.has_callers() ? path.from : 0};
        if (!is_only_one) w.pending[0].from = 0;
    }
    return p;
}

bool Block::meet_each_other(const Pending& other, Call call, SourceSite site, const WarpInstruction* run,
                            const CallPath& path) {
    if (other.call != call || other.run != run) return false;
    if (call.kind == Collective::syncwarp && launch_->device.has_feature(Feature::split_warps)) return true;
    return other.site == site && (other.path == &path || !call_paths_.parting(path, *other.path));
}

const CallPath& Block::path_here(const void* frame) {
    if (const CallPath* const path = call_paths_.path_without_callers(arriving_from_)) [[likely]]
        return *path;
    return call_paths_.path_here(arriving_from_, static_cast<const std::byte*>(frame),
                                 static_cast<const std::byte*>(stacks_.top_of(current_thread_)), launch_->kernel_code);
}

void Block::complete(Warp& w, int pending_index) {
    const Pending done = w.pending[pending_index];
    if (is_looked_at()) [[unlikely]]
        look_at_collective(w, done);
    if (const int last = --w.pending_count; last != pending_index) w.pending[pending_index] = w.pending[last];
    w.pending[w.pending_count].from = 0;
    traffic.warp_collective();
    if (done.arrived == w.live) traffic.warp_meets(int(&w - warps_.data()));

    Fiber* const fiber = &fibers_[(&w - warps_.data()) * 32];  // of lane 0
    std::uint32_t votes = 0;
    switch (done.call.kind) {
        case Collective::syncwarp:
            w.order.complete();
            if (done.arrived != w.live || has_clocks_) order_lanes(w, done.arrived);
            if (done.arrived != w.live) break;
            w.interval = w.since = shared.open_warp_interval();
            enter_warp(warp_index());
            if (recorder_) recorder_->warp_barrier(int(&w - warps_.data()));
            break;
        case Collective::shfl:
        case Collective::shfl_up:
        case Collective::shfl_down:
        case Collective::shfl_xor:
            if (done.arrived == ~0u) {
                for (int to = 0; to < 32; ++to) fiber[to].result = w.value[w.source[to]];
                break;
            }
            for (std::uint32_t lanes = done.arrived; lanes; lanes &= lanes - 1) {
                const int to = std::countr_zero(lanes), from = w.source[to];
                if (!(done.arrived >> from & 1)) [[unlikely]] {
                    if (ScopedLeniency::active()) {
                        fiber[to].result = ~std::uint64_t{0};
                        continue;
                    }
                    report_absent_lane(int(&w - warps_.data()), done, to, from);
                }
                fiber[to].result = w.value[from];
            }
            break;
        case Collective::instruction:
            run_warp_instruction(w, done);
            break;
        case Collective::ballot:
        case Collective::any:
        case Collective::all:
            for (std::uint32_t lanes = done.arrived; lanes; lanes &= lanes - 1)
                if (w.value[std::countr_zero(lanes)]) votes |= lanes & -lanes;
            const std::uint64_t answer = done.call.kind == Collective::ballot ? votes
                                         : done.call.kind == Collective::any  ? votes != 0
                                                                              : votes == done.arrived;
            for (std::uint32_t lanes = done.arrived; lanes; lanes &= lanes - 1)
                fiber[std::countr_zero(lanes)].result = answer;
            break;
    }
    w.runnable |= done.arrived & w.live;
}

void Block::run_warp_instruction(Warp& w, const Pending& done) {
    const int warp = int(&w - warps_.data());
    if (done.arrived != 0xffffffffu) [[unlikely]]
        report_incomplete_warp(warp, done);
    std::array<const void*, 32> argument;
    for (int lane = 0; lane < 32; ++lane) argument[lane] = reinterpret_cast<const void*>(w.value[lane]);
    done.run->run(*this, warp, argument);
    traffic.warp_meets(warp);
}

}  // namespace cpu
}  // namespace simt
