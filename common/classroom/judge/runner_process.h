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
        forbidden,  ///< by the system: it asked for something that its sandbox does not have
        timed_out,  ///< it was still running, and was ended
        starved,    ///< the machine ended it, or gave it no processor for too long
    };
    Kind kind = Kind::silent;            ///< in which way
    Message reply = {};                  ///< if it replied
    std::string detail = {};             ///< "segmentation fault", "exit code 3"; empty if it replied
    std::string printed = {};            ///< the beginning of what it wrote to standard output and standard error
    std::chrono::milliseconds taken{0};  ///< of a processor, and of the clock while it slept
};

/// Starts the program, gives it the problem and waits for its reply, until it has used `limit` of the processor's time,
/// or prints without end. A program that sleeps is ended after some times as much, and one that gets no processor after
/// some times more. Nothing of it is left when this returns; see warden.h.
/// Throws std::system_error if it cannot be started.
RunnerEnd call_runner(const std::string& program, Message problem, std::chrono::milliseconds limit);

}  // namespace ladder::classroom
