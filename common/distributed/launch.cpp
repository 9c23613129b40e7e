#include "common/distributed/launch.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <thread>
#include <utility>

namespace ladder::distributed {

namespace {

constexpr Patience kBetweenLooks(20);

std::string last_words(int rank) { return "last_words/" + std::to_string(rank); }

/// A rank's process, which waits to hear where the board is.
struct Process {
    pid_t id = 0;
    int told_through = -1;  ///< a pipe's end
};

/// In the process of a rank: never returns.
[[noreturn]] void be_rank(int rank, int ranks, int told_through, const std::function<int()>& body) {
    int port = 0;
    if (read(told_through, &port, sizeof port) != sizeof port) _exit(EXIT_FAILURE);
    const std::map<std::string, std::string> environment = {{"RANK", std::to_string(rank)},
                                                            {"LOCAL_RANK", std::to_string(rank)},
                                                            {"WORLD_SIZE", std::to_string(ranks)},
                                                            {"LOCAL_WORLD_SIZE", std::to_string(ranks)},
                                                            {"MASTER_ADDR", "127.0.0.1"},
                                                            {"MASTER_PORT", std::to_string(port)},
                                                            {"TORCHELASTIC_USE_AGENT_STORE", "True"}};
    for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
    const int status = body();
    std::fflush(nullptr);
    _exit(status);  // what the parent wants done at its end is not the rank's to do
}

Process start(int rank, int ranks, const std::function<int()>& body) {
    int ends[2];
    if (pipe(ends) != 0) throw std::runtime_error(std::string("no pipe can be made: ") + std::strerror(errno));
    std::fflush(nullptr);
    const pid_t parent = getpid(), child = fork();
    if (child < 0) throw std::runtime_error(std::string("no process can be started: ") + std::strerror(errno));
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(ends[1]);
        if (getppid() != parent) _exit(EXIT_FAILURE);
        be_rank(rank, ranks, ends[0], body);
    }
    close(ends[0]);
    return {.id = child, .told_through = ends[1]};
}

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

std::vector<RankEnd> launch_ranks(const std::function<int()>& rank_body, int ranks, Patience grace) {
    using Clock = std::chrono::steady_clock;
    std::map<pid_t, int> running;
    std::vector<int> listening;
    for (int rank = 0; rank < ranks; ++rank) {
        const Process process = start(rank, ranks, rank_body);
        running[process.id] = rank;
        listening.push_back(process.told_through);
    }
    int port = 0;
    const std::shared_ptr<Board> board = board_kept_here(port);  // has a thread, which fork() would not copy
    for (const int pipe : listening) {
        [[maybe_unused]] const ssize_t written = write(pipe, &port, sizeof port);  // a rank that ended is seen below
        close(pipe);
    }
    std::vector<RankEnd> ends(ranks);
    auto deadline = Clock::time_point::max();
    while (!running.empty()) {
        for (auto process = running.begin(); process != running.end();) {
            int status = 0;
            if (waitpid(process->first, &status, WNOHANG) == 0) {
                ++process;
                continue;
            }
            RankEnd& end = ends[process->second];
            if (WIFSIGNALED(status)) end.signal = WTERMSIG(status);
            if (WIFEXITED(status)) end.exit_status = WEXITSTATUS(status);
            if (!end.well() && !end.abandoned) deadline = std::min(deadline, Clock::now() + grace);
            board->put(note_of_a_rank_that_ended(process->second), how(end));
            process = running.erase(process);
        }
        if (Clock::now() > deadline) {
            for (const auto& [process, rank] : running) {
                ends[rank].abandoned = true;
                kill(process, SIGKILL);
            }
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
