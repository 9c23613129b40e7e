#include "common/cli/command.h"

#include <fmt/format.h>
#include <torch/cuda.h>

#include <algorithm>
#include <stdexcept>

#include "common/simt/device/device.h"

namespace ladder::cli {
namespace {

std::string profile_names() {
    std::string names;
    for (const simt::DeviceProfile& p : simt::device_profiles())
        names += (names.empty() ? "" : ", ") + std::string(p.name);
    return names;
}

/// "0 to 5", "4 and 5", "1, 3 and 5"
std::string list_of(const std::vector<int>& numbers) {
    const std::size_t count = numbers.size();
    if (count > 2 && numbers.back() - numbers.front() == int(count) - 1)
        return fmt::format("{} to {}", numbers.front(), numbers.back());
    std::string text;
    for (std::size_t i = 0; i < count; ++i)
        text += (i == 0 ? "" : i + 1 == count ? " and " : ", ") + std::to_string(numbers[i]);
    return text;
}

std::vector<int> numbers_of_phases(const std::function<bool(const Phase&)>& which) {
    std::vector<int> numbers;
    for (const Phase& phase : phases())
        if (which(phase)) numbers.push_back(phase.number);
    return numbers;
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

void add_phases(CLI::App& command, std::vector<int>& phases, const std::string& verb) {
    command.add_option("PHASE", phases, fmt::format("phases to {}, {}; all if none is named", verb, phase_numbers()))
        ->type_name("")
        ->check(phase_number());
}

void add_causal(CLI::App& command, std::optional<bool>& causal) {
    command.add_flag_callback(
        "--causal", [&causal] { causal = true; },
        fmt::format("with a causal mask in {}; the others know none",
                    phases_that([](const Phase& p) { return p.causal_mask != CausalMask::never; })));
    command.add_flag_callback(
        "--no-causal", [&causal] { causal = false; },
        fmt::format("without one; if neither is given, {} has one",
                    phases_that([](const Phase& p) { return p.causal_mask == CausalMask::unless_refused; })));
}

CLI::Validator phase_number() {
    const std::vector<int> numbers = numbers_of_phases([](const Phase&) { return true; });
    return CLI::Validator(
        [numbers](std::string& given) {
            const bool known = std::ranges::any_of(numbers, [&](int n) { return given == std::to_string(n); });
            return known ? std::string() : fmt::format("there is no phase {}; phases are {}", given, list_of(numbers));
        },
        "");
}

std::string phase_numbers() {
    return list_of(numbers_of_phases([](const Phase&) { return true; }));
}

std::string phases_that(const std::function<bool(const Phase&)>& which) {
    const std::vector<int> numbers = numbers_of_phases(which);
    return numbers.empty() ? "no phase" : (numbers.size() == 1 ? "phase " : "phases ") + list_of(numbers);
}

}  // namespace ladder::cli
