#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/cli/profile.h"
#include "common/simt/machine_error.h"
#include "common/simt/trace.h"

namespace ladder::cli {

/// What to trace: the rungs of one phase, or one of them, on random tensors.
struct TraceChoice {
    int phase = 0;
    std::string kernel = {};  ///< an entry's name; empty: all of the phase
    ProfileProblem problem{.heads = 1};
    std::optional<std::int64_t> splits = {};  ///< of phase 5; chosen from the problem if absent
};

/// One entry's run as it was traced, right or wrong.
struct TracedRun {
    int phase = 0;
    std::string kernel;  ///< the entry
    ProfileProblem problem;
    std::optional<std::int64_t> splits;
    std::vector<std::pair<std::string, std::vector<std::int64_t>>> shapes;
    std::vector<simt::LaunchTrace> launches;
    std::vector<std::string> instances;                      ///< of the launches that ended well
    std::optional<simt::MachineError::Report> fault;         ///< the machine's diagnosis
    std::string words;                                       ///< the diagnosis, or why the entry refused, as text
    std::optional<reference::Comparison> against_reference;  ///< absent where the run did not end

    bool right() const { return against_reference && against_reference->passed; }
    bool refused() const { return !against_reference && !fault; }  ///< by the entry or by the device

    /// "right", "wrong" by its result, "diagnosed" by the machine, or "refused".
    const char* verdict() const {
        return right() ? "right" : fault ? "diagnosed" : against_reference ? "wrong" : "refused";
    }
};

/// The rungs that `choice` names, ready to run. Throws std::invalid_argument where it names none.
std::vector<Rung> rungs_to_trace(const TraceChoice& choice);

/// Runs the rung on the CPU machine and keeps what it did. A wrong kernel is a finding: its trace ends where the
/// machine diagnosed it.
TracedRun trace_rung(const Rung& rung, const TraceChoice& choice, const simt::TraceLog::Wanted& wanted);

}  // namespace ladder::cli
