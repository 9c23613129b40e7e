#pragma once

#include <string>
#include <vector>

#include "common/cli/launch_json.h"
#include "common/cli/ring/plan.h"
#include "common/cli/ring/recorder.h"
#include "common/distributed/place.h"

namespace ladder::cli::ring {

/// What one rank has of one method.
struct MethodRun {
    std::string method;
    std::string objection;          ///< why it did not run; empty if it did
    std::int64_t bytes_sent = 0;    ///< in one run, forward and, where asked for, backward
    double seconds = 0;             ///< of one run: the median of a few turns
    std::int64_t peak_bytes = 0;    ///< of its GPU's memory, the most that a run had beside its inputs; 0 elsewhere
    double error = 0, allowed = 0;  ///< of the rows that were checked, the worst
    bool right = false;
    std::string report = {};         ///< where it is wrong
    std::vector<Event> events = {};  ///< of one more run, where a trace is asked for
};

/// What one rank has of everything.
struct RankRun {
    std::string device;        ///< "CPU machine", or the GPU's name
    std::string kernel;        ///< which attention() takes
    double alone_seconds = 0;  ///< of its kernel on its own part of Q, K and V, with the same kind of mask
    std::vector<MethodRun> methods;
};

/// Runs the plan as one rank, and returns what all ranks have. Throws distributed::RankError and whatever methods
/// throw.
std::vector<RankRun> run_as(const distributed::Place& place, const std::shared_ptr<distributed::Board>& board,
                            const Plan& plan, const RingDemo& demo);

}  // namespace ladder::cli::ring
