#include "common/simt/copies/copy_queue.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "common/simt/memory/global_memory.h"
#include "common/simt/memory/tensor_names.h"
#include "common/simt/report/leniency.h"

namespace simt {
inline namespace cpu {

CopyQueue::CopyQueue(Block& block) : block_(block) {}
CopyQueue::~CopyQueue() = default;
std::unique_ptr<Companion> CopyQueue::make(Block& block) { return std::make_unique<CopyQueue>(block); }

void CopyQueue::start_block(int threads) {
    threads_.resize(std::size_t(threads));
    for (Thread& thread : threads_) {
        thread.under_way.clear();
        thread.groups = 0;
        thread.last_allowed = -1;
    }
    under_way_ = 0;
}

void CopyQueue::issue(const Copy& copy) {
    Thread& thread = threads_[block_.thread()];
    Issued issued{copy, thread.groups, {}, {}};
    if (copy.source) {
        std::memcpy(issued.value.data(), memory_behind(copy.tensor, copy.source), copy.bytes);
        issued.source = block_.global.hold_source(copy.tensor, copy.source, copy.bytes, block_.thread(), copy.site);
    }
    block_.shared.take_off(SharedMemory::elements_of(copy.destination, copy.bytes, copy.element_bytes), block_.thread(),
                           block_.warp_interval(), copy.site);
    block_.traffic.shared(true, copy.destination, copy.bytes, block_.thread(), copy.site);
    thread.under_way.push_back(issued);
    ++under_way_;
}

void CopyQueue::commit() { ++threads_[block_.thread()].groups; }

void CopyQueue::wait(int allowed, SourceSite site) {
    Thread& thread = threads_[block_.thread()];
    thread.last_allowed = allowed;
    thread.last_wait = site;
    auto next = thread.under_way.begin();
    for (; next != thread.under_way.end() && next->group < thread.groups - allowed; ++next) {
        land(*next, site);
        --under_way_;
    }
    thread.under_way.erase(thread.under_way.begin(), next);
}

void CopyQueue::land(const Issued& issued, SourceSite wait_site) {
    const Copy& copy = issued.copy;
    if (copy.source) {
        block_.global.release_source(issued.source, block_.warp_interval(), wait_site);
        if (std::memcmp(memory_behind(copy.tensor, copy.source), issued.value.data(), copy.bytes) != 0 &&
            !ScopedLeniency::active())
            report_overwritten_source(issued, wait_site);
    }
    std::memcpy(block_.shared.data() + copy.destination, issued.value.data(), copy.bytes);
    block_.shared.land(SharedMemory::elements_of(copy.destination, copy.bytes, copy.element_bytes), block_.thread(),
                       block_.warp_interval(), copy.site);
}

/// Writes through views do not come so far: GlobalShadow reports them where they happen.
void CopyQueue::report_overwritten_source(const Issued& issued, SourceSite wait_site) const {
    const Copy& copy = issued.copy;
    const auto* const source = static_cast<const std::byte*>(memory_behind(copy.tensor, copy.source));
    const auto changed = std::mismatch(source, source + copy.bytes, issued.value.begin()).first;
    const auto* const named = static_cast<const std::byte*>(copy.source) + (changed - source);
    block_.fail({.fault = Fault::global_race,
                 .first = {block_.thread(), wait_site},
                 .second = {block_.thread(), copy.site},
                 .what = global_element_name(copy.tensor, reinterpret_cast<std::uintptr_t>(named)) +
                         ", which an asynchronous copy reads, was overwritten before thread " +
                         std::to_string(block_.thread()) + " waited for the copy to " +
                         block_.shared.element_name(copy.destination, block_.thread()) +
                         "; another block wrote it, or a bare pointer, which has no line that could be named",
                 .advice = "the hardware reads the source at any time up to the wait, so it may get the old value or "
                           "the new one: leave the source alone until then"});
}

void CopyQueue::thread_touches(const char* does, std::size_t offset, int thread, SourceSite site) const {
    const auto fills = [offset](const Issued& issued) {
        return issued.copy.destination <= offset && offset < issued.copy.destination + issued.copy.bytes;
    };
    const auto found =
        std::ranges::find_if(threads_, [&](const Thread& t) { return std::ranges::any_of(t.under_way, fills); });
    if (found == threads_.end()) return;
    const Thread& issuer = *found;
    const int owner = int(found - threads_.begin());
    const Issued& issued = *std::ranges::find_if(issuer.under_way, fills);

    const std::string name = "thread " + std::to_string(owner);
    MachineError::Report report{.fault = Fault::copy_in_flight,
                                .first = {thread, site},
                                .second = {owner, issued.copy.site},
                                .what = "thread " + std::to_string(thread) + " " + does + " " +
                                        block_.shared.element_name(offset, thread) +
                                        ", which an asynchronous copy of " + name + " is still filling"};
    const int newer = issuer.groups - 1 - issued.group;
    if (newer < 0) {
        report.what += "; no commit_copies() of " + name + " has followed the copy";
        report.advice =
            "a wait covers committed groups only: call commit_copies() after the copies of a tile, then "
            "wait_copies<N>()";
    } else {
        if (issuer.last_allowed < 0)
            report.what += "; " + name + " has not waited yet";
        else
            report.what += "; " + name + " waited last at " + issuer.last_wait.text() + ", for all but the newest " +
                           std::to_string(issuer.last_allowed) + " of its groups, and " + std::to_string(newer) +
                           (newer == 1 ? " is" : " are") + " newer than this copy's";
        report.advice = name + " must call wait_copies<" + std::to_string(newer) + ">() first";
    }
    if (owner != thread) report.advice += "; then a __syncthreads() lets the other threads in";
    block_.fail(std::move(report));
}

void CopyQueue::check_returning_thread() const {
    const Thread& thread = threads_[block_.thread()];
    if (thread.under_way.empty() || ScopedLeniency::active()) return;
    const Issued& oldest = thread.under_way.front();
    const bool committed = oldest.group < thread.groups;
    block_.fail(
        {.fault = Fault::copy_not_awaited,
         .first = {block_.thread(), oldest.copy.site},
         .what = "thread " + std::to_string(block_.thread()) + " returns while " +
                 std::to_string(thread.under_way.size()) + " of its asynchronous copies are under way, the oldest to " +
                 block_.shared.element_name(oldest.copy.destination, block_.thread()) +
                 (committed ? "" : ", which was never committed to a group"),
         .advice = "nobody can rely on shared memory that such a copy writes: issue only what is used, and wait "
                   "for it, with wait_copies<0>() or wait_all_copies() in the last step"});
}

}  // namespace cpu
}  // namespace simt
