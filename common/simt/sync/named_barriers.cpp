#include "common/simt/sync/named_barriers.h"

#include <utility>

namespace simt {
inline namespace cpu {

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
    const Witness first{barrier.first_thread, barrier.first_site};
    if (barrier.arrived > 0 && barrier.threads != threads)
        misused(me + " calls " + did + ", while barrier " + std::to_string(id) + " waits for " +
                    std::to_string(barrier.threads) + " threads, as thread " + std::to_string(first.thread) +
                    " has said",
                "all who come to a barrier name the same number of threads, those that arrive and those that wait "
                "together",
                first);
    if (barrier.who[std::size_t(block_.thread())])
        misused(me + " calls " + did + ", and has come to barrier " + std::to_string(id) +
                    " already since it opened last; " + std::to_string(barrier.arrived) + " of " +
                    std::to_string(barrier.threads) + " threads have come",
                "between two arrivals of a thread at one barrier the barrier must have opened: let the thread wait "
                "for something that comes after that",
                first);
    if (barrier.arrived == 0) {
        barrier.threads = threads;
        barrier.first_thread = block_.thread();
        barrier.first_site = site;
    }
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

std::string NamedBarriers::Barrier::awaited() const {
    return name() + " (" + std::to_string(arrived) + " of " + std::to_string(threads) + " threads so far)";
}

}  // namespace cpu
}  // namespace simt
