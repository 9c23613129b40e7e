#include "common/cli/profile_json.h"

#include <cmath>
#include <cstdlib>

#include "common/attention/machine.h"
#include "common/cli/launch_json.h"

namespace ladder::cli {
namespace {

template <class T>
Json or_null(const std::optional<T>& value) {
    return value ? Json(*value) : Json();
}

Json json_of(const simt::Occupancy& o) {
    return {{"resident_blocks", o.resident_blocks},
            {"resident_warps", o.resident_warps},
            {"max_warps", o.max_warps},
            {"fraction", o.fraction()},
            {"limiter", simt::name_of(o.limiter)},
            {"blocks_by_threads", o.blocks_by_threads},
            {"blocks_by_slots", o.blocks_by_slots},
            {"blocks_by_shared_memory", o.blocks_by_shared_memory},
            {"blocks_by_registers", o.blocks_by_registers}};
}

Json json_of(const LaunchProfile& profile) {
    Json json = cli::json_of(profile.launch);
    json["launches"] = profile.count;
    json["blocks"] = profile.launch.blocks();
    json["registers_per_thread"] = or_null(profile.registers);
    json["registers_source"] = profile.registers ? Json(profile.registers_source) : Json();
    if (profile.occupancy) {
        json["occupancy"] = json_of(*profile.occupancy);
        json["waves"] = profile.waves;
    }
    return json;
}

Json json_of(const RungProfile& rung) {
    Json json = {{"phase", rung.phase},
                 {"kernel", rung.kernel},
                 {"shapes", rung.shapes},
                 {"dtype", torch::toString(rung.dtype)},
                 {"refusal", rung.ran() ? Json() : Json(rung.refusal)},
                 {"flops", rung.flops},
                 {"bytes_by_formula", {{"read", rung.formula.read}, {"written", rung.formula.written}}},
                 {"law", rung.growth.law},
                 {"launches", Json::array()}};
    if (rung.counted()) {
        const simt::Counters sum = rung.total();
        json["global_bytes_read"] = sum.global_bytes_read();
        json["global_bytes_written"] = sum.global_bytes_written();
        json["flops_per_byte"] = rung.intensity();
    }
    for (const LaunchProfile& profile : rung.launches) json["launches"].push_back(json_of(profile));
    return json;
}

Json json_of(const Sweep& sweep) {
    Json json = {{"phase", sweep.phase},
                 {"kernel", sweep.kernel},
                 {"variable", sweep.variable == SweepVariable::length ? "N" : "M"},
                 {"fixed", sweep.fixed},
                 {"law", sweep.law},
                 {"predicted_slope", sweep.predicted_slope},
                 {"slope", std::isfinite(sweep.slope()) ? Json(sweep.slope()) : Json()},
                 {"left_out", sweep.left_out},
                 {"refusal", sweep.left_out.empty() ? Json() : Json(sweep.refusal)},
                 {"points", Json::array()}};
    for (const SweepPoint& p : sweep.points)
        json["points"].push_back({{"value", p.value}, {"bytes", p.bytes}, {"bytes_by_formula", p.bytes_by_formula}});
    return json;
}

Json json_of(const ProfileProblem& p) {
    return {{"batch", p.batch},
            {"heads", p.heads},
            {"kv_heads", p.kv_heads.value_or(p.heads)},
            {"queries", or_null(p.queries)},
            {"keys", p.keys},
            {"head_dim", p.head_dim},
            {"dtype", p.dtype ? Json(torch::toString(*p.dtype)) : Json()},
            {"causal", or_null(p.causal)}};
}

}  // namespace

void write_profile_json(const ProfileRequest& request, std::span<const RungProfile> rungs,
                        std::span<const Sweep> sweeps, const std::string& file) {
    const char* commit = std::getenv("LADDER_COMMIT");
    Json json = {{"commit", commit ? commit : "unknown"},
                 {"device", request.device.is_cuda() ? "cuda" : "cpu"},
                 {"device_name", device_limits(request.device).name},
                 {"profile", request.profile.empty() ? Json() : Json(request.profile)},
                 {"problem", json_of(request.problem)}};
    if (!request.profile.empty()) json["ridge_flops_per_byte"] = ridge_point(simt::device_profile(request.profile));
    json["phases"] = Json::array();
    for (const RungProfile& rung : rungs) json["phases"].push_back(json_of(rung));
    json["sweeps"] = Json::array();
    for (const Sweep& sweep : sweeps) json["sweeps"].push_back(json_of(sweep));
    write_json(json, file);
}

}  // namespace ladder::cli
