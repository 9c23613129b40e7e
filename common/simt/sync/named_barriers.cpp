#include "common/simt/sync/named_barriers.h"

#include <algorithm>
#include <utility>

#include "common/simt/counters/event_recorder.h"

namespace simt {
inline namespace cpu {
namespace {

/// "threads 0 to 31, 64 to 95"
std::string threads_in(const std::bitset<1024>& who) {
    std::string text;
    std::size_t ranges = 0, last = 0;
    for (std::size_t first = 0; first < who.size(); first = last + 1) {
        last = first;
        if (!who[first]) continue;
        while (last + 1 < who.size() && who[last + 1]) ++last;
        text += (ranges++ ? ", " : "") + std::to_string(first) + (last > first ? " to " + std::to_string(last) : "");
    }
    return (who.count() == 1 ? "thread " : "threads ") + text;
}

}  // namespace

NamedBarriers::NamedBarriers(Block& block) : block_(block) {}
NamedBarriers::~NamedBarriers() = default;
std::unique_ptr<Companion> NamedBarriers::make(Block& block) { return std::make_unique<NamedBarriers>(block); }

void NamedBarriers::start_block(int) { barriers_ = {}; }

NamedBarriers::Barrier& NamedBarriers::come_to(const char* call, int id, int threads, SourceSite site) {
    const std::string me = "thread " + std::to_string(block_.thread()),
                      did = std::string(call) + "(" + std::to_string(id) + ", " + std::to_string(threads) + ")";
    const auto misused = [&](std::string what, std::string advice, Witness second = {}) {
        block_.fail({.fault = Fault::barrier_misuse,
                     .first = {block_.thread(), site},
                     .second = second,
                     .what = std::move(what),
                     .advice = std::move(advice)});
    };
    if (id < 1 || id > 15)
        misused(me + " calls " + did, "a block has named barriers 1 to 15; number 0 is __syncthreads()'s");
    const int block_threads = (block_.threads() + 31) / 32 * 32;
    if (threads < 32 || threads % 32 || threads > block_threads)
        misused(me + " calls " + did, "warps come as a whole: a multiple of 32 threads, and no more than the block's " +
                                          std::to_string(block_.threads()));
    Barrier& barrier = barriers_[std::size_t(id)];
    barrier.id = id;
    if (barrier.arrived > 0 && barrier.threads != threads)
        misused(me + " calls " + did + ", while barrier " + std::to_string(id) + " waits for " +
                    std::to_string(barrier.threads) + " threads, as thread " + std::to_string(barrier.first.thread) +
                    " has said",
                "all who come to a barrier name the same number of threads, those that arrive and those that wait "
                "together",
                barrier.first);
    if (barrier.who[std::size_t(block_.thread())])
        misused(me + " calls " + did + ", and has come to barrier " + std::to_string(id) +
                    " already since it opened last; " + std::to_string(barrier.arrived) + " of " +
                    std::to_string(barrier.threads) + " threads have come",
                "between two arrivals of a thread at one barrier the barrier must have opened: let the thread wait "
                "for something that comes after that",
                barrier.first);
    if (barrier.arrived == 0) {
        barrier.threads = threads;
        barrier.first = {block_.thread(), site};
    }
    barrier.last = {block_.thread(), site};
    barrier.who.set(std::size_t(block_.thread()));
    EventRecorder* const events = block_.events();
    if (events) {
        events->numbered(barrier.name(), threads);
        events->arrived(barrier.name(), barrier.opened, block_.thread(), site);
    }
    if (is_checked()) {
        block_.need_clocks();
        block_.release(barrier.arriving);
    }
    if (++barrier.arrived == threads) {
        barrier.passed.join(barrier.arriving);
        barrier.arriving.clear();
        barrier.arrived = 0;
        barrier.who.reset();
        if (events) events->over(barrier.name(), barrier.opened);
        ++barrier.opened;
        block_.wake(barrier);
    }
    return barrier;
}

void NamedBarriers::arrive(int id, int threads, SourceSite site) { come_to("arrive_threads", id, threads, site); }

void NamedBarriers::sync(int id, int threads, SourceSite site) {
    const std::uint64_t before = id >= 0 && id < int(barriers_.size()) ? barriers_[std::size_t(id)].opened : 0;
    Barrier& barrier = come_to("sync_threads", id, threads, site);
    if (EventRecorder* const events = block_.events())
        events->waits(barrier.name(), std::int64_t(before), block_.thread(), site);
    while (barrier.opened == before) block_.sleep(barrier, site);
    if (is_checked()) block_.acquire(barrier.passed);
    if (EventRecorder* const events = block_.events()) events->goes_on(block_.thread());
}

/// A thread that has come while other lanes of its warp have not; -1: there is none.
int NamedBarriers::part_of_a_warp(const Barrier& barrier) const {
    for (int first = 0; first < block_.threads(); first += 32) {
        int came = -1, missing = 0;
        for (int thread = first; thread < std::min(first + 32, block_.threads()); ++thread)
            if (!barrier.who[std::size_t(thread)])
                ++missing;
            else if (came < 0)
                came = thread;
        if (came >= 0 && missing > 0) return came;
    }
    return -1;
}

/// Who has come is there by arrive_threads(): who waits would be in a deadlock.
MachineError::Report NamedBarriers::left_half_full(const Barrier& barrier, std::string what, std::string advice) const {
    return {.fault = Fault::barrier_misuse,
            .first = barrier.first,
            .second = barrier.last.site == barrier.first.site ? Witness{} : barrier.last,
            .what = "the block ends while " + barrier.name() + " is half full: " + threads_in(barrier.who) +
                    " called arrive_threads(" + std::to_string(barrier.id) + ", " + std::to_string(barrier.threads) +
                    "), " + std::to_string(barrier.threads - barrier.arrived) + " more are missing" + std::move(what),
            .advice = std::move(advice)};
}

void NamedBarriers::all_have_returned() {
    if (!is_checked()) return;
    unsigned opened = 0;
    for (const Barrier& barrier : barriers_) {
        if (barrier.opened > 0) opened |= 1u << barrier.id;
        if (barrier.arrived == 0) continue;
        if (const int thread = part_of_a_warp(barrier); thread >= 0) {
            block_.fail(left_half_full(
                barrier, "; of warp " + std::to_string(thread / 32) + " some lanes came, and others did not",
                "warps come as a whole: let all lanes make the call, outside of branches such as elect_one(). Single "
                "threads arrive at mbarriers"));
        }
        if (barrier.opened == 0)
            block_.note_half_full(
                barrier.id,
                left_half_full(barrier, ", and in the whole launch nobody ever waits there",
                               "an arrival orders what was before it for those who wait: let them call sync_threads(" +
                                   std::to_string(barrier.id) + ", " + std::to_string(barrier.threads) +
                                   "), with the same number of barrier and of threads, or leave the arrival out"));
    }
    block_.note_opened(opened);
}

std::string NamedBarriers::Barrier::awaited() const {
    return name() + " (" + std::to_string(arrived) + " of " + std::to_string(threads) + " threads so far)";
}

}  // namespace cpu
}  // namespace simt
