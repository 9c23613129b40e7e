#include "common/cli/bench/device_state.h"

#include <fmt/format.h>
#include <torch/version.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <sstream>
#include <vector>

#include "common/attention/machine.h"
#include "common/torch/torch.h"

#ifdef LADDER_WITH_CUDA
#include <c10/cuda/CUDACachingAllocator.h>
#endif

namespace ladder::cli::bench {
namespace {

/// The last level of a CPU's cache is not asked for: on the CPU machine nothing depends on it.
std::int64_t cache_bytes_of([[maybe_unused]] torch::Device device) {
#ifdef LADDER_WITH_CUDA
    int bytes = 0;
    if (device.is_cuda() && cudaDeviceGetAttribute(&bytes, cudaDevAttrL2CacheSize, device.index()) == cudaSuccess)
        return bytes;
#endif
    return 0;
}

/// How nvidia-smi knows the device, whose numbers CUDA_VISIBLE_DEVICES may have changed.
std::string bus_id_of([[maybe_unused]] torch::Device device) {
#ifdef LADDER_WITH_CUDA
    std::array<char, 32> id{};
    if (device.is_cuda() && cudaDeviceGetPCIBusId(id.data(), int(id.size()), device.index()) == cudaSuccess)
        return id.data();
#endif
    return "";
}

/// What a command prints; empty if it cannot be run.
std::string output_of(const std::string& command) {
    const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
    std::string text;
    std::array<char, 256> part{};
    while (pipe && std::fgets(part.data(), int(part.size()), pipe.get())) text += part.data();
    return text;
}

/// The values of nvidia-smi's query for these fields, in their order; none if there is no nvidia-smi.
std::vector<std::string> query(torch::Device device, const std::string& fields) {
    const std::string bus_id = bus_id_of(device);
    if (bus_id.empty()) return {};
    std::istringstream line(output_of(
        fmt::format("nvidia-smi --id={} --query-gpu={} --format=csv,noheader,nounits 2>/dev/null", bus_id, fields)));
    std::vector<std::string> values;
    for (std::string value; std::getline(line >> std::ws, value, ',');)
        values.push_back(value.substr(0, value.find_last_not_of(" \n") + 1));
    return values;
}

std::string version_text(long number, long major, long minor) {
    return fmt::format("{}.{}.{}", number / major, number % major / minor, number % minor);
}

}  // namespace

Environment environment_of(torch::Device device, const std::string& profile) {
    const char* commit = std::getenv("LADDER_COMMIT");
    Environment environment{.commit = commit ? commit : "unknown",
                            .date = utc_now(),
                            .device = device.is_cuda() ? "cuda" : "cpu",
                            .device_name = device_limits(device).name,
                            .profile = profile,
                            .torch = TORCH_VERSION,
                            .cache_bytes = cache_bytes_of(device)};
    if (!device.is_cuda()) return environment;
    const auto driver = query(device, "driver_version");
    if (!driver.empty()) environment.driver = driver.front();
#ifdef LADDER_WITH_CUDA
    int runtime = 0;
    if (cudaRuntimeGetVersion(&runtime) == cudaSuccess)
        environment.cuda = fmt::format("{}.{}", runtime / 1000, runtime % 1000 / 10);
#endif
    if (at::globalContext().hasCuDNN())
        environment.cudnn = version_text(at::detail::getCUDAHooks().versionCuDNN(), 10000, 100);
    return environment;
}

std::map<std::string, std::string> clocks_of(torch::Device device) {
    const std::pair<const char*, const char*> fields[] = {
        {"clocks.sm", "sm_mhz"},      {"clocks.max.sm", "sm_max_mhz"},     {"clocks.mem", "memory_mhz"},
        {"power.draw", "power_watt"}, {"power.limit", "power_limit_watt"}, {"temperature.gpu", "celsius"}};
    std::string names;
    for (const auto& [field, key] : fields) names += (names.empty() ? "" : ",") + std::string(field);
    const std::vector<std::string> values = query(device, names);
    std::map<std::string, std::string> clocks;
    for (std::size_t i = 0; i < values.size() && i < std::size(fields); ++i) clocks[fields[i].second] = values[i];
    return clocks;
}

std::string utc_now() {
    const std::time_t now = std::time(nullptr);
    std::tm parts{};
    gmtime_r(&now, &parts);
    std::array<char, 32> text{};
    std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
    return text.data();
}

void release_cached_memory([[maybe_unused]] torch::Device device) {
#ifdef LADDER_WITH_CUDA
    if (device.is_cuda()) c10::cuda::CUDACachingAllocator::emptyCache();
#endif
}

std::string short_reason(const std::exception& error) {
    const auto* from_torch = dynamic_cast<const c10::Error*>(&error);
    std::string text = from_torch ? from_torch->what_without_backtrace() : error.what();
    text = text.substr(0, text.find('\n'));
    if (const auto end = text.find(". "); end != std::string::npos) text.resize(end);
    constexpr std::size_t kLongest = 120;
    if (text.size() > kLongest) text = text.substr(0, text.find_last_of(' ', kLongest)) + " …";
    return text.empty() ? "it failed without saying why" : text;
}

}  // namespace ladder::cli::bench
