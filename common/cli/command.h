#pragma once

#include <torch/types.h>
#include <CLI/CLI.hpp>

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace ladder::cli {

/// What a parsed command line asks for. Returns the exit code.
using Action = std::function<int()>;

/// Each adds its subcommand to `app`, and sets `action` if that is the one asked for.
void add_run(CLI::App& app, Action& action);
void add_overflow(CLI::App& app, Action& action);
void add_fuzz(CLI::App& app, Action& action);
void add_profile(CLI::App& app, Action& action);
void add_bench(CLI::App& app, Action& action);
void add_trace(CLI::App& app, Action& action);
void add_quiz(CLI::App& app, Action& action);

enum class DeviceChoice { automatic, cpu, cuda };

/// Where a command runs: `--device`, and `--profile` for the CPU machine.
struct Target {
    DeviceChoice device = DeviceChoice::automatic;
    std::string profile = {};  ///< a name in simt::device_profiles(); empty: the default

    /// Adds both options.
    void add_options(CLI::App& command);

    /// Adds `--device` alone, for a command that has no one profile.
    void add_device(CLI::App& command);

    /// The device to run on. Naming a profile means the CPU machine, unless a device is named too; the machine then
    /// imitates that profile, or the default one. Throws std::invalid_argument for a GPU that is not there, a profile
    /// that is not known, and a profile for a real GPU.
    torch::Device choose();
};

/// Adds the phases to walk as positional arguments.
void add_phases(CLI::App& command, std::vector<int>& phases, const std::string& what);

/// An option whose values have names, which its help lists in words of its own.
template <class T>
CLI::Option* add_named(CLI::App& command, const std::string& option, T& value, const std::map<std::string, T>& names,
                       const std::string& help, const std::string& otherwise) {
    return command.add_option(option, value, help)
        ->transform(CLI::CheckedTransformer(names, CLI::ignore_case).description(""))
        ->type_name("NAME")
        ->default_str(otherwise);
}

}  // namespace ladder::cli
