#pragma once

#include <functional>
#include <string>
#include <vector>

#include "common/distributed/group.h"

namespace ladder::distributed {

/// How a rank's process ended.
struct RankEnd {
    int exit_status = 0;     ///< 0 if it went well, and where a signal ended it
    int signal = 0;          ///< that ended it; 0 if none did
    bool abandoned = false;  ///< it did not end when others had failed, and was killed
    std::string last_words;  ///< what it told through say_last_words()

    /// Whether all is well.
    bool well() const { return exit_status == 0 && signal == 0; }
};

/// Runs `rank` in a process for each rank, on this machine, with the environment that torchrun would give it (see
/// Place), and waits until all have ended. What it returns is the process's exit status. The board is kept here, so
/// that it outlives every rank; when one ends the others can read there how. Once one has failed, the others have
/// `grace` to notice; whoever then still runs is killed. Should this process itself be killed, the ranks are too (on
/// Linux).
///
/// The processes are forked: this one must not have used CUDA, nor have other threads.
///
/// Returns how each ended, by rank. Throws std::runtime_error where no process can be started.
std::vector<RankEnd> launch_ranks(const std::function<int()>& rank, int ranks, Patience grace);

/// On a rank: leaves `words` for whoever launched it. Does not throw.
void say_last_words(Board& board, int rank, const std::string& words) noexcept;

/// Which rank failed first, and how, in a line: that which others blame, or whose own words say what went wrong.
std::string what_failed(const std::vector<RankEnd>& ends);

}  // namespace ladder::distributed
