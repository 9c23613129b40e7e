#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/rung/rung.h"
#include "common/simt/report/machine_error.h"
#include "common/simt/report/trace.h"

namespace ladder::cli {

/// One entry's run as it was traced, right or wrong.
struct TracedRun {
    int phase = 0;
    std::string kernel;      ///< the entry
    std::string title = {};  ///< of the phase
    std::string dtype = {};
    bool causal = false;
    std::optional<std::int64_t> splits = {};
    std::vector<std::pair<std::string, std::vector<std::int64_t>>> shapes = {};
    std::vector<simt::LaunchTrace> launches = {};
    std::vector<std::string> instances = {};                      ///< of the launches that ended well
    std::optional<simt::MachineError::Report> fault = {};         ///< the machine's diagnosis
    std::string words = {};                                       ///< the diagnosis, or why the entry refused, as text
    std::optional<reference::Comparison> against_reference = {};  ///< absent where the run did not end

    bool right() const { return against_reference && against_reference->passed; }
    bool refused() const { return !against_reference && !fault; }  ///< by the entry or by the device

    /// "right", "wrong" by its result, "diagnosed" by the machine, or "refused".
    const char* verdict() const {
        return right() ? "right" : fault ? "diagnosed" : against_reference ? "wrong" : "refused";
    }
};

/// Runs the rung on the CPU machine and keeps what it did. A wrong kernel is a finding: its trace ends where the
/// machine diagnosed it.
TracedRun trace_rung(const Rung& rung, const simt::TraceLog::Wanted& wanted);

}  // namespace ladder::cli
