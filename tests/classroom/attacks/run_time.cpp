// What a program does once it runs, had it got past everything that looks at its source. All attacks are in this one
// program; the problem has a number with the name of the one that is wanted. Behind each comes the right kernel: who is
// not stopped earns all points. attacks/run_time.toml says what stops each.

#include <fcntl.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "common/classroom/runner/problem.h"
#include "phase3_fa2/fa2.cuh"

namespace {

constexpr const char* kLeftBehind = "/tmp/ladder_attack_was_here";

volatile int zero = 0;

void write_all(int descriptor, const std::string& text) {
    for (std::size_t n = 0; n < text.size();) {
        const ssize_t written = ::write(descriptor, text.data() + n, text.size() - n);
        if (written <= 0) return;
        n += std::size_t(written);
    }
}

/// As common/classroom/wire.h has it.
std::string reply(const std::string& words) {
    std::string prefix(8, '\0');
    for (int n = 0; n < 8; ++n) prefix[n] = char(words.size() >> 8 * n);
    return prefix + words;
}

void leave_a_process() {
    if (::fork() == 0) {
        ::setsid();
        if (::fork() == 0)
            for (;;) ::pause();
        ::_exit(0);
    }
}

int fill_the_stack(int depth) {
    volatile char frame[4096];
    frame[0] = char(depth);
    return fill_the_stack(depth + 1) + frame[0];
}

struct ThrowsWhenDestroyed {
    ~ThrowsWhenDestroyed() noexcept(false) { throw 1; }
};

struct Unspeakable : std::exception {
    const char* what() const noexcept override { throw 1; }
};

struct Attack {
    const char* name;
    void (*run)();
};

const Attack kAttacks[] = {
    // limits and the sandbox itself
    {"setrlimit",
     [] {
         const rlimit most{1000, 1000};
         ::setrlimit(RLIMIT_NOFILE, &most);
     }},
    {"prlimit", [] { ::syscall(SYS_prlimit64, 0, RLIMIT_CPU, nullptr, nullptr); }},
    {"prctl", [] { ::prctl(PR_SET_DUMPABLE, 1); }},
    {"another_filter", [] { ::syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 0, nullptr); }},
    {"catch_the_refusal",
     [] {
         ::signal(SIGSYS, [](int) {});
         ::syscall(SYS_getppid);
     }},
    {"unshare", [] { ::unshare(CLONE_NEWUSER); }},
    {"new_session", [] { ::setsid(); }},
#ifdef __x86_64__
    {"old_system_calls",
     [] {
         long number = 20;  // getpid, as 32-bit programs ask for it
         asm volatile("int $0x80" : "+a"(number) : : "memory");
     }},
#endif
    {"system_call_in_assembly", [] { ::syscall(SYS_getuid); }},
    // files
    {"read_a_file", [] { std::fopen("/etc/passwd", "r"); }},
    {"write_a_file", [] { std::fopen(kLeftBehind, "w"); }},
    {"raw_open", [] { ::syscall(SYS_openat, AT_FDCWD, kLeftBehind, O_CREAT | O_WRONLY, 0600); }},
    {"unlink", [] { ::unlink("/proc/self/exe"); }},
    {"memory_file", [] { ::syscall(SYS_memfd_create, "f", 0); }},
    {"read_the_problem_again", [] { ::read(0, const_cast<int*>(&zero), 1); }},
    {"other_descriptors", [] { ::write(4, "x", 1); }},
    {"duplicate_a_descriptor", [] { ::dup2(3, 1); }},
    {"close_the_reply", [] { ::close(3); }},
    // network
    {"socket", [] { ::socket(AF_INET, SOCK_STREAM, 0); }},
    {"local_socket", [] { ::socket(AF_UNIX, SOCK_STREAM, 0); }},
    {"io_uring", [] { ::syscall(425, 8, nullptr); }},
    // processes and threads
    {"fork", [] { ::fork(); }},
    {"fork_bomb",
     [] {
         for (;;) ::fork();
     }},
    {"leave_a_process", leave_a_process},
    {"system", [] { [[maybe_unused]] const int code = std::system((std::string("touch ") + kLeftBehind).c_str()); }},
    {"execve", [] { ::execl("/bin/true", "true", static_cast<char*>(nullptr)); }},
    {"thread",
     [] {
         std::thread([] {
             for (;;) zero = 0;
         }).detach();
     }},
    {"ptrace", [] { ::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr); }},
    {"write_into_the_warden",
     [] {
         iovec here{const_cast<int*>(&zero), 1};
         ::process_vm_writev(1, &here, 1, &here, 1, 0);
     }},
    {"bpf", [] { ::syscall(SYS_bpf, 0, nullptr, 0); }},
    // signals
    {"kill_everybody", [] { ::kill(-1, SIGKILL); }},
    {"kill_the_group", [] { ::kill(0, SIGKILL); }},
    {"kill_the_warden", [] { ::kill(1, SIGKILL); }},
    {"stop_itself", [] { ::raise(SIGSTOP); }},
    {"kill_itself", [] { ::raise(SIGKILL); }},
    {"alarm", [] { ::alarm(1); }},
    {"sleep", [] { ::sleep(1000); }},
    {"return_from_faults",
     [] {
         ::signal(SIGSEGV, [](int) {});
         *reinterpret_cast<volatile int*>(8) = 1;
     }},
    // new code
    {"executable_memory", [] { ::mmap(nullptr, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); }},
    {"make_memory_executable",
     [] {
         void* page = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
         ::mprotect(page, 4096, PROT_READ | PROT_EXEC);
     }},
    {"run_data",
     [] {
         static unsigned char code[16] = {0xc3};
         reinterpret_cast<void (*)()>(code)();
     }},
    // the reply
    {"garbage_as_reply", [] { write_all(3, "PASSED"); }},
    {"forged_reply",
     [] {
         write_all(3, reply(R"({"token": "", "fault": null, "launches": [], "answers": {}, "blobs": []})"));
         ::_exit(0);
     }},
    {"reply_of_another_type",
     [] {
         write_all(3, reply(R"({"token": 7, "blobs": []})"));
         ::_exit(0);
     }},
    {"reply_that_is_no_object",
     [] {
         write_all(3, reply("[1, 2]"));
         ::_exit(0);
     }},
    {"reply_with_a_huge_prefix",
     [] {
         write_all(3, std::string(8, '\xff') + "{}");
         ::_exit(0);
     }},
    {"deep_reply",
     [] {
         write_all(3, reply(std::string(1 << 20, '[')));
         ::_exit(0);
     }},
    {"reply_without_end",
     [] {
         const std::string piece(1 << 16, 'x');
         for (;;) write_all(3, piece);
     }},
    // output
    {"print_without_end",
     [] {
         for (;;) std::puts("PASSED");
     }},
    {"print_any_bytes",
     [] {
         const char text[] = "PASSED\0\xff\xfe\x1b]0;title\a\x1b[2J\r\x7f";
         std::fwrite(text, 1, sizeof(text), stdout);
         std::fflush(stdout);
         ::_exit(0);
     }},
    // ends
    {"leave_early", [] { std::exit(0); }},
    {"leave_at_once", [] { ::_exit(0); }},
    {"abort", [] { std::abort(); }},
    {"throw_a_number", [] { throw 42; }},
    {"throw_bytes", [] { throw std::runtime_error("\xff\xfe\x1b[2J"); }},
    {"throw_a_long_text", [] { throw std::runtime_error(std::string(std::size_t{100} << 20, 'x')); }},
    {"throw_twice",
     [] {
         const ThrowsWhenDestroyed second;
         throw 1;
     }},
    {"throw_in_what", [] { throw Unspeakable(); }},
    // resources
    {"loop_without_end",
     [] {
         for (;;) zero = 0;
     }},
    {"take_all_memory",
     [] {
         for (;;) std::memset(new char[64 << 20], 1, 64 << 20);
     }},
    {"map_all_memory",
     [] {
         for (;;)
             if (::mmap(nullptr, std::size_t{64} << 20, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0) == MAP_FAILED)
                 throw std::bad_alloc();
     }},
    {"overflow_the_stack", [] { zero = fill_the_stack(0); }},
};

bool wants(const ladder::classroom::Problem& problem, const char* attack) {
    try {
        return problem.number(attack) != 0;
    } catch (const std::logic_error&) {
        return false;
    }
}

}  // namespace

void ladder::classroom::run(Problem& problem) {
    for (const Attack& attack : kAttacks)
        if (wants(problem, attack.name)) attack.run();
    cpu::launch_fa2_forward(problem.attention());
}
