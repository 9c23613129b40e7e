#include "common/cli/trace/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

namespace ladder::cli {

std::vector<Rung> rungs_to_trace(const TraceChoice& choice) {
    if (choice.splits && choice.phase != 5)
        throw std::invalid_argument(
            fmt::format("--splits: phase {} splits nothing; only phase 5 takes it", choice.phase));
    RungInput input = random_input(choice.problem, torch::kCPU);
    input.splits = choice.splits;
    std::vector<Rung> rungs = rungs_of_phase(choice.phase, input);
    if (choice.kernel.empty()) return rungs;
    std::string names;
    for (const Rung& rung : rungs) names += (names.empty() ? "" : ", ") + rung.kernel;
    std::erase_if(rungs, [&](const Rung& rung) { return rung.kernel != choice.kernel; });
    if (rungs.empty())
        throw std::invalid_argument(
            fmt::format("--kernel: phase {} has no {}; it has {}", choice.phase, choice.kernel, names));
    return rungs;
}

TracedRun trace_rung(const Rung& rung, const TraceChoice& choice, const simt::TraceLog::Wanted& wanted) {
    TracedRun run{.phase = rung.phase, .kernel = rung.kernel, .problem = choice.problem, .splits = choice.splits};
    for (const auto& [name, tensor] : rung.inputs) run.shapes.emplace_back(name, tensor.sizes().vec());
    const simt::LaunchLog counted;
    const simt::TraceLog traced(wanted);
    try {
        run.against_reference = rung.check(rung.run());
        if (!run.against_reference->passed) run.words = run.against_reference->report;
    } catch (const simt::MachineError& error) {
        run.fault = error.report();
        run.words = error.what();
    } catch (const simt::LaunchError& refused) {
        run.words = refused.what();
    } catch (const std::invalid_argument& refused) {
        run.words = refused.what();
    }
    run.launches.assign(traced.launches().begin(), traced.launches().end());
    for (const simt::LaunchRecord& record : counted.records()) run.instances.push_back(record.instance);
    return run;
}

}  // namespace ladder::cli
