#include "common/cli/trace/party_json.h"

#include <filesystem>
#include <fstream>
#include <utility>

namespace ladder::cli {
namespace {

const char* name_of(simt::TracedEvent::Kind kind) {
    using Kind = simt::TracedEvent::Kind;
    switch (kind) {
        case Kind::init:
            return "init";
        case Kind::arrive:
            return "arrive";
        case Kind::wait:
            return "wait";
        case Kind::over:
            return "over";
        case Kind::copy:
            return "copy";
        case Kind::land:
            return "land";
        case Kind::multiply:
            return "multiply";
        case Kind::commit:
            return "commit";
        case Kind::wait_products:
            return "wait_products";
        case Kind::store:
            return "store";
        case Kind::commit_stores:
            return "commit_stores";
        case Kind::wait_read:
            return "wait_read";
        case Kind::wait_stores:
            return "wait_stores";
        case Kind::give_registers:
            return "give_registers";
        case Kind::take_registers:
            return "take_registers";
    }
    return "";
}

Json boxes_json(const std::vector<simt::TracedAccess>& boxes, const SiteNumber& site) {
    Json json = Json::array();
    for (const simt::TracedAccess& box : boxes) json.push_back(access_json(box, site));
    return json;
}

void add_moments(Json& json, std::initializer_list<std::pair<const char*, int>> moments) {
    for (const auto& [name, moment] : moments)
        if (moment != simt::kNever) json[name] = moment;
}

/// Where a source file is that the compiler saw from a folder of the build.
std::filesystem::path place_of(const std::filesystem::path& file) {
    if (file.is_absolute()) return file;
    std::filesystem::path place = LADDER_SOURCE_DIR;
    for (const std::filesystem::path& part : file)
        if (part != "..") place /= part;
    return place;
}

Json event_json(const simt::TracedEvent& e, const SiteNumber& site) {
    Json json = {{"kind", name_of(e.kind)}, {"number", e.number}};
    if (e.party != simt::TracedEvent::kNobody) json["party"] = e.party;
    if (e.barrier != simt::TracedEvent::kNone) json["barrier"] = e.barrier;
    if (e.bytes > 0) json["bytes"] = e.bytes;
    if (e.times != 1) json["times"] = e.times;
    if (e.block != simt::TracedEvent::kHere) json["block"] = e.block;
    if (e.site.known()) json["site"] = site(e.site);
    if (!e.boxes.empty()) json["boxes"] = boxes_json(e.boxes, site);
    add_moments(json, {{"until", e.until}});
    return json;
}

}  // namespace

Json access_json(const simt::TracedAccess& a, const SiteNumber& site) {
    Json json = {int(a.memory), a.object, int(a.write), site(a.site), a.bytes};
    for (std::size_t d = 0; d < std::size_t(a.rank); ++d) {
        json.push_back(a.first[d]);
        json.push_back(a.last[d]);
    }
    return json;
}

void add_events(Json& json, const simt::TracedMoment& moment, const SiteNumber& site) {
    for (const simt::TracedEvent& e : moment.events) json["events"].push_back(event_json(e, site));
    if (!moment.accesses.empty() && moment.accesses.front().party != simt::TracedAccess::kEverybody)
        for (const simt::TracedAccess& a : moment.accesses) json["by"].push_back({a.party, int(a.agent)});
}

void add_parties(Json& json, const simt::TracedBlock& block, const SiteNumber& site) {
    for (const simt::TracedParty& p : block.parties)
        json["parties"].push_back(
            {{"name", p.name}, {"role", p.role}, {"first_thread", p.first_thread}, {"threads", p.threads}});
    for (const simt::TracedFill& f : block.fills) {
        Json fill = {{"barrier", f.barrier},
                     {"phase", f.phase},
                     {"bytes", f.bytes},
                     {"site", site(f.site)},
                     {"boxes", boxes_json(f.boxes, site)}};
        if (f.emptied_at != simt::TracedEvent::kNone) fill["emptied_at"] = f.emptied_at;
        add_moments(fill, {{"asked", f.asked},
                           {"full", f.full},
                           {"first_read", f.first_read},
                           {"last_read", f.last_read},
                           {"released", f.released}});
        json["fills"].push_back(std::move(fill));
    }
    for (const simt::TracedGroup& g : block.groups) {
        Json group = {{"party", g.party},
                      {"number", g.number},
                      {"products", g.products},
                      {"site", site(g.site)},
                      {"boxes", boxes_json(g.reads, site)}};
        add_moments(group, {{"begun", g.begun}, {"committed", g.committed}, {"done", g.done}});
        json["groups"].push_back(std::move(group));
    }
    for (const simt::TracedStore& s : block.stores) {
        Json store = {
            {"party", s.party}, {"bytes", s.bytes}, {"site", site(s.site)}, {"boxes", boxes_json(s.boxes, site)}};
        add_moments(store, {{"asked", s.asked}, {"committed", s.committed}, {"read", s.read}, {"done", s.done}});
        json["stores"].push_back(std::move(store));
    }
}

Json barriers_json(const simt::LaunchTrace& launch) {
    Json json = Json::array();
    for (const simt::TracedBarrier& b : launch.barriers)
        json.push_back({{"name", b.name}, {"arrivals", b.arrivals}, {"numbered", b.is_numbered}});
    return json;
}

Json sources_json(const std::vector<simt::SourceSite>& sites) {
    Json json = Json::object();
    for (const simt::SourceSite site : sites) {
        const std::string text = site.text(), name = text.substr(0, text.rfind(':'));
        if (json.contains(name)) continue;
        std::ifstream stream(place_of(site.file()));
        if (!stream) continue;
        json[name] = Json::array();
        for (std::string line; std::getline(stream, line);) json[name].push_back(line);
    }
    return json;
}

}  // namespace ladder::cli
