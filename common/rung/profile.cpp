#include "common/rung/profile.h"

#include <ATen/CPUGeneratorImpl.h>
#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "common/rung/registers.h"
#include "common/torch/torch.h"

namespace ladder {
namespace {

bool same_kind(const simt::LaunchRecord& a, const simt::LaunchRecord& b) {
    return a.kernel == b.kernel && a.instance == b.instance && a.grid == b.grid && a.block == b.block &&
           a.shared_bytes_per_block == b.shared_bytes_per_block;
}

void find_registers(LaunchProfile& profile, const simt::DeviceProfile* device) {
    if (const int registers = profile.launch.resources.registers_per_thread) {
        profile.registers = registers;
        profile.registers_source = "the CUDA driver";
    } else if (device) {
        const int capability = 10 * device->compute_major + device->compute_minor;
        if (const auto recorded = RecordedRegisters::instance().of(profile.launch.instance, capability)) {
            profile.registers = recorded->per_thread;
            profile.registers_source = fmt::format("{} for compute capability {}.{}", recorded->source,
                                                   device->compute_major, device->compute_minor);
        }
    }
}

void find_occupancy(LaunchProfile& profile, const simt::DeviceProfile& device) {
    const simt::LaunchRecord& launch = profile.launch;
    profile.occupancy = simt::occupancy(device, {.threads = int(launch.block[0] * launch.block[1] * launch.block[2]),
                                                 .shared_bytes = launch.shared_bytes_per_block,
                                                 .registers_per_thread = profile.registers.value_or(0)});
    const double at_once = double(profile.occupancy->resident_blocks) * device.multiprocessors;
    profile.waves = at_once > 0 ? double(launch.blocks()) / at_once : 0;
}

std::vector<LaunchProfile> kinds_of(std::span<const simt::LaunchRecord> records, const simt::DeviceProfile* device) {
    std::vector<LaunchProfile> kinds;
    for (const simt::LaunchRecord& record : records) {
        const auto known =
            std::ranges::find_if(kinds, [&](const LaunchProfile& kind) { return same_kind(kind.launch, record); });
        if (known != kinds.end()) {
            known->launch.counters += record.counters;
            ++known->count;
            continue;
        }
        LaunchProfile& kind = kinds.emplace_back(LaunchProfile{.launch = record});
        find_registers(kind, device);
        if (device) find_occupancy(kind, *device);
    }
    return kinds;
}

}  // namespace

bool RungProfile::counted() const {
    return std::ranges::any_of(launches, [](const LaunchProfile& l) { return l.launch.counted; });
}

simt::Counters RungProfile::total() const {
    simt::Counters sum;
    for (const LaunchProfile& l : launches) sum += l.launch.counters;
    return sum;
}

double RungProfile::intensity() const {
    const simt::Counters sum = total();
    return flops / double(sum.global_bytes_read() + sum.global_bytes_written());
}

RungInput random_input(const ProfileProblem& p, const Phase& phase, torch::Device device) {
    const std::int64_t queries = p.queries.value_or(p.keys), few = p.queries.value_or(1),
                       kv_heads = p.kv_heads.value_or(p.heads);
    if (p.heads % kv_heads != 0)
        throw std::invalid_argument(
            fmt::format("--kv-heads: {} does not divide --heads, {}; each key head serves equally "
                        "many query heads",
                        kv_heads, p.heads));
    const at::Generator numbers = at::detail::createCPUGenerator(/*seed_val=*/1);
    const torch::ScalarType dtype = p.dtype.value_or(phase.dtypes.front());
    const auto random = [&](at::IntArrayRef sizes) {
        return at::randn(sizes, numbers, at::TensorOptions().dtype(torch::kFloat32)).to(dtype).to(device);
    };
    return {.q = random({p.batch, p.heads, queries, p.head_dim}),
            .k = random({p.batch, kv_heads, p.keys, p.head_dim}),
            .v = random({p.batch, kv_heads, p.keys, p.head_dim}),
            .newest = random({p.batch, p.heads, few, p.head_dim}),
            .scores = random({p.batch * p.heads * queries, p.keys}),
            .causal = p.causal};
}

std::vector<Rung> rungs_to_profile(const ProfileRequest& request, const Phase& phase) {
    const RungInput input = random_input(request.problem, phase, request.device);
    std::vector<Rung> rungs = rungs_of(phase, input);
    if (!phase.profiled_besides) return rungs;
    for (Rung& rung : phase.profiled_besides(input)) {
        rung.phase = phase.number;
        rungs.push_back(std::move(rung));
    }
    return rungs;
}

RungProfile profile_rung(const Rung& rung, const ProfileRequest& request, simt::LaunchLog::Detail detail) {
    RungProfile profile{.phase = rung.phase,
                        .kernel = rung.kernel,
                        .dtype = rung.inputs.front().second.scalar_type(),
                        .flops = rung.flops,
                        .tensor_cores = rung.tensor_cores,
                        .formula = rung.bytes,
                        .growth = rung.growth,
                        .tensor_bytes = rung.tensor_bytes,
                        .repetitions = rung.repetitions,
                        .tiles = rung.tiles};
    for (const auto& [name, tensor] : rung.inputs) profile.shapes[name] = tensor.sizes().vec();
    const simt::DeviceProfile* device = request.profile.empty() ? nullptr : &simt::device_profile(request.profile);
    const simt::LaunchLog log(detail);
    try {
        rung.run();
    } catch (const std::invalid_argument& refused) {
        profile.refusal = refused.what();
    }
    profile.launches = kinds_of(log.records(), device);
    return profile;
}

double ridge_point(const simt::DeviceProfile& device, bool tensor_cores) {
    return (tensor_cores ? device.fp16_tensor_tflops : device.fp32_tflops) * 1e12 /
           (device.memory_bandwidth_gb_s * 1e9);
}

}  // namespace ladder
