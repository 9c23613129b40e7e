#pragma once

#include <chrono>
#include <string>

#include "common/classroom/wire.h"

namespace ladder::classroom {

/// How a runner ended.
struct RunnerEnd {
    /// What came of waiting for it.
    enum class Kind {
        replied,    ///< with a message that bears the problem's token
        silent,     ///< it ended, and left no such message
        crashed,    ///< by a signal
        timed_out,  ///< it was still running, and was ended
    };
    Kind kind = Kind::silent;  ///< in which way
    Message reply = {};        ///< if it replied
    std::string detail = {};   ///< "segmentation fault", "exit code 3"; empty if it replied
    std::string printed = {};  ///< the beginning of what it wrote to standard output and standard error
};

/// Starts the program, gives it the problem and waits for its reply, for `limit` at most. The program is in a process
/// group of its own, which is ended with it. Throws std::system_error if it cannot be started.
RunnerEnd call_runner(const std::string& program, Message problem, std::chrono::milliseconds limit);

}  // namespace ladder::classroom
