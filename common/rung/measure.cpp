#include "common/rung/measure.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <stdexcept>

#include "common/rung/phase.h"
#include "common/simt/report/trace.h"
#include "common/torch/torch.h"

namespace ladder::quiz {
namespace {

std::string command_for(int phase, const ProfileProblem& p, std::string_view device) {
    const ProfileProblem usual;
    std::string command = fmt::format("./ladder profile {}", phase);
    const auto add = [&](const char* option, std::int64_t given, std::int64_t otherwise) {
        if (given != otherwise) command += fmt::format(" {} {}", option, given);
    };
    if (device != simt::kDefaultProfile) command += fmt::format(" --profile {}", device);
    add("--batch", p.batch, usual.batch);
    add("--heads", p.heads, usual.heads);
    add("--kv-heads", p.kv_heads.value_or(p.heads), p.heads);
    add("--keys", p.keys, usual.keys);
    if (p.queries) command += fmt::format(" --queries {}", *p.queries);
    add("--head-dim", p.head_dim, usual.head_dim);
    if (p.dtype)
        command += p.dtype == torch::kFloat32   ? " --dtype f32"
                   : p.dtype == torch::kFloat16 ? " --dtype f16"
                                                : " --dtype bf16";
    if (p.causal) command += *p.causal ? " --causal" : " --no-causal";
    return command;
}

template <class Value>
std::uint64_t sum_of(const RungProfile& profile, std::string_view tensor, Value simt::TensorTraffic::*number) {
    std::uint64_t sum = 0;
    for (const simt::TensorTraffic& t : profile.total().tensors)
        if (t.tensor == tensor) sum += t.*number;
    return sum;
}

torch::Tensor column(std::span<const double> numbers) {
    const torch::Tensor column = at::empty({1, 1, std::int64_t(numbers.size()), 1}, torch::kFloat32);
    std::ranges::copy(numbers, column.data_ptr<float>());
    return column;
}

}  // namespace

std::uint64_t Measured::read(std::string_view tensor) const {
    return sum_of(profile, tensor, &simt::TensorTraffic::bytes_read);
}

std::uint64_t Measured::written(std::string_view tensor) const {
    return sum_of(profile, tensor, &simt::TensorTraffic::bytes_written);
}

std::uint64_t Measured::traffic() const {
    const simt::Counters sum = profile.total();
    return sum.global_bytes_read() + sum.global_bytes_written();
}

std::uint64_t Measured::traffic_by_formula() const { return profile.formula.read + profile.formula.written; }

Measured measure(int phase, const std::string& entry, const ProfileProblem& problem, std::string_view device) {
    const simt::ScopedCpuDevice imitated(simt::device_from(simt::device_profile(device)));
    const ProfileRequest request{.phases = {phase}, .profile = std::string(device), .problem = problem};
    const std::vector<Rung> rungs = rungs_to_profile(request, phase_numbered(phase));
    const auto rung = std::ranges::find(rungs, entry, &Rung::kernel);
    if (rung == rungs.end()) throw std::logic_error(fmt::format("quiz: phase {} has no {}", phase, entry));
    Measured measured{.profile = profile_rung(*rung, request, simt::LaunchLog::Detail::bytes),
                      .source = fmt::format("{} on the CPU machine, with the limits of {}", entry,
                                            simt::device_profile(device).product),
                      .command = command_for(phase, problem, device)};
    if (!measured.profile.ran())
        throw std::logic_error(fmt::format("quiz: {} did not run: {}", measured.command, measured.profile.refusal));
    const simt::Counters sum = measured.profile.total();
    if (GlobalBytes{sum.global_bytes_read(), sum.global_bytes_written()} != measured.profile.formula)
        throw std::logic_error(
            fmt::format("quiz: {}: {} moves other bytes than its formula says", measured.command, entry));
    return measured;
}

Measured measure_before(int phase, const ProfileProblem& problem, std::string_view device) {
    const simt::ScopedCpuDevice imitated(simt::device_from(simt::device_profile(device)));
    const auto here = std::ranges::find(phases(), phase, &Phase::number);
    if (here == phases().begin() || here == phases().end())
        throw std::logic_error(fmt::format("quiz: no phase comes before phase {}", phase));
    const Phase& before = *std::prev(here);
    return measure(before.number, rungs_of(before, random_input(problem, before, torch::kCPU)).back().kernel, problem,
                   device);
}

std::vector<double> watched(const char* name, const std::function<void()>& run) {
    const simt::LaunchLog counted(simt::LaunchLog::Detail::bytes);
    const simt::TraceLog traced({});
    run();
    std::vector<double> values;
    for (const simt::TracedMoment& moment : traced.launches().front().blocks.front().moments)
        for (const simt::TracedValues& shown : moment.values)
            if (shown.name == name && shown.first_row == 0 && shown.first_column == 0 && shown.values.front())
                values.push_back(*shown.values.front());
    if (values.empty()) throw std::logic_error(fmt::format("quiz: the kernel showed no {}", name));
    return values;
}

ScoredRow::ScoredRow(std::span<const double> scores, std::span<const double> values)
    : q(at::ones({1, 1, 1, 1}, torch::kFloat32)),
      k(column(scores)),
      v(values.empty() ? at::ones_like(k) : column(values)) {}

double ScoredRow::last(const char* name, AttentionEntry entry) const {
    return watched(name, [&] { run(entry); }).back();
}

std::string list_of(std::span<const double> numbers) {
    std::string text;
    for (const double number : numbers) text += fmt::format("{}{:.5g}", text.empty() ? "" : ", ", number);
    return text;
}

std::string python_command(std::span<const double> scores, std::string_view entry, std::span<const double> values) {
    const std::string column = ".view(1, 1, -1, 1)";
    return fmt::format(
        "python3 -c \"import torch; torch.ops.load_library('build/libflash_ladder.so'); k = torch.tensor([{}.]){}; "
        "print(torch.ops.flash_ladder.{}(torch.ones(1, 1, 1, 1), k, {}, scale=1.0))\"",
        list_of(scores), column, entry,
        values.empty() ? "torch.ones_like(k)" : fmt::format("torch.tensor([{}.]){}", list_of(values), column));
}

}  // namespace ladder::quiz
