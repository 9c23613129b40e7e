#include "common/cli/command.h"

#include <fmt/format.h>
#include <torch/cuda.h>

#include <stdexcept>

#include "common/cli/rungs.h"
#include "common/simt/device/device.h"

namespace ladder::cli {
namespace {

std::string profile_names() {
    std::string names;
    for (const simt::DeviceProfile& p : simt::device_profiles())
        names += (names.empty() ? "" : ", ") + std::string(p.name);
    return names;
}

torch::Device chosen_device(DeviceChoice choice) {
#ifdef LADDER_WITH_CUDA
    const bool built_with_cuda = true;
#else
    const bool built_with_cuda = false;
#endif
    const bool usable = built_with_cuda && torch::cuda::is_available();
    if (choice == DeviceChoice::cuda && !usable)
        throw std::invalid_argument(
            fmt::format("--device: cuda was asked for, but {}; --device cpu needs none, and "
                        "`./ladder doctor` says what is missing",
                        built_with_cuda ? "there is no usable GPU" : "this build has no CUDA"));
    return usable && choice != DeviceChoice::cpu ? torch::Device(torch::kCUDA, 0) : torch::Device(torch::kCPU);
}

}  // namespace

void Target::add_device(CLI::App& command) {
    const std::map<std::string, DeviceChoice> devices = {
        {"auto", DeviceChoice::automatic}, {"cpu", DeviceChoice::cpu}, {"cuda", DeviceChoice::cuda}};
    add_named(command, "--device", device, devices,
              "auto (a GPU if there is one, unless a profile is named), cpu or cuda",
              device == DeviceChoice::automatic ? "auto" : "cpu");
}

void Target::add_options(CLI::App& command) {
    add_device(command);
    command
        .add_option("--profile", profile,
                    fmt::format("device whose limits the CPU machine keeps: {} (default {})", profile_names(),
                                simt::kDefaultProfile))
        ->type_name("NAME");
}

torch::Device Target::choose() {
    if (!profile.empty() && device == DeviceChoice::automatic) device = DeviceChoice::cpu;
    const torch::Device chosen = chosen_device(device);
    if (chosen.is_cuda()) {
        if (!profile.empty())
            throw std::invalid_argument(
                "--profile: profiles are for the CPU machine; add --device cpu, or leave it out");
        return chosen;
    }
    if (profile.empty()) profile = simt::kDefaultProfile;
    simt::set_cpu_device(simt::device_from(simt::device_profile(profile)));
    return chosen;
}

void add_phases(CLI::App& command, std::vector<int>& phases, const std::string& what) {
    command.add_option("PHASE", phases, what)->type_name("")->check(CLI::Range(0, kPhases - 1).description(""));
}

}  // namespace ladder::cli
