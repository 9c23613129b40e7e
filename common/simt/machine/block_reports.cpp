#include <execinfo.h>

#include <array>
#include <bit>
#include <string>
#include <utility>

#include "common/simt/counters/block_recorder.h"
#include "common/simt/machine/block.h"

// What a block says when its threads fail to meet.

namespace simt {
inline namespace cpu {

namespace {

std::string name_of(Collective kind) {
    switch (kind) {
        case Collective::syncwarp:
            return "__syncwarp";
        case Collective::shfl:
            return "__shfl_sync";
        case Collective::shfl_up:
            return "__shfl_up_sync";
        case Collective::shfl_down:
            return "__shfl_down_sync";
        case Collective::shfl_xor:
            return "__shfl_xor_sync";
        case Collective::ballot:
            return "__ballot_sync";
        case Collective::any:
            return "__any_sync";
        case Collective::all:
            return "__all_sync";
        case Collective::instruction:
            break;
    }
    return "warp collective";
}

std::string name_of(Collective kind, const Block::WarpInstruction* instruction) {
    return instruction ? instruction->name : name_of(kind);
}

std::string all_must_reach(const std::string& call) {
    return "every thread of a block must reach the same " + call +
           ": let threads without work skip the work, not the barrier";
}

std::string hex(std::uint32_t mask) {
    constexpr char digits[] = "0123456789abcdef";
    std::string text = "0x";
    for (int shift = 28; shift >= 0; shift -= 4) text += digits[mask >> shift & 15];
    return text;
}

}  // namespace

std::string call_of(Barrier kind) {
    switch (kind) {
        case Barrier::plain:
            break;
        case Barrier::count:
            return "__syncthreads_count()";
        case Barrier::any:
            return "__syncthreads_or()";
        case Barrier::all:
            return "__syncthreads_and()";
    }
    return "__syncthreads()";
}

void Block::fail(MachineError::Report report) {
    if (current_ != this) current_->fail(std::move(report));  // whose thread has reached for this block's memory
    if (recorder_) recorder_->fault(report.first.thread);
    // A fault may come to light while another thread runs than the one that it is about, or at the end of the last one.
    // Of one that waits in a collective or at a barrier, the machine knows the path.
    if (report.calls.empty() && is_running(report.first)) {
        std::array<void*, 32> calls;
        const int depth = ::backtrace(calls.data(), int(calls.size()));
        for (int n = 0; n < depth; ++n) report.calls.push_back(reinterpret_cast<std::uintptr_t>(calls[std::size_t(n)]));
    }
    failure_ = std::move(report);
    leave();
}

/// Whether the witness is the running thread, and its kernel not over.
bool Block::is_running(const Witness& witness) const {
    const std::array<unsigned, 3> here{index_.x, index_.y, index_.z};
    return witness.thread == current_thread_ && witness.block.value_or(here) == here && warp_->live >> lane() & 1;
}

void Block::fail_in_flight(const char* does, std::size_t offset, int thread, SourceSite site) {
    for (const auto& [kind, companion] : companions_) companion->thread_touches(does, offset, thread, site);
    fail({.fault = Fault::copy_in_flight,
          .first = {thread, site},
          .what = "thread " + std::to_string(thread) + " " + does + " " + shared.element_name(offset, thread) +
                  ", which is still being filled",
          .advice = "wait for what fills it first"});
}

void Block::report_diverged_barrier(int thread, Barrier kind, SourceSite site) {
    const std::string arrives = call_of(kind), waits = call_of(barrier_kind_);
    MachineError::Report report{
        .fault = Fault::barrier_divergence, .first = {thread, site}, .advice = all_must_reach(arrives)};
    if (at_barrier_ == 0) {
        report.what = "thread " + std::to_string(thread) + " is at " + arrives + ", but " +
                      std::to_string(threads_ - alive_) + " threads of the block have already returned";
    } else {
        report.second = {first_at_barrier_, barrier_site_};
        report.what = "thread " + std::to_string(thread) + " is at " + (kind == barrier_kind_ ? "one " : "") + arrives +
                      ", thread " + std::to_string(first_at_barrier_) + " at " +
                      (kind == barrier_kind_ ? "another" : waits);
        if (kind != barrier_kind_)
            report.advice =
                "each is a barrier for every thread of a block, and none stands for another: let all "
                "threads make the same call, outside of the branch";
    }
    fail(std::move(report));
}

void Block::report_left_barrier(int thread) {
    const std::string waits = call_of(barrier_kind_);
    fail({.fault = Fault::barrier_divergence,
          .first = {first_at_barrier_, barrier_site_},
          .what = "thread " + std::to_string(thread) + " has returned from the kernel while thread " +
                  std::to_string(first_at_barrier_) + " waits at " + waits,
          .advice = all_must_reach(waits),
          .calls = barrier_path_->calls()});
}

void Block::report_parted_at_barrier(const Parting& parting) {
    const std::string call = call_of(barrier_kind_);
    fail({.fault = Fault::barrier_divergence,
          .first = {current_thread_, parting.one},
          .second = {first_at_barrier_, parting.other},
          .what = "thread " + std::to_string(current_thread_) + " is at one " + call + ", thread " +
                  std::to_string(first_at_barrier_) + " at another: both stand at " + barrier_site_.text() +
                  ", led there by different calls",
          .advice = "every thread of a block must reach the same " + call +
                    ": let all of them make the same call, outside of the branch"});
}

void Block::report_diverged_collective(Call call, const WarpInstruction* run, const Pending& other, SourceSite site,
                                       const CallPath& path) {
    const std::string name = name_of(call.kind, run), other_name = name_of(other.call.kind, other.run);
    const bool same_line = other.site == site && other.call == call && other.run == run;
    const std::optional<Parting> parting = same_line ? call_paths_.parting(path, *other.path) : std::nullopt;
    // The two wait for each other. Masks that merely overlap are fine: lanes that are through with one may still have
    // the other before them.
    fail({.fault = Fault::collective_divergence,
          .first = {current_thread_, parting ? parting->one : site},
          .second = {current_thread_ / 32 * 32 + other.first_lane, parting ? parting->other : other.site},
          .what = "lane " + std::to_string(lane()) + " calls " + name + " with mask " + hex(call.mask) +
                  " while lane " + std::to_string(other.first_lane) + " waits in " + other_name + " with mask " +
                  hex(other.call.mask) +
                  (other.site != site ? ", on another line"
                   : parting          ? ": both stand at " + site.text() + ", led there by different calls"
                   : other.call == call && other_name == name ? ", in another form"
                                                              : ""),
          .advice = "all lanes of a mask must execute the same collective: move it out of the branch"});
}

void Block::report_foreign_mask(Call call, SourceSite site) {
    fail({.fault = Fault::invalid_collective,
          .first = {current_thread_, site},
          .what = name_of(call.kind) + " with mask " + hex(call.mask) + ", which does not contain the calling lane " +
                  std::to_string(lane()),
          .advice = "a mask names exactly the lanes that execute the call; 0xffffffff is the whole warp"});
}

void Block::report_foreign_lane(const Pending& met) { report_foreign_mask(met.call, met.site); }

void Block::report_incomplete_warp(int warp, const Pending& done) {
    fail({.fault = Fault::invalid_collective,
          .first = {warp * 32 + done.first_lane, done.site},
          .what = name_of(done.call.kind, done.run) + " of warp " + std::to_string(warp) + " without lanes " +
                  hex(~done.arrived) + ": they have returned from the kernel, or the block has no such threads",
          .advice = "the instruction works on a whole warp: launch blocks of a multiple of 32 threads, and keep "
                    "lanes without work until it is done",
          .calls = done.path->calls()});
}

void Block::report_absent_lane(int warp, const Pending& done, int to, int from) {
    MachineError::Report report{.fault = Fault::invalid_collective, .first = {warp * 32 + to, done.site}};
    report.calls = done.path->calls();
    report.what = name_of(done.call.kind) + ": lane " + std::to_string(to) + " reads lane " + std::to_string(from);
    if (!(done.call.mask >> from & 1)) {
        report.what += ", which the mask " + hex(done.call.mask) + " does not name";
        report.advice =
            "a value read from a lane outside the mask is undefined: the mask names the lanes that execute "
            "the call, and each may read from these only";
    } else if (warp * 32 + from >= threads_) {
        report.what += ", which the mask " + hex(done.call.mask) + " names, but the block has no such thread";
        report.advice = "launch blocks of a multiple of 32 threads, so that every warp has all its lanes";
    } else {
        report.what += ", which the mask " + hex(done.call.mask) + " names, but which has returned from the kernel";
        report.advice =
            "every lane that the mask names must come: let a lane without work stay, and bring a value that "
            "changes nothing";
    }
    fail(std::move(report));
}

void Block::report_bad_width(Collective kind, int width, SourceSite site) {
    fail({.fault = Fault::invalid_collective,
          .first = {current_thread_, site},
          .what = name_of(kind) + " with width " + std::to_string(width),
          .advice = "a shuffle works in segments of 1, 2, 4, 8, 16 or 32 lanes"});
}

void Block::report_unsupported(Feature feature, SourceSite site) {
    fail({.fault = Fault::unsupported,
          .first = {current_thread_, site},
          .what = feature_complaint(launch_->device, feature, launch_->kernel),
          .advice = "choose another device with --profile, or a kernel that does without the instruction"});
}

void Block::report_diverged_warpgroup(const Warpgroup& group, int warp, const WarpgroupCall& call) {
    const std::string name = call.instruction->on_warp.name;
    if (std::size_t(group.first_warp) + 4 > warps_.size())
        fail({.fault = Fault::invalid_collective,
              .first = {warp * 32, call.site},
              .what = name + " of warp " + std::to_string(warp) + ", whose warpgroup, warps " +
                      std::to_string(group.first_warp) + " to " + std::to_string(group.first_warp + 3) +
                      ", is not whole: the block has " + std::to_string(warps_.size()) + " warps",
              .advice =
                  "the instruction works on four warps, the first of which has a number that four divides: launch "
                  "blocks of a multiple of 128 threads"});
    const std::string waits = group.instruction->on_warp.name;
    fail({.fault = Fault::collective_divergence,
          .first = {warp * 32, call.site},
          .second = {group.first_thread, group.site},
          .what = "warp " + std::to_string(warp) + " calls " + name + " while warp " +
                  std::to_string(group.first_thread / 32) + " of its warpgroup waits in " + waits +
                  (name == waits ? ", on another line" : ""),
          .advice = "all four warps of a warpgroup must execute the same instruction: branch by warpgroup, "
                    "threadIdx.x / 128"});
}

SourceSite Block::waits_at(int thread) const {
    if (const Fiber& fiber = fibers_[std::size_t(thread)]; fiber.asleep_on) return fiber.asleep_at;
    const Warp& w = warps_[thread / 32];
    for (int p = 0; p < w.pending_count; ++p)
        if (w.pending[p].arrived >> thread % 32 & 1) return w.pending[p].site;
    return barrier_site_;
}

/// Who sleeps on what, those on one thing at one line together.
std::string Block::sleepers() const {
    std::string text;
    for (int thread = 0; thread < threads_;) {
        const Fiber& first = fibers_[std::size_t(thread)];
        int last = thread;
        const auto same = [&](const Fiber& f) {
            return f.asleep_on == first.asleep_on && f.asleep_at == first.asleep_at;
        };
        while (last + 1 < threads_ && same(fibers_[std::size_t(last + 1)])) ++last;
        if (first.asleep_on)
            text += (text.empty() ? "" : "; ") +
                    (last > thread ? "threads " + std::to_string(thread) + " to " + std::to_string(last) + " wait"
                                   : "thread " + std::to_string(thread) + " waits") +
                    " for " + first.asleep_on->awaited() + " at " + first.asleep_at.text();
        thread = last + 1;
    }
    return text;
}

void Block::report_stuck() { fail(stuck_report()); }

MachineError::Report Block::stuck_report() const {
    MachineError::Report report{.fault = Fault::deadlock,
                                .what = "no thread can go on",
                                .advice =
                                    "all lanes of a mask must execute the same collective, and all threads of "
                                    "the block the same barrier"};
    for (std::size_t i = 0; i < warps_.size(); ++i)
        for (int p = 0; p < warps_[i].pending_count; ++p) {
            const Pending& pending = warps_[i].pending[p];
            const std::uint32_t missing = pending.call.mask & warps_[i].live & ~pending.arrived;
            report.first = {int(i) * 32 + pending.first_lane, pending.site};
            report.calls = pending.path->calls();
            report.what += "; warp " + std::to_string(i) + " waits in " + name_of(pending.call.kind, pending.run) +
                           " for lanes " + hex(missing);
            if (missing) {
                const int absent = int(i) * 32 + std::countr_zero(missing);
                report.second = {absent, waits_at(absent)};
            }
        }
    const auto asleep = [&](int thread) { return fibers_[std::size_t(thread)].asleep_on != nullptr; };
    for (int thread = 0; thread < threads_; ++thread) {
        if (!asleep(thread)) continue;
        Witness& witness = report.first.thread < 0 ? report.first : report.second;
        const Fiber& fiber = fibers_[std::size_t(thread)];
        if (witness.thread < 0 &&
            (&witness == &report.first || fiber.asleep_on != fibers_[std::size_t(report.first.thread)].asleep_on))
            witness = {thread, fiber.asleep_at};
    }
    if (const std::string text = sleepers(); !text.empty()) {
        report.what += "; " + text;
        report.advice =
            "find out who should have arrived, in which phase: count the arrivals, the expected bytes and the parity "
            "of each turn on both sides, from the first one on";
    }
    if (at_barrier_ > 0) {
        report.what += "; " + std::to_string(at_barrier_) + " of " + std::to_string(threads_) + " threads wait at " +
                       call_of(barrier_kind_);
        if (report.first.thread < 0) {
            report.first = {first_at_barrier_, barrier_site_};
            report.calls = barrier_path_->calls();
        }
    }
    return report;
}

}  // namespace cpu
}  // namespace simt
