#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "common/attention/machine.h"
#include "common/cli/fuzz.h"
#include "common/records/compact.h"

namespace ladder::cli {
namespace {

using Json = nlohmann::ordered_json;  // keeps the order in which things are written

Json to_json(const fuzz::Entry& entry, const fuzz::Tally& tally) {
    return {{"phase", entry.phase},
            {"entry", entry.name},
            {"problems", tally.problems},
            {"refused_too_large", tally.too_large},
            {"refused_bad_calls", tally.bad_calls},
            {"failures", tally.failures},
            {"largest_share_of_bound", tally.largest_share},
            {"closest_to_bound", tally.closest},
            {"seconds", tally.seconds}};
}

Json to_json(const fuzz::Request& request, const fuzz::Entry& entry, const fuzz::Finding& finding) {
    const fuzz::Shrunk& smallest = finding.smallest;
    return {{"entry", entry.name},
            {"kind", smallest.outcome.kind},
            {"problem", finding.number},
            {"drawn", fuzz::describe(finding.drawn)},
            {"smallest", fuzz::describe(smallest.problem)},
            {"shrinking_finished", smallest.finished},
            {"repeats", smallest.repeats},
            {"report", smallest.outcome.report},
            {"rerun", rerun_command(request, finding.number)},
            {"test", finding.test}};
}

}  // namespace

void write_json(const fuzz::Request& request, const fuzz::Result& result, const std::string& file) {
    const std::vector<fuzz::Entry> entries = fuzz_entries();
    const char* commit = std::getenv("LADDER_COMMIT");
    Json json = {{"commit", commit ? commit : "unknown"},
                 {"device", request.device.is_cuda() ? "cuda" : "cpu"},
                 {"device_name", request.device.is_cuda() ? device_limits(request.device).name : "CPU machine"},
                 {"seed", request.seed},
                 {"first_problem", request.first},
                 {"problems", result.problems},
                 {"failures", result.failures},
                 {"seconds", result.seconds},
                 {"broken_off", result.broken_off},
                 {"entries", Json::array()},
                 {"findings", Json::array()}};
    for (std::size_t i = 0; i < entries.size(); ++i)
        if (result.tallies[i].seconds > 0) json["entries"].push_back(to_json(entries[i], result.tallies[i]));
    for (const fuzz::Finding& finding : result.findings)
        json["findings"].push_back(to_json(request, entries[finding.entry], finding));
    std::ofstream stream(file);
    stream << compact_text(json);
    if (!stream.flush())
        throw std::runtime_error("--json: \"" + file + "\" cannot be written; name a file in a folder that exists");
}

}  // namespace ladder::cli
