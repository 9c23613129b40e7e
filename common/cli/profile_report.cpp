#include "common/cli/profile_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "common/attention/machine.h"
#include "common/cli/terminal.h"

namespace ladder::cli {
namespace {

using Align = Table::Align;

constexpr int kLabelColumn = 15;
constexpr const char* kUnknown = "?";

void line(const char* label, const std::string& text) {
    std::string block = wrapped(text, 6 + kLabelColumn, 116);
    block.replace(6, std::string_view(label).size(), label);
    fmt::print("{}", block);
}

/// "2", "2.5", "4.06"
std::string times_text(double times) {
    std::string text = fmt::format("{:.2f}", times);
    while (text.ends_with('0')) text.pop_back();
    if (text.ends_with('.')) text.pop_back();
    return text;
}

std::string flops_text(double flops) {
    constexpr const char* units[] = {"", "k", "M", "G", "T", "P"};
    int unit = 0;
    for (; flops >= 1000 && unit < 5; ++unit) flops /= 1000;
    return fmt::format("{:.{}f} {}FLOP", flops, unit == 0 ? 0 : 1, units[unit]);
}

std::string percent(std::uint64_t part, std::uint64_t whole) {
    return whole ? fmt::format("{:.0f} %", 100.0 * double(part) / double(whole)) : "";
}

std::string dtype_text(torch::ScalarType type) {
    return type == torch::kFloat16 ? "float16" : type == torch::kBFloat16 ? "bfloat16" : "float32";
}

std::string grid_text(const simt::LaunchRecord& l) {
    return fmt::format("grid {} x {} x {}, {} threads and {} shared memory per block", l.grid[0], l.grid[1], l.grid[2],
                       l.block[0] * l.block[1] * l.block[2],
                       l.shared_bytes_per_block ? human_bytes(l.shared_bytes_per_block) : "no");
}

/// How often a tensor of known size is moved as a whole.
std::optional<double> times_over(const RungProfile& rung, const std::string& tensor, std::uint64_t bytes) {
    const auto known = rung.tensor_bytes.find(tensor);
    if (known == rung.tensor_bytes.end() || known->second == 0) return std::nullopt;
    return double(bytes) / double(known->second);
}

void add_direction(std::vector<Table::Cell>& row, const RungProfile& rung, const std::string& tensor,
                   std::uint64_t bytes, std::uint64_t sectors, std::uint64_t ideal, std::uint64_t in_doubt) {
    if (bytes == 0) {
        row.insert(row.end(), 4, Table::Cell{""});
        return;
    }
    const auto times = times_over(rung, tensor, bytes);
    row.push_back({human_bytes(bytes)});
    row.push_back({times ? times_text(*times) : ""});
    const bool known = simt::is_known(sectors, in_doubt);
    row.push_back({known ? std::to_string(sectors) : kUnknown});
    row.push_back({known ? percent(ideal, sectors) : kUnknown, ideal < sectors ? Style::note : Style::plain});
}

void print_tensors(const RungProfile& rung, const simt::Counters& counters) {
    Table table({{"tensor"},
                 {"read", Align::right},
                 {"times", Align::right},
                 {"sectors", Align::right},
                 {"coalesced", Align::right},
                 {"  written", Align::right},
                 {"times", Align::right},
                 {"sectors", Align::right},
                 {"coalesced", Align::right}});
    for (const simt::TensorTraffic& t : counters.tensors) {
        std::vector<Table::Cell> row{{t.tensor}};
        add_direction(row, rung, t.tensor, t.bytes_read, t.sectors_read, t.sectors_read_ideal, t.sectors_read_in_doubt);
        add_direction(row, rung, t.tensor, t.bytes_written, t.sectors_written, t.sectors_written_ideal,
                      t.sectors_written_in_doubt);
        table.add(std::move(row));
    }
    fmt::print("{}", table.text(6));
}

void print_shared(const simt::Counters& c) {
    if (c.shared_requests == 0) return;
    const std::uint64_t lost = c.shared_wavefronts - c.shared_wavefronts_ideal;
    const bool known = simt::is_known(c.shared_wavefronts, c.shared_wavefronts_in_doubt);
    line("shared memory", fmt::format("{} requests in {} wavefronts{}; {} read, {} written", c.shared_requests,
                                      known ? std::to_string(c.shared_wavefronts) : kUnknown,
                                      known ? fmt::format(", {} without bank conflicts ({} lost)",
                                                          c.shared_wavefronts_ideal, percent(lost, c.shared_wavefronts))
                                            : "",
                                      human_bytes(c.shared_bytes_read), human_bytes(c.shared_bytes_written)));
}

bool is_in_doubt(const simt::Counters& c) {
    return !simt::is_known(c.shared_wavefronts, c.shared_wavefronts_in_doubt) ||
           std::ranges::any_of(c.tensors, [](const simt::TensorTraffic& t) {
               return !simt::is_known(t.sectors_read, t.sectors_read_in_doubt) ||
                      !simt::is_known(t.sectors_written, t.sectors_written_in_doubt);
           });
}

/// Why a number is missing, if one is.
void print_doubts(const simt::Counters& c) {
    if (!is_in_doubt(c)) return;
    line("not known: ?",
         "lanes of a warp go round a loop unequally often. Whether those with fewer turns leave it sooner or sit out "
         "other turns leaves no trace in their accesses, and it decides what this launch costs (docs/counters.md)");
}

std::string plural(std::uint64_t count, const char* what) {
    return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

void print_occupancy(const LaunchProfile& profile, const simt::DeviceProfile& device) {
    const simt::Occupancy& o = *profile.occupancy;
    line("occupancy",
         fmt::format("{} on a multiprocessor at a time, {} of {} warps ({:.0f} %), limited by {}; {} on {} "
                     "multiprocessors: {:.2f} waves",
                     plural(o.resident_blocks, "block"), o.resident_warps, o.max_warps, 100 * o.fraction(),
                     simt::name_of(o.limiter), plural(profile.launch.blocks(), "block"), device.multiprocessors,
                     profile.waves));
}

void print_launch(const RungProfile& rung, const LaunchProfile& profile, const simt::DeviceProfile* device) {
    const simt::LaunchRecord& l = profile.launch;
    fmt::print("    {}   {}{}\n", styled(Style::bold, l.instance.empty() ? l.kernel : l.instance), grid_text(l),
               profile.count == 1 ? "" : fmt::format("   launched {} times", profile.count));
    if (l.counted) {
        print_tensors(rung, l.counters);
        print_shared(l.counters);
        print_doubts(l.counters);
        line("synchronising", fmt::format("{} of whole blocks, {} of warps (shuffles, votes, __syncwarp)",
                                          plural(l.counters.block_barriers, "barrier"),
                                          plural(l.counters.warp_collectives, "collective")));
    }
    if (profile.occupancy) print_occupancy(profile, *device);
    line("registers", profile.registers
                          ? fmt::format("{} per thread ({})", *profile.registers, profile.registers_source)
                          : "unknown here: nothing is recorded for this kernel and device, see "
                            "common/cli/measure_registers.py; above they limit nothing");
}

std::string joined(const std::vector<std::string>& names) {
    std::string text;
    for (std::size_t i = 0; i < names.size(); ++i)
        text += (i == 0 ? "" : i + 1 == names.size() ? " and " : ", ") + names[i];
    return text;
}

/// Why a launch reads a tensor `times` times, if its algorithm or its shape says so.
std::string reason_for(const RungProfile& rung, const simt::LaunchRecord& launch, const std::string& tensor,
                       double times) {
    const auto matches = [&](double count) { return std::abs(times - count) < 0.005 * count; };
    for (const Repetition& known : rung.repetitions)
        if (known.tensor == tensor && (!known.times || matches(*known.times))) return known.why;
    const auto heads_of = [&](const char* name) {
        const auto shape = rung.shapes.find(name);
        return shape == rung.shapes.end() ? 1 : shape->second.at(1);
    };
    const auto sharing = double(heads_of("q")) / double(heads_of("k"));
    const double group = tensor == "K" || tensor == "V" ? sharing : 1, blocks = launch.grid[0];
    if (matches(group)) return fmt::format("once for each of the {} query heads that share a key head", group);
    if (matches(blocks * group))
        return group == 1 ? fmt::format("once by each of the {} blocks of a head", blocks)
                          : fmt::format("once by each of the {} blocks of {} query heads", blocks, group);
    if (group == 1 && times < blocks && std::abs(std::remainder(blocks, times)) < 0.01)
        return fmt::format("every part by {:.0f} of the {} blocks of a head", times, blocks);
    return {};
}

/// "K and V are read 4 times: once by each of the 4 blocks of a head."
std::string what_is_read_again(const RungProfile& rung) {
    struct Finding {
        std::string times, why;
        std::vector<std::string> tensors;
    };
    std::string text;
    for (const LaunchProfile& profile : rung.launches) {
        std::vector<Finding> findings;
        for (const simt::TensorTraffic& t : profile.launch.counters.tensors) {
            const auto times = times_over(rung, t.tensor, t.bytes_read);
            if (!times || *times < 1.005) continue;
            const Finding found{times_text(*times), reason_for(rung, profile.launch, t.tensor, *times), {}};
            auto known = std::ranges::find_if(
                findings, [&](const Finding& f) { return f.times == found.times && f.why == found.why; });
            if (known == findings.end()) known = findings.insert(known, found);
            known->tensors.push_back(t.tensor);
        }
        for (const Finding& f : findings)
            text += fmt::format("{} {} read {} times{}{}. ", joined(f.tensors), f.tensors.size() == 1 ? "is" : "are",
                                f.times, f.why.empty() ? "" : ": ", f.why);
    }
    return text.empty() ? "Nothing is read more than once. " : text;
}

/// "Writes of O fill 25 % of their sectors."
std::string what_is_scattered(const RungProfile& rung) {
    constexpr double kWorthSaying = 0.6;
    std::string text;
    const auto look_at = [&](const char* what, const std::string& tensor, std::uint64_t sectors, std::uint64_t ideal,
                             std::uint64_t in_doubt) {
        if (simt::is_known(sectors, in_doubt) && double(ideal) < kWorthSaying * double(sectors))
            text += fmt::format("{} of {} fill {} of their sectors. ", what, tensor, percent(ideal, sectors));
    };
    for (const simt::TensorTraffic& t : rung.total().tensors) {
        look_at("Reads", t.tensor, t.sectors_read, t.sectors_read_ideal, t.sectors_read_in_doubt);
        look_at("Writes", t.tensor, t.sectors_written, t.sectors_written_ideal, t.sectors_written_in_doubt);
    }
    return text;
}

std::string what_scores_cost(const RungProfile& rung) {
    const simt::Counters sum = rung.total();
    std::uint64_t scores = 0;
    for (const simt::TensorTraffic& t : sum.tensors)
        if (t.tensor == "S" || t.tensor == "P") scores += t.bytes_read + t.bytes_written;
    const std::uint64_t all = sum.global_bytes_read() + sum.global_bytes_written();
    return scores ? fmt::format("S and P are {} of the traffic. ", percent(scores, all)) : "";
}

std::string what_conflicts_cost(const RungProfile& rung) {
    const simt::Counters sum = rung.total();
    const std::uint64_t lost = sum.shared_wavefronts - sum.shared_wavefronts_ideal;
    if (200 * lost < sum.shared_wavefronts || lost == 0) return "";
    if (!simt::is_known(sum.shared_wavefronts, sum.shared_wavefronts_in_doubt)) return "";
    return fmt::format("Bank conflicts cost {} of the passes through shared memory. ",
                       percent(lost, sum.shared_wavefronts));
}

std::string how_full_the_device_is(const RungProfile& rung, const simt::DeviceProfile& device) {
    std::uint64_t blocks = 0;
    for (const LaunchProfile& profile : rung.launches) blocks = std::max(blocks, profile.launch.blocks());
    if (blocks >= std::uint64_t(device.multiprocessors)) return "";
    return fmt::format("{} of {} multiprocessors get no block. ", device.multiprocessors - int(blocks),
                       device.multiprocessors);
}

std::string side_of_the_ridge(const RungProfile& rung, const simt::DeviceProfile& device) {
    const double intensity = rung.intensity(), ridge = ridge_point(device, rung.tensor_cores);
    return fmt::format("{:.1f} FLOP per byte asked for, {} the ridge of {}{:.0f}{}", intensity,
                       intensity < ridge ? "below" : "above", rung.tensor_cores ? "the tensor cores, " : "", ridge,
                       intensity < ridge ? ": unless the caches serve most of it, memory sets the pace."
                                         : ": arithmetic sets the pace.");
}

}  // namespace

std::string conclusion(const RungProfile& rung, const simt::DeviceProfile& device) {
    if (!rung.counted()) return {};
    return what_is_read_again(rung) + what_is_scattered(rung) + what_scores_cost(rung) + what_conflicts_cost(rung) +
           how_full_the_device_is(rung, device) + side_of_the_ridge(rung, device);
}

void print_profile_header(const ProfileRequest& request) {
    if (request.profile.empty()) {
        fmt::print("{}   on {}, which counts nothing: only launches are listed\n", styled(Style::bold, "Launches"),
                   device_limits(request.device).name);
    } else {
        const simt::DeviceProfile& device = simt::device_profile(request.profile);
        fmt::print("{}   on the CPU machine, with the limits of {} ({})\n", styled(Style::bold, "Counters"),
                   device.product, device.name);
        fmt::print("  ridge      {:.0f} FLOP per byte: {} TFLOP/s in float32 over {} GB/s\n", ridge_point(device),
                   device.fp32_tflops, device.memory_bandwidth_gb_s);
    }
}

void print_profile_problem(const ProfileProblem& p) {
    const std::int64_t kv_heads = p.kv_heads.value_or(p.heads);
    const std::string queries = p.queries ? fmt::format("{} queries", *p.queries)
                                          : std::string("as many queries (1 where the kernel is made for few)");
    fmt::print(
        "  problem    {} {}, {} {}, {} keys, {}, D = {}, {}\n", p.batch, p.batch == 1 ? "sequence" : "sequences",
        p.heads,
        kv_heads == p.heads ? (p.heads == 1 ? "head" : "heads") : fmt::format("query heads on {} key heads", kv_heads),
        p.keys, queries, p.head_dim,
        p.dtype ? dtype_text(*p.dtype) : "float32 (float16 where the kernel takes no float32)");
}

void print_rung_profile(const RungProfile& rung, const ProfileRequest& request) {
    const simt::DeviceProfile* device = request.profile.empty() ? nullptr : &simt::device_profile(request.profile);
    fmt::print("\n  {}   {}\n", styled(Style::bold, rung.kernel), flops_text(rung.flops));
    if (!rung.ran()) {
        fmt::print("{}", wrapped("did not run: " + rung.refusal, 4, 116));
        return;
    }
    for (const LaunchProfile& profile : rung.launches) print_launch(rung, profile, device);
    if (!rung.counted()) return;

    const simt::Counters sum = rung.total();
    const bool equal = GlobalBytes{sum.global_bytes_read(), sum.global_bytes_written()} == rung.formula;
    fmt::print(
        "    {}",
        wrapped(fmt::format("traffic   {} read, {} written; by formula {}. {} ({})",
                            human_bytes(sum.global_bytes_read()), human_bytes(sum.global_bytes_written()),
                            equal ? "the same"
                                  : fmt::format("{} and {}: THE TWO DIFFER", rung.formula.read, rung.formula.written),
                            rung.growth.law, rung.growth.source),
                4, 116)
            .substr(4));
    fmt::print("{}", wrapped(conclusion(rung, *device), 4, 116));
}

void print_sweep(const Sweep& sweep) {
    const bool length = sweep.variable == SweepVariable::length;
    fmt::print("\n  {}   traffic as {} grows   {}\n", styled(Style::bold, sweep.kernel),
               length ? "N" : "a block's shared memory", styled(Style::dim, sweep.fixed));
    if (!sweep.points.empty()) {
        std::uint64_t most = 0;
        for (const SweepPoint& p : sweep.points) most = std::max(most, p.bytes);
        Table table({{length ? "N" : "M", Align::right}, {"counted", Align::right}, {"predicted", Align::right}, {""}});
        constexpr double kBarWidth = 48;
        for (const SweepPoint& p : sweep.points) {
            const auto cells = [&](double bytes) { return int(std::lround(kBarWidth * bytes / double(most))); };
            const double predicted = predicted_bytes(sweep, p.value);
            std::string bar;
            const int filled = std::max(1, cells(double(p.bytes))), mark = std::max(1, cells(predicted));
            for (int i = 1; i <= std::max(filled, mark); ++i) bar += i == mark ? "|" : i <= filled ? "=" : " ";
            table.add({{length ? std::to_string(p.value) : human_bytes(std::uint64_t(p.value))},
                       {human_bytes(p.bytes)},
                       {human_bytes(std::uint64_t(predicted))},
                       {bar}});
        }
        fmt::print("{}", table.text(4));
    }
    if (!sweep.left_out.empty())
        fmt::print("{}", wrapped(fmt::format("did not run at {}: {}", fmt::join(sweep.left_out, ", "), sweep.refusal),
                                 4, 116));
    if (sweep.points.size() < 2) return;
    const std::string symbol = length ? "N" : "M";
    const std::string at_the_end = length
                                       ? fmt::format(" (from {} on N^{:.2f})", std::prev(sweep.points.end(), 2)->value,
                                                     log_log_slope(std::span(sweep.points).last(2)))
                                       : "";
    fmt::print("    bytes grow as {0}^{1:.2f}{2}, predicted {0}^{3}: {4}, {5}\n", symbol, sweep.slope(), at_the_end,
               sweep.predicted_slope, sweep.law, sweep.source);
}

}  // namespace ladder::cli
