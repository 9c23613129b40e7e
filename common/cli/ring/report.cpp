#include "common/cli/ring/report.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <limits>

#include "common/cli/terminal.h"

namespace ladder::cli::ring {
namespace {

const char* mask_name(Mask mask) {
    return mask == Mask::none                  ? "none"
           : mask == Mask::causal_bottom_right ? "causal, bottom-right"
                                               : "causal, top-left";
}

/// Positions as people write them: "0-31, 224-255".
std::string positions(const std::vector<std::pair<std::int64_t, std::int64_t>>& held) {
    std::string text;
    for (const auto& [first, length] : held)
        if (length > 0) text += fmt::format("{}{}-{}", text.empty() ? "" : ", ", first, first + length - 1);
    return text.empty() ? "nothing" : text;
}

/// One method on all ranks.
struct Summary {
    std::string method, summary, objection;
    std::int64_t sent = 0, formula = 0, peak = 0;
    double seconds = 0, error = 0, allowed = 0;
    bool right = true;
    std::string report;
};

Summary summary_of(const Plan& plan, const RingMethod& method, const std::vector<RankRun>& ranks, std::size_t index) {
    Summary s;
    s.method = method.name;
    s.summary = method.summary;
    s.objection = ranks[0].methods[index].objection;
    if (!s.objection.empty()) return s;
    s.formula = method.bytes(plan.sizes, plan.ranks, false);
    if (plan.backward) s.formula += method.bytes(plan.sizes, plan.ranks, true);
    for (const RankRun& rank : ranks) {
        const MethodRun& run = rank.methods[index];
        s.sent += run.bytes_sent;
        s.peak = std::max(s.peak, run.peak_bytes);
        s.seconds = std::max(s.seconds, run.seconds);
        s.right = s.right && run.right;
        if (!run.report.empty()) s.report = run.report;
        if (s.allowed == 0 || (run.allowed > 0 && run.error / run.allowed > s.error / s.allowed)) {
            s.error = run.error;
            s.allowed = run.allowed;
        }
    }
    return s;
}

std::vector<Summary> summaries(const Plan& plan, const RingDemo& demo, const std::vector<RankRun>& ranks) {
    std::vector<Summary> all;
    for (const RingMethod& method : demo.methods)
        if (!plan.only || *plan.only == method.name) all.push_back(summary_of(plan, method, ranks, all.size()));
    return all;
}

double pairs_of_all(const Plan& plan, const RingDemo& demo) {
    double pairs = 0;
    for (int rank = 0; rank < plan.ranks; ++rank)
        for (int step = 0; step < plan.ranks; ++step)
            pairs += double(demo.pairs(plan.sizes, plan.call, rank, step, plan.ranks));
    return pairs;
}

/// Floating-point operations for so many pairs: two products forward, five backward.
double flops_of(const Plan& plan, double pairs) {
    const double a_product = 2.0 * double(plan.sizes.batch * plan.sizes.query_heads * plan.sizes.head_dim) * pairs;
    return a_product * (plan.backward ? 7 : 2);
}

/// Operations a second of one rank's kernel on its own part.
double rate_alone(const Plan& plan, const RingDemo& demo, const std::vector<RankRun>& ranks) {
    RingSizes own = plan.sizes;
    own.query_length /= plan.ranks;
    own.key_length /= plan.ranks;
    double slowest = 0;
    for (const RankRun& rank : ranks) slowest = std::max(slowest, rank.alone_seconds);
    return slowest > 0 ? flops_of(plan, double(demo.pairs(own, plan.call, 0, 0, 1))) / slowest : 0;
}

std::string rate(double flops, double seconds) {
    const double giga = flops / seconds / 1e9;
    return giga < 1e3 ? fmt::format("{:.3g} GFLOP/s", giga) : fmt::format("{:.0f} TFLOP/s", giga / 1e3);
}

std::string who_holds_what(const Plan& plan, const RingDemo& demo) {
    std::vector<Table::Column> columns{{"rank"}, {"holds"}};
    for (int step = 0; step < plan.ranks; ++step)
        columns.push_back({fmt::format("step {}", step), Table::Align::right});
    columns.push_back({"all", Table::Align::right});
    Table table(columns);
    const double whole = double(plan.sizes.query_length) * double(plan.sizes.key_length) / plan.ranks / plan.ranks;
    for (int rank = 0; rank < plan.ranks; ++rank) {
        std::vector<Table::Cell> row{
            {std::to_string(rank)},
            {positions(demo.held(plan.sizes.query_length, rank, plan.ranks, plan.call.zigzag))}};
        double sum = 0;
        for (int step = 0; step < plan.ranks; ++step) {
            const double pairs = double(demo.pairs(plan.sizes, plan.call, rank, step, plan.ranks));
            sum += pairs;
            row.push_back(pairs == 0 ? Table::Cell{"idle", Style::note}
                                     : Table::Cell{fmt::format("{:.0f} %", 100 * pairs / whole)});
        }
        row.push_back({fmt::format("{:.0f} %", 100 * sum / whole / plan.ranks)});
        table.add(std::move(row));
    }
    return table.text(2);
}

/// Of a method, what each rank did in a run: microseconds since the first of all ranks began.
Json events_in_json(const std::vector<RankRun>& ranks, std::size_t index) {
    double start = std::numeric_limits<double>::infinity();
    for (const RankRun& rank : ranks)
        for (const Event& event : rank.methods[index].events) start = std::min(start, event.begin);
    const auto since_start = [&](double time) { return std::llround(1e6 * (time - start)); };
    Json all = Json::array();
    for (const RankRun& rank : ranks) {
        Json of_rank = Json::array();
        for (const Event& event : rank.methods[index].events)
            of_rank.push_back({event.what, since_start(event.begin), since_start(event.end)});
        all.push_back(of_rank);
    }
    return all;
}

}  // namespace

bool all_right(const Plan& plan, const RingDemo& demo, const std::vector<RankRun>& ranks) {
    return std::ranges::all_of(summaries(plan, demo, ranks), [&](const Summary& s) {
        const bool lengths_divide =
            plan.sizes.query_length % (2 * plan.ranks) == 0 && plan.sizes.key_length % (2 * plan.ranks) == 0;
        return !s.objection.empty() || (s.right && (!lengths_divide || s.sent == s.formula));
    });
}

std::string in_words(const Plan& plan, const RingDemo& demo, const std::vector<RankRun>& ranks) {
    const RingSizes& s = plan.sizes;
    std::string text =
        fmt::format("{}   {} ranks, {}, each on {}\n", styled(Style::bold, "Attention over a cut sequence"), plan.ranks,
                    plan.on_gpus ? "NCCL" : "Gloo",
                    plan.on_gpus ? "a GPU: " + ranks[0].device : "the CPU machine: " + ranks[0].device);
    text += fmt::format("  problem    q [{}, {}, {}, {}]   k, v [{}, {}, {}, {}]   {}   mask {}\n", s.batch,
                        s.query_heads, s.query_length, s.head_dim, s.batch, s.kv_heads, s.key_length, s.head_dim,
                        c10::toString(plan.dtype), mask_name(plan.call.attention.mask));
    text += fmt::format("  kernel     {}; on its own part of Q, K and V alone a rank takes {}\n\n", ranks[0].kernel,
                        human_time(1e3 * ranks[0].alone_seconds));
    text += fmt::format("{} parts. Of the {} pairs of one rank's queries and one rank's keys each works on:\n",
                        plan.call.zigzag ? "Zigzag" : "Contiguous",
                        s.query_length / plan.ranks * (s.key_length / plan.ranks));
    text += who_holds_what(plan, demo) + "\n";

    const double flops = flops_of(plan, pairs_of_all(plan, demo)), alone = rate_alone(plan, demo, ranks);
    Table table({{"way"},
                 {"sent", Table::Align::right},
                 {"by formula", Table::Align::right},
                 {"time", Table::Align::right},
                 {"rate of a rank", Table::Align::right},
                 {"of alone", Table::Align::right},
                 {"error", Table::Align::right},
                 {"allowed", Table::Align::right},
                 {""}});
    std::string notes;
    for (const Summary& m : summaries(plan, demo, ranks)) {
        if (!m.objection.empty()) {
            notes += fmt::format("  {}: not run, {}\n", m.method, m.objection);
            continue;
        }
        table.add({{m.method},
                   {human_bytes(std::uint64_t(m.sent))},
                   {human_bytes(std::uint64_t(m.formula))},
                   {human_time(1e3 * m.seconds)},
                   {rate(flops / plan.ranks, m.seconds)},
                   {alone > 0 ? fmt::format("{:.0f} %", 100 * flops / plan.ranks / m.seconds / alone) : ""},
                   {fmt::format("{:.1e}", m.error)},
                   {fmt::format("{:.1e}", m.allowed)},
                   {m.right ? "right" : "WRONG", m.right ? Style::good : Style::bad}});
        notes += fmt::format(
            "  {}: {}{}\n", m.method, m.summary,
            m.peak ? fmt::format("; at most {} of a GPU's memory beside its inputs", human_bytes(std::uint64_t(m.peak)))
                   : "");
        if (!m.report.empty()) notes += "    " + m.report + "\n";
    }
    return text + table.text(2) + notes;
}

Json in_json(const Plan& plan, const RingDemo& demo, const std::vector<RankRun>& ranks) {
    const char* const commit = std::getenv("LADDER_COMMIT");
    const RingSizes& s = plan.sizes;
    const double pairs = pairs_of_all(plan, demo);
    const double alone = rate_alone(plan, demo, ranks);
    Json methods = Json::array();
    for (const Summary& m : summaries(plan, demo, ranks)) {
        if (!m.objection.empty()) {
            methods.push_back({{"method", m.method}, {"not_run", m.objection}});
            continue;
        }
        methods.push_back({{"method", m.method},
                           {"bytes_sent", m.sent},
                           {"bytes_by_formula", m.formula},
                           {"seconds", m.seconds},
                           {"flops_a_second_and_rank", flops_of(plan, pairs) / m.seconds / plan.ranks},
                           {"of_kernel_alone", flops_of(plan, pairs) / m.seconds / plan.ranks / std::max(1.0, alone)},
                           {"peak_bytes_of_a_rank", m.peak},
                           {"max_abs_error", m.error},
                           {"bound", m.allowed},
                           {"passed", m.right}});
        if (!plan.trace.empty()) methods.back()["events"] = events_in_json(ranks, methods.size() - 1);
    }
    return {{"commit", commit ? commit : "unknown"},
            {"date", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)))},
            {"device_name", ranks[0].device},
            {"device", plan.on_gpus ? "cuda" : "cpu"},
            {"engine", plan.on_gpus ? "nccl" : "gloo"},
            {"ranks", plan.ranks},
            {"q", {s.batch, s.query_heads, s.query_length, s.head_dim}},
            {"k", {s.batch, s.kv_heads, s.key_length, s.head_dim}},
            {"dtype", c10::toString(plan.dtype)},
            {"mask", mask_name(plan.call.attention.mask)},
            {"parts", plan.call.zigzag ? "zigzag" : "contiguous"},
            {"overlap", plan.call.overlap},
            {"link_bytes_a_second", plan.link ? Json(*plan.link) : Json()},
            {"backward", plan.backward},
            {"repeats", plan.repeats},
            {"kernel", ranks[0].kernel},
            {"kernel_alone", {{"seconds", ranks[0].alone_seconds}, {"flops_a_second", alone}}},
            {"methods", methods},
            {"passed", all_right(plan, demo, ranks)}};
}

}  // namespace ladder::cli::ring
