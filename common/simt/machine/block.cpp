#include "common/simt/machine/block.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <string>
#include <utility>

#include "common/simt/machine/schedule.h"
#include "common/simt/machine/splitmix64.h"
#include "common/simt/report/leniency.h"

namespace simt {
inline namespace cpu {

void Block::begin(const Launch& launch, uint3 index, Cluster* cluster, int rank) {
    const int threads = static_cast<int>(launch.block.volume());
    if (shape_.x != launch.block.x || shape_.y != launch.block.y || shape_.z != launch.block.z) {
        shape_ = launch.block;
        fibers_.resize(threads);
        for (unsigned i = 0; i < unsigned(threads); ++i)
            fibers_[i].index = {i % launch.block.x, i / launch.block.x % launch.block.y,
                                i / (launch.block.x * launch.block.y)};
    }
    stacks_.reserve(threads);
    threads_ = alive_ = threads;
    warps_.resize((threads + 31) / 32);
    for (int i = 0; i < threads; ++i) {
        fibers_[i].stack = prepare_stack(stacks_.top_of(i), enter);
        fibers_[i].asleep_on = nullptr;
        fibers_[i].sanitized.set_stack(stacks_.bottom_of(i), stacks_.usable_bytes());
    }
    for (int w = 0; w < int(warps_.size()); ++w) {
        const int lanes = std::min(32, threads - w * 32);
        warps_[w].live = warps_[w].runnable = lanes == 32 ? ~0u : (1u << lanes) - 1;
        warps_[w].pending_count = 0;
        warps_[w].pending[0].from = 0;
    }

    launch_ = &launch;
    index_ = index;
    cluster_ = cluster;
    rank_ = rank;
    if (cluster) cluster->add(*this);
    at_barrier_ = arriving_votes_ = 0;
    barrier_site_ = {};
    failure_.reset();
    lookout_.start_block();
    thrown_.clear();
    meetings_ = 0;
    meetings_unwatched_ = launch.budget.meetings ? launch.budget.meetings : std::numeric_limits<std::uint64_t>::max();
    ticks_ = quiet_ticks_ = events_at_tick_ = 0;
    interrupted_ = false;
    shared.start_block(launch.shared_bytes);
    for (Warp& w : warps_) w.interval = w.since = shared.block_interval();
    has_clocks_ = false;
    agents_.clear();
    warpgroups_.clear();
    number_ = index.x + std::uint64_t{launch.grid.x} * (index.y + std::uint64_t{launch.grid.y} * index.z);
    const std::uint64_t seed = current_schedule().seed;
    drawn_ = seed ? splitmix64(seed + splitmix64(number_)) | 1 : 0;
    global.start_block(launch.global, number_);
    recorder_ = launch.trace && launch.trace->wants_block(number_) ? &own_recorder_ : nullptr;
    if (recorder_) recorder_->start_block(launch.trace->launch(), shared, threads);
    traffic.start_block(launch.count, threads, recorder_);
    for (const auto& [kind, companion] : companions_) companion->start_block(threads);

    current_thread_ = 0;
    fiber_ = &fibers_[0];
    next_ = fiber_->stack;
    stands_still_ = is_abandoned_ = has_ended_ = false;
    had_news_ = true;
    spins_.start_block();
    looking_thread_ = -1;
    turns_given_ = 0;
    enter_warp(0);
    const bool has_visitors = cluster && launch.checks == Checks::on;
    if (has_visitors || launch.needs_clocks.load(std::memory_order_relaxed)) order_by_clocks();
    if (has_visitors) global.join_cluster(cluster->numbers(), rank, threads);
    start_.enter();
}

bool Block::go_on() {
    current_ = this;
    blockDim = launch_->block;
    gridDim = launch_->grid;
    blockIdx = index_;
    threadIdx = fiber_->index;
    stands_still_ = false;
    if (!had_news_) ticks_ = quiet_ticks_ = 0;  // what it took to wait is not the block's own time
    sanitized_home_.start_here();
    sanitized_home_.leave_for(fiber_->sanitized);
    in_kernel_ = true;
    switch_stack(&home_, next_);
    in_kernel_ = false;
    sanitized_home_.arrive(sanitized_home_);
    current_ = nullptr;
    return !stands_still_;
}

/// Nobody in the block can do anything but wait for other blocks. The next go_on() comes back here.
void Block::stand_still() {
    Fiber& fiber = *fiber_;
    stands_still_ = true;
    launch_->global.sums.make_in_any_order();
    launch_->residents.note_that_blocks_wait();
    fiber.sanitized.leave_for(sanitized_home_);
    switch_stack(&next_, home_);
    fiber.sanitized.arrive(sanitized_home_);
}

void Block::abandon() {
    is_abandoned_ = true;
    end();
}

void Block::end() {
    has_ended_ = true;
    current_ = this;
    if (interrupted_) {
#ifdef __x86_64__
        asm volatile("fninit");  // it may have been in the middle of a computation with the old registers
#endif
        failure_ = report_of(interruption_);
        if (recorder_) recorder_->fault(failure_->first.thread);
    }
    end_.pass();
    if (failure_ || is_abandoned_)
        for (Fiber& fiber : fibers_) fiber.sanitized.abandon();

    traffic.end_block();
    global.end_block();
    current_ = nullptr;
    if (failure_) {
        failure_->kernel = launch_->kernel;
        failure_->block = {index_.x, index_.y, index_.z};
        failure_->threads_per_block = {launch_->block.x, launch_->block.y, launch_->block.z};
        throw MachineError(*std::exchange(failure_, std::nullopt));
    }
}

Companion& Block::add_companion(const void* kind, std::unique_ptr<Companion> companion) {
    companion->start_block(threads_);
    return *companions_.emplace_back(kind, std::move(companion)).second;
}

TracedBlock Block::take_trace() {
    TracedBlock traced{.index = {index_.x, index_.y, index_.z}, .counters = traffic.take()};
    if (recorder_) {
        traced.recorded = true;
        recorder_->take(traced);
        recorder_ = nullptr;
    }
    return traced;
}

void Block::enter() {
    Block& block = current();
    block.fibers_[block.current_thread_].sanitized.arrive(block.sanitized_home_);
    block.start_.pass();
    try {
        block.launch_->body(block.launch_->arguments);
    } catch (...) {
        block.keep_exception();
    }
    if (!block.thrown_.empty()) [[unlikely]]
        block.report_exception();
    block.finish_thread();
}

// What runs at each barrier and warp collective is written for the usual case: the next lane goes on. What comes up
// once a warp, or never, is kept out of it. Pointers to the running thread and its warp are kept, and read once.
// Before, with the thread's number as the only way to them, a meeting took 12 ns; after, and with the switch still in
// this file, 8. It takes 5 now.

[[gnu::always_inline]] inline Block::Fiber* Block::make_current(Fiber& fiber, int thread) {
    fiber_ = &fiber;
    current_thread_ = thread;
    threadIdx = fiber.index;
    return &fiber;
}

void Block::leave() {
    end_.enter();
    StackPointer abandoned;
    fibers_[current_thread_].sanitized.leave_for(sanitized_home_, true);
    switch_stack(&abandoned, home_);
    __builtin_unreachable();
}

[[gnu::always_inline]] inline Block::Arrival Block::let_others_run(Warp& w, Fiber& fiber, int thread) {
    const std::uint32_t bit = 1u << unsigned(thread) % 32, runnable = w.runnable & ~bit;
    w.runnable = runnable;
    if (runnable & (bit << 1)) [[likely]]
        return {&fiber, make_current(*(&fiber + 1), thread + 1)};
    return let_next_run(fiber);
}

Block::Arrival Block::let_next_run(Fiber& fiber) {
    const int next = next_runnable();
    return {&fiber, make_current(fibers_[next], next)};
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

void Block::read_shared_vector(SharedMemory::Elements elements, SourceSite site) {
    traffic.shared(false, elements.offset(), elements.bytes(), current_thread_, site);
    shared.read(elements, current_thread_, warp_interval_, site);
}

int Block::next_runnable() {
    const int own = warp_index();
    const std::uint32_t runnable = warps_[own].runnable;
    if (runnable) {
        const std::uint32_t later = runnable & static_cast<std::uint32_t>(~0ull << (lane() + 1));
        return own * 32 + std::countr_zero(later ? later : runnable);
    }
    if (warps_[own].pending_count == 0) traffic.warp_meets(own);  // at the barrier
    do {
        if (const int thread = find_runnable(own); thread >= 0) return thread;
    } while (let_something_happen() || wait_for_cluster());
    report_stuck();
}

/// The first thread that can run of the first warp that has one, after the running one; or of one that is drawn.
int Block::find_runnable(int own) {
    const int warps = int(warps_.size());
    const int after = drawn_ ? int((drawn_ = splitmix64(drawn_)) % unsigned(warps)) : 1;
    for (int i = 0; i < warps; ++i) {
        const int w = (own + after + i) % warps;
        if (!warps_[w].runnable) continue;
        enter_warp(w);
        return w * 32 + std::countr_zero(warps_[w].runnable);
    }
    return -1;
}

/// No thread can go on, until another block of the cluster does something. False: there is none.
bool Block::wait_for_cluster() {
    if (!cluster_ || cluster_->size() == 1) return false;
    looking_thread_ = -1;
    stand_still();
    spins_.note_news();  // or this turn ends as the last one did
    if (std::ranges::none_of(warps_, [](const Warp& w) { return w.runnable != 0; })) spins_.take_news();
    return true;
}

bool Block::let_something_happen() {
    for (const auto& [kind, companion] : companions_)
        if (companion->let_something_happen()) {
            spins_.note_news();
            return true;
        }
    return false;
}

void Block::finish_thread() {
    for (const auto& [kind, companion] : companions_) companion->thread_returns();
    if (cluster_) cluster_->thread_returns();
    end_.enter();
    Warp& w = *warp_;
    const std::uint32_t bit = 1u << lane();
    w.live &= ~bit;
    w.runnable &= ~bit;
    --alive_;
    if (at_barrier_ > 0) report_left_barrier(current_thread_);
    for (int p = w.pending_count - 1; p >= 0; --p)
        if (w.pending[p].arrived == (w.pending[p].call.mask & w.live)) complete(w, p);
    if (alive_ == 0) {
        for (const auto& [kind, companion] : companions_) companion->all_have_returned();
        if (cluster_) cluster_->block_ends();
        leave();
    }
    const int next = w.runnable & (bit << 1) ? current_thread_ + 1 : next_runnable();
    Fiber& finished = *fiber_;
    switch_fibers(finished, *make_current(fibers_[next], next), true);
    __builtin_unreachable();
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

void Block::meet_at_barrier_out_of_sight(SourceSite site) { meet_at_barrier(site); }
void Block::vote_at_barrier_out_of_sight(Barrier kind, bool yes, SourceSite site) { vote_at_barrier(kind, yes, site); }

std::uint64_t Block::meet_warp_out_of_sight(Call call, std::uint64_t value, int source_lane, SourceSite site,
                                            const WarpInstruction* run) {
    return meet_warp(call, value, source_lane, site, run);
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

void Block::sleep(const Awaited& object, SourceSite site) {
    Fiber& fiber = *fiber_;
    fiber.asleep_on = &object;
    fiber.asleep_at = site;
    if (is_looked_at()) [[unlikely]]
        look_at_sleeper(site);
    wait(let_others_run(*warp_, fiber, current_thread_));
}

void Block::wake(const Awaited& object) {
    for (int thread = 0; thread < threads_; ++thread) {
        if (fibers_[thread].asleep_on != &object) continue;
        fibers_[thread].asleep_on = nullptr;
        warps_[thread / 32].runnable |= 1u << thread % 32;
    }
}

bool Block::is_awaited(const Awaited& object) const {
    return std::ranges::any_of(fibers_, [&](const Fiber& fiber) { return fiber.asleep_on == &object; });
}

bool Block::let_others_go_first(SourceSite site) {
    if (is_looked_at()) [[unlikely]]
        look_at_sleeper(site);
    return let_sibling_run() || let_something_happen();
}

/// Another thread of the block that can run goes on, and then, some time, the running one. False if there is none.
bool Block::let_sibling_run() {
    Fiber& fiber = *fiber_;
    Warp& w = *warp_;
    const int own = current_thread_;
    const std::uint32_t bit = 1u << lane();
    w.runnable &= ~bit;
    const std::uint32_t later = w.runnable & static_cast<std::uint32_t>(~0ull << (lane() + 1));
    const int next = later ? own / 32 * 32 + std::countr_zero(later) : find_runnable(own / 32);
    w.runnable |= bit;
    if (next < 0) return false;
    wait({&fiber, make_current(fibers_[next], next)});
    return true;
}

void Block::note_find(const LookedAt& place, std::uint64_t bits) {
    if (!spins_.finds(current_thread_, reinterpret_cast<std::uintptr_t>(place.address), bits, threads_)) return;
    int runnable = 0;
    for (const Warp& w : warps_) runnable += std::popcount(w.runnable);
    if (++turns_given_ < runnable) {
        let_sibling_run();
        return;
    }
    turns_given_ = 0;
    looked_at_ = place;
    looking_thread_ = current_thread_;
    stand_still();
}

Residents::Wait Block::awaits() const {
    Residents::Wait wait{.block = {index_.x, index_.y, index_.z}};
    if (looking_thread_ < 0) {
        const MachineError::Report stuck = stuck_report();
        wait.thread = stuck.first.thread;
        wait.site = stuck.first.site;
        wait.what = stuck.what;
        return wait;
    }
    wait.thread = looking_thread_;
    wait.site = looked_at_.site;
    const auto address = reinterpret_cast<std::uintptr_t>(looked_at_.address);
    wait.what = "thread " + std::to_string(looking_thread_) + " waits for another value of " +
                (looked_at_.tensor >= 0 ? global_element_name(looked_at_.tensor, address)
                 : looked_at_.tensor == LookedAt::kShared
                     ? shared.element_name(shared.offset_of(looked_at_.address), looking_thread_)
                     : std::string("what lies at an address")) +
                " at " + looked_at_.site.text();
    return wait;
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

void Block::let_cluster_go_first() {
    if (!drawn_ || (drawn_ = splitmix64(drawn_)) % 3 != 0) return;
    spins_.note_news();
    looking_thread_ = -1;
    stand_still();
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

std::string Block::home() const { return text_of({index_.x, index_.y, index_.z}); }

Witness Block::witness(int who, SourceSite site) const {
    if (ThreadClocks::is_visitor(who))
        return cluster_->block(ThreadClocks::rank_of(who)).witness(ThreadClocks::thread_of(who), site);
    Witness witness{.thread = who, .site = site};
    if (cluster_) witness.block = {index_.x, index_.y, index_.z};
    return witness;
}

std::string Block::party(int who) const {
    if (ThreadClocks::is_visitor(who)) {
        const int thread = ThreadClocks::thread_of(who);
        return "thread " + std::to_string(thread) + " of " + cluster_->block(ThreadClocks::rank_of(who)).home();
    }
    return ThreadClocks::is_agent(who) ? agents_[ThreadClocks::place_in(0, who)] : "thread " + std::to_string(who);
}

void Block::warpgroup_instruction(const WarpgroupInstruction& instruction, const void* argument, SourceSite site) {
    if (warpgroups_.empty()) warpgroups_.resize(std::size_t(threads_ + kWarpgroup - 1) / kWarpgroup);
    Warpgroup& group = warpgroups_[std::size_t(current_thread_ / kWarpgroup)];
    const std::uint64_t before = group.done;
    const WarpgroupCall call{&instruction, argument, site};
    warp_instruction(instruction.on_warp, &call, site);
    while (group.done == before) sleep(group, site);
}

void Block::gather_warp(Block& block, int warp, const std::array<const void*, 32>& argument) {
    const auto call = [&](int lane) -> const WarpgroupCall& {
        return *static_cast<const WarpgroupCall*>(argument[std::size_t(lane)]);
    };
    Warpgroup& group = block.warpgroups_[std::size_t(warp / 4)];
    if (group.arrived == 0) {
        group.instruction = call(0).instruction;
        group.site = call(0).site;
        group.first_warp = warp / 4 * 4;
        group.first_thread = warp * 32;
        if (std::size_t(group.first_warp) + 4 > block.warps_.size())
            block.report_diverged_warpgroup(group, warp, call(0));
    } else if (group.instruction != call(0).instruction || group.site != call(0).site) {
        block.report_diverged_warpgroup(group, warp, call(0));
    }
    for (int lane = 0; lane < 32; ++lane) group.argument[std::size_t(warp % 4 * 32 + lane)] = call(lane).argument;
    group.arrived |= 1u << warp % 4;
    if (group.arrived != 0xf) return;
    group.arrived = 0;
    const auto arguments = group.argument;
    std::exchange(group.instruction, nullptr)->run(block, warp / 4, arguments);
    ++group.done;
    block.wake(group);
}

std::string Block::Warpgroup::awaited() const {
    std::string text;
    for (int w = 0; w < 4; ++w)
        if (!(arrived >> w & 1)) text += (text.empty() ? "" : ", ") + std::to_string(first_warp + w);
    return std::string(instruction ? instruction->on_warp.name : "an instruction of their warpgroup") + ", for warps " +
           text + " of their warpgroup";
}

void* Block::arena_bytes(std::size_t offset, std::size_t bytes) {
    if (offset + bytes > shared.bytes()) [[unlikely]]
        fail({.fault = Fault::arena_overflow,
              .first = {current_thread_, {}},
              .what = "carving a tile of " + std::to_string(bytes) + " bytes at byte " + std::to_string(offset) +
                      ", but the launch asked for " + std::to_string(shared.bytes()) + " bytes of shared memory",
              .advice =
                  "dynamicSmemBytes of the launch must cover every tile, each but the last rounded up to 16 bytes"});
    return shared.data() + offset;
}

}  // namespace cpu
}  // namespace simt
