#include "common/distributed/launch.h"

#include <linux/close_range.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <thread>
#include <utility>

#include "common/distributed/place.h"

namespace ladder::distributed {
namespace {

constexpr Patience kBetweenLooks(20);
constexpr int kNoProgram = 127;  // as shells say that there is none

std::string last_words(int rank) { return "last_words/" + std::to_string(rank); }

/// As C has it: the strings, and a null pointer after them.
std::vector<char*> pointers_to(std::vector<std::string>& strings) {
    std::vector<char*> pointers;
    for (std::string& string : strings) pointers.push_back(string.data());
    pointers.push_back(nullptr);
    return pointers;
}

/// This process's environment, and over it a rank's place.
std::vector<std::string> environment_of(int rank, int ranks, int port) {
    const std::map<std::string, std::string> place = {{"RANK", std::to_string(rank)},
                                                      {"LOCAL_RANK", std::to_string(rank)},
                                                      {"WORLD_SIZE", std::to_string(ranks)},
                                                      {"LOCAL_WORLD_SIZE", std::to_string(ranks)},
                                                      {"MASTER_ADDR", "127.0.0.1"},
                                                      {"MASTER_PORT", std::to_string(port)},
                                                      {"TORCHELASTIC_USE_AGENT_STORE", "True"},
                                                      {kHeardByLauncher, "True"}};
    std::vector<std::string> all;
    for (char** variable = environ; *variable; ++variable) {
        const std::string text = *variable;
        if (!place.contains(text.substr(0, text.find('=')))) all.push_back(text);
    }
    for (const auto& [name, value] : place) all.push_back(name + '=' + value);
    return all;
}

/// The ranks' processes. Whoever still runs at the end is killed.
class Processes {
  public:
    Processes() = default;
    Processes(const Processes&) = delete;
    Processes& operator=(const Processes&) = delete;
    ~Processes() {
        kill_all();
        for (const auto& [process, rank] : running_) waitpid(process, nullptr, 0);
    }

    /// Between fork() and execve() a child may only call what is safe in a signal handler: it has the locks of threads
    /// that it does not have.
    void start(int rank, std::vector<std::string> command, std::vector<std::string> environment) {
        const std::vector<char*> argv = pointers_to(command), envp = pointers_to(environment);
        std::fflush(nullptr);
        const pid_t parent = getpid(), child = fork();
        if (child < 0)
            throw std::runtime_error("no process can be started for rank " + std::to_string(rank) + ": " +
                                     std::strerror(errno));
        if (child == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            setpgid(0, 0);  // where one of a group has stopped, the end of a shell may hang up on all the others
            close_range(STDERR_FILENO + 1, ~0u, CLOSE_RANGE_CLOEXEC);  // the board's sockets are not the rank's
            if (getppid() == parent) execve(argv[0], argv.data(), envp.data());
            _exit(kNoProgram);
        }
        running_[child] = rank;
    }

    bool none() const { return running_.empty(); }

    /// Takes off those that have ended: their ranks, with what waitpid() said of each.
    std::vector<std::pair<int, int>> ended() {
        std::vector<std::pair<int, int>> ended;
        for (auto process = running_.begin(); process != running_.end();) {
            int status = 0;
            if (waitpid(process->first, &status, WNOHANG) == 0) {
                ++process;
                continue;
            }
            ended.emplace_back(process->second, status);
            process = running_.erase(process);
        }
        return ended;
    }

    /// Kills whoever still runs, and returns their ranks.
    std::vector<int> kill_all() {
        std::vector<int> killed;
        for (const auto& [process, rank] : running_) {
            kill(process, SIGKILL);
            killed.push_back(rank);
        }
        return killed;
    }

  private:
    std::map<pid_t, int> running_;
};

std::string how(const RankEnd& end) {
    if (end.signal) return "was killed by signal " + std::to_string(end.signal) + " (" + strsignal(end.signal) + ")";
    return "ended with exit status " + std::to_string(end.exit_status);
}

}  // namespace

void say_last_words(Board& board, int rank, const std::string& words) noexcept {
    try {
        board.put(last_words(rank), words);
    } catch (const std::exception&) {  // nobody is left to hear them
    }
}

std::vector<std::string> own_command() {
    std::ifstream file("/proc/self/cmdline", std::ios::binary);
    std::vector<std::string> command;
    for (std::string argument; std::getline(file, argument, '\0');) command.push_back(argument);
    if (command.empty()) throw std::runtime_error("this program's arguments cannot be read in /proc/self/cmdline");
    command.front() = "/proc/self/exe";  // found from any folder, under any name
    return command;
}

std::vector<RankEnd> launch_ranks(const std::vector<std::string>& command, int ranks, Patience grace) {
    using Clock = std::chrono::steady_clock;
    int port = 0;
    const std::shared_ptr<Board> board = board_kept_here(port);
    Processes processes;
    for (int rank = 0; rank < ranks; ++rank) processes.start(rank, command, environment_of(rank, ranks, port));
    std::vector<RankEnd> ends(ranks);
    auto deadline = Clock::time_point::max();
    while (!processes.none()) {
        for (const auto& [rank, status] : processes.ended()) {
            RankEnd& end = ends[rank];
            if (WIFSIGNALED(status)) end.signal = WTERMSIG(status);
            if (WIFEXITED(status)) end.exit_status = WEXITSTATUS(status);
            if (!end.well() && !end.abandoned) deadline = std::min(deadline, Clock::now() + grace);
            board->put(note_of_a_rank_that_ended(rank), how(end));
        }
        if (Clock::now() > deadline) {
            for (const int rank : processes.kill_all()) ends[rank].abandoned = true;
            deadline = Clock::time_point::max();
        }
        std::this_thread::sleep_for(kBetweenLooks);
    }
    for (int rank = 0; rank < ranks; ++rank)
        ends[rank].last_words = board->look(last_words(rank), Patience(0)).value_or("");
    return ends;
}

std::string what_failed(const std::vector<RankEnd>& ends) {
    std::map<std::string, int> said;
    for (const RankEnd& end : ends)
        if (!end.well() && !end.last_words.empty()) ++said[end.last_words];
    if (!said.empty()) return std::ranges::max_element(said, {}, &std::pair<const std::string, int>::second)->first;
    for (std::size_t rank = 0; rank < ends.size(); ++rank)
        if (!ends[rank].well()) return "rank " + std::to_string(rank) + " " + how(ends[rank]);
    return {};
}

}  // namespace ladder::distributed
