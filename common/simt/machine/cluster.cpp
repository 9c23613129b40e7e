#include "common/simt/machine/cluster.h"

#include <algorithm>
#include <utility>

#include "common/simt/counters/event_recorder.h"
#include "common/simt/machine/block.h"
#include "common/simt/report/leniency.h"

namespace simt {
inline namespace cpu {
namespace {

constexpr const char* kName = "the cluster's barrier";

}  // namespace

void ClusterMessage::clear() { *this = {}; }

void ClusterMessage::join(const ClusterMessage& other) {
    ThreadClocks::join(clock, other.clock);
    knowledge = joined(knowledge, other.knowledge);
}

ClusterVisitor::ClusterVisitor(const Block& from, const Block& visited)
    : Visitor(ThreadClocks::visitor(from.rank(), from.thread()), from.warp_interval()),
      from_(from),
      visited_(visited) {}

bool ClusterVisitor::knows(int who, std::uint32_t interval) const {
    if (ThreadClocks::is_together(who)) {
        for (int i = 0; i < ThreadClocks::kPartners; ++i)
            if (!knows(ThreadClocks::first_of(who) + i, interval)) return false;
        return true;
    }
    if (!ThreadClocks::is_visitor(who))
        return from_.clocks().knows_of(from_.thread(), visited_.rank(), ThreadClocks::place_in(visited_.threads(), who),
                                       interval);
    if (ThreadClocks::rank_of(who) == from_.rank())
        return from_.knows(ThreadClocks::thread_of(who), interval & ~ThreadClocks::kVisit);
    return from_.clocks().knows(from_.thread(), who, interval);
}

bool ClusterVisitor::has_shown(int who, std::uint32_t interval) const {
    if (!ThreadClocks::is_visitor(who))
        return from_.clocks().has_shown_of(from_.thread(), visited_.rank(),
                                           ThreadClocks::place_in(visited_.threads(), who), interval);
    if (ThreadClocks::rank_of(who) == from_.rank())
        return from_.clocks().has_shown(from_.thread(), ThreadClocks::thread_of(who), interval & ~ThreadClocks::kVisit);
    return from_.clocks().has_shown(from_.thread(), who, interval);
}

Cluster::Cluster(std::vector<std::uint64_t> numbers) : numbers_(std::move(numbers)) {}
Cluster::~Cluster() = default;

void Cluster::add(Block& block) {
    blocks_.push_back(&block);
    threads_.emplace_back(std::size_t(block.threads()));
    live_ += block.threads();
}

Block& Cluster::visit(int rank, const std::string& does, SourceSite site) const {
    Block& me = Block::current();
    const auto misused = [&](std::string what, const char* advice) {
        me.fail({.fault = Fault::cluster_misuse,
                 .first = {me.thread(), site},
                 .what = "thread " + std::to_string(me.thread()) + " " + std::move(what),
                 .advice = advice});
    };
    if (rank < 0 || rank >= size())
        misused(does + " of block " + std::to_string(rank) + " of a cluster of " + std::to_string(size()),
                "ranks count from 0, and cluster_size() says how many there are");
    Block& other = block(rank);
    if (&other == &me || me.checks() == Checks::off || ScopedLeniency::active()) return other;
    if (!me.clocks().has_met(me.thread(), rank))
        misused(
            does + " of " + other.home() + ", which may not have begun yet: no cluster_sync() lies between",
            "blocks of a cluster are on the device together, but do not begin at one moment: meet by cluster_sync() "
            "before the first look into another block's memory");
    if (other.has_ended())
        misused(does + " of " + other.home() + ", which has ended",
                "a block's shared memory is gone when it ends: let all blocks of the cluster meet by cluster_sync() "
                "after the last access to another one's");
    return other;
}

Cluster::Thread& Cluster::running_thread() {
    const Block& me = Block::current();
    return threads_[std::size_t(me.rank())][std::size_t(me.thread())];
}

void Cluster::arrive(SourceSite site) {
    Block& me = Block::current();
    Thread& thread = running_thread();
    if (thread.has_arrived)
        me.fail({.fault = Fault::cluster_misuse,
                 .first = {me.thread(), site},
                 .second = {me.thread(), thread.site},
                 .what = "thread " + std::to_string(me.thread()) +
                         " arrives at the cluster's barrier again, and has not waited since it did",
                 .advice = "each cluster_arrive() is followed by one cluster_wait() of the same thread"});
    order_[phase_ % 2].enter();
    thread = {true, phase_, site};
    if (EventRecorder* const events = me.events()) {
        events->numbered(kName, live_);
        events->arrived(kName, phase_, me.thread(), site);
        last_arrival_ = std::max(last_arrival_, events->now(me.thread()));
    }
    if (me.checks() == Checks::on) me.release_to_cluster(arriving_);
    ++arrived_;
    end_phase_if_complete();
}

void Cluster::wait(SourceSite site) {
    Block& me = Block::current();
    Thread& thread = running_thread();
    if (!thread.has_arrived)
        me.fail(
            {.fault = Fault::cluster_misuse,
             .first = {me.thread(), site},
             .what = "thread " + std::to_string(me.thread()) +
                     " waits at the cluster's barrier without having arrived there",
             .advice = "each cluster_wait() follows one cluster_arrive() of the same thread; cluster_sync() is both"});
    if (EventRecorder* const events = me.events()) events->waits(kName, std::int64_t(thread.phase), me.thread(), site);
    while (phase_ == thread.phase) me.sleep(*this, site);
    if (EventRecorder* const events = me.events()) events->goes_on(me.thread());
    order_[thread.phase % 2].pass();
    thread.has_arrived = false;
    if (me.checks() == Checks::on) me.acquire_from_cluster(passed_);
}

void Cluster::end_phase_if_complete() {
    if (arrived_ < live_ || live_ == 0) return;
    passed_.join(arriving_);
    arriving_.clear();
    arrived_ = 0;
    for (Block* const block : blocks_) {
        if (EventRecorder* const events = block->events()) {
            events->arrived_by(kName, phase_, last_arrival_);
            events->over(kName, phase_);
        }
        block->wake(*this);
    }
    ++phase_;
}

void Cluster::thread_returns() {
    Thread& thread = running_thread();
    if (thread.has_arrived && thread.phase == phase_) --arrived_;
    --live_;
    end_phase_if_complete();
}

void Cluster::block_ends() {
    Block& me = Block::current();
    if (me.checks() == Checks::off || ScopedLeniency::active()) return;
    for (const SharedMemory::Visit& visit : me.shared.visits()) {
        bool known = false;
        for (int thread = 0; thread < me.threads() && !known; ++thread)
            known = me.clocks().knows(thread, visit.who, visit.interval);
        if (known) continue;
        me.fail({.fault = Fault::cluster_misuse,
                 .first = me.witness(visit.who, visit.site),
                 .what = me.home() + " ends while " + me.party(visit.who) +
                         (visit.writes ? " may still write to " : " may still read ") +
                         me.shared.element_name(visit.offset, visit.who) + " of its shared memory",
                 .advice = "a block's shared memory is gone when it ends: let all blocks of the cluster meet by "
                           "cluster_sync() after the last access to another one's, an arrival at a barrier too"});
    }
}

std::string Cluster::awaited() const {
    std::string text =
        std::string(kName) + " (" + std::to_string(arrived_) + " of " + std::to_string(live_) + " arrivals so far";
    for (std::size_t rank = 0; rank < threads_.size(); ++rank) {
        const auto there = std::ranges::count_if(
            threads_[rank], [&](const Thread& thread) { return thread.has_arrived && thread.phase == phase_; });
        text += (rank == 0 ? ": " : ", ") + std::to_string(there) + " of block " + std::to_string(rank);
    }
    return text + ")";
}

}  // namespace cpu
}  // namespace simt
