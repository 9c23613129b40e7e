#include "common/simt/machine/block.h"

#include <limits>
#include <string>
#include <utility>

#include "common/simt/counters/block_recorder.h"
#include "common/simt/machine/block_turns.h"
#include "common/simt/machine/schedule.h"
#include "common/simt/machine/splitmix64.h"
#include "common/simt/report/trace.h"

namespace simt {
inline namespace cpu {

Block::Block() = default;
Block::~Block() = default;

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
    recorder_ = nullptr;
    if (launch.trace && launch.trace->wants_block(number_)) {
        if (!own_recorder_) own_recorder_ = std::make_unique<BlockRecorder>();
        recorder_ = own_recorder_.get();
        recorder_->start_block(launch.trace->launch(), shared, threads);
    }
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

Companion& Block::add_companion(const void* kind, std::unique_ptr<Companion> (*make)(Block&)) {
    std::unique_ptr<Companion> companion = make(*this);
    companion->start_block(threads_);
    return *companions_.emplace_back(kind, std::move(companion)).second;
}

void Block::watch(const char* name, std::int64_t row, std::int64_t column, float value) {
    if (recorder_) recorder_->watch(name, row, column, value, current_thread_);
}

EventRecorder* Block::recorded_events() { return &recorder_->parties(); }

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

void Block::leave() {
    end_.enter();
    StackPointer abandoned;
    fibers_[current_thread_].sanitized.leave_for(sanitized_home_, true);
    switch_stack(&abandoned, home_);
    __builtin_unreachable();
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

void Block::read_shared_vector(SharedMemory::Elements elements, SourceSite site) {
    traffic.shared(false, elements.offset(), elements.bytes(), current_thread_, site);
    if (!shared.open_to_reader(elements)) shared.read(elements, current_thread_, warp_interval_, site);
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

}  // namespace cpu
}  // namespace simt
