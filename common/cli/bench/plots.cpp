#include "common/cli/bench/plots.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include "common/plots/look.h"

namespace ladder::cli::bench {
namespace {

using plots::kInk;

std::string colour_of(const std::string& name) {
    for (const Entry& entry : all_entries())
        if (name == entry.name || name == entry.unmasked_peer) return entry.colour;
    static const std::map<std::string, std::string> peers = {{"torch", "#8a6fb8"},
                                                             {"math", "#b0707a"},
                                                             {"efficient", "#7f8f3a"},
                                                             {"flash", "#c9772b"},
                                                             {"cuDNN", "#3f9b7a"}};
    const auto found = peers.find(name);
    return found == peers.end() ? kInk : found->second;
}

/// The look that all figures share. gnuplot's SVG has no background unless one is asked for.
std::string opening(int width, int height, const std::string& title) {
    return fmt::format(R"(set encoding utf8
set terminal svg size {0},{1} dynamic noenhanced font 'Arial,15' linewidth 1.4
set border 3 linecolor rgb '{2}'
set tics nomirror textcolor rgb '{2}'
set grid linecolor rgb '#a0{3}' linewidth 0.5
set key textcolor rgb '{2}' samplen 2
set title textcolor rgb '{2}'
set title "{4}"
set xlabel textcolor rgb '{2}'
set ylabel textcolor rgb '{2}'
)",
                       width, height, kInk, std::string(kInk).substr(1), title);
}

std::string place_of(const Report& report) {
    return report.teaching_machine() ? "CPU machine (teaching, no measure of a GPU)" : report.environment.device_name;
}

/// "512", "8k"
std::string short_length(std::int64_t length) {
    return length >= 1024 && length % 1024 == 0 ? fmt::format("{}k", length / 1024) : std::to_string(length);
}

struct Point {
    double x, y, low, high;
};

/// A curve: points in the order of x.
struct Series {
    std::string name;
    bool peer;
    std::vector<Point> points;
};

/// Of every contestant its rate against `x_of`, over the cases that `wanted` picks.
std::vector<Series> curves(const Report& report, const std::function<bool(const Case&)>& wanted,
                           const std::function<double(const Problem&)>& x_of) {
    std::vector<Series> all;
    for (const CaseResult& result : report.cases) {
        if (!wanted(result.what)) continue;
        for (const Measurement& m : result.measurements) {
            if (!m.available() || m.role == Role::step) continue;
            auto series = std::ranges::find(all, m.name, &Series::name);
            if (series == all.end()) series = all.insert(all.end(), {m.name, m.role == Role::peer, {}});
            const double x = x_of(result.what.problem), y = m.rate(result.unit());
            // Several phases measure the same peer on the same problem; the first will do.
            if (std::ranges::any_of(series->points, [x](const Point& p) { return p.x == x; })) continue;
            const double median = m.milliseconds.median;
            series->points.push_back(
                {x, y, y * median / m.milliseconds.upper_quartile, y * median / m.milliseconds.lower_quartile});
        }
    }
    for (Series& series : all) std::ranges::sort(series.points, {}, &Point::x);
    return all;
}

/// A horizontal line at a ceiling; empty if it was not measured.
std::string ceiling_line(const Report& report, const std::string& name, const std::string& title) {
    const Ceiling* ceiling = report.find_ceiling(name);
    if (!ceiling) return "";
    return fmt::format(", {:.6g} with lines dashtype 2 linecolor rgb '{}' title '{}'", ceiling->rate(), kInk, title);
}

/// Draws curves over lengths: ours in full lines, peers dashed, the middle half of the samples as bars.
std::string curve_panel(const std::vector<Series>& all, const std::string& ceiling) {
    std::set<std::int64_t> lengths;
    std::string data, tics;
    for (std::size_t i = 0; i < all.size(); ++i) {
        data += fmt::format("$series{} << END\n", i);
        for (const Point& p : all[i].points) {
            data += fmt::format("{:.0f} {:.6g} {:.6g} {:.6g}\n", p.x, p.y, p.low, p.high);
            lengths.insert(std::int64_t(p.x));
        }
        data += "END\n";
    }
    for (const std::int64_t length : lengths)
        tics += fmt::format("{}'{}' {}", tics.empty() ? "" : ", ", short_length(length), length);
    // A little wider than the points: a tick at the very end of a logarithmic axis may be lost to rounding.
    std::string script =
        data + fmt::format("set logscale x 2\nset xrange [{:.6g}:{:.6g}]\nset xtics ({})\nset yrange [0:*]\nplot ",
                           double(*lengths.begin()) / 1.1, double(*lengths.rbegin()) * 1.1, tics);
    for (std::size_t i = 0; i < all.size(); ++i)
        script += fmt::format(
            "{0}$series{1} using 1:2:3:4 with yerrorlines linecolor rgb '{2}' dashtype {3} pointtype {4} pointsize 0.6 "
            "linewidth {5} title '{6}'",
            i ? ", " : "", i, colour_of(all[i].name), all[i].peer ? 3 : 1, all[i].peer ? 6 : 7, all[i].peer ? 1.1 : 1.8,
            all[i].name);
    return script + ceiling + "\n";
}

struct LadderRung {
    const CaseResult* result;
    const Measurement* rung;
};

std::vector<LadderRung> ladder_rungs(const Report& report) {
    std::vector<LadderRung> rungs;
    for (const CaseResult& result : report.cases) {
        if (!result.what.sweeps.contains(Sweep::ladder)) continue;
        for (const Measurement& m : result.measurements)
            if (m.role == Role::rung && m.available()) rungs.push_back({&result, &m});
    }
    std::ranges::stable_sort(rungs, {}, [](const LadderRung& r) { return r.result->what.phase; });
    return rungs;
}

std::string short_figure(double value) {
    return value < 1000 ? fmt::format("{:.3g}", value) : fmt::format("{:.0f}", value);
}

Plot ladder_chart(const Report& report) {
    Plot plot{.file = "ladder.svg", .title = "The ladder on " + place_of(report)};
    std::vector<LadderRung> rungs = ladder_rungs(report);
    std::erase_if(rungs, [&](const LadderRung& r) { return report.share_of_ceiling(*r.result, *r.rung) <= 0; });
    if (rungs.empty()) {
        plot.not_drawn = "no rung was measured beside its ceiling";
        return plot;
    }
    // From the bottom up, a row for each: names, bars, and the rates in a column of their own.
    std::string bars, rates, names;
    std::map<std::string, std::string> peers;  // name to data
    for (std::size_t i = 0; i < rungs.size(); ++i) {
        const auto& [result, rung] = rungs[i];
        bars += fmt::format("{} {:.6g} 0x{}\n", i, 100 * report.share_of_ceiling(*result, *rung),
                            colour_of(rung->name).substr(1));
        names += fmt::format("{}'{}' {}", i ? ", " : "", rung->name, i);
        rates += fmt::format("set label \"{} {}\" at graph 1.2,first {} right textcolor rgb '{}'\n",
                             short_figure(rung->rate(result->unit())), name_of(result->unit()), i, kInk);
        for (const Measurement& m : result->measurements)
            if (m.role == Role::peer && m.available())
                peers[m.name] +=
                    fmt::format("{:.6g} {:.2f}\n", 100 * report.share_of_ceiling(*result, m), double(i) - 0.42);
    }
    plot.script = opening(1000, 170 + 24 * int(rungs.size()), plot.title) + rates + "$bars << END\n" + bars + "END\n";
    for (const auto& [name, data] : peers) plot.script += fmt::format("$peer_{} << END\n{}END\n", name, data);
    plot.script += fmt::format(
        "set xlabel 'percent of the ceiling: copy (softmax), stream of reads (one query), GEMM (the rest)'\n"
        "set grid noytics\nset ytics scale 0 ({})\nset yrange [-0.6:{}]\nset xrange [0:*]\n"
        "set key below height 1\nset rmargin 18\n"
        "plot $bars using (0):1:(0):2:($1-0.35):($1+0.35):3 with boxxyerror fillstyle solid 0.75 linecolor rgb "
        "variable notitle",
        names, double(rungs.size()) - 0.4);
    for (const auto& [name, data] : peers)
        plot.script += fmt::format(
            ", $peer_{0} using 1:2:(0):(0.84) with vectors nohead linewidth 2.4 linecolor rgb '{1}' title '{0}'", name,
            colour_of(name));
    plot.script += "\n";
    return plot;
}

/// What one figure of rates over lengths shows.
struct ThroughputFigure {
    const char* file;
    torch::ScalarType dtype;
    bool largest_head_dim;  ///< of those that were swept, or else the smallest
    const char* ceiling;
    const char* words;  ///< for the dtype
};

Plot throughput_plot(const Report& report, const ThroughputFigure& figure) {
    Plot plot{.file = figure.file,
              .title = fmt::format("Throughput over length, {}, on {}", figure.words, place_of(report))};
    std::set<std::int64_t> head_dims;
    for (const CaseResult& c : report.cases)
        if (c.what.sweeps.contains(Sweep::length) && c.what.problem.work == Work::attention &&
            c.what.problem.dtype == figure.dtype)
            head_dims.insert(c.what.problem.head_dim);
    if (head_dims.empty()) {
        plot.not_drawn = fmt::format("no case of the sweep over lengths was measured in {}", figure.words);
        return plot;
    }
    const std::int64_t head_dim = figure.largest_head_dim ? *head_dims.rbegin() : *head_dims.begin();
    const auto x_of = [](const Problem& p) { return double(p.keys); };
    const auto panel = [&](bool causal) {
        return curves(
            report,
            [&](const Case& c) {
                return c.sweeps.contains(Sweep::length) && c.problem.work == Work::attention &&
                       c.problem.dtype == figure.dtype && c.problem.head_dim == head_dim &&
                       (c.problem.mask != Mask::none) == causal;
            },
            x_of);
    };
    const std::vector<Series> plain = panel(false), causal = panel(true);
    const std::string ceiling = ceiling_line(report, figure.ceiling, fmt::format("GEMM, {}", figure.words));
    plot.script = opening(1100, 560, "") +
                  fmt::format(
                      "set multiplot layout 1,{} title \"{}, D = {}, batch * N constant, on {}\" textcolor "
                      "rgb '{}'\nset xlabel 'N'\nset ylabel 'TFLOP/s'\nset key below height 1 width -4 font ',12'\n",
                      plain.empty() || causal.empty() ? 1 : 2, figure.words, head_dim, place_of(report), kInk);
    if (!plain.empty()) plot.script += "set title 'no mask'\n" + curve_panel(plain, ceiling);
    if (!causal.empty()) plot.script += "set title 'causal, useful operations'\n" + curve_panel(causal, ceiling);
    plot.script += "unset multiplot\n";
    return plot;
}

Plot decode_plot(const Report& report) {
    Plot plot{.file = "decode.svg", .title = "Decoding one token on " + place_of(report)};
    const std::vector<Series> all = curves(
        report, [](const Case& c) { return c.sweeps.contains(Sweep::kv_length); },
        [](const Problem& p) { return double(p.keys); });
    if (all.empty()) {
        plot.not_drawn = "no case of the sweep over the length of the cache was measured";
        return plot;
    }
    const auto one = std::ranges::find_if(report.cases,
                                          [](const CaseResult& c) { return c.what.sweeps.contains(Sweep::kv_length); });
    const Problem& p = one->what.problem;
    plot.script =
        opening(900, 520,
                fmt::format("Decoding one token: {}, B {}, {} query heads on {}, D {}, on {}", short_name(p.dtype),
                            p.batch, p.query_heads, p.kv_heads, p.head_dim, place_of(report))) +
        "set xlabel 'keys in the cache'\nset ylabel 'GB/s of keys and values'\nset key below height 1\n" +
        curve_panel(all, ceiling_line(report, "read", "stream of reads"));
    return plot;
}

Plot roofline_plot(const Report& report) {
    Plot plot{.file = "roofline.svg", .title = "Roofline on " + place_of(report)};
    const std::vector<LadderRung> rungs = ladder_rungs(report);
    const Ceiling* read = report.find_ceiling("read");
    const Ceiling* f32 = report.find_ceiling("gemm_f32");
    if (rungs.empty() || !read || !f32) {
        plot.not_drawn = "it needs a rung, the stream of reads and the GEMM";
        return plot;
    }
    plot.script = opening(1000, 620, plot.title) +
                  "set logscale xy\nset key outside right top maxrows 40 spacing 0.8 font ',13'\nset samples 400\n"
                  "set xlabel 'FLOP per byte asked of global memory (the L2 cache serves a part)'\n"
                  "set ylabel 'TFLOP/s'\nset format y '%g'\nset format x '%g'\nroof(x, peak, gb_s) = x * gb_s / 1000 < "
                  "peak ? x * gb_s / 1000 : peak\n";
    double least = 1, most = 10;
    std::string data, curves;
    for (std::size_t i = 0; i < rungs.size(); ++i) {
        const Measurement& m = *rungs[i].rung;
        if (m.moved_bytes <= 0) continue;
        const double intensity = m.flops / m.moved_bytes;
        least = std::min(least, intensity);
        most = std::max(most, intensity);
        data += fmt::format("$rung{} << END\n{:.6g} {:.6g}\nEND\n", i, intensity, m.rate(Unit::tflops));
        curves +=
            fmt::format(", $rung{} using 1:2 with points pointtype {} pointsize 1.1 linecolor rgb '{}' title '{}'", i,
                        4 + i % 10, colour_of(m.name), m.name);
    }
    plot.script += data + fmt::format("set xrange [{:.6g}:{:.6g}]\n", least / 3, most * 30);
    plot.script += fmt::format("plot roof(x, {:.6g}, {:.6g}) with lines linecolor rgb '{}' title 'GEMM, float32'",
                               f32->rate(), read->rate(), kInk);
    if (const Ceiling* bf16 = report.find_ceiling("gemm_bf16"); bf16 && bf16->rate() > f32->rate())
        plot.script +=
            fmt::format(", roof(x, {:.6g}, {:.6g}) with lines dashtype 2 linecolor rgb '{}' title 'GEMM, bfloat16'",
                        bf16->rate(), read->rate(), kInk);
    plot.script += curves + "\n";
    return plot;
}

}  // namespace

std::vector<Plot> plots_of(const Report& report) {
    // The smallest head dimension is the one that all phases share; in 16 bits the largest is what people run.
    return {ladder_chart(report),
            throughput_plot(report, {.file = "throughput.svg",
                                     .dtype = torch::kFloat32,
                                     .largest_head_dim = false,
                                     .ceiling = "gemm_f32",
                                     .words = "float32"}),
            throughput_plot(report, {.file = "throughput_bf16.svg",
                                     .dtype = torch::kBFloat16,
                                     .largest_head_dim = true,
                                     .ceiling = "gemm_bf16",
                                     .words = "bfloat16"}),
            decode_plot(report), roofline_plot(report)};
}

}  // namespace ladder::cli::bench
