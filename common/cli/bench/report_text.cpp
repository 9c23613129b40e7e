#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "common/cli/bench/report.h"
#include "common/cli/terminal.h"
#include "common/rung/phase.h"

namespace ladder::cli::bench {
namespace {

constexpr int kWidth = 112;

/// One entry's result on one case.
struct Row {
    const CaseResult* result;
    const Measurement* rung;
};

std::string percent(double part) {
    if (part <= 0) return "-";
    if (part < 0.0005) return "<0.1 %";
    return fmt::format("{:.{}f} %", 100 * part, part < 0.095 ? 1 : 0);
}

std::string times(double ratio) {
    if (ratio <= 0) return "-";
    if (ratio < 0.0095) return fmt::format("{:.0e}x", ratio);
    return fmt::format("{:.{}f}x", ratio, ratio < 9.95 ? 2 : ratio < 99.5 ? 1 : 0);
}

std::string figure(double value) {
    if (value < 0.0095) return fmt::format("{:.1e}", value);
    return fmt::format("{:.{}f}", value, value < 9.95 ? 2 : value < 99.5 ? 1 : 0);
}

std::string fine_time(double milliseconds) {
    return milliseconds < 0.0995 ? fmt::format("{:.1f} us", 1000 * milliseconds) : human_time(milliseconds);
}

std::string ceiling_title(const std::string& name) {
    static const std::map<std::string, std::string> titles = {
        {"gemm_f32", "GEMM, float32"}, {"gemm_bf16", "GEMM, bfloat16"}, {"copy", "copy"}, {"read", "stream of reads"}};
    const auto found = titles.find(name);
    return found == titles.end() ? name : found->second;
}

/// The results of a phase by entry, entries in the order in which they first come.
std::vector<std::pair<std::string, std::vector<Row>>> rows_of(const Report& report, int phase) {
    std::vector<std::pair<std::string, std::vector<Row>>> groups;
    for (const CaseResult& result : report.cases) {
        if (result.what.phase != phase) continue;
        for (const Measurement& m : result.measurements) {
            if (m.role != Role::rung) continue;
            auto group = std::ranges::find(groups, m.name, [](const auto& g) { return g.first; });
            if (group == groups.end()) group = groups.insert(groups.end(), {m.name, {}});
            group->second.push_back({&result, &m});
        }
    }
    return groups;
}

/// Problems of one kind together, so that a sweep can be read from top to bottom.
void sort_by_problem(std::vector<Row>& rows) {
    std::ranges::stable_sort(rows, {}, [](const Row& row) {
        const Problem& p = row.result->what.problem;
        return std::tuple(p.dtype != torch::kFloat32, short_name(p.dtype), p.mask != Mask::none, p.head_dim,
                          p.splits.value_or(0), p.kv_heads != p.query_heads, p.keys, p.batch, p.query_heads);
    });
}

/// Peers that were measured in any of the rows, in the order in which they come.
std::vector<std::string> peers_of(const std::vector<Row>& rows) {
    std::vector<std::string> names;
    for (const Row& row : rows)
        for (const Measurement& m : row.result->measurements)
            if (m.role == Role::peer && m.available() && std::ranges::count(names, m.name) == 0)
                names.push_back(m.name);
    return names;
}

struct Occupied {
    std::uint64_t shared_bytes = 0;
    int registers = 0;
    double occupancy = 0;
};

/// Of several launches the most shared memory and registers, and the least occupancy.
Occupied occupied_by(const Measurement& rung) {
    Occupied most;
    for (const LaunchUse& launch : rung.launches) {
        most.shared_bytes = std::max(most.shared_bytes, launch.shared_bytes_per_block);
        most.registers = std::max(most.registers, launch.registers_per_thread);
        most.occupancy = most.occupancy == 0 ? launch.occupancy : std::min(most.occupancy, launch.occupancy);
    }
    return most;
}

/// The entry whose first step was measured in any of the rows; null if there is none.
const Entry* entry_of_steps(const std::vector<Row>& rows) {
    const auto measured = [&](const Entry& entry) {
        return entry.first_step &&
               std::ranges::any_of(rows, [&](const Row& r) { return r.result->find(entry.first_step->name); });
    };
    const auto found = std::ranges::find_if(all_entries(), measured);
    return found == all_entries().end() ? nullptr : &*found;
}

Table table_of(const Report& report, const std::vector<Row>& rows) {
    using Align = Table::Align;
    const std::vector<std::string> peers = peers_of(rows);
    const auto any = [&](const auto& predicate) { return std::ranges::any_of(rows, predicate); };
    const Entry* const in_steps = entry_of_steps(rows);
    const bool on_gpu = any([](const Row& r) { return occupied_by(*r.rung).registers > 0; });

    std::vector<Table::Column> columns = {{"problem"},
                                          {"time", Align::right},
                                          {"+-", Align::right},
                                          {name_of(rows.front().result->unit()), Align::right},
                                          {"ceil.", Align::right}};
    for (const std::string& peer : peers) columns.push_back({peer == "efficient" ? "eff." : peer, Align::right});
    if (in_steps) columns.push_back({in_steps->first_step->heading, Align::right});
    columns.push_back({"shared", Align::right});
    if (on_gpu) {
        columns.push_back({"regs", Align::right});
        columns.push_back({"occ.", Align::right});
    }
    const bool all_right = !any([](const Row& r) { return r.rung->available() && !r.rung->right; });
    if (!all_right) columns.push_back({""});
    Table table(columns);
    for (const auto& [result, rung] : rows) {
        std::vector<Table::Cell> cells = {{text_of(result->what.problem)}};
        if (!rung->available()) {
            cells.resize(columns.size(), {"-"});
            table.add(cells);
            continue;
        }
        cells.push_back({fine_time(rung->milliseconds.median)});
        cells.push_back({percent(rung->milliseconds.relative())});
        cells.push_back({figure(rung->rate(result->unit())), Style::bold});
        cells.push_back({percent(report.share_of_ceiling(*result, *rung))});
        for (const std::string& name : peers) {
            const Measurement* peer = result->find(name);
            cells.push_back({peer ? times(ratio(*result, *rung, *peer)) : "-"});
        }
        if (in_steps) {
            const Measurement* step = rung->name == in_steps->name ? result->find(in_steps->first_step->name) : nullptr;
            cells.push_back({step && step->available()
                                 ? percent(1.0 - step->milliseconds.median / rung->milliseconds.median)
                                 : "-"});
        }
        const Occupied occupied = occupied_by(*rung);
        cells.push_back({occupied.shared_bytes ? fmt::format("{:.1f}K", double(occupied.shared_bytes) / 1024) : "-"});
        if (on_gpu) {
            cells.push_back({std::to_string(occupied.registers)});
            cells.push_back({percent(occupied.occupancy)});
        }
        if (!all_right) cells.push_back({rung->right ? "right" : "WRONG", rung->right ? Style::plain : Style::bad});
        table.add(cells);
    }
    return table;
}

/// A contestant other than a rung, and what is to be said of it.
using Remark = std::pair<std::string, std::string>;

std::vector<Remark> remarks_on(const CaseResult& result) {
    std::vector<Remark> remarks;
    for (const Measurement& m : result.measurements) {
        if (m.role == Role::rung) continue;
        if (!m.available())
            remarks.emplace_back(m.name, "not available: " + m.not_available);
        else if (!m.right)
            remarks.emplace_back(m.name, "outside the bound that ours must keep: " + m.verdict);
    }
    return remarks;
}

/// Remarks that hold wherever the contestant could have been measured; said once, at the end.
std::set<Remark> remarks_everywhere(const Report& report) {
    std::map<std::string, int> cases;
    std::map<Remark, int> count;
    for (const CaseResult& result : report.cases) {
        for (const Measurement& m : result.measurements) ++cases[m.name];
        for (const Remark& remark : remarks_on(result)) ++count[remark];
    }
    std::set<Remark> everywhere;
    for (const auto& [remark, times] : count)
        if (times == cases[remark.first]) everywhere.insert(remark);
    return everywhere;
}

/// What was not measured in these rows and why, each reason once.
std::string notes_of(const std::vector<Row>& rows, const std::set<Remark>& said_elsewhere) {
    std::map<Remark, int> count;
    std::string notes;
    for (const Row& row : rows) {
        const std::string problem = text_of(row.result->what.problem);
        if (!row.rung->available())
            notes += wrapped(fmt::format("{}: not measured: {}", problem, row.rung->not_available), 4, kWidth);
        else if (!row.rung->right)
            notes += wrapped(fmt::format("{}: {}", problem, row.rung->verdict), 4, kWidth);
        for (const Remark& remark : remarks_on(*row.result))
            if (!said_elsewhere.contains(remark)) ++count[remark];
    }
    for (const auto& [remark, cases] : count)
        notes += wrapped(fmt::format("{} {} ({} of {})", remark.first, remark.second, cases, rows.size()), 4, kWidth);
    return notes;
}

std::string clocks_text(const std::map<std::string, std::string>& clocks) {
    const auto of = [&](const char* key) {
        const auto found = clocks.find(key);
        return found == clocks.end() ? std::string("?") : found->second;
    };
    return fmt::format("{} of {} MHz, memory {} MHz, {} of {} W, {} C", of("sm_mhz"), of("sm_max_mhz"),
                       of("memory_mhz"), of("power_watt"), of("power_limit_watt"), of("celsius"));
}

std::string head_of(const Report& report) {
    const Environment& e = report.environment;
    std::string text;
    const auto line = [&](const std::string& title, const std::string& content) {
        text += fmt::format("  {:<16}{}\n", title, content);
    };
    if (report.teaching_machine()) {
        text += fmt::format("{}   on the CPU machine, with the limits of {}\n", styled(Style::bold, "Measured"),
                            e.device_name);
        text += wrapped(
            "A teaching machine: it interprets and checks every access, so these times say nothing about a GPU, and "
            "PyTorch's, on the same CPU, are not a fair comparison. Shared memory and answers are what a GPU has.",
            2, kWidth);
    } else {
        text += fmt::format("{}   on {}\n", styled(Style::bold, "Measured"), e.device_name);
    }
    std::string versions = "PyTorch " + e.torch;
    if (!e.cudnn.empty()) versions += ", cuDNN " + e.cudnn;
    if (!e.cuda.empty()) versions += ", CUDA " + e.cuda;
    if (!e.driver.empty()) versions += ", driver " + e.driver;
    line("with", versions);
    line("at", fmt::format("commit {}, {}, {:.0f} s", e.commit, e.date, report.seconds));
    if (!e.clocks_before.empty()) line("clocks before", clocks_text(e.clocks_before));
    if (!e.clocks_after.empty()) line("clocks after", clocks_text(e.clocks_after));
    for (const Ceiling& c : report.ceilings)
        line(ceiling_title(c.name), c.not_available.empty()
                                        ? fmt::format("{:>6} {:<9}{}", figure(c.rate()), name_of(c.unit), c.what)
                                        : "not measured: " + c.not_available);
    return text;
}

std::string legend(const Report& report) {
    std::string text =
        "Time is the median of one call, +- half the distance between the quartiles. "
        "ceil.: share of the ceiling at its best (GEMM of the dtype for attention, copy for softmax, stream of reads "
        "for decoding). Under a peer's name: how many times its rate ours is; above 1 ours is faster. TFLOP/s count "
        "4 D for each query and key that see each other, 10 D of a backward pass (bwd), GB/s of a softmax one read and "
        "one write, of decoding each key and value once. float32 is never rounded to tf32.";
    const auto any = [&](const auto& predicate) { return std::ranges::any_of(report.cases, predicate); };
    if (any([](const CaseResult& c) { return c.what.problem.mask != Mask::none; }))
        for (const Phase& phase : phases())
            for (const Entry& entry : phase.bench_entries)
                if (!entry.unmasked_peer.empty())
                    text += fmt::format(" {}: phase {} on the same tensors without the mask.", entry.unmasked_peer,
                                        phase.number);
    for (const Entry& entry : all_entries())
        if (entry.first_step && any([&](const CaseResult& c) { return c.find(entry.first_step->name); }))
            text += fmt::format(" {}: {}.", entry.first_step->heading, entry.first_step->legend);
    return wrapped(text, 2, kWidth);
}

}  // namespace

std::string to_text(const Report& report) {
    std::string text = head_of(report);
    const std::set<Remark> everywhere = remarks_everywhere(report);
    std::set<int> phases;
    for (const CaseResult& c : report.cases) phases.insert(c.what.phase);
    for (const int phase : phases)
        for (auto& [entry, rows] : rows_of(report, phase)) {
            sort_by_problem(rows);
            text += fmt::format("\n{}   {}\n{}{}", styled(Style::bold, fmt::format("Phase {}", phase)),
                                styled(Style::bold, entry), table_of(report, rows).text(2), notes_of(rows, everywhere));
        }
    text += "\n" + legend(report);
    for (const auto& [name, remark] : everywhere) text += wrapped(name + " " + remark + ".", 2, kWidth);

    std::map<std::string, int> errors;
    int rungs = 0;
    for (const CaseResult& c : report.cases) {
        if (!c.error.empty()) ++errors[c.error];
        rungs += int(std::ranges::count_if(c.measurements,
                                           [](const Measurement& m) { return m.role == Role::rung && m.available(); }));
    }
    text += "\n";
    for (const auto& [error, cases] : errors)
        text +=
            styled(Style::note, fmt::format("{} case{} not measured: {}", cases, cases == 1 ? "" : "s", error)) + "\n";
    if (report.wrong() > 0)
        text +=
            styled(Style::bad, fmt::format("{} of {} measurements with a wrong answer.", report.wrong(), rungs)) + "\n";
    else
        text +=
            styled(Style::good, fmt::format("{} measurement{}, every answer right.", rungs, rungs == 1 ? "" : "s")) +
            "\n";
    if (report.broken() > 0)
        text += styled(Style::bad, fmt::format("{} broke; see the notes.", report.broken())) + "\n";
    return text;
}

}  // namespace ladder::cli::bench
