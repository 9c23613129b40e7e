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
#include <fstream>
#include <random>
#include <sstream>
#include <system_error>
#include <utility>

#include "common/classroom/judge/warden.h"

namespace ladder::classroom {
namespace {

constexpr std::size_t kPrintedBytesKept = 4096;
constexpr std::size_t kPrintedBytesMost = 1 << 20;
constexpr std::size_t kWordsBytesMost = 8 << 20;  // of a reply: what a few hundred launches and a diagnosis take
constexpr int kPatience = 5;                      // times the limit a program may take that sleeps
constexpr int kStarved = 15;                      // times the limit the clock may take on a busy machine
constexpr std::chrono::milliseconds kLookAgain{250};
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

/// What a program under a warden takes of the clock: all that passes while it sleeps, and otherwise what it gets of a
/// processor. That others have the processor is the machine's doing.
class OwnTime {
  public:
    explicit OwnTime(pid_t warden) : warden_(std::to_string(warden)) {}

    std::chrono::milliseconds of_the_clock() const {
        return std::chrono::floor<std::chrono::milliseconds>(std::chrono::steady_clock::now() - begun_);
    }

    /// To be asked now and then while the program is there.
    std::chrono::milliseconds taken() {
        const std::chrono::milliseconds now = of_the_clock();
        if (now - looked_at_ >= kLookAgain) {
            const auto [is_ready, had] = look();
            taken_ += is_ready ? std::max(had - had_, std::chrono::milliseconds(0)) : now - looked_at_;
            looked_at_ = now;
            had_ = had;
        }
        return taken_ + (now - looked_at_);
    }

  private:
    struct Look {
        bool is_ready;                  ///< to run, or running
        std::chrono::milliseconds had;  ///< of a processor, up to now
    };

    Look look() const {
        std::string program, line;
        std::ifstream("/proc/" + warden_ + "/task/" + warden_ + "/children") >> program;
        std::getline(std::ifstream("/proc/" + (program.empty() ? warden_ : program) + "/stat"), line);
        const std::size_t name_ends = line.rfind(") ");  // the name may be anything
        if (name_ends == std::string::npos) return {false, had_};
        std::istringstream words(line.substr(name_ends + 2));
        std::string state, word;
        std::int64_t of_program = 0, of_system = 0;
        words >> state;
        for (int n = 0; n < 10; ++n) words >> word;
        words >> of_program >> of_system;
        return {state == "R", std::chrono::milliseconds((of_program + of_system) * 1000 / ::sysconf(_SC_CLK_TCK))};
    }

    std::string warden_;
    std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
    std::chrono::milliseconds looked_at_{0}, had_{0}, taken_{0};
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

RunnerEnd ended_by(int signal, std::chrono::milliseconds limit, std::chrono::milliseconds taken) {
    if (signal == SIGSYS) return {.kind = RunnerEnd::Kind::forbidden};
    if (signal == SIGKILL && taken < limit)
        return {.kind = RunnerEnd::Kind::starved, .detail = "something ended it, as a system does that lacks memory"};
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
    OwnTime time(warden);
    const auto is_over = [&] { return time.taken() >= kPatience * limit || time.of_the_clock() >= kStarved * limit; };
    while (!status && !reply.is_too_much() && !printed.is_too_much() && !is_over()) {
        std::array<pollfd, 4> waiting{reply.awaited(), printed.awaited(), pollfd{in.write.number(), POLLOUT, 0},
                                      pollfd{ended.read.number(), POLLIN, 0}};
        if (::poll(waiting.data(), waiting.size(), int(kLookAgain.count())) < 0 && errno != EINTR) fail("poll");
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
    const std::chrono::milliseconds taken = time.taken();
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
    } else if (printed.is_too_much()) {
        end.detail = "it printed without end: more than " + std::to_string(kPrintedBytesMost >> 20) + " MiB";
    } else if (reply.is_too_much()) {
        end.detail = "its reply was larger than any reply can be";
    } else if (status && WIFSIGNALED(*status)) {
        end = ended_by(WTERMSIG(*status), limit, taken);
    } else if (status) {
        end.detail = WIFEXITED(*status) ? "exit code " + std::to_string(WEXITSTATUS(*status)) : "no reply";
    } else if (taken >= kPatience * limit) {
        end = late_after(limit);
    } else {
        end = {.kind = RunnerEnd::Kind::starved,
               .detail = "it waited for a processor most of " + std::to_string(kStarved * limit.count() / 1000) + " s"};
    }
    end.taken = taken;
    const std::size_t kept = std::min(kPrintedBytesKept, printed.bytes().size());
    end.printed.assign(reinterpret_cast<const char*>(printed.bytes().data()), kept);
    return end;
}

}  // namespace ladder::classroom
