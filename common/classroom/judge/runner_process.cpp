#include "common/classroom/judge/runner_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <random>
#include <system_error>
#include <utility>

#include "common/classroom/judge/warden.h"

namespace ladder::classroom {
namespace {

constexpr std::size_t kPrintedBytesKept = 4096;
constexpr std::size_t kPrintedBytesMost = 1 << 20;
constexpr std::size_t kWordsBytesMost = 8 << 20;  // of a reply: what a few hundred launches and a diagnosis take
constexpr int kPatience = 5;                      // times the limit may pass on a machine that has others to serve
constexpr std::size_t kMemory = std::size_t{3} << 30;

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

/// What a runner writes to one of its descriptors, as far as somebody wants it.
class Incoming {
  public:
    Incoming(Descriptor from, std::size_t most) : from_(std::move(from)), most_(most) {
        ::fcntl(from_.number(), F_SETFL, O_NONBLOCK);
    }

    /// Reads what is there; closes the descriptor at its end.
    void take() {
        std::array<std::byte, 65536> piece;
        while (from_.is_open() && seen_ <= most_) {
            const ssize_t got = ::read(from_.number(), piece.data(), piece.size());
            if (got < 0 && errno == EINTR) continue;
            if (got < 0 && errno == EAGAIN) return;
            if (got <= 0) return from_.close();
            const std::size_t room = most_ - std::min(most_, bytes_.size());
            bytes_.insert(bytes_.end(), piece.begin(), piece.begin() + std::min(room, std::size_t(got)));
            seen_ += std::size_t(got);
        }
    }

    pollfd awaited() const { return {from_.number(), POLLIN, 0}; }
    bool is_too_much() const { return seen_ > most_; }
    const std::vector<std::byte>& bytes() const { return bytes_; }

  private:
    Descriptor from_;
    std::size_t most_, seen_ = 0;
    std::vector<std::byte> bytes_;
};

std::size_t largest_reply(const nlohmann::json& problem) {
    std::size_t bytes = kWordsBytesMost;
    for (const nlohmann::json& output : problem.at("outputs")) {
        std::size_t of_output = sizeof(float);
        for (const nlohmann::json& extent : output.at("extents")) of_output *= extent.get<std::size_t>();
        bytes += of_output;
    }
    return std::min<std::size_t>(bytes, kLargestMessage);
}

RunnerEnd late_after(std::chrono::milliseconds limit) {
    return {.kind = RunnerEnd::Kind::timed_out,
            .detail = "still running after " + std::to_string(limit.count() / 1000) + " s"};
}

RunnerEnd ended_by(int signal, std::chrono::milliseconds limit) {
    if (signal == SIGSYS) return {.kind = RunnerEnd::Kind::forbidden};
    if (signal == SIGXCPU || signal == SIGKILL) return late_after(limit);
    return {.kind = RunnerEnd::Kind::crashed, .detail = ::strsignal(signal)};
}

}  // namespace

RunnerEnd call_runner(const std::string& program, Message problem, std::chrono::milliseconds limit) {
    const std::string token = fresh_token();
    problem.words["token"] = token;
    const std::vector<std::byte> request = encode(problem);

    Pipe in = make_pipe(), reply_pipe = make_pipe(), out = make_pipe(), ended = make_pipe();
    const Allowance allowance{.processor = std::chrono::ceil<std::chrono::seconds>(limit), .memory = kMemory};
    const pid_t warden = start_under_warden(
        program, {in.read.number(), out.write.number(), out.write.number(), reply_pipe.write.number()},
        ended.write.number(), allowance);
    for (Descriptor* theirs : {&in.read, &reply_pipe.write, &out.write, &ended.write}) theirs->close();
    ::fcntl(in.write.number(), F_SETFL, O_NONBLOCK);
    ::signal(SIGPIPE, SIG_IGN);

    Incoming reply(std::move(reply_pipe.read), largest_reply(problem.words));
    Incoming printed(std::move(out.read), kPrintedBytesMost);
    std::size_t sent = 0;
    std::optional<int> status;
    const auto deadline = std::chrono::steady_clock::now() + kPatience * limit;
    bool late = false;
    while (!status && !late && !reply.is_too_much() && !printed.is_too_much()) {
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
        if (left.count() <= 0) {
            late = true;
            break;
        }
        std::array<pollfd, 4> waiting{reply.awaited(), printed.awaited(), pollfd{in.write.number(), POLLOUT, 0},
                                      pollfd{ended.read.number(), POLLIN, 0}};
        if (::poll(waiting.data(), waiting.size(), int(left.count())) < 0 && errno != EINTR) fail("poll");
        if (waiting[0].revents) reply.take();
        if (waiting[1].revents) printed.take();
        if (waiting[2].revents) {
            const ssize_t written = ::write(in.write.number(), request.data() + sent, request.size() - sent);
            if (written > 0) sent += std::size_t(written);
            if (sent == request.size() || (written < 0 && errno != EAGAIN && errno != EINTR)) in.write.close();
        }
        if (int said = 0; waiting[3].revents) {
            if (::read(ended.read.number(), &said, sizeof(said)) == sizeof(said))
                status = said;
            else if (errno != EINTR)
                status = SIGKILL;  // the warden itself was ended
        }
    }
    ::kill(warden, SIGKILL);
    ::kill(-warden, SIGKILL);  // where there are no namespaces, its group
    while (::waitpid(warden, nullptr, 0) < 0)
        if (errno != EINTR) fail("waitpid");
    reply.take();
    printed.take();

    RunnerEnd end;
    if (auto message = decode(reply.bytes());
        message && message->words.contains("token") && message->words["token"] == token) {
        end.kind = RunnerEnd::Kind::replied;
        end.reply = std::move(*message);
    } else if (late) {
        end = late_after(limit);
    } else if (printed.is_too_much()) {
        end.detail = "it printed without end: more than " + std::to_string(kPrintedBytesMost >> 20) + " MiB";
    } else if (reply.is_too_much()) {
        end.detail = "its reply was larger than any reply can be";
    } else if (status && WIFSIGNALED(*status)) {
        end = ended_by(WTERMSIG(*status), limit);
    } else {
        end.detail = status && WIFEXITED(*status) ? "exit code " + std::to_string(WEXITSTATUS(*status)) : "no reply";
    }
    const std::size_t kept = std::min(kPrintedBytesKept, printed.bytes().size());
    end.printed.assign(reinterpret_cast<const char*>(printed.bytes().data()), kept);
    return end;
}

}  // namespace ladder::classroom
