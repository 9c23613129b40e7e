#include "common/cli/bench/bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <span>
#include <stdexcept>

#include "common/attention/machine.h"
#include "common/attention/outputs.h"
#include "common/cli/bench/ceilings.h"
#include "common/cli/bench/contestant.h"
#include "common/cli/bench/device_state.h"
#include "common/cli/bench/interleave.h"
#include "common/cli/terminal.h"
#include "common/simt/report/launch_log.h"
#include "common/torch/torch.h"

namespace ladder::cli::bench {
namespace {

Effort effort_for(torch::Device device, bool quick) {
    if (device.is_cuda()) return quick ? Effort{.seconds = 0.1, .least_rounds = 3, .most_rounds = 50} : Effort{};
    return quick ? Effort{.seconds = 0.02, .least_rounds = 3, .most_rounds = 7}
                 : Effort{.seconds = 0.3, .least_rounds = 5, .most_rounds = 30};
}

/// What merging the splits takes is told by a difference, of some 2 us between medians of some 60: four times the
/// rounds make it exact to a tenth of a microsecond.
Effort effort_for(const Case& what, const Request& request, Effort effort) {
    if (what.problem.work == Work::decode && request.device.is_cuda() && !request.quick) {
        effort.seconds *= 4;
        effort.most_rounds *= 4;
    }
    return effort;
}

/// So many input sets that eight times the cache has passed by the time that a call meets one again. On the CPU
/// machine, whose time is the interpreter's, two do.
int input_sets(const Tensors& one_set, std::int64_t cache_bytes) {
    constexpr std::int64_t kTimesCache = 8, kMost = 512;
    std::int64_t bytes = 0;
    for (const torch::Tensor& t : one_set) bytes += std::int64_t(t.nbytes());
    return int(std::clamp<std::int64_t>((kTimesCache * cache_bytes + bytes - 1) / bytes, 2, kMost));
}

std::vector<LaunchUse> uses_of(std::span<const simt::LaunchRecord> records, const simt::Device& limits) {
    std::vector<LaunchUse> uses;
    for (const simt::LaunchRecord& r : records) {
        const std::uint64_t threads = std::uint64_t{r.block[0]} * r.block[1] * r.block[2];
        uses.push_back({.kernel = r.kernel,
                        .blocks = r.blocks(),
                        .threads_per_block = threads,
                        .shared_bytes_per_block = r.shared_bytes_per_block + r.resources.static_shared_bytes,
                        .registers_per_thread = r.resources.registers_per_thread,
                        .local_bytes_per_thread = r.resources.local_bytes_per_thread,
                        .resident_blocks = r.resources.resident_blocks,
                        .occupancy = double(r.resources.resident_blocks) * double(threads) /
                                     limits.max_threads_per_multiprocessor});
    }
    return uses;
}

/// Whether a contestant merely cannot, on this device: it says so with std::invalid_argument, and memory runs out with
/// words that every version of PyTorch has in its message.
bool is_limit(const std::exception& error) {
    return dynamic_cast<const std::invalid_argument*>(&error) ||
           std::string_view(error.what()).find("out of memory") != std::string_view::npos;
}

Tensors prepared(const Contestant& contestant, const Tensors& inputs) {
    return contestant.prepare ? contestant.prepare(inputs) : inputs;
}

/// The first call: its result is checked, and its launches are noted.
Measurement try_out(const Contestant& contestant, const Tensors& inputs, torch::Device device) {
    Measurement m{.name = contestant.name,
                  .role = contestant.role,
                  .not_available = contestant.not_available,
                  .flops = contestant.flops,
                  .useful_bytes = contestant.useful_bytes,
                  .moved_bytes = contestant.moved_bytes};
    if (!m.available()) return m;
    try {
        const PoisonOutputs poison_outputs;
        const simt::LaunchLog log;
        const Verdict verdict = contestant.judge(contestant.call(prepared(contestant, inputs)));
        m.right = verdict.right;
        m.max_abs_error = verdict.max_abs_error;
        m.bound = verdict.bound;
        m.verdict = verdict.text;
        m.launches = uses_of(log.records(), device_limits(device));
    } catch (const std::exception& error) {
        m.not_available = short_reason(error);
        m.broke = !is_limit(error);
    }
    return m;
}

std::vector<Contestant> contestants_of(const Case& what, const Tensors& inputs, torch::Device device,
                                       const Expected& expected) {
    std::vector<Contestant> all;
    for (const std::string& entry : what.entries) {
        try {
            all.push_back(contestant_named(entry, what.problem, inputs));
        } catch (const std::invalid_argument& refusal) {
            all.push_back({.name = entry, .not_available = short_reason(refusal)});
        }
    }
    for (Contestant& one : companions(what.entries, what.problem, inputs)) all.push_back(std::move(one));
    for (Contestant& one : peers(what.problem, device)) all.push_back(std::move(one));
    for (Contestant& one : all)
        if (!one.judge) one.judge = [&expected](const Tensors& outputs) { return expected.judge(outputs); };
    return all;
}

/// Times those contestants that are available. One that fails now, though its first call went well, is left out and the
/// others start again.
void time_all(const std::vector<Contestant>& contestants, const std::vector<Tensors>& sets, torch::Device device,
              const Effort& effort, std::vector<Measurement>& measurements) {
    for (;;) {
        // Each goes on through the sets, lest anybody be timed on other memory than the others, and starts elsewhere.
        std::vector<std::size_t> turns(contestants.size());
        std::iota(turns.begin(), turns.end(), 0);
        std::size_t running = 0;
        std::vector<std::function<void()>> calls;
        std::vector<Measurement*> timed;
        std::vector<std::vector<Tensors>> given(contestants.size());
        try {
            for (std::size_t i = 0; i < contestants.size(); ++i) {
                if (!measurements[i].available()) continue;
                running = i;
                for (const Tensors& set : sets) given[i].push_back(prepared(contestants[i], set));
                calls.push_back([&, i] {
                    running = i;
                    contestants[i].call(given[i][turns[i]++ % sets.size()]);
                });
                timed.push_back(&measurements[i]);
            }
            if (calls.empty()) return;
            const std::vector<Samples> samples = time_interleaved(calls, device, effort);
            for (std::size_t i = 0; i < timed.size(); ++i) {
                timed[i]->milliseconds = spread_of(samples[i].milliseconds);
                timed[i]->calls_per_sample = samples[i].calls_per_sample;
            }
            return;
        } catch (const std::exception& error) {
            measurements[running].not_available = short_reason(error);
            measurements[running].broke = !is_limit(error);
            release_cached_memory(device);
        }
    }
}

CaseResult measure(const Case& what, const Request& request, const Environment& environment, const Effort& effort) {
    CaseResult result{.what = what};
    const torch::Device device = request.device;
    std::vector<Tensors> sets = {make_inputs(what.problem, device, 0)};
    const Expected expected(what.problem, sets.front());
    result.checked = expected.description();
    const std::vector<Contestant> contestants = contestants_of(what, sets.front(), device, expected);
    for (const Contestant& one : contestants) result.measurements.push_back(try_out(one, sets.front(), device));

    result.input_sets = input_sets(sets.front(), environment.cache_bytes);
    while (int(sets.size()) < result.input_sets) sets.push_back(make_inputs(what.problem, device, sets.size()));

    time_all(contestants, sets, device, effort_for(what, request, effort), result.measurements);
    return result;
}

CaseResult measure_safely(const Case& what, const Request& request, const Environment& environment,
                          const Effort& effort) {
    CaseResult result;
    try {
        result = measure(what, request, environment, effort);
    } catch (const std::exception& error) {
        result = {.what = what, .error = short_reason(error), .broke = !is_limit(error)};
    }
    try {
        release_cached_memory(request.device);
    } catch (const std::exception& error) {  // after a kernel that broke, every call to the device may fail
        if (result.error.empty()) result.error = short_reason(error);
        result.broke = true;
    }
    return result;
}

std::string line_of(const CaseResult& result) {
    if (!result.error.empty()) return styled(Style::note, "not measured: " + result.error);
    std::string line;
    for (const Role role : {Role::rung, Role::peer})
        for (const Measurement& m : result.measurements) {
            if (m.role != role || (role == Role::peer && !m.available())) continue;
            const std::string text = !m.available()                   ? "not measured"
                                     : role == Role::rung && !m.right ? "WRONG"
                                                                      : fmt::format("{:.3g}", m.rate(result.unit()));
            line += fmt::format("{}{} {}", line.empty() ? "" : ", ", m.name, text);
        }
    return line + " " + name_of(result.unit());
}

void save(const Report& report, const std::string& file) {
    if (file.empty()) return;
    const std::string unfinished = file + ".part";
    std::ofstream stream(unfinished);
    stream << to_json(report);
    std::error_code error;
    if (stream.flush()) std::filesystem::rename(unfinished, file, error);
    if (!stream || error)
        throw std::runtime_error("--json: \"" + file + "\" cannot be written; name a file in a folder that exists");
}

}  // namespace

Report run(const Request& request) {
    const at::NoGradGuard no_gradients;
    at::globalContext().setFloat32MatmulPrecision("highest");  // no tf32 for anybody
    const auto begin = std::chrono::steady_clock::now();
    const auto elapsed = [&] {
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    };

    Report report{.environment = environment_of(request.device, request.profile), .quick = request.quick};
    report.environment.clocks_before = clocks_of(request.device);
    save(report, request.json);
    const Effort effort = effort_for(request.device, request.quick);
    {
        const Progress progress("ceilings: products of matrices, a copy, a stream of reads …");
        report.ceilings = measure_ceilings(request.device, request.quick, effort);
    }

    const Scale scale = request.device.is_cuda() ? Scale::gpu : Scale::cpu;
    std::vector<Case> cases = request.quick ? quick_cases(scale) : all_cases(scale);
    if (!request.phases.empty())
        std::erase_if(cases, [&](const Case& c) { return std::ranges::count(request.phases, c.phase) == 0; });
    for (std::size_t i = 0; i < cases.size(); ++i) {
        if (request.seconds && elapsed() > *request.seconds) {
            report.cases.push_back(
                {.what = cases[i], .error = fmt::format("not begun: --seconds {:g} were over", *request.seconds)});
            continue;
        }
        const std::string title =
            fmt::format("{:3}/{} phase {}  {}", i + 1, cases.size(), cases[i].phase, text_of(cases[i].problem));
        {
            const Progress progress(title + " …");
            report.cases.push_back(measure_safely(cases[i], request, report.environment, effort));
        }
        constexpr int kTitle = 52;
        fmt::print("{}", wrapped(line_of(report.cases.back()), kTitle, 118)
                             .replace(0, kTitle, fmt::format("{:<{}}", title, kTitle)));
        std::fflush(stdout);
        report.seconds = elapsed();
        save(report, request.json);
    }
    report.environment.clocks_after = clocks_of(request.device);
    report.seconds = elapsed();
    save(report, request.json);
    return report;
}

}  // namespace ladder::cli::bench
