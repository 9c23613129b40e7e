#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "common/cli/bench/report.h"
#include "common/records/compact.h"

namespace ladder::cli::bench {
namespace {

using Json = nlohmann::ordered_json;  // keeps the order in which things are written

constexpr const char* kKind = "flashladder bench";
constexpr int kFormat = 1;

// JSON has no number for what is not finite.
Json number(double value) {
    if (std::isfinite(value)) return value;
    return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
}

double number_from(const Json& json) {
    if (json.is_number()) return json.get<double>();
    const auto text = json.get<std::string>();
    constexpr double infinity = std::numeric_limits<double>::infinity();
    return text == "inf" ? infinity : text == "-inf" ? -infinity : std::numeric_limits<double>::quiet_NaN();
}

template <class T>
struct Named {
    T value;
    const char* name;
};
constexpr Named<Work> kWorks[] = {
    {Work::softmax, "softmax"}, {Work::attention, "attention"}, {Work::decode, "decode"}, {Work::backward, "backward"}};
constexpr Named<Role> kRoles[] = {{Role::rung, "rung"}, {Role::step, "step"}, {Role::peer, "peer"}};
constexpr Named<Unit> kUnits[] = {{Unit::tflops, "TFLOP/s"}, {Unit::gb_s, "GB/s"}};
constexpr Named<Mask> kMasks[] = {{Mask::none, "none"},
                                  {Mask::causal_bottom_right, "causal_bottom_right"},
                                  {Mask::causal_top_left, "causal_top_left"}};

template <class T, std::size_t N>
std::string name_in(const Named<T> (&names)[N], T value) {
    for (const auto& named : names)
        if (named.value == value) return named.name;
    throw std::logic_error("a value without a name");
}

template <class T, std::size_t N>
T value_in(const Named<T> (&names)[N], const Json& json) {
    const auto text = json.get<std::string>();
    for (const auto& named : names)
        if (named.name == text) return named.value;
    throw std::runtime_error("\"" + text + "\" is not a known name");
}

Json json_of(const Spread& s) {
    return {{"median", s.median},
            {"lower_quartile", s.lower_quartile},
            {"upper_quartile", s.upper_quartile},
            {"least", s.least},
            {"samples", s.samples}};
}

Spread spread_from(const Json& json) {
    return {.median = json.at("median"),
            .lower_quartile = json.at("lower_quartile"),
            .upper_quartile = json.at("upper_quartile"),
            .least = json.at("least"),
            .samples = json.at("samples")};
}

Json json_of(const Problem& p) {
    return {{"work", name_in(kWorks, p.work)},
            {"dtype", short_name(p.dtype)},
            {"batch", p.batch},
            {"query_heads", p.query_heads},
            {"kv_heads", p.kv_heads},
            {"queries", p.queries},
            {"keys", p.keys},
            {"head_dim", p.head_dim},
            {"mask", name_in(kMasks, p.mask)},
            {"splits", p.splits ? Json(*p.splits) : Json()},
            {"text", text_of(p)}};
}

Problem problem_from(const Json& json) {
    Problem p{.work = value_in(kWorks, json.at("work")),
              .dtype = dtype_named(json.at("dtype")),
              .batch = json.at("batch"),
              .query_heads = json.at("query_heads"),
              .kv_heads = json.at("kv_heads"),
              .queries = json.at("queries"),
              .keys = json.at("keys"),
              .head_dim = json.at("head_dim"),
              .mask = value_in(kMasks, json.at("mask"))};
    if (!json.at("splits").is_null()) p.splits = json.at("splits").get<std::int64_t>();
    return p;
}

Json json_of(const LaunchUse& l) {
    return {{"kernel", l.kernel},
            {"blocks", l.blocks},
            {"threads_per_block", l.threads_per_block},
            {"shared_bytes_per_block", l.shared_bytes_per_block},
            {"registers_per_thread", l.registers_per_thread},
            {"local_bytes_per_thread", l.local_bytes_per_thread},
            {"resident_blocks", l.resident_blocks},
            {"occupancy", l.occupancy}};
}

LaunchUse launch_from(const Json& json) {
    return {.kernel = json.at("kernel"),
            .blocks = json.at("blocks"),
            .threads_per_block = json.at("threads_per_block"),
            .shared_bytes_per_block = json.at("shared_bytes_per_block"),
            .registers_per_thread = json.at("registers_per_thread"),
            .local_bytes_per_thread = json.at("local_bytes_per_thread"),
            .resident_blocks = json.at("resident_blocks"),
            .occupancy = json.at("occupancy")};
}

Json json_of(const Report& report, const CaseResult& result, const Measurement& m) {
    Json json = {{"name", m.name}, {"role", name_in(kRoles, m.role)}};
    if (!m.available()) {
        json["not_available"] = m.not_available;
        json["broke"] = m.broke;
        return json;
    }
    json["milliseconds"] = json_of(m.milliseconds);
    json["calls_per_sample"] = m.calls_per_sample;
    json["flops"] = m.flops;
    json["useful_bytes"] = m.useful_bytes;
    json["moved_bytes"] = m.moved_bytes;
    json["right"] = m.right;
    json["max_abs_error"] = number(m.max_abs_error);
    json["bound"] = number(m.bound);
    json["verdict"] = m.verdict;
    json["rate"] = m.rate(result.unit());
    if (m.role == Role::step) return json;
    if (const double share = report.share_of_ceiling(result, m); share > 0) json["share_of_ceiling"] = share;
    if (m.role == Role::peer) return json;
    json["ratios"] = Json::object();
    for (const Measurement& peer : result.measurements)
        if (const double times = ratio(result, m, peer); peer.role == Role::peer && times > 0)
            json["ratios"][peer.name] = times;
    json["launches"] = Json::array();
    for (const LaunchUse& launch : m.launches) json["launches"].push_back(json_of(launch));
    return json;
}

Measurement measurement_from(const Json& json) {
    Measurement m{.name = json.at("name"),
                  .role = value_in(kRoles, json.at("role")),
                  .not_available = json.value("not_available", std::string()),
                  .broke = json.value("broke", false)};
    if (!m.available()) return m;
    m.milliseconds = spread_from(json.at("milliseconds"));
    m.calls_per_sample = json.at("calls_per_sample");
    m.flops = json.at("flops");
    m.useful_bytes = json.at("useful_bytes");
    m.moved_bytes = json.at("moved_bytes");
    m.right = json.at("right");
    m.max_abs_error = number_from(json.at("max_abs_error"));
    m.bound = number_from(json.at("bound"));
    m.verdict = json.at("verdict");
    if (json.contains("launches"))
        for (const Json& launch : json.at("launches")) m.launches.push_back(launch_from(launch));
    return m;
}

Json json_of(const Report& report, const CaseResult& result) {
    Json sweeps = Json::array(), measurements = Json::array();
    for (const Sweep sweep : result.what.sweeps) sweeps.push_back(name_of(sweep));
    for (const Measurement& m : result.measurements) measurements.push_back(json_of(report, result, m));
    return {{"phase", result.what.phase},
            {"entries", result.what.entries},
            {"problem", json_of(result.what.problem)},
            {"sweeps", sweeps},
            {"unit", name_of(result.unit())},
            {"ceiling", ceiling_name(result.what.problem)},
            {"error", result.error},
            {"broke", result.broke},
            {"checked", result.checked},
            {"input_sets", result.input_sets},
            {"measurements", measurements}};
}

CaseResult case_from(const Json& json) {
    CaseResult result{.what = {.phase = json.at("phase"),
                               .entries = json.at("entries").get<std::vector<std::string>>(),
                               .problem = problem_from(json.at("problem"))},
                      .error = json.at("error"),
                      .broke = json.at("broke"),
                      .checked = json.at("checked"),
                      .input_sets = json.at("input_sets")};
    for (const Json& sweep : json.at("sweeps")) result.what.sweeps.insert(sweep_named(sweep));
    for (const Json& m : json.at("measurements")) result.measurements.push_back(measurement_from(m));
    return result;
}

Json json_of(const Ceiling& c) {
    Json json = {{"name", c.name}, {"what", c.what}, {"unit", name_of(c.unit)}};
    if (!c.not_available.empty()) {
        json["not_available"] = c.not_available;
        return json;
    }
    json["amount"] = c.amount;
    json["milliseconds"] = json_of(c.milliseconds);
    json["rate"] = c.rate();
    return json;
}

Ceiling ceiling_from(const Json& json) {
    Ceiling c{.name = json.at("name"),
              .what = json.at("what"),
              .unit = value_in(kUnits, json.at("unit")),
              .not_available = json.value("not_available", std::string())};
    if (!c.not_available.empty()) return c;
    c.amount = json.at("amount");
    c.milliseconds = spread_from(json.at("milliseconds"));
    return c;
}

Json json_of(const Environment& e) {
    return {{"commit", e.commit},
            {"date", e.date},
            {"device", e.device},
            {"device_name", e.device_name},
            {"profile", e.profile},
            {"driver", e.driver},
            {"cuda", e.cuda},
            {"torch", e.torch},
            {"cudnn", e.cudnn},
            {"cache_bytes", e.cache_bytes},
            {"clocks_before", e.clocks_before},
            {"clocks_after", e.clocks_after}};
}

Environment environment_from(const Json& json) {
    using Clocks = std::map<std::string, std::string>;
    return {.commit = json.at("commit"),
            .date = json.at("date"),
            .device = json.at("device"),
            .device_name = json.at("device_name"),
            .profile = json.at("profile"),
            .driver = json.at("driver"),
            .cuda = json.at("cuda"),
            .torch = json.at("torch"),
            .cudnn = json.at("cudnn"),
            .cache_bytes = json.at("cache_bytes"),
            .clocks_before = json.at("clocks_before").get<Clocks>(),
            .clocks_after = json.at("clocks_after").get<Clocks>()};
}

}  // namespace

std::string to_json(const Report& report) {
    Json json = {{"kind", kKind},
                 {"format", kFormat},
                 {"environment", json_of(report.environment)},
                 {"teaching_machine", report.teaching_machine()},
                 {"quick", report.quick},
                 {"seconds", report.seconds},
                 {"tf32", false},
                 {"ceilings", Json::array()},
                 {"cases", Json::array()}};
    for (const Ceiling& ceiling : report.ceilings) json["ceilings"].push_back(json_of(ceiling));
    for (const CaseResult& result : report.cases) json["cases"].push_back(json_of(report, result));
    return compact_text(json);
}

Report from_json(const std::string& text, const std::string& source) {
    try {
        const Json json = Json::parse(text);
        if (json.value("kind", "") != kKind) throw std::runtime_error("it was not written by ./ladder bench --json");
        if (json.at("format") != kFormat)
            throw std::runtime_error("its format is " + json.at("format").dump() + "; " + std::to_string(kFormat) +
                                     " is read here");
        Report report{.environment = environment_from(json.at("environment")),
                      .quick = json.at("quick"),
                      .seconds = json.at("seconds")};
        for (const Json& ceiling : json.at("ceilings")) report.ceilings.push_back(ceiling_from(ceiling));
        for (const Json& result : json.at("cases")) report.cases.push_back(case_from(result));
        return report;
    } catch (const std::exception& error) {
        throw std::runtime_error(source + ": this is no result of ./ladder bench: " + error.what());
    }
}

}  // namespace ladder::cli::bench
