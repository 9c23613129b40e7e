#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "common/simt/device/device_profile.h"
#include "common/simt/device/features.h"

namespace simt {

/// What a launch has to know of the device it runs on: a real one, or the one that the CPU machine imitates.
struct Device {
    std::string name;                     ///< product name
    int multiprocessors;                  ///< each runs blocks of its own
    int shared_bytes_per_block;           ///< dynamic shared memory without opting in
    int shared_bytes_per_block_optin;     ///< after cudaFuncSetAttribute
    int shared_bytes_per_multiprocessor;  ///< for all blocks that live on one together
    int max_threads_per_block;            ///< a launch with more is refused
    int max_threads_per_multiprocessor;   ///< of all blocks that live on one together
    int compute_major;                    ///< 8 of compute capability 8.6
    int compute_minor;                    ///< 6 of compute capability 8.6

    Features features;  ///< what it has that others lack

    /// Whether kernels may use it there.
    bool has_feature(Feature feature) const { return features.has(feature); }
};

/// A profile as a device to run on.
Device device_from(const DeviceProfile& profile);

/// Throws std::runtime_error "<what> needs asynchronous copies (cp.async), which NVIDIA T4 does not have; these have:
/// a100, …" for a device without the feature. For host entries, so that a kernel which needs an instruction is never
/// launched where there is none.
void require_feature(const Device& device, Feature feature, std::string_view what);

/// The sentence that such an error consists of.
std::string feature_complaint(const Device& device, Feature feature, std::string_view what);

/// The device that the CPU machine imitates, and the number of OS threads it runs blocks on (one per core by default).
/// Both are settings of the whole program; change them between launches only.
Device cpu_device();
void set_cpu_device(Device device);
int cpu_workers();
void set_cpu_workers(int workers);

/// What the CPU machine imitates unless told otherwise.
inline constexpr std::string_view kDefaultProfile = "rtx4090";

/// Imitates another device while alive.
class ScopedCpuDevice {
  public:
    /// Until this object ends, in the whole program.
    explicit ScopedCpuDevice(Device device) : before_(cpu_device()) { set_cpu_device(std::move(device)); }
    ~ScopedCpuDevice() { set_cpu_device(before_); }
    ScopedCpuDevice(const ScopedCpuDevice&) = delete;
    ScopedCpuDevice& operator=(const ScopedCpuDevice&) = delete;

  private:
    Device before_;
};

/// Runs blocks on another number of OS threads while alive.
class ScopedCpuWorkers {
  public:
    /// Until this object ends, in the whole program.
    explicit ScopedCpuWorkers(int workers) : before_(cpu_workers()) { set_cpu_workers(workers); }
    ~ScopedCpuWorkers() { set_cpu_workers(before_); }
    ScopedCpuWorkers(const ScopedCpuWorkers&) = delete;
    ScopedCpuWorkers& operator=(const ScopedCpuWorkers&) = delete;

  private:
    int before_;
};

/// Whether the kernels of this build run on the checked CPU machine, or on the unchecked one (LADDER_CHECKS=OFF).
bool cpu_machine_checks();

/// The current CUDA device. Null in a build without CUDA.
[[gnu::weak]] Device cuda_device();

}  // namespace simt
