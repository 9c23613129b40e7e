#include "common/cli/trace/run.h"

#include <stdexcept>

namespace ladder::cli {

TracedRun trace_rung(const Rung& rung, const simt::TraceLog::Wanted& wanted) {
    TracedRun run{.phase = rung.phase, .kernel = rung.kernel};
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
