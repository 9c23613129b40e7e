#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "common/cli/tour.h"

namespace ladder::cli {
namespace {

using Json = nlohmann::ordered_json;  // keeps the order in which things are written

// An error of NaN or infinity is a finding too, but JSON has no number for it.
Json number(double value) {
    if (std::isfinite(value)) return value;
    return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
}

Json to_json(const simt::LaunchRecord& launch) {
    Json json = {{"kernel", launch.kernel},
                 {"grid", launch.grid},
                 {"block", launch.block},
                 {"shared_bytes_per_block", launch.shared_bytes_per_block}};
    if (!launch.counted) return json;
    const simt::Counters& c = launch.counters;
    json["shared_memory"] = {{"bytes_read", c.shared_bytes_read},
                             {"bytes_written", c.shared_bytes_written},
                             {"requests", c.shared_requests},
                             {"wavefronts", c.shared_wavefronts},
                             {"wavefronts_without_conflicts", c.shared_wavefronts_ideal}};
    json["block_barriers"] = c.block_barriers;
    json["warp_collectives"] = c.warp_collectives;
    for (const simt::TensorTraffic& t : c.tensors)
        json["global_memory"][t.tensor] = {{"bytes_read", t.bytes_read},
                                           {"bytes_written", t.bytes_written},
                                           {"sectors_read", t.sectors_read},
                                           {"sectors_written", t.sectors_written}};
    return json;
}

Json to_json(const RungResult& r) {
    Json shapes = Json::object();
    for (const auto& [name, sizes] : r.shapes) shapes[name] = sizes;
    Json launches = Json::array();
    for (const simt::LaunchRecord& launch : r.launches) launches.push_back(to_json(launch));
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
    std::ofstream stream(file);
    stream << json.dump(2) << '\n';
    if (!stream.flush())
        throw std::runtime_error("--json: \"" + file + "\" cannot be written; name a file in a folder that exists");
}

}  // namespace ladder::cli
