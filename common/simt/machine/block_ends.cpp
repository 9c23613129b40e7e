#include <cxxabi.h>
#include <dlfcn.h>
#include <execinfo.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <typeinfo>
#include <utility>
#include <vector>

#include "common/simt/machine/block.h"
#include "common/simt/machine/interrupted_context.h"
#include "common/simt/machine/worker_watch.h"
#include "common/simt/report/source_lines.h"

// How a block ends that would not end by itself, or would end the program: loops without end, signals, exceptions.

namespace simt {
inline namespace cpu {

namespace {

/// After so many ticks in which a block that is watched did nothing that can be seen, it never will.
constexpr int kQuietTicks = 2;

/// So many ticks are enough to see what a slow loop does.
constexpr int kTicksToLook = 8;

/// The file that the program loaded this code from, as its place in memory. Nothing for code that is in none.
const void* file_of(const void* code) {
    dl_find_object found;
    return _dl_find_object(const_cast<void*>(code), &found) == 0 ? found.dlfo_map_start : nullptr;
}

std::string hex(std::uintptr_t address) {
    std::array<char, 24> text;
    std::snprintf(text.data(), text.size(), "%#lx", static_cast<unsigned long>(address));
    return text.data();
}

/// "threads 0 to 31"
std::string threads_named(int first, int last) {
    return first == last ? "thread " + std::to_string(first)
                         : "threads " + std::to_string(first) + " to " + std::to_string(last);
}

/// The line of the innermost of these calls that has one: a library's own have none.
SourceSite line_of(const std::vector<std::uintptr_t>& calls) {
    constexpr std::size_t kDepth = 4;  // each takes its time
    for (const std::uintptr_t call : std::span(calls).first(std::min(kDepth, calls.size())))
        if (const std::vector<SourceLine>& lines = source_lines(call - 1); !lines.empty()) return lines.front().site;
    return {};
}

/// Where in the program an instruction of an unknown line stands.
std::string place_in_program(std::uintptr_t instruction) {
    Dl_info file{};
    if (!instruction || ::dladdr(reinterpret_cast<const void*>(instruction), &file) == 0 || !file.dli_fname) return "";
    const std::string path = file.dli_fname;
    // Programs at fixed addresses (-no-pie) are named by these.
    const auto base = reinterpret_cast<std::uintptr_t>(file.dli_fbase);
    return "the instruction is at " + hex(base == 0x400000 ? instruction : instruction - base) + " of " +
           path.substr(path.rfind('/') + 1) + ", which has no lines there: compile with -g1, and install addr2line";
}

std::string described(const std::exception& exception) {
    int status = 0;
    const std::unique_ptr<char, decltype(&std::free)> name(
        abi::__cxa_demangle(typeid(exception).name(), nullptr, nullptr, &status), &std::free);
    return std::string(name ? name.get() : "std::exception") + ", \"" + exception.what() + "\"";
}

std::string seconds_text(double seconds) {
    std::array<char, 32> text;
    std::snprintf(text.data(), text.size(), "%g", seconds);
    return text.data();
}

}  // namespace

void Block::keep_exception() {
    try {
        throw;
    } catch (const std::exception& exception) {
        thrown_ = described(exception);
    } catch (...) {
        thrown_ = "an exception of a type that is no std::exception";
    }
}

void Block::report_exception() {
    fail({.fault = Fault::exception,
          .first = {current_thread_, {}},
          .what = "thread " + std::to_string(current_thread_) + " throws " + thrown_ + since_barrier(),
          .advice =
              "device code has no exceptions: nvcc refuses throw and try in kernels. Check on the host before the "
              "launch, or let the kernel write what it found to global memory"});
}

void Block::note_half_full(int barrier, MachineError::Report report) {
    report.block = {index_.x, index_.y, index_.z};
    launch_->half_full.note_left(barrier, number_, std::move(report));
}

void Block::begin_to_look() {
    lookout_.begin();
    meetings_unwatched_ = 0;
    traffic.tell(*this);
}

void Block::hear(const AccessListener::Access& access) {
    if (lookout_.sees(access, threads_)) report_endless();
}

void Block::look_at_barrier() {
    if (!lookout_.has_begun()) begin_to_look();
    for (int thread = 0; thread < threads_; ++thread)
        lookout_.sees_at(thread, {Lookout::Place::Deed::meets, barrier_site_}, threads_);
    if (lookout_.sees_meeting()) report_endless();
}

void Block::look_at_sleeper(SourceSite site) {
    if (!lookout_.has_begun()) begin_to_look();
    lookout_.sees_at(current_thread_, {Lookout::Place::Deed::meets, site}, threads_);
    if (lookout_.sees_meeting()) report_endless();
}

void Block::look_at_collective(const Warp& w, const Pending& done) {
    if (!lookout_.has_begun()) begin_to_look();
    const int first = int(&w - warps_.data()) * 32;
    for (int lane = 0; lane < 32; ++lane)
        if (done.arrived >> lane & 1)
            lookout_.sees_at(first + lane, {Lookout::Place::Deed::meets, done.site}, threads_);
    if (lookout_.sees_meeting()) report_endless();
}

void Block::tick(void* context) {
    if (!in_kernel_) return;
    const int budget = WorkerWatch::ticks_of(launch_->budget);
    if (++ticks_ < budget) return;
    if (!lookout_.has_begun()) {
        begin_to_look();
        return;
    }
    quiet_ticks_ = lookout_.events() == events_at_tick_ ? quiet_ticks_ + 1 : 0;
    if (ticks_ > budget + kTicksToLook && quiet_ticks_ == 0) lookout_.hurry();
    events_at_tick_ = lookout_.events();
    if (quiet_ticks_ < kQuietTicks || kHasSanitizer) return;
    // Only out of the kernel's own code: a library may hold a lock that its next caller would wait for.
    const std::uintptr_t instruction = InterruptedContext(context).instruction();
    if (file_of(reinterpret_cast<const void*>(instruction)) == file_of(reinterpret_cast<const void*>(launch_->body)))
        leave_from_handler(0, 0, 0, context);
}

bool Block::take_signal(int signal, const siginfo_t& info, void* context) {
    if (!in_kernel_) return false;
    leave_from_handler(signal, info.si_code, reinterpret_cast<std::uintptr_t>(info.si_addr), context);
    return true;
}

void Block::leave_from_handler(int signal, int code, std::uintptr_t address, void* context) {
    InterruptedContext at(context);
    interruption_.signal = signal;
    interruption_.code = code;
    interruption_.address = address;
    interruption_.instruction = at.instruction();
    interruption_.stack = at.stack();
    interruption_.depth = ::backtrace(interruption_.calls.data(), int(interruption_.calls.size()));
    interrupted_ = true;
    in_kernel_ = false;
    at.switch_to(home_);
}

bool Block::has_begun(int thread) const {
    return thread == current_thread_ || fibers_[std::size_t(thread)].stack != unstarted_stack(stacks_.top_of(thread));
}

std::string Block::since_barrier() const {
    return barrier_site_.known() && at_barrier_ == 0 ? "; the last barrier of the block was at " + barrier_site_.text()
                                                     : "";
}

/// Where every thread is, those at one place together.
std::string Block::whereabouts() const {
    const auto of = [&](int thread) -> std::string {
        const Warp& w = warps_[std::size_t(thread / 32)];
        const std::uint32_t bit = 1u << thread % 32;
        if (!(w.live & bit)) return "returned";
        if (const Fiber& fiber = fibers_[std::size_t(thread)]; fiber.asleep_on)
            return "waiting for " + fiber.asleep_on->awaited() + " at " + fiber.asleep_at.text();
        if (thread != current_thread_ && !(w.runnable & bit)) {
            for (int p = 0; p < w.pending_count; ++p)
                if (w.pending[p].arrived & bit) return "waiting in a warp collective at " + w.pending[p].site.text();
            return "waiting at " + call_of(barrier_kind_) + " at " + barrier_site_.text();
        }
        if (!has_begun(thread)) return "not begun";
        const Lookout::Place place = lookout_.place(thread);
        switch (place.deed) {
            case Lookout::Place::Deed::reads:
                return "last seen to read at " + place.site.text();
            case Lookout::Place::Deed::writes:
                return "last seen to write at " + place.site.text();
            case Lookout::Place::Deed::meets:
                return "last seen to meet others at " + place.site.text();
            case Lookout::Place::Deed::unseen:
                break;
        }
        return thread == current_thread_ ? "running, where the machine sees nothing of it" : "ready to go on";
    };
    constexpr int kGroups = 12;
    std::string text, doing = of(0);
    int first = 0, groups = 0;
    for (int thread = 1; thread <= threads_; ++thread) {
        std::string next = thread < threads_ ? of(thread) : "";
        if (next == doing) continue;
        if (++groups > kGroups) return text + "; …";
        text += (text.empty() ? "" : "; ") + threads_named(first, thread - 1) + ": " + doing;
        first = thread;
        doing = std::move(next);
    }
    return text;
}

MachineError::Report Block::endless_report() const {
    const Budget& budget = launch_->budget;
    const std::string me = "thread " + std::to_string(current_thread_);
    const Lookout::Place here = lookout_.place(current_thread_);
    MachineError::Report report{.fault = Fault::endless, .first = {current_thread_, here.site}};
    const bool by_meetings = budget.meetings && meetings_ >= budget.meetings;
    report.what = by_meetings ? "after " + std::to_string(budget.meetings) + " meetings of its threads"
                              : "after " + seconds_text(budget.seconds) + " s of the processor's time";
    report.what += " the block is not at its end: ";
    if (lookout_.has_seen_one_read()) {
        const AccessListener::Access& read = lookout_.last_access();
        const bool shared_memory = read.tensor == AccessListener::kShared;
        report.what += me + " reads " +
                       (shared_memory ? shared.element_name(read.address, current_thread_)
                                      : global_element_name(read.tensor, std::uintptr_t(read.address))) +
                       " over and over, waiting for another value";
        report.advice =
            shared_memory
                ? "who is to write it has no turn: a thread runs alone until it meets others. On a GPU too a wait in a "
                  "loop is a race; let __syncthreads(), or __syncwarp() inside a warp, order the write before the read"
                : "who is to write it may not have begun: blocks run in any order, and some begin only when others "
                  "have "
                  "ended, here and on a GPU. Let a barrier order threads of one block; what waits for another block "
                  "belongs into a launch of its own";
    } else if (lookout_.has_seen_meetings()) {
        report.what += "its threads go round a loop and meet in it";
    } else if (lookout_.events() > 0) {
        report.what += me + " goes round a loop in which it meets nobody";
    } else {
        report.what += me + " goes round a loop in which it touches no tensor or tile and meets nobody";
    }
    report.what += since_barrier() + ". " + whereabouts();
    if (report.advice.empty()) report.advice = "look at what the loop counts, and where it stops";
    report.advice +=
        std::string(". A block that only takes long gets ") +
        (by_meetings ? "more with LADDER_BLOCK_MEETINGS=<number>" : "more with LADDER_BLOCK_SECONDS=<number>") +
        " in the environment; 0 sets no limit";
    for (int thread = 0; thread < threads_ && report.second.thread < 0; ++thread) {
        const Warp& w = warps_[std::size_t(thread / 32)];
        if (thread != current_thread_ && (w.live & ~w.runnable) >> thread % 32 & 1)
            report.second = {thread, waits_at(thread)};
    }
    return report;
}

void Block::report_endless() { fail(endless_report()); }

/// What an address that the kernel has no memory at is close to.
std::string Block::near(std::uintptr_t address) const {
    constexpr std::uintptr_t kNull = 64 << 10, kClose = 16 << 20;
    if (address < kNull)
        return address == 0 ? "it is null" : "it is null, with an offset of " + std::to_string(address) + " bytes";
    if (const std::optional<int> owner = stacks_.fiber_at(address))
        return "it lies on the stack of thread " + std::to_string(*owner) + ", outside of what that thread has";
    if (const std::optional<NearView> close = nearest_view(address); close && close->distance < kClose) {
        const std::string name = tensor_name(close->view.tensor);
        if (close->distance == 0 && only_views_reach_tensors())
            return "it lies in " + name +
                   ", whose memory only a view of that tensor reaches, under the tensor's own name";
        if (close->distance == 0) return "it lies in " + name + ", whose memory is no longer there";
        return "it lies " + std::to_string(close->distance) + " bytes " + (close->below ? "before" : "behind") +
               " the tensor " + name;
    }
    const auto begin = reinterpret_cast<std::uintptr_t>(shared.data());
    const std::uintptr_t end = begin + shared.bytes();
    if (shared.bytes() && address >= end && address - end < kClose)
        return "it lies " + std::to_string(address - end) + " bytes behind the block's shared memory";
    if (shared.bytes() && address < begin && begin - address < kClose)
        return "it lies " + std::to_string(begin - address) + " bytes before the block's shared memory";
    return "nothing that the kernel was given lies near it: freed, or never set?";
}

MachineError::Report Block::report_of(const Interruption& at) const {
    const std::string me = "thread " + std::to_string(current_thread_);
    MachineError::Report report;
    if (at.signal == 0) {
        report = endless_report();
    } else {
        report.first = {current_thread_, {}};
        const auto bottom = reinterpret_cast<std::uintptr_t>(stacks_.bottom_of(current_thread_));
        const std::uintptr_t guard_end = bottom, top = bottom + stacks_.usable_bytes();
        const std::optional<int> owner = at.signal == SIGFPE ? std::nullopt : stacks_.fiber_at(at.address);
        const bool own_guard = owner == current_thread_ && at.address < guard_end;
        const bool pointer_left_stack = at.stack < bottom || at.stack >= top;
        if (at.signal == SIGFPE) {
            report.fault = Fault::exception;
            report.what = me + (at.code == FPE_INTDIV ? " divides an integer by zero, or the least one by -1"
                                                      : " raises an arithmetic exception of the processor");
            report.advice =
                "a GPU raises nothing, and goes on with a number that means nothing: let no divisor be zero";
        } else if (own_guard || pointer_left_stack) {
            report.fault = Fault::stack_overflow;
            report.what = me + " has used up its stack of " + std::to_string(stacks_.usable_bytes() >> 10) + " KiB";
            report.advice = "CUDA allows a thread " + std::to_string(FiberStacks::kLocalBytes >> 10) +
                            " KiB of local memory, for its arrays and its calls: make local arrays smaller, or put "
                            "them into tiles; a recursion must come to an end";
        } else {
            report.fault = Fault::stray_pointer;
            // The processor does not say which address it was when it is none at all.
            report.what =
                me + (at.code == SI_KERNEL ? " follows a pointer to an address that no memory can have"
                                           : " follows a pointer to " + hex(at.address) + ": " + near(at.address));
            report.advice =
                "the pointer was never set, or is to memory that was freed, or an index took it too far. Tensors and "
                "tiles check their indices, raw pointers and arrays do not";
        }
        report.what += since_barrier();
    }
    // Above the handler's own calls lies what was interrupted: no address to return to, but one to go on at.
    const auto* const begin = at.calls.begin();
    const auto* const end = begin + at.depth;
    const auto* const interrupted = std::find(begin, end, reinterpret_cast<void*>(at.instruction));
    if (at.instruction) report.calls.push_back(at.instruction + 1);
    for (const auto* call = interrupted == end ? end : interrupted + 1; call != end; ++call)
        report.calls.push_back(reinterpret_cast<std::uintptr_t>(*call));
    if (!report.first.site.known()) report.first.site = line_of(report.calls);
    if (!report.first.site.known())
        if (const std::string place = place_in_program(at.instruction); !place.empty()) report.what += "; " + place;
    return report;
}

}  // namespace cpu
}  // namespace simt
