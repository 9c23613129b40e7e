#include "common/classroom/judge/warden.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

namespace ladder::classroom {
namespace {

// Below this line everything runs in a copy of a process that may have had other threads: system calls alone.

constexpr unsigned kApart = CLONE_NEWPID | CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS;

/// fork() that takes flags.
pid_t copy(unsigned flags) { return pid_t(::syscall(SYS_clone, flags | SIGCHLD, nullptr, nullptr, nullptr, nullptr)); }

/// Where the descriptors of either process begin, for a while: above all those that they will have.
constexpr int kAside = 16;

void close_from(int first) {
    if (::syscall(SYS_close_range, first, ~0U, 0U) == 0) return;
    const long most = ::sysconf(_SC_OPEN_MAX);  // Linux before 5.9
    for (int descriptor = first; descriptor < most; ++descriptor) ::close(descriptor);
}

/// Makes `from` 0, 1, 2, …, and closes the others.
template <std::size_t N>
bool keep_only(const std::array<int, N>& from) {
    std::array<int, N> aside;
    for (std::size_t n = 0; n < N; ++n)
        if ((aside[n] = ::fcntl(from[n], F_DUPFD, kAside)) < 0) return false;
    for (std::size_t n = 0; n < N; ++n)
        if (::dup2(aside[n], int(n)) < 0) return false;
    close_from(int(N));
    return true;
}

bool limit(const Allowance& allowance) {
    const auto at = [](auto resource, rlim_t soft, rlim_t hard) {
        rlimit now{};
        if (::getrlimit(resource, &now) != 0) return false;
        const rlimit both{std::min(soft, now.rlim_max), std::min(hard, now.rlim_max)};
        return ::setrlimit(resource, &both) == 0;
    };
    const auto seconds = rlim_t(allowance.processor.count());
    constexpr rlim_t kFiles = 16;  // which the program's own libraries are; it closes that door itself
    constexpr rlim_t kStack = 8 << 20;
    return at(RLIMIT_CPU, seconds, seconds + 1) && at(RLIMIT_AS, allowance.memory, allowance.memory) &&
           at(RLIMIT_FSIZE, 0, 0) && at(RLIMIT_CORE, 0, 0) && at(RLIMIT_NOFILE, kFiles, kFiles) &&
           at(RLIMIT_STACK, kStack, kStack) && at(RLIMIT_MEMLOCK, 0, 0) && at(RLIMIT_MSGQUEUE, 0, 0);
}

/// `name` is what the program sees as its own. It is executed from its descriptor: root without its capabilities, as it
/// is in a namespace of users, may not get through the folders that lead to it.
[[noreturn]] void become(int program, const char* name, const std::array<int, 4>& d, const Allowance& allowance) {
    constexpr int kProgram = 4;
    ::signal(SIGPIPE, SIG_DFL);
    char* const arguments[] = {const_cast<char*>(name), nullptr};
    char* const environment[] = {nullptr};
    if (keep_only(std::array{d[0], d[1], d[2], d[3], program}) && ::fcntl(kProgram, F_SETFD, FD_CLOEXEC) == 0 &&
        ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && limit(allowance))
        ::syscall(SYS_execveat, kProgram, "", arguments, environment, AT_EMPTY_PATH);
    ::_exit(127);
}

/// As the first process of its namespace it is sent to its end by the judge alone, and all others go with it.
[[noreturn]] void guard(int program, const char* name, const std::array<int, 4>& descriptors, int status,
                        const Allowance& allowance) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
    ::setsid();
    const pid_t ward = copy(0);
    if (ward == 0) become(program, name, descriptors, allowance);
    keep_only(std::array{status});
    int end = 127 << 8;
    for (int other = 0; ward > 0;) {
        const pid_t ended = ::waitpid(-1, &other, 0);
        if (ended == ward) end = other;
        if (ended == ward || (ended < 0 && errno != EINTR)) break;
    }
    [[maybe_unused]] const ssize_t written = ::write(0, &end, sizeof(end));
    ::kill(0, SIGKILL);  // where there is no namespace: the group that is left
    ::_exit(0);
}

}  // namespace

pid_t start_under_warden(const std::string& program, const std::array<int, 4>& descriptors, int status,
                         const Allowance& allowance) {
    const int file = ::open(program.c_str(), O_PATH | O_CLOEXEC);
    if (file < 0) throw std::system_error(errno, std::generic_category(), program);
    pid_t warden = copy(kApart);
    if (warden < 0) warden = copy(0);  // containers often forbid namespaces
    const int error = errno;
    if (warden == 0) guard(file, program.c_str(), descriptors, status, allowance);
    ::close(file);
    if (warden < 0) throw std::system_error(error, std::generic_category(), "a process could not be had");
    return warden;
}

}  // namespace ladder::classroom
