#pragma once

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

/// The command that starts this program once more, with the same arguments.
std::vector<std::string> own_command();

/// Runs a command, a program's path and its arguments, as a process for each rank on this machine, and waits until all
/// have ended. The program finds out that it is a rank as under torchrun, by place_in_environment(). The board is kept
/// here, so that it outlives every rank; when one ends the others can read there how. Once one has failed, the others
/// have `grace` to notice; whoever then still runs is killed. Should this process itself be killed, the ranks are too
/// (on Linux).
///
/// Ranks are programs of their own, and not forks of this one, since neither CUDA nor threads survive that.
///
/// Returns how each ended, by rank; with exit status 127 where there is no such program. Throws std::runtime_error
/// where no process can be started.
std::vector<RankEnd> launch_ranks(const std::vector<std::string>& command, int ranks, Patience grace);

/// On a rank: leaves `words` for whoever launched it. Does not throw.
void say_last_words(Board& board, int rank, const std::string& words) noexcept;

/// Which rank failed first, and how, in a line: that which others blame, or whose own words say what went wrong.
std::string what_failed(const std::vector<RankEnd>& ends);

}  // namespace ladder::distributed
