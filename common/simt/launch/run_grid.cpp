#include "common/simt/launch/run_grid.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "common/simt/launch/block_queue.h"
#include "common/simt/launch/crew.h"
#include "common/simt/launch/launch_bounds.h"
#include "common/simt/machine/schedule.h"
#include "common/simt/memory/global_launch.h"
#include "common/simt/report/trace.h"

namespace simt {
inline namespace cpu {
namespace {

std::mutex one_block_at_a_time;
std::mutex attributes_mutex;
std::map<KernelKey, int> max_dynamic_shared_bytes;

constexpr const char* kUnnamed = "kernel";
thread_local const char* launch_name = kUnnamed;
thread_local Counters counters_of_last_launch;

int shared_limit(KernelKey kernel, const Device& device) {
    const std::scoped_lock lock(attributes_mutex);
    const auto raised = max_dynamic_shared_bytes.find(kernel);
    const int asked = raised == max_dynamic_shared_bytes.end() ? 0 : raised->second;
    // Without the attribute, arrays of fixed size and what the launch asks for share what a block gets; the attribute
    // is about the latter alone.
    const int fixed = int(static_shared_bytes_of(kernel));
    return std::min(std::max(asked, device.shared_bytes_per_block - fixed),
                    device.shared_bytes_per_block_optin - fixed);
}

/// Whether the launch may begin while the one before it still runs.
bool may_start_early(const cudaLaunchConfig_t& config) {
    return std::any_of(config.attrs, config.attrs + config.numAttrs, [](const cudaLaunchAttribute& a) {
        return a.id == cudaLaunchAttributeProgrammaticStreamSerialization &&
               a.val.programmaticStreamSerializationAllowed != 0;
    });
}

/// Blocks of a cluster, if the launch has any.
std::optional<dim3> cluster_of(const cudaLaunchConfig_t& config) {
    for (unsigned i = 0; i < config.numAttrs; ++i)
        if (const cudaLaunchAttribute& a = config.attrs[i]; a.id == cudaLaunchAttributeClusterDimension)
            return dim3(a.val.clusterDim.x, a.val.clusterDim.y, a.val.clusterDim.z);
    return std::nullopt;
}

/// The launch before, on this thread: the one stream there is runs them in turn.
thread_local std::shared_ptr<const GlobalLaunchShadow> previous_launch;

/// A launch that has ended, whether well or not: what it wrote holds values from now on.
class EndOfLaunch {
  public:
    explicit EndOfLaunch(std::shared_ptr<GlobalLaunchShadow> launch) : launch_(std::move(launch)) {}
    ~EndOfLaunch() {
        launch_->end();
        previous_launch = std::move(launch_);
    }
    EndOfLaunch(const EndOfLaunch&) = delete;
    EndOfLaunch& operator=(const EndOfLaunch&) = delete;

  private:
    std::shared_ptr<GlobalLaunchShadow> launch_;
};

bool within(const dim3& size, unsigned x, unsigned y, unsigned z) {
    return size.x >= 1 && size.y >= 1 && size.z >= 1 && size.x <= x && size.y <= y && size.z <= z;
}

}  // namespace

const char* cudaGetErrorName(cudaError_t code) {
    switch (code) {
        case cudaSuccess:
            return "cudaSuccess";
        case cudaErrorInvalidValue:
            return "cudaErrorInvalidValue";
        case cudaErrorInvalidConfiguration:
            return "cudaErrorInvalidConfiguration";
        case cudaErrorNotSupported:
            return "cudaErrorNotSupported";
        case cudaErrorInvalidClusterSize:
            return "cudaErrorInvalidClusterSize";
    }
    return "unrecognized error code";
}

const char* cudaGetErrorString(cudaError_t code) {
    switch (code) {
        case cudaSuccess:
            return "no error";
        case cudaErrorInvalidValue:
            return "invalid argument";
        case cudaErrorInvalidConfiguration:
            return "invalid configuration argument";
        case cudaErrorNotSupported:
            return "operation not supported";
        case cudaErrorInvalidClusterSize:
            return "invalid cluster size";
    }
    return "unrecognized error code";
}

cudaError_t set_max_dynamic_shared_bytes(KernelKey kernel, int bytes) {
    if (bytes < 0 || bytes > cpu_device().shared_bytes_per_block_optin - int(static_shared_bytes_of(kernel)))
        return cudaErrorInvalidValue;
    const std::scoped_lock lock(attributes_mutex);
    max_dynamic_shared_bytes[kernel] = bytes;
    return cudaSuccess;
}

void name_next_launch(const char* kernel) { launch_name = kernel; }

Counters last_launch_counters() { return counters_of_last_launch; }

cudaError_t run_grid(Checks checks, KernelKey kernel, const cudaLaunchConfig_t& config, void (*body)(const void*),
                     const void* arguments) {
    if (Block* const outer = Block::running())
        outer->fail({.fault = Fault::unsupported,
                     .first = {outer->thread(), {}},
                     .what = "thread " + std::to_string(outer->thread()) + " launches a kernel from inside a kernel",
                     .advice = "launches are the host's: let the host launch one kernel after the other"});
    counters_of_last_launch = {};
    const char* const name = std::exchange(launch_name, kUnnamed);
    const Device device = cpu_device();
    if (!within(config.gridDim, 0x7fffffffu, 65535, 65535) || !within(config.blockDim, 1024, 1024, 64) ||
        config.blockDim.volume() > std::size_t(device.max_threads_per_block))
        return cudaErrorInvalidConfiguration;
    if (const unsigned bound = launch_bound_of(kernel); bound && config.blockDim.volume() > bound)
        return cudaErrorInvalidValue;
    if (static_shared_bytes_of(kernel) > kMostStaticSharedBytes) return cudaErrorInvalidValue;
    if (config.dynamicSmemBytes > std::size_t(shared_limit(kernel, device))) return cudaErrorInvalidValue;
    if (may_start_early(config) && !device.has_feature(Feature::early_launch)) return cudaErrorNotSupported;
    const std::optional<dim3> cluster = cluster_of(config);
    if (cluster) {
        const auto [x, y, z] = *cluster;
        if (!device.has_feature(Feature::cluster)) return cudaErrorNotSupported;
        if (!within(*cluster, kMostClusterBlocks, kMostClusterBlocks, kMostClusterBlocks) ||
            cluster->volume() > kMostClusterBlocks || config.gridDim.x % x || config.gridDim.y % y ||
            config.gridDim.z % z)
            return cudaErrorInvalidClusterSize;
    }

    const dim3 extents = cluster.value_or(dim3(1));
    TraceLog* const trace = checks == Checks::on ? TraceLog::active() : nullptr;
    if (trace)
        trace->begin_launch({.kernel = name,
                             .grid = {config.gridDim.x, config.gridDim.y, config.gridDim.z},
                             .block = {config.blockDim.x, config.blockDim.y, config.blockDim.z},
                             .cluster = {extents.x, extents.y, extents.z},
                             .device = device,
                             .shared_bytes_per_block = config.dynamicSmemBytes});

    const bool early = may_start_early(config);
    const auto shadow = std::make_shared<GlobalLaunchShadow>(
        name, config.gridDim,
        early ? GlobalLaunchShadow::running_after(previous_launch) : GlobalLaunchShadow::Running());
    const EndOfLaunch end(shadow);
    GlobalLaunchShadow& global = *shadow;
    std::atomic<bool> needs_clocks = false;
    const auto alone = kOneBlockAtATime ? std::unique_lock(one_block_at_a_time) : std::unique_lock<std::mutex>();
    const Schedule schedule = current_schedule();
    const std::size_t blocks = config.gridDim.volume();
    // A trace shows blocks in their order, and the same ones on every run; a seed gives one order of all.
    const std::size_t workers = trace || schedule.seed || kOneBlockAtATime
                                    ? 1
                                    : std::min<std::size_t>(cpu_workers(), blocks / (cluster ? cluster->volume() : 1));
    if (schedule.seed) global.sums.make_in_any_order();
    const std::size_t fit = Residents::per_multiprocessor(device, int(config.blockDim.volume()),
                                                          config.dynamicSmemBytes + static_shared_bytes_of(kernel));
    Residents residents(fit * std::size_t(std::max(1, device.multiprocessors)), fit, int(workers));
    HalfFullBarriers half_full;
    const Block::Launch launch{.kernel = name,
                               .device = device,
                               .grid = config.gridDim,
                               .block = config.blockDim,
                               .cluster = cluster,
                               .shared_bytes = config.dynamicSmemBytes,
                               .checks = checks,
                               .count = checks == Checks::on ? LaunchLog::wanted() : std::nullopt,
                               .global = global,
                               .needs_clocks = needs_clocks,
                               .trace = trace,
                               .budget = block_budget(),
                               .residents = residents,
                               .half_full = half_full,
                               .kernel_code = reinterpret_cast<const void*>(kernel),
                               .body = body,
                               .arguments = arguments};
    BlockQueue queue(config.gridDim, extents, schedule);
    std::mutex results_mutex;
    Counters counters;
    std::exception_ptr failure;
    std::size_t failed_block = SIZE_MAX;
    const auto work = [&](int number) {
        const WorkerResult result = run_blocks(launch, queue, number);
        const std::scoped_lock lock(results_mutex);
        counters += result.counted;
        if (result.error && result.failed_block <= failed_block) {
            failure = result.error;
            failed_block = result.failed_block;
        }
    };
    {
        std::vector<std::jthread> helpers;
        for (std::size_t i = 1; i < workers; ++i) helpers.emplace_back(work, int(i));
        work(0);
    }
    std::optional<MachineError::Report> mistake = global.conflict(failed_block);
    if (!mistake && failure) std::rethrow_exception(failure);
    if (!mistake) mistake = half_full.mistake();
    if (mistake) {
        mistake->kernel = name;
        mistake->threads_per_block = {config.blockDim.x, config.blockDim.y, config.blockDim.z};
        if (trace) trace->mark_fault(mistake->block, mistake->first.site);
        throw MachineError(*std::move(mistake));
    }
    if (checks == Checks::off) return cudaSuccess;
    std::ranges::sort(counters.tensors, {}, &TensorTraffic::tensor);  // whichever worker finished first
    counters_of_last_launch = std::move(counters);
    return cudaSuccess;
}

}  // namespace cpu
}  // namespace simt
