#include "common/cli/sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "common/cli/terminal.h"
#include "common/simt/device/device.h"

namespace ladder::cli {
namespace {

std::string fixed_part(const ProfileProblem& p, const Rung& rung) {
    const torch::ScalarType dtype = rung.inputs.front().second.scalar_type();
    return fmt::format("{} sequence{}, {} head{}, D = {}, {}", p.batch, p.batch == 1 ? "" : "s", p.heads,
                       p.heads == 1 ? "" : "s", p.head_dim,
                       dtype == torch::kFloat16    ? "float16"
                       : dtype == torch::kBFloat16 ? "bfloat16"
                                                   : "float32");
}

/// Runs the rung and adds a point, or says why there is none.
void add_point(Sweep& sweep, std::int64_t value, const Rung& rung, const ProfileRequest& request) {
    const Progress progress(fmt::format("phase {}: {} at {} …", rung.phase, rung.kernel, value));
    const RungProfile profile = profile_rung(rung, request, simt::LaunchLog::Detail::bytes);
    if (!profile.ran()) {
        if (sweep.left_out.empty()) sweep.refusal = profile.refusal;
        sweep.left_out.push_back(value);
        return;
    }
    const simt::Counters sum = profile.total();
    sweep.points.push_back({.value = value,
                            .bytes = sum.global_bytes_read() + sum.global_bytes_written(),
                            .bytes_by_formula = profile.formula.read + profile.formula.written});
}

Sweep empty_sweep(const Rung& rung, SweepVariable variable, std::string fixed) {
    return {.phase = rung.phase,
            .kernel = rung.kernel,
            .variable = variable,
            .law = rung.growth.law,
            .source = rung.growth.source,
            .predicted_slope = variable == SweepVariable::length ? rung.growth.with_length
                                                                 : rung.growth.with_shared_memory.value_or(0),
            .fixed = std::move(fixed)};
}

std::vector<Sweep> over_lengths(const Phase& phase, ProfileRequest request, std::span<const std::int64_t> lengths) {
    std::vector<Sweep> sweeps;
    for (const std::int64_t length : lengths) {
        request.problem.keys = length;
        const std::vector<Rung> rungs = rungs_to_profile(request, phase);
        for (std::size_t i = 0; i < rungs.size(); ++i) {
            if (sweeps.size() <= i)
                sweeps.push_back(empty_sweep(rungs[i], SweepVariable::length, fixed_part(request.problem, rungs[i])));
            add_point(sweeps[i], length, rungs[i], request);
        }
    }
    return sweeps;
}

std::vector<Sweep> over_shared_memory(const Phase& phase, ProfileRequest request, std::int64_t length,
                                      std::span<const std::int64_t> shared_bytes) {
    request.problem.keys = length;
    std::vector<Sweep> sweeps;
    for (const std::int64_t bytes : shared_bytes) {
        simt::Device device = simt::cpu_device();
        device.name = fmt::format("{} with {} bytes of shared memory per block", device.name, bytes);
        device.shared_bytes_per_block_optin = int(bytes);
        device.shared_bytes_per_block = std::min(device.shared_bytes_per_block, int(bytes));
        const simt::ScopedCpuDevice imitated(device);
        std::size_t i = 0;
        for (const Rung& rung : rungs_to_profile(request, phase)) {
            if (!rung.growth.with_shared_memory) continue;
            if (sweeps.size() <= i)
                sweeps.push_back(empty_sweep(rung, SweepVariable::shared_memory,
                                             fmt::format("N = {}, {}", length, fixed_part(request.problem, rung))));
            add_point(sweeps[i++], bytes, rung, request);
        }
    }
    return sweeps;
}

}  // namespace

double log_log_slope(std::span<const SweepPoint> points) {
    if (points.size() < 2) return std::numeric_limits<double>::quiet_NaN();
    const auto n = double(points.size());
    double x_mean = 0, y_mean = 0;
    for (const SweepPoint& p : points) {
        x_mean += std::log(double(p.value)) / n;
        y_mean += std::log(double(p.bytes)) / n;
    }
    double covariance = 0, variance = 0;
    for (const SweepPoint& p : points) {
        const double x = std::log(double(p.value)) - x_mean;
        covariance += x * (std::log(double(p.bytes)) - y_mean);
        variance += x * x;
    }
    return covariance / variance;
}

double Sweep::slope() const { return log_log_slope(points); }

double predicted_bytes(const Sweep& sweep, std::int64_t value) {
    const SweepPoint& most = *std::ranges::max_element(sweep.points, {}, &SweepPoint::bytes);
    return double(most.bytes) * std::pow(double(value) / double(most.value), sweep.predicted_slope);
}

std::vector<Sweep> sweep_phase(const Phase& phase, const ProfileRequest& request, std::span<const std::int64_t> lengths,
                               std::span<const std::int64_t> shared_bytes) {
    std::vector<Sweep> sweeps = over_lengths(phase, request, lengths);
    const std::int64_t longest = *std::ranges::max_element(lengths);
    for (Sweep& sweep : over_shared_memory(phase, request, longest, shared_bytes)) sweeps.push_back(std::move(sweep));
    return sweeps;
}

}  // namespace ladder::cli
