#include "common/simt/machine/worker_watch.h"

#include <execinfo.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cmath>
#include <cstddef>
#include <memory>
#include <optional>
#include <utility>

#include "common/simt/machine/block.h"
#include "common/simt/memory/sanitizers.h"

namespace simt {
inline namespace cpu {
namespace {

// Of the timers. It is ignored by default, by debuggers too; so one that comes late, or finds that somebody has taken
// our handler away, harms nobody. (Go interrupts its threads with it for the same reasons.)
constexpr int kTick = SIGURG;

/// What a kernel's mistakes raise.
constexpr std::array<int, 3> kFaults = {SIGSEGV, SIGBUS, SIGFPE};

/// The handlers that were there before.
std::array<std::pair<int, struct sigaction>, kFaults.size() + 1> before;

void pass_on(int signal, siginfo_t* info, void* context) {
    struct sigaction usual {};
    for (const auto& [of, action] : before)
        if (of == signal) usual = action;
    if (usual.sa_flags & SA_SIGINFO) return usual.sa_sigaction(signal, info, context);
    const bool is_default = usual.sa_handler == SIG_DFL || usual.sa_handler == SIG_IGN;
    if (!is_default) return usual.sa_handler(signal);
    if (signal == kTick) return;
    // Nobody else cares. The instruction is met again when this returns, and ends the program as if we had not been;
    // a signal that somebody sent is sent again.
    ::sigaction(signal, &usual, nullptr);
    if (info->si_code <= 0) ::raise(signal);
}

/// A timer of the calling OS thread: of the processor's time that it takes.
class Ticker {
  public:
    Ticker() {
        sigevent event{};
        event.sigev_notify = SIGEV_THREAD_ID;
        event.sigev_signo = kTick;
        event.sigev_value.sival_ptr = &before;
        event._sigev_un._tid = ::gettid();
        // Without a timer, where the system has none to spare, meetings are still counted.
        if (timer_t timer; ::timer_create(CLOCK_THREAD_CPUTIME_ID, &event, &timer) == 0) timer_ = timer;
        of_this_thread = this;
    }
    ~Ticker() {
        of_this_thread = nullptr;
        if (timer_) ::timer_delete(*timer_);
    }
    Ticker(const Ticker&) = delete;
    Ticker& operator=(const Ticker&) = delete;

    /// Ticks each so many seconds. To set the timer takes as long as a small launch, so it goes on after the launch,
    /// until it finds no block twice.
    void keep_on(double seconds) {
        ticks_without_block_ = 0;
        if (seconds_ == seconds || !timer_) return;
        set(seconds);
    }

    /// In the handler of its signal.
    void tick(Block* block, void* context) {
        if (block) {
            ticks_without_block_ = 0;
            block->tick(context);
        } else if (++ticks_without_block_ == 2) {
            set(0);
        }
    }

    [[gnu::tls_model("initial-exec")]] static inline constinit thread_local Ticker* of_this_thread = nullptr;

  private:
    void set(double seconds) {
        seconds_ = seconds;
        const double whole = std::floor(seconds);
        const timespec time{.tv_sec = static_cast<time_t>(whole),
                            .tv_nsec = static_cast<long>((seconds - whole) * 1e9)};
        const itimerspec times{.it_interval = time, .it_value = time};
        ::timer_settime(*timer_, 0, &times, nullptr);
    }

    std::optional<timer_t> timer_;
    std::atomic<double> seconds_ = 0;
    std::atomic<int> ticks_without_block_ = 0;
};

void handle(int signal, siginfo_t* info, void* context) {
    const int error = errno;
    Block* const block = Block::running();
    if (signal == kTick && info->si_code == SI_TIMER && info->si_value.sival_ptr == &before) {
        if (Ticker* const ticker = Ticker::of_this_thread) ticker->tick(block, context);
    } else if (!(signal != kTick && info->si_code > 0 && block && block->take_signal(signal, *info, context))) {
        pass_on(signal, info, context);
    }
    errno = error;
}

void handle_from_now_on(int signal, std::size_t place) {
    struct sigaction action {};
    action.sa_sigaction = handle;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
    sigemptyset(&action.sa_mask);
    before[place].first = signal;
    ::sigaction(signal, nullptr, &before[place].second);
    ::sigaction(signal, &action, nullptr);
}

/// For the rest of the program: a signal may still be on its way when the launch that it concerns has ended.
bool install_handlers() {
    std::array<void*, 1> calls;
    ::backtrace(calls.data(), int(calls.size()));  // the first time it opens a library, which no handler may
    std::size_t place = 0;
    handle_from_now_on(kTick, place);
    // A sanitizer has handlers of its own, which say more than we could.
    if (!kHasSanitizer)
        for (const int signal : kFaults) handle_from_now_on(signal, ++place);
    return true;
}

/// What an OS thread has for its signals.
class SignalEquipment {
  public:
    SignalEquipment() {
        [[maybe_unused]] static const bool once = install_handlers();
        // A thread whose own stack is used up handles that on another one.
        const stack_t ours{.ss_sp = stack_.get(), .ss_flags = 0, .ss_size = kStackBytes};
        if (!kHasSanitizer) ::sigaltstack(&ours, nullptr);
        sigset_t tick;
        sigemptyset(&tick);
        sigaddset(&tick, kTick);
        ::pthread_sigmask(SIG_UNBLOCK, &tick, nullptr);
    }
    ~SignalEquipment() {
        stack_t now{};
        if (::sigaltstack(nullptr, &now) != 0 || now.ss_sp != stack_.get()) return;
        const stack_t none{.ss_sp = nullptr, .ss_flags = SS_DISABLE, .ss_size = 0};
        ::sigaltstack(&none, nullptr);
    }
    SignalEquipment(const SignalEquipment&) = delete;
    SignalEquipment& operator=(const SignalEquipment&) = delete;

    void tick_every(double seconds) { ticker_.keep_on(seconds); }

  private:
    static constexpr std::size_t kStackBytes = 64 << 10;  // vector registers alone may take 20 KiB
    std::unique_ptr<std::byte[]> stack_ = std::make_unique_for_overwrite<std::byte[]>(kStackBytes);
    Ticker ticker_;
};

SignalEquipment& equipment() {
    static thread_local SignalEquipment of_this_thread;
    return of_this_thread;
}

}  // namespace

double WorkerWatch::tick_seconds(const Budget& budget) { return std::clamp(budget.seconds / 8, 0.004, 0.25); }

int WorkerWatch::ticks_of(const Budget& budget) {
    return int(std::min(std::ceil(budget.seconds / tick_seconds(budget)), 2e9));
}

WorkerWatch::WorkerWatch(const Budget& budget) {
    if (kHidesMachine) return;  // ThreadSanitizer hands signals on at times of its own, with a copy of the context
    equipment().tick_every(budget.seconds > 0 ? tick_seconds(budget) : 0);
}

}  // namespace cpu
}  // namespace simt
