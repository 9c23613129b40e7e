#include "common/cli/trace/json.h"

#include <c10/util/Half.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>

#include "common/cli/trace/party_json.h"
#include "common/simt/device/device.h"

namespace ladder::cli {
namespace {

// Both are NaNs that no arithmetic makes: what was not shown, apart from what was shown and is NaN.
constexpr std::uint16_t kAbsent16 = 0xffff;
constexpr std::uint32_t kAbsent32 = 0xffffffff;
constexpr std::uint16_t kNan16 = 0x7e00;
constexpr float kLargestHalf = 65504.0f;

std::string base64(std::span<const unsigned char> bytes) {
    constexpr char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    std::string text;
    text.reserve((bytes.size() + 2) / 3 * 4);
    for (std::size_t i = 0; i < bytes.size(); i += 3) {
        const std::size_t here = std::min<std::size_t>(3, bytes.size() - i);
        unsigned word = 0;
        for (std::size_t b = 0; b < 3; ++b) word = word << 8 | (b < here ? bytes[i + b] : 0u);
        for (std::size_t d = 0; d < 4; ++d) text += d <= here ? digits[word >> (18 - 6 * d) & 63] : '=';
    }
    return text;
}

template <class Word>
std::string base64_of(const std::vector<Word>& words) {
    std::vector<unsigned char> bytes(words.size() * sizeof(Word));
    std::memcpy(bytes.data(), words.data(), bytes.size());  // little-endian, as every machine that this runs on
    return base64(bytes);
}

/// Scores are many, and looked at: half precision serves them. All else keeps its bits.
bool fits_half(const simt::TracedValues& v) {
    return v.name == "S" && std::ranges::all_of(v.values, [](const std::optional<float>& x) {
               return !x || !std::isfinite(*x) || std::fabs(*x) <= kLargestHalf;
           });
}

Json json_of(const simt::TracedValues& v) {
    Json json = {{"name", v.name}, {"at", {v.first_row, v.first_column, v.rows, v.columns}}};
    if (fits_half(v)) {
        std::vector<std::uint16_t> words;
        for (const std::optional<float>& x : v.values)
            words.push_back(!x ? kAbsent16 : std::isnan(*x) ? kNan16 : c10::Half(*x).x);
        json["f16"] = base64_of(words);
    } else {
        std::vector<std::uint32_t> words;
        for (const std::optional<float>& x : v.values) {
            std::uint32_t bits = kAbsent32;
            if (x) {
                const float value = std::isnan(*x) ? std::numeric_limits<float>::quiet_NaN() : *x;
                std::memcpy(&bits, &value, sizeof(bits));
            }
            words.push_back(bits);
        }
        json["f32"] = base64_of(words);
    }
    return json;
}

/// The source lines of a launch, each named once.
class Sites {
  public:
    int number_of(simt::SourceSite site) {
        const auto [known, is_new] = numbers_.try_emplace(site.text(), int(list_.size()));
        if (is_new) {
            list_.push_back(known->first);
            sites_.push_back(site);
        }
        return known->second;
    }
    const std::vector<std::string>& list() const { return list_; }
    const std::vector<simt::SourceSite>& sites() const { return sites_; }

  private:
    std::map<std::string, int> numbers_;
    std::vector<std::string> list_;
    std::vector<simt::SourceSite> sites_;
};

Json json_of(const simt::TracedMoment& moment, const SiteNumber& site) {
    Json json = Json::object();
    if (!moment.accesses.empty()) {
        json["access"] = Json::array();
        for (const simt::TracedAccess& a : moment.accesses) json["access"].push_back(access_json(a, site));
    }
    for (const simt::TracedValues& v : moment.values)
        if (v.rows > 0) json["show"].push_back(json_of(v));
    if (moment.barrier) json["barrier"] = site(*moment.barrier);
    if (moment.warp_barrier) json["warp_barrier"] = true;
    if (moment.fault) json["fault"] = true;
    add_events(json, moment, site);
    return json;
}

Json json_of(const simt::Counters& counters) {
    Json json = {{"tensors", Json::object()},
                 {"shared_read", counters.shared_bytes_read},
                 {"shared_written", counters.shared_bytes_written},
                 {"barriers", counters.block_barriers},
                 {"collectives", counters.warp_collectives}};
    for (const simt::TensorTraffic& t : counters.tensors) json["tensors"][t.tensor] = {t.bytes_read, t.bytes_written};
    return json;
}

Json json_of(const simt::LaunchTrace& launch, const std::string& instance) {
    Json json = {{"kernel", launch.kernel},
                 {"instance", instance},
                 {"grid", launch.grid},
                 {"block", launch.block},
                 {"shared_bytes", launch.shared_bytes_per_block},
                 {"tensors", Json::array()},
                 {"tiles", Json::array()},
                 {"sites", Json::array()}};
    if (const auto [x, y, z] = launch.cluster; x * y * z > 1) json["cluster"] = launch.cluster;
    for (const simt::TracedTensor& t : launch.tensors)
        json["tensors"].push_back({{"name", t.name}, {"element_bytes", t.element_bytes}, {"extents", t.extents}});
    for (const simt::TracedTile& t : launch.tiles) {
        json["tiles"].push_back({{"name", t.name},
                                 {"offset", t.offset},
                                 {"rows", t.rows},
                                 {"columns", t.columns},
                                 {"pitch", t.pitch},
                                 {"element_bytes", t.element_bytes}});
        if (t.panel_columns == 0) continue;
        json["tiles"].back()["panel_columns"] = t.panel_columns;
        json["tiles"].back()["swizzle_bits"] = t.swizzle_bits;
    }
    Sites sites;
    const SiteNumber site = [&](simt::SourceSite s) { return sites.number_of(s); };
    simt::Counters sum;
    json["blocks"] = Json::array();
    for (const simt::TracedBlock& b : launch.blocks) {
        sum += b.counters;
        Json block = {{"index", b.index}, {"counters", json_of(b.counters)}};
        if (b.recorded) block["moments"] = Json::array();
        for (const simt::TracedMoment& moment : b.moments) block["moments"].push_back(json_of(moment, site));
        add_parties(block, b, site);
        json["blocks"].push_back(std::move(block));
    }
    json["counters"] = json_of(sum);
    json["sites"] = sites.list();
    if (!launch.barriers.empty()) {
        json["barriers"] = barriers_json(launch);
        json["sources"] = sources_json(sites.sites());
    }
    return json;
}

Json problem_of(const TracedRun& run) {
    Json json = {{"dtype", run.dtype}, {"causal", run.causal}, {"shapes", Json::object()}};
    if (run.splits) json["splits"] = *run.splits;
    for (const auto& [name, sizes] : run.shapes) json["shapes"][name] = sizes;
    return json;
}

Json json_of(const TracedRun& run) {
    const simt::Device device = run.launches.empty() ? simt::cpu_device() : run.launches.front().device;
    Json json = {{"phase", run.phase},
                 {"title", run.title},
                 {"entry", run.kernel},
                 {"problem", problem_of(run)},
                 {"device",
                  {{"name", device.name},
                   {"shared_bytes", device.shared_bytes_per_block},
                   {"shared_bytes_optin", device.shared_bytes_per_block_optin}}},
                 {"verdict", run.verdict()}};
    if (run.against_reference && std::isfinite(run.against_reference->max_abs_error)) {
        json["error"] = run.against_reference->max_abs_error;
        json["allowed"] = run.against_reference->bound;
    }
    if (!run.words.empty()) json["words"] = run.words;
    if (run.fault) json["fault"] = {{"kind", simt::name_of(run.fault->fault)}, {"block", run.fault->block}};
    json["launches"] = Json::array();
    for (std::size_t i = 0; i < run.launches.size(); ++i)
        json["launches"].push_back(json_of(run.launches[i], i < run.instances.size() ? run.instances[i] : ""));
    return json;
}

}  // namespace

Json trace_json(std::span<const TracedRun> runs) {
    Json json = {{"format", kTraceFormat}, {"version", kTraceVersion}, {"runs", Json::array()}};
    for (const TracedRun& run : runs) json["runs"].push_back(json_of(run));
    return json;
}

}  // namespace ladder::cli
