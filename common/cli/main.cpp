#include <fmt/format.h>
#include <torch/cuda.h>
#include <torch/types.h>
#include <CLI/CLI.hpp>

#include <cstdio>
#include <exception>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "common/cli/overflow.h"
#include "common/cli/terminal.h"
#include "common/cli/tour.h"
#include "common/simt/device.h"

namespace ladder::cli {
namespace {

enum class DeviceChoice { automatic, cpu, cuda };

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

/// Chooses what the CPU machine imitates. A profile means nothing to a real GPU, which has its own limits.
std::string imitate(const std::string& profile, torch::Device device) {
    if (device.is_cuda()) {
        if (!profile.empty())
            throw std::invalid_argument(
                "--profile: profiles are for the CPU machine; add --device cpu, or leave it out");
        return "";
    }
    const std::string name = profile.empty() ? std::string(simt::kDefaultProfile) : profile;
    simt::set_cpu_device(simt::device_from(simt::device_profile(name)));
    return name;
}

std::string profile_names() {
    std::string names;
    for (const simt::DeviceProfile& p : simt::device_profiles())
        names += (names.empty() ? "" : ", ") + std::string(p.name);
    return names;
}

int run(int argc, char** argv) {
    CLI::App app("FlashAttention, one rung at a time, on a GPU or on the checked CPU machine.", "ladder");
    app.require_subcommand(1);
    app.failure_message(CLI::FailureMessage::help);
    const std::string profile_help = "device whose limits the CPU machine keeps: " + profile_names() + " (default " +
                                     std::string(simt::kDefaultProfile) + ")";
    const std::map<std::string, DeviceChoice> device_names = {
        {"auto", DeviceChoice::automatic}, {"cpu", DeviceChoice::cpu}, {"cuda", DeviceChoice::cuda}};
    DeviceChoice device = DeviceChoice::automatic;
    std::string profile, json;

    CLI::App* tour = app.add_subcommand("run", "The tour: every kernel on real input, held against the reference");
    tour->footer(
        "For each kernel: what it changes, shapes, blocks, shared memory per block, bytes from and to global memory\n"
        "(counted by the CPU machine, by formula on a GPU), time, error, and the error it was allowed. The exit code "
        "is 0\n"
        "only if every kernel is right.\n\n"
        "  ./ladder run 2 3                 phases 2 and 3 only\n"
        "  ./ladder run --profile gtx1080   with the limits of a GeForce GTX 1080\n"
        "  ./ladder run --json tour.json    everything that was measured, for programs");
    TourRequest tour_request;
    tour->add_option("PHASE", tour_request.phases, "phases to walk, 0 to 5; all if none is named")
        ->type_name("")
        ->check(CLI::Range(0, 5).description(""));
    tour->add_option("--device", device, "auto (a GPU if there is one), cpu or cuda")
        ->transform(CLI::CheckedTransformer(device_names, CLI::ignore_case).description(""))
        ->type_name("NAME")
        ->default_str("auto");
    tour->add_option("--profile", profile, profile_help)->type_name("NAME");
    tour->add_option("--json", json, "also write everything to this file")->type_name("FILE");

    CLI::App* overflow = app.add_subcommand("overflow", "How far attention gets with whole rows in shared memory");
    overflow->footer(
        "The table of sequence lengths against bytes of shared memory, the longest that runs, and the next one really\n"
        "launched, with the error it gives.\n\n"
        "  ./ladder overflow --profile rtx5060ti                     N = 128 runs, N = 256 does not\n"
        "  ./ladder overflow --profile h200 --dtype f32 --head-dim 64");
    OverflowRequest overflow_request;
    const std::map<std::string, simt::ElementType> types = {
        {"f16", simt::ElementType::f16}, {"bf16", simt::ElementType::bf16}, {"f32", simt::ElementType::f32}};
    overflow->add_option("--device", device, "auto (a GPU if there is one, unless a profile is named), cpu or cuda")
        ->transform(CLI::CheckedTransformer(device_names, CLI::ignore_case).description(""))
        ->type_name("NAME")
        ->default_str("auto");
    overflow->add_option("--profile", profile, profile_help)->type_name("NAME");
    overflow->add_option("--dtype", overflow_request.type, "f16, bf16 or f32")
        ->transform(CLI::CheckedTransformer(types, CLI::ignore_case).description(""))
        ->type_name("NAME")
        ->default_str("f16");
    overflow->add_option("--head-dim", overflow_request.head_dim, "head dimension D, 1 to 256")
        ->check(CLI::Range(1, 256))
        ->capture_default_str();
    overflow->add_option("--block-rows", overflow_request.block_rows, "query rows per block M, 1 to 1024")
        ->check(CLI::Range(1, 1024))
        ->capture_default_str();

    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        return app.exit(error);
    }

    if (*overflow) {
        overflow_request.device =
            chosen_device(!profile.empty() && device == DeviceChoice::automatic ? DeviceChoice::cpu : device);
        imitate(profile, overflow_request.device);
        return run_overflow(overflow_request);
    }
    if (!profile.empty() && device == DeviceChoice::automatic) device = DeviceChoice::cpu;
    tour_request.device = chosen_device(device);
    tour_request.profile = imitate(profile, tour_request.device);
    const TourResult result = run_tour(tour_request);
    if (!json.empty()) write_json(result, json);
    return result.passed() ? 0 : 1;
}

}  // namespace
}  // namespace ladder::cli

int main(int argc, char** argv) {
    try {
        return ladder::cli::run(argc, argv);
    } catch (const std::exception& error) {
        std::fflush(stdout);
        fmt::print(stderr, "ladder: {}\n", error.what());
        return 2;
    }
}
