#include "common/cli/tour.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "common/attention/machine.h"
#include "common/attention/outputs.h"
#include "common/cli/stopwatch.h"
#include "common/cli/terminal.h"
#include "common/fixture/fixture.h"
#include "common/rung/phase.h"

namespace ladder::cli {
namespace {

/// The fixture ships in float16, and float16 is what attention runs in, so the tour does too.
RungInput load_input(torch::Device device) {
    const Fixture fixture =
        load_fixture(std::filesystem::path(LADDER_SOURCE_DIR) / "common/fixture/minilm_paragraph.safetensors");
    const auto on_device = [&](const torch::Tensor& t) { return t.to(device, torch::kFloat16).contiguous(); };
    const torch::Tensor scores =
        torch::matmul(fixture.q, fixture.k.transpose(-2, -1)) / std::sqrt(double(fixture.q.size(-1)));
    return {.q = on_device(fixture.q),
            .k = on_device(fixture.k),
            .v = on_device(fixture.v),
            .newest = on_device(fixture.q.slice(2, fixture.q.size(2) - 1)),
            .scores = on_device(scores.reshape({-1, scores.size(-1)})),
            .description = fixture.description};
}

std::string name_of(torch::ScalarType type) {
    switch (type) {
        case torch::kFloat32:
            return "float32";
        case torch::kFloat16:
            return "float16";
        case torch::kBFloat16:
            return "bfloat16";
        default:
            return toString(type);
    }
}

/// Multiprocessors that have something to do, in the launch with the most blocks.
int busy_multiprocessors(const std::vector<simt::LaunchRecord>& launches, const simt::Device& device) {
    std::uint64_t blocks = 0;
    for (const simt::LaunchRecord& launch : launches) blocks = std::max(blocks, launch.blocks());
    return int(std::min<std::uint64_t>(blocks, std::uint64_t(device.multiprocessors)));
}

RungResult walk(const Rung& rung, torch::Device device) {
    RungResult result{.phase = rung.phase, .kernel = rung.kernel, .changes = rung.changes, .on_gpu = device.is_cuda()};
    for (const auto& [name, tensor] : rung.inputs) result.shapes.emplace_back(name, tensor.sizes().vec());
    result.dtype = name_of(rung.inputs.front().second.scalar_type());

    std::vector<torch::Tensor> outputs;
    Timing timing;
    {
        const Progress progress(fmt::format("phase {}: {} …", rung.phase, rung.kernel));
        const PoisonOutputs poison_outputs;
        const simt::LaunchLog log;
        timing = time_once([&] { outputs = rung.run(); });
        result.launches.assign(log.records().begin(), log.records().end());
        const simt::Counters counted = log.total();
        result.bytes_counted = !result.on_gpu && simt::cpu_machine_checks();
        result.global_bytes_read = result.bytes_counted ? counted.global_bytes_read() : rung.bytes.read;
        result.global_bytes_written = result.bytes_counted ? counted.global_bytes_written() : rung.bytes.written;
    }
    for (const simt::LaunchRecord& launch : result.launches) {
        result.blocks += launch.blocks();
        result.shared_bytes_per_block =
            std::max<std::uint64_t>(result.shared_bytes_per_block, launch.shared_bytes_per_block);
        result.threads_per_block = std::max<std::uint64_t>(
            result.threads_per_block, std::uint64_t{launch.block[0]} * launch.block[1] * launch.block[2]);
    }
    const simt::Device limits = device_limits(device);
    result.busy_multiprocessors = busy_multiprocessors(result.launches, limits);
    result.multiprocessors = limits.multiprocessors;
    const reference::Comparison verdict = rung.check(outputs);
    result.passed = verdict.passed;
    result.max_abs_error = verdict.max_abs_error;
    result.bound = verdict.bound;
    result.report = verdict.report;

    if (device.is_cuda()) timing = time_on_gpu([&] { rung.run(); }, device);
    result.milliseconds = timing.median_milliseconds;
    result.timed_runs = timing.runs;
    return result;
}

std::string shapes_of(const RungResult& r) {
    std::string text;
    for (const auto& [name, sizes] : r.shapes) text += fmt::format("{}{} {}", text.empty() ? "" : "   ", name, sizes);
    return text + "   " + r.dtype;
}

std::string text_of(const simt::LaunchRecord& launch) {
    return fmt::format("{} blocks of {} threads, {} shared memory each", launch.blocks(),
                       std::uint64_t{launch.block[0]} * launch.block[1] * launch.block[2],
                       launch.shared_bytes_per_block ? human_bytes(launch.shared_bytes_per_block) : "no");
}

void print_rung(const RungResult& r) {
    const auto line = [](const char* what, const std::string& text) { fmt::print("    {:<15}{}\n", what, text); };
    fmt::print("\n  {}\n{}", styled(Style::bold, r.kernel), wrapped(r.changes, 4));
    line("shapes", shapes_of(r));
    for (const simt::LaunchRecord& launch : r.launches)
        line(&launch == &r.launches.front() ? "launch" : "then", text_of(launch));
    line("global memory", fmt::format("{} read, {} written ({})", human_bytes(r.global_bytes_read),
                                      human_bytes(r.global_bytes_written), r.bytes_counted ? "counted" : "by formula"));
    const std::string time = human_time(r.milliseconds);
    line("time", r.on_gpu          ? fmt::format("{}, the median of {} calls", time, r.timed_runs)
                 : r.bytes_counted ? fmt::format("{}, every access checked", time)
                                   : fmt::format("{}, nothing checked", time));
    line("error", fmt::format("{:.1e}, allowed {:.1e}: {}", r.max_abs_error, r.bound,
                              r.passed ? styled(Style::good, "right") : styled(Style::bad, "WRONG")));
    if (!r.passed) fmt::print("{}\n", styled(Style::bad, r.report));
}

void print_ladder(const TourResult& result) {
    using Align = Table::Align;
    Table table({{"phase", Align::right},
                 {"kernel"},
                 {"blocks", Align::right},
                 {"busy SMs", Align::right},
                 {"shared/block", Align::right},
                 {"read", Align::right},
                 {"written", Align::right},
                 {"time", Align::right},
                 {"error", Align::right},
                 {"allowed", Align::right},
                 {""}});
    int last_phase = -1;
    for (const RungResult& r : result.rungs) {
        table.add({{r.phase == last_phase ? "" : std::to_string(r.phase)},
                   {r.kernel},
                   {std::to_string(r.blocks)},
                   {fmt::format("{}/{}", r.busy_multiprocessors, r.multiprocessors)},
                   {r.shared_bytes_per_block ? human_bytes(r.shared_bytes_per_block) : "-"},
                   {human_bytes(r.global_bytes_read)},
                   {human_bytes(r.global_bytes_written)},
                   {human_time(r.milliseconds)},
                   {fmt::format("{:.1e}", r.max_abs_error)},
                   {fmt::format("{:.1e}", r.bound)},
                   {r.passed ? "right" : "WRONG", r.passed ? Style::good : Style::bad}});
        last_phase = r.phase;
    }
    fmt::print("\n{}\n\n{}", styled(Style::bold, "The ladder"), table.text(2));
    std::string legend = "Busy SMs: how many of the GPU's multiprocessors get a block to work on.";
    const auto walked = [&](const Phase& p) {
        return std::ranges::count(result.rungs, p.number, &RungResult::phase) > 0;
    };
    for (std::size_t i = 1; i < phases().size(); ++i)
        if (const std::string& said = phases()[i].beside_the_phase_before;
            !said.empty() && walked(phases()[i - 1]) && walked(phases()[i]))
            legend += " " + said;
    fmt::print("\n{}", wrapped(legend, 2));
}

}  // namespace

bool TourResult::passed() const { return std::ranges::all_of(rungs, &RungResult::passed); }

TourResult run_tour(const TourRequest& request) {
    const char* commit = std::getenv("LADDER_COMMIT");
    const RungInput input = load_input(request.device);
    TourResult result{.commit = commit ? commit : "unknown",
                      .device = request.device.is_cuda() ? "cuda" : "cpu",
                      .device_name = device_limits(request.device).name,
                      .profile = request.profile,
                      .input = input.description};

    if (request.device.is_cuda())
        fmt::print("{}   on {}\n", styled(Style::bold, "FlashLadder"), result.device_name);
    else
        fmt::print("{}   on the CPU machine{}, with the limits of {} ({})\n", styled(Style::bold, "FlashLadder"),
                   simt::cpu_machine_checks() ? "" : " without its checks", result.device_name, result.profile);
    fmt::print("{}", wrapped(input.description, 14).replace(0, 14, "input         "));

    for (const Phase& phase : phases()) {
        if (!request.phases.empty() && std::ranges::count(request.phases, phase.number) == 0) continue;
        fmt::print("\n{}\n", styled(Style::bold, fmt::format("Phase {}   {}", phase.number, phase.title)));
        for (const Rung& rung : rungs_of(phase, input)) {
            result.rungs.push_back(walk(rung, request.device));
            print_rung(result.rungs.back());
        }
    }
    print_ladder(result);

    if (!request.device.is_cuda())
        fmt::print("\n{}",
                   wrapped(fmt::format("Times are those of the CPU machine, which checks {}: they say nothing about a "
                                       "GPU. Bytes, blocks and shared memory are what a GPU would see.",
                                       simt::cpu_machine_checks()
                                           ? "every access"
                                           : "no access in this build (LADDER_CHECKS is OFF), so a race or a stray "
                                             "index goes unseen"),
                           2));
    const auto wrong = std::ranges::count_if(result.rungs, [](const RungResult& r) { return !r.passed; });
    if (wrong == 0)
        fmt::print("\n{}\n", styled(Style::good, result.rungs.size() == 1
                                                     ? "The kernel is right."
                                                     : fmt::format("All {} kernels are right.", result.rungs.size())));
    else
        fmt::print("\n{}\n",
                   styled(Style::bad, fmt::format("{} of {} kernels are wrong.", wrong, result.rungs.size())));
    return result;
}

}  // namespace ladder::cli
