#include "common/simt/device/device.h"

#include <algorithm>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <utility>

namespace simt {
namespace {

struct Settings {
    std::mutex mutex;
    Device device = device_from(device_profile(kDefaultProfile));
    int workers = std::max(1, int(std::thread::hardware_concurrency()));
};

Settings& settings() {
    static Settings instance;
    return instance;
}

}  // namespace

Device device_from(const DeviceProfile& p) {
    return {.name = std::string(p.product),
            .multiprocessors = p.multiprocessors,
            .shared_bytes_per_block = p.shared_bytes_per_block,
            .shared_bytes_per_block_optin = p.shared_bytes_per_block_optin,
            .shared_bytes_per_multiprocessor = p.shared_bytes_per_multiprocessor,
            .max_threads_per_block = p.max_threads_per_block,
            .max_threads_per_multiprocessor = p.max_threads_per_multiprocessor,
            .compute_major = p.compute_major,
            .compute_minor = p.compute_minor,
            .features = p.features};
}

std::string feature_complaint(const Device& device, Feature feature, std::string_view what) {
    std::string text = std::string(what) + " needs " + std::string(name_of(feature)) + ", which " + device.name +
                       " does not have; these have:";
    const char* separator = " ";
    for (const DeviceProfile& known : device_profiles())
        if (known.features.has(feature)) text += std::exchange(separator, ", ") + std::string(known.name);
    return text;
}

void require_feature(const Device& device, Feature feature, std::string_view what) {
    if (!device.has_feature(feature)) throw std::runtime_error(feature_complaint(device, feature, what));
}

bool cpu_machine_checks() { return SIMT_CHECKED_BUILD; }

Device cpu_device() {
    const std::scoped_lock lock(settings().mutex);
    return settings().device;
}

void set_cpu_device(Device device) {
    const std::scoped_lock lock(settings().mutex);
    settings().device = std::move(device);
}

int cpu_workers() {
    const std::scoped_lock lock(settings().mutex);
    return settings().workers;
}

void set_cpu_workers(int workers) {
    if (workers < 1) throw std::invalid_argument("cpu workers: got " + std::to_string(workers) + ", needs at least 1");
    const std::scoped_lock lock(settings().mutex);
    settings().workers = workers;
}

}  // namespace simt
