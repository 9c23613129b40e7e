#include "common/classroom/judge/runner_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <random>
#include <system_error>
#include <utility>

namespace ladder::classroom {
namespace {

constexpr std::size_t kPrintedBytes = 4096;

[[noreturn]] void fail(const char* what) { throw std::system_error(errno, std::generic_category(), what); }

class Descriptor {
  public:
    Descriptor() = default;
    explicit Descriptor(int number) : number_(number) {}
    ~Descriptor() { close(); }
    Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
    Descriptor& operator=(Descriptor&& other) noexcept {
        std::swap(number_, other.number_);
        return *this;
    }
    int number() const { return number_; }
    bool is_open() const { return number_ >= 0; }
    void close() {
        if (is_open()) ::close(std::exchange(number_, -1));
    }

  private:
    int number_ = -1;
};

struct Pipe {
    Descriptor read, write;
};

Pipe make_pipe() {
    std::array<int, 2> ends;
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) fail("pipe");
    return {Descriptor(ends[0]), Descriptor(ends[1])};
}

/// What nobody can guess who was not told.
std::string fresh_token() {
    std::random_device random;
    std::string token;
    for (int n = 0; n < 4; ++n) token += std::to_string(random()) + ".";
    return token;
}

/// Reads what is there; closes the descriptor at its end.
void take(Descriptor& from, std::vector<std::byte>& into, std::size_t most) {
    std::array<std::byte, 65536> piece;
    const ssize_t got = ::read(from.number(), piece.data(), piece.size());
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) return;
    if (got <= 0) return from.close();
    const std::size_t room = most - std::min(most, into.size());
    into.insert(into.end(), piece.begin(), piece.begin() + std::min(room, std::size_t(got)));
}

}  // namespace

RunnerEnd call_runner(const std::string& program, Message problem, std::chrono::milliseconds limit) {
    const std::string token = fresh_token();
    problem.words["token"] = token;
    const std::vector<std::byte> request = encode(problem);

    Pipe in = make_pipe(), reply = make_pipe(), out = make_pipe();
    const pid_t child = ::fork();
    if (child < 0) fail("fork");
    if (child == 0) {
        ::setpgid(0, 0);
        // The copies do not close on exec; a descriptor that has its number already needs to be told so.
        const auto become = [](int from, int to) { return from == to ? ::fcntl(to, F_SETFD, 0) : ::dup2(from, to); };
        const int moved = ::fcntl(reply.write.number(), F_DUPFD, 10);  // out of the way of what comes next
        const bool ready = moved >= 0 && become(in.read.number(), 0) >= 0 && become(out.write.number(), 1) >= 0 &&
                           ::dup2(1, 2) >= 0 && ::dup2(moved, kReplyDescriptor) >= 0 && ::close(moved) == 0;
        if (ready) ::execl(program.c_str(), program.c_str(), static_cast<char*>(nullptr));
        ::_exit(127);
    }
    ::setpgid(child, child);
    in.read.close();
    reply.write.close();
    out.write.close();
    ::fcntl(in.write.number(), F_SETFL, O_NONBLOCK);
    ::signal(SIGPIPE, SIG_IGN);

    std::vector<std::byte> answered, printed;
    std::size_t sent = 0;
    const auto deadline = std::chrono::steady_clock::now() + limit;
    bool late = false;
    while (reply.read.is_open() || out.read.is_open()) {
        const auto left =
            std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
        if (left.count() <= 0) {
            late = true;
            break;
        }
        std::array<pollfd, 3> waiting{pollfd{reply.read.number(), POLLIN, 0}, pollfd{out.read.number(), POLLIN, 0},
                                      pollfd{in.write.number(), POLLOUT, 0}};
        if (::poll(waiting.data(), waiting.size(), int(left.count())) < 0 && errno != EINTR) fail("poll");
        if (waiting[0].revents) take(reply.read, answered, kLargestMessage);
        if (waiting[1].revents) take(out.read, printed, kPrintedBytes);
        if (waiting[2].revents) {
            const ssize_t written = ::write(in.write.number(), request.data() + sent, request.size() - sent);
            if (written > 0) sent += std::size_t(written);
            if (sent == request.size() || (written < 0 && errno != EAGAIN && errno != EINTR)) in.write.close();
        }
    }
    ::kill(-child, SIGKILL);  // a program that has replied has nothing left to do
    int status = 0;
    while (::waitpid(child, &status, 0) < 0)
        if (errno != EINTR) fail("waitpid");

    RunnerEnd end;
    end.printed.assign(reinterpret_cast<const char*>(printed.data()), printed.size());
    if (auto message = decode(answered); message && message->words.value("token", "") == token) {
        end.kind = RunnerEnd::Kind::replied;
        end.reply = std::move(*message);
    } else if (late) {
        end.kind = RunnerEnd::Kind::timed_out;
        end.detail = "still running after " + std::to_string(limit.count() / 1000) + " s";
    } else if (WIFSIGNALED(status) && WTERMSIG(status) != SIGKILL) {
        end.kind = RunnerEnd::Kind::crashed;
        end.detail = ::strsignal(WTERMSIG(status));
    } else {
        end.detail = WIFEXITED(status) ? "exit code " + std::to_string(WEXITSTATUS(status)) : "no reply";
    }
    return end;
}

}  // namespace ladder::classroom
