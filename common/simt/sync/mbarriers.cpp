#include "common/simt/sync/mbarriers.h"

#include <cstring>
#include <utility>

#include "common/simt/counters/event_recorder.h"

namespace simt {
inline namespace cpu {
namespace {

constexpr int kMostArrivals = (1 << 20) - 1;        // of a phase
constexpr std::int64_t kMostBytes = (1 << 20) - 1;  // that a phase may still wait for

}  // namespace

Mbarriers::Mbarriers(Block& block) : block_(block) {}
Mbarriers::~Mbarriers() = default;
std::unique_ptr<Companion> Mbarriers::make(Block& block) { return std::make_unique<Mbarriers>(block); }

void Mbarriers::start_block(int) { barriers_.clear(); }

void Mbarriers::misused(SourceSite site, std::string what, std::string advice, Witness second) const {
    block_.fail({.fault = Fault::barrier_misuse,
                 .first = here(site),
                 .second = second,
                 .what = std::move(what),
                 .advice = std::move(advice)});
}

/// The running thread, with its block where that is another one.
Witness Mbarriers::here(SourceSite site) const {
    const Block& me = Block::current();
    return is_visited() ? me.witness(me.thread(), site) : Witness{me.thread(), site};
}

/// "full[0]", or "full[0] of block (1, 0, 0)" to threads of other blocks.
std::string Mbarriers::whose(const Barrier& barrier) const {
    return barrier.name + (is_visited() ? " of " + block_.home() : "");
}

/// The barrier there, which the running thread may use.
Mbarriers::Barrier& Mbarriers::used(const char* does, std::uint32_t offset, SourceSite site) {
    Block& running = Block::current();
    running.require_feature(Feature::mbarrier, site);
    const auto found = barriers_.find(offset);
    const std::string me = thread_name(running.thread());
    if (found == barriers_.end()) [[unlikely]]
        misused(site,
                me + " " + does + " " + block_.shared.element_name(offset, running.thread()) +
                    (is_visited() ? " of " + block_.home() : "") + ", a barrier that nobody has initialised",
                "let one thread call init() on each barrier, and publish_barriers() after it where the tensor memory "
                "accelerator or other blocks use it, and a __syncthreads() follow" +
                    std::string(is_visited() ? "; in a cluster, a cluster_sync()" : ""));
    Barrier& barrier = found->second;
    if (!is_checked()) return barrier;
    const bool is_known = is_visited()
                              ? ClusterVisitor(running, block_).knows(barrier.init_thread, barrier.init_interval)
                              : block_.knows(barrier.init_thread, barrier.init_interval);
    if (!is_known) [[unlikely]]
        misused(site,
                me + " " + does + " " + whose(barrier) + ", which " + block_.party(barrier.init_thread) +
                    (is_visited() ? " there" : "") + " has initialised; " +
                    (is_visited() ? "the cluster has not met since" : "no barrier lies between"),
                is_visited() ? "let a cluster_sync() lie between publish_barriers() and the first use by another block"
                             : "let a __syncthreads() lie between the initialisation and the first use",
                block_.witness(barrier.init_thread, barrier.init_site));
    if (is_visited() && !barrier.published) [[unlikely]]
        misused(
            site, me + " " + does + " " + whose(barrier) + ", which the cluster has not been told of",
            "the thread that initialises barriers must call publish_barriers() afterwards, and a cluster_sync() follow",
            block_.witness(barrier.init_thread, barrier.init_site));
    return barrier;
}

void Mbarriers::init(std::uint32_t offset, std::string name, int count, SourceSite site) {
    block_.require_feature(Feature::mbarrier, site);
    if (const auto old = barriers_.find(offset); old != barriers_.end())
        misused(site,
                thread_name(block_.thread()) + " initialises " + old->second.name +
                    ", which is a barrier already: whoever is on his way to it is lost",
                "initialise a barrier once, in one thread; bytes that were one may become one again after invalidate()",
                {old->second.init_thread, old->second.init_site});
    if (count < 1 || count > kMostArrivals)
        misused(site, "init(" + std::to_string(count) + ") of " + name,
                "a phase takes 1 to " + std::to_string(kMostArrivals) + " arrivals");
    Barrier& barrier = barriers_[offset];
    barrier.name = std::move(name);
    barrier.count = barrier.pending = count;
    barrier.init_thread = block_.thread();
    barrier.init_site = site;
    std::memset(block_.shared.data() + offset, 0, 8);
    if (EventRecorder* const events = block_.events()) events->made(barrier.name, count, block_.thread(), site);
    if (!is_checked()) return;
    block_.need_clocks();
    barrier.agent = block_.add_agent("the copies to " + barrier.name);
    // Not a request that writes shared memory: the hardware has an instruction of its own for barriers.
    block_.shared.write(SharedMemory::elements_of(offset, 8, 8), block_.thread(), block_.warp_interval(), site);
    barrier.init_interval = block_.warp_interval();
}

void Mbarriers::publish(SourceSite site) {
    block_.require_feature(Feature::tma, site);
    for (auto& [offset, barrier] : barriers_)
        if (barrier.init_thread == block_.thread()) barrier.published = true;
}

void Mbarriers::expect(std::uint32_t offset, int bytes, SourceSite site) {
    Block::current().require_feature(Feature::tma, site);
    Barrier& barrier = used("announces bytes to", offset, site);
    barrier.expected += bytes;
    if (bytes < 0 || barrier.expected - barrier.came > kMostBytes)
        misused(site,
                barrier.phase_name() + " is told to wait for " + std::to_string(bytes) + " bytes more, " +
                    std::to_string(barrier.expected - barrier.came) + " in all",
                "a phase can wait for 0 to " + std::to_string(kMostBytes) + " bytes");
    if (EventRecorder* const events = block_.events())
        events->announced(barrier.name, barrier.phase, bytes, block_.thread(), site);
}

void Mbarriers::arrive(std::uint32_t offset, SourceSite site) {
    Barrier& barrier = used("arrives at", offset, site);
    Block& running = Block::current();
    if (barrier.pending == 0) report_late_arrival(barrier, site);
    if (is_checked() && is_visited()) {
        const ClusterVisitor visitor(running, block_);
        block_.shared.note_visit({visitor.who, visitor.interval, offset, true, site});
        running.release_to_cluster(barrier.arriving_from_afar);
    } else if (is_checked()) {
        block_.release(barrier.arriving);
    }
    barrier.last_arrival = here(site);
    if (EventRecorder* const events = running.events()) {
        if (is_visited())
            events->arrived_in(block_.events(), block_.rank(), running.rank(), barrier.name, barrier.phase,
                               running.thread(), site);
        else
            events->arrived(barrier.name, barrier.phase, running.thread(), site);
    }
    --barrier.pending;
    end_phase_if_complete(barrier, here(site));
}

/// One arrival too many in a phase. By the one whose copies it still waits for, it is meant for the next phase.
void Mbarriers::report_late_arrival(const Barrier& barrier, SourceSite site) const {
    const Block& running = Block::current();
    const std::string what = thread_name(running.thread()) + " arrives at phase " + std::to_string(barrier.phase) +
                             " of " + whose(barrier) + ", to which all " + std::to_string(barrier.count) +
                             " arrivals have come";
    if (!barrier.transfers.empty() && !is_visited()) {
        const Transfer& before = barrier.transfers.front();
        if (before.issued.thread == running.thread() && !before.issued.block)
            misused(site, what + ", and " + before.what + " is still under way to it",
                    "the next tile is asked for before this one has come and been read: before that, wait at a barrier "
                    "at which all who read it arrive when they have",
                    before.issued);
    }
    misused(site, what,
            "init(" + std::to_string(barrier.count) +
                ") says how many arrivals complete a phase: count who arrives, one elected thread or all",
            barrier.last_arrival);
}

/// `by`: who arrived last, or set off the copy that came last.
void Mbarriers::end_phase_if_complete(Barrier& barrier, const Witness& by) {
    if (barrier.pending > 0 || barrier.came != barrier.expected) return;
    if (!barrier.transfers.empty() && is_checked()) {
        const Transfer& late = barrier.transfers.front();
        block_.fail({.fault = Fault::barrier_misuse,
                     .first = by,
                     .second = late.issued,
                     .what = barrier.phase_name() + " is over after " + std::to_string(barrier.expected) +
                             " bytes, while " + late.what + " of " + std::to_string(late.data.size()) +
                             " bytes more is under way to it",
                     .advice = "announce the bytes of all copies that report to the barrier in this phase, in the "
                               "arrival that the phase waits for or before it"});
    }
    if (EventRecorder* const events = block_.events()) events->over(barrier.name, barrier.phase);
    barrier.passed.join(barrier.arriving);
    barrier.arriving.clear();
    if (!barrier.arriving_from_afar.clock.empty()) {
        barrier.passed_from_afar.join(barrier.arriving_from_afar);
        barrier.arriving_from_afar.clear();
    }
    ++barrier.phase;
    barrier.pending = barrier.count;
    barrier.expected = barrier.came = 0;
    barrier.peeked = false;
    block_.wake(barrier);
}

bool Mbarriers::has_passed(Barrier& barrier, unsigned parity) {
    if (barrier.phase % 2 == parity % 2) return false;
    if (is_checked()) block_.acquire(barrier.passed);
    return true;
}

bool Mbarriers::is_over(std::uint32_t offset, unsigned parity, SourceSite site) {
    Barrier& barrier = used("looks at", offset, site);
    if (!has_passed(barrier, parity)) {
        barrier.peeked = true;  // and so may come to its end while nobody sleeps on it
        block_.let_others_go_first(site);
        if (!has_passed(barrier, parity)) return false;
    }
    begin_wait(barrier, parity, site);
    end_wait();
    return true;
}

void Mbarriers::begin_wait(const Barrier& barrier, unsigned parity, SourceSite site) {
    const auto phase = std::int64_t(barrier.phase) - (barrier.phase % 2 != parity % 2);
    if (EventRecorder* const events = block_.events()) events->waits(barrier.name, phase, block_.thread(), site);
}

void Mbarriers::end_wait() {
    if (EventRecorder* const events = block_.events()) events->goes_on(block_.thread());
}

void Mbarriers::wait(std::uint32_t offset, unsigned parity, bool in_cluster, SourceSite site) {
    Barrier& barrier = used("waits at", offset, site);
    const auto go_on = [&] {
        if (is_checked()) {
            block_.acquire(barrier.passed);
            if (in_cluster) block_.acquire_from_cluster(barrier.passed_from_afar);
        }
        end_wait();
    };
    begin_wait(barrier, parity, site);
    if (barrier.phase % 2 != parity % 2) return go_on();
    const std::uint64_t phase = barrier.phase;
    while (barrier.phase == phase) block_.sleep(barrier, site);
    if (barrier.phase - phase > 1)
        misused(site,
                thread_name(block_.thread()) + " waits for phase " + std::to_string(phase) + " of " + barrier.name +
                    ", which is " + std::to_string(barrier.phase - phase) +
                    " phases on before the thread has looked: by the parity the phase seems not to be over",
                "nobody may fall two phases behind: let the barrier's next arrivals wait for those who wait at it",
                barrier.last_arrival);
    go_on();
}

void Mbarriers::invalidate(std::uint32_t offset, SourceSite site) {
    Barrier& barrier = used("invalidates", offset, site);
    if (!barrier.transfers.empty() || block_.is_awaited(barrier))
        misused(site,
                thread_name(block_.thread()) + " invalidates " + barrier.name + " while " +
                    (barrier.transfers.empty() ? "somebody waits at it" : "a copy is under way to it"),
                "wait for its last phase first, and let all who wait at it have gone on",
                barrier.transfers.empty() ? Witness{} : barrier.transfers.front().issued);
    barriers_.erase(offset);
}

void Mbarriers::bring(std::uint32_t offset, Transfer&& transfer) {
    Barrier& barrier = used("issues a copy to", offset, transfer.site);
    transfer.issued = here(transfer.site);
    if (is_checked()) {
        if (!barrier.published)
            misused(transfer.site,
                    thread_name(block_.thread()) + " issues a copy that reports to " + barrier.name +
                        ", which the asynchronous proxy has not been told of",
                    "the thread that initialises barriers must call publish_barriers() afterwards",
                    {barrier.init_thread, barrier.init_site});
        for (const Transfer::Piece& piece : transfer.pieces)
            if (is_visited())
                block_.shared.take_off_for_visitor(piece.offset, piece.bytes, transfer.element_bytes,
                                                   ClusterVisitor(Block::current(), block_), transfer.site);
            else
                block_.shared.take_off_for_agent(piece.offset, piece.bytes, transfer.element_bytes, block_.thread(),
                                                 block_.warp_interval(), transfer.site);
    }
    const Block& running = Block::current();
    if (EventRecorder* const events = Block::current().events()) {
        if (is_visited())
            events->copied_to(block_.events(), block_.rank(), running.rank(), barrier.name, barrier.phase,
                              transfer.data.size(), running.thread(), transfer.site);
        else
            events->copied(barrier.name, barrier.phase, transfer.data.size(), running.thread(), transfer.site);
    }
    barrier.transfers.push_back(std::move(transfer));
}

void Mbarriers::land(Barrier& barrier, Transfer& transfer) {
    const std::uint32_t interval = is_checked() ? block_.open_agent_interval() : 0;
    const std::byte* from = transfer.data.data();
    for (const Transfer::Piece& piece : transfer.pieces) {
        std::memcpy(block_.shared.data() + piece.offset, from, piece.bytes);
        from += piece.bytes;
        if (is_checked())
            block_.shared.land_of_agent(piece.offset, piece.bytes, transfer.element_bytes, barrier.agent, interval,
                                        transfer.site);
    }
    if (is_checked()) block_.clocks().add(barrier.agent, interval, barrier.arriving);
    barrier.came += std::int64_t(transfer.data.size());
    if (transfer.landed) transfer.landed(barrier.agent, interval);
}

bool Mbarriers::let_something_happen() {
    for (auto& [offset, barrier] : barriers_) {
        if (barrier.pending > 0 || barrier.transfers.empty() || !(barrier.peeked || block_.is_awaited(barrier)))
            continue;
        Transfer last;
        while (!barrier.transfers.empty() && barrier.came < barrier.expected) {
            last = std::move(barrier.transfers.front());
            barrier.transfers.pop_front();
            land(barrier, last);
        }
        if (barrier.came > barrier.expected)
            block_.fail({.fault = Fault::barrier_misuse,
                         .first = last.issued,
                         .second = barrier.last_arrival,
                         .what = barrier.phase_name() + " is told to wait for " + std::to_string(barrier.expected) +
                                 " bytes, and with " + last.what + " " + std::to_string(barrier.came) + " have come",
                         .advice = "announce as many bytes as the copies bring: rows times columns times the size of "
                                   "an element, of all copies that report to the barrier in a phase; what lies outside "
                                   "of the tensor comes as zeros, and counts"});
        const std::uint64_t phase = barrier.phase;
        end_phase_if_complete(barrier, last.issued);
        if (barrier.phase != phase) return true;
    }
    return false;
}

void Mbarriers::all_have_returned() {
    if (!is_checked()) return;
    for (const auto& [offset, barrier] : barriers_) {
        if (barrier.transfers.empty()) continue;
        const Transfer& left = barrier.transfers.front();
        block_.fail({.fault = Fault::copy_not_awaited,
                     .first = left.issued,
                     .what = "the block ends while " + left.what + " of " + std::to_string(left.data.size()) +
                             " bytes is under way to " + barrier.phase_name() + ", for which nobody has waited",
                     .advice = "a copy that comes when the block has ended writes into another block's memory: issue "
                               "only what is used, and wait for it"});
    }
}

void Mbarriers::thread_touches(const char* does, std::size_t offset, int thread, SourceSite site) const {
    for (const auto& [place, barrier] : barriers_)
        for (const Transfer& transfer : barrier.transfers)
            for (const Transfer::Piece& piece : transfer.pieces) {
                if (offset < piece.offset || offset >= piece.offset + piece.bytes) continue;
                const bool visits = ThreadClocks::is_visitor(thread);
                block_.fail(
                    {.fault = Fault::copy_in_flight,
                     .first = visits ? block_.witness(thread, site) : Witness{thread, site},
                     .second = transfer.issued,
                     .what = block_.party(thread) + " " + does + " " + block_.shared.element_name(offset, thread) +
                             (visits ? " of " + block_.home() : "") + ", which " + transfer.what +
                             " is still filling; " + barrier.phase_name() + ", to which it reports, is not over",
                     .advice =
                         "wait at " + barrier.name +
                         " first, with the parity of that phase: " + std::to_string(barrier.phase % 2) +
                         "; a wait with the other one is for the phase before, and passes at once" +
                         (barrier.phase == 0 ? ""
                                             : ". Or, where the tile of that phase is meant, the copy comes too "
                                               "early: who asks for it must wait until all readers have let go of "
                                               "the tile before")});
            }
}

std::string Mbarriers::Barrier::phase_name() const { return "phase " + std::to_string(phase) + " of " + name; }

std::string Mbarriers::Barrier::awaited() const {
    std::string text = phase_name() + " (" + std::to_string(count - pending) + " of " + std::to_string(count) +
                       (count == 1 ? " arrival" : " arrivals");
    if (expected > 0 || !transfers.empty())
        text += ", " + std::to_string(came) + " of " + std::to_string(expected) + " bytes";
    return text + " so far)";
}

}  // namespace cpu
}  // namespace simt
