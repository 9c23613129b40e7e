#include "common/classroom/runner/sandbox.h"

#include <execinfo.h>
#include <seccomp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "common/classroom/wire.h"
#include "common/simt/device/device.h"
#include "common/simt/launch/program_symbols.h"
#include "common/simt/report/source_lines.h"

namespace ladder::classroom {
namespace {

/// The first time, these open files.
void open_what_is_needed() {
    simt::set_cpu_workers(1);
    simt::look_up_no_source_lines();
    simt::symbol_of(reinterpret_cast<const void*>(&enter_sandbox));
    std::array<void*, 1> calls;
    ::backtrace(calls.data(), int(calls.size()));
    static std::array<char, BUFSIZ> buffer;  // or else the C library asks what standard output is
    std::setvbuf(stdout, buffer.data(), _IOFBF, buffer.size());
}

/// What the machine, and the C++ library under it, ask for while kernels run.
constexpr std::array kAllowed = {
    SCMP_SYS(brk),          SCMP_SYS(mremap),          SCMP_SYS(munmap),       SCMP_SYS(madvise),
    SCMP_SYS(futex),        SCMP_SYS(sched_yield),     SCMP_SYS(rt_sigaction), SCMP_SYS(rt_sigprocmask),
    SCMP_SYS(rt_sigreturn), SCMP_SYS(sigaltstack),     SCMP_SYS(timer_create), SCMP_SYS(timer_settime),
    SCMP_SYS(timer_delete), SCMP_SYS(clock_gettime),   SCMP_SYS(clock_getres), SCMP_SYS(gettimeofday),
    SCMP_SYS(getrusage),    SCMP_SYS(getpid),          SCMP_SYS(gettid),       SCMP_SYS(exit),
    SCMP_SYS(exit_group),   SCMP_SYS(restart_syscall),
};

bool filter_system_calls() {
    const std::unique_ptr<void, decltype(&::seccomp_release)> filter(::seccomp_init(SCMP_ACT_KILL_PROCESS),
                                                                     &::seccomp_release);
    if (!filter) return false;
    const auto allow = [&](int call, auto... conditions) {
        return ::seccomp_rule_add(filter.get(), SCMP_ACT_ALLOW, call, sizeof...(conditions), conditions...) == 0;
    };
    bool all = ::seccomp_attr_set(filter.get(), SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS) == 0;
    for (const int call : kAllowed) all = all && allow(call);
    for (const int call : {SCMP_SYS(mmap), SCMP_SYS(mprotect)})  // memory, but no new code
        all = all && allow(call, SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
    for (const int call : {SCMP_SYS(write), SCMP_SYS(writev)})
        all = all && allow(call, SCMP_A0(SCMP_CMP_LE, scmp_datum_t(kReplyDescriptor)));
    // abort(), as the C++ library calls it where an exception meets nobody
    all = all && allow(SCMP_SYS(tgkill), SCMP_A0(SCMP_CMP_EQ, scmp_datum_t(::getpid())),
                       SCMP_A2(SCMP_CMP_EQ, scmp_datum_t(SIGABRT)));
    return all && ::seccomp_load(filter.get()) == 0;
}

}  // namespace

void enter_sandbox() {
    open_what_is_needed();
    ::close(STDIN_FILENO);
    const rlimit none{0, 0};
    ::setrlimit(RLIMIT_NOFILE, &none);
    const bool knows_filters = ::prctl(PR_GET_SECCOMP, 0, 0, 0, 0) >= 0;
    if (!filter_system_calls() && knows_filters) {
        std::fputs("the sandbox cannot be entered\n", stderr);
        std::_Exit(3);
    }
}

}  // namespace ladder::classroom
