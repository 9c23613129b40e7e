#include <cmath>

#include "common/cli/launch_json.h"
#include "common/cli/tour.h"

namespace ladder::cli {
namespace {

// An error of NaN or infinity is a finding too, but JSON has no number for it.
Json number(double value) {
    if (std::isfinite(value)) return value;
    return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
}

Json to_json(const RungResult& r) {
    Json shapes = Json::object();
    for (const auto& [name, sizes] : r.shapes) shapes[name] = sizes;
    Json launches = Json::array();
    for (const simt::LaunchRecord& launch : r.launches) launches.push_back(json_of(launch));
    return {{"phase", r.phase},
            {"kernel", r.kernel},
            {"changes", r.changes},
            {"shapes", shapes},
            {"dtype", r.dtype},
            {"passed", r.passed},
            {"max_abs_error", number(r.max_abs_error)},
            {"bound", number(r.bound)},
            {"report", r.report},
            {"global_bytes_read", r.global_bytes_read},
            {"global_bytes_written", r.global_bytes_written},
            {"global_bytes_source", r.bytes_counted ? "counted" : "formula"},
            {"shared_bytes_per_block", r.shared_bytes_per_block},
            {"blocks", r.blocks},
            {"threads_per_block", r.threads_per_block},
            {"busy_multiprocessors", r.busy_multiprocessors},
            {"multiprocessors", r.multiprocessors},
            {"milliseconds", r.milliseconds},
            {"timed_runs", r.timed_runs},
            {"launches", launches}};
}

}  // namespace

void write_json(const TourResult& result, const std::string& file) {
    Json json = {{"commit", result.commit},
                 {"device", result.device},
                 {"device_name", result.device_name},
                 {"profile", result.profile.empty() ? Json() : Json(result.profile)},
                 {"input", result.input},
                 {"passed", result.passed()},
                 {"phases", Json::array()}};
    for (const RungResult& r : result.rungs) json["phases"].push_back(to_json(r));
    write_json(json, file);
}

}  // namespace ladder::cli
