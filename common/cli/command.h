#pragma once

#include <CLI/CLI.hpp>

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/rung/phase.h"
#include "common/torch/torch.h"

namespace ladder::cli {

/// What a parsed command line asks for. Returns the exit code.
using Action = std::function<int()>;

/// Adds the one command of this program to `app`, and sets `action` if it is asked for. Each *_command.cpp defines it,
/// and CMakeLists.txt makes a program of each, so that a command builds what it needs and no more.
void add_command(CLI::App& app, Action& action);

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

/// Adds phases as positional arguments; `verb` is what the command does with them.
void add_phases(CLI::App& command, std::vector<int>& phases, const std::string& verb);

/// Accepts the numbers of this program's phases.
CLI::Validator phase_number();

/// "0 to 5": the numbers of this program's phases.
std::string phase_numbers();

/// "phases 4 and 5", "phase 5", "no phase": those of this program for which `which` holds.
std::string phases_that(const std::function<bool(const Phase&)>& which);

/// Adds --causal and --no-causal; neither leaves it to each phase.
void add_causal(CLI::App& command, std::optional<bool>& causal);

/// An option whose values have names, which its help lists in words of its own. `value` is a T, or may be absent.
template <class T, class Value>
CLI::Option* add_named(CLI::App& command, const std::string& option, Value& value,
                       const std::map<std::string, T>& names, const std::string& help, const std::string& otherwise) {
    return command.add_option(option, value, help)
        ->transform(CLI::CheckedTransformer(names, CLI::ignore_case).description(""))
        ->type_name("NAME")
        ->default_str(otherwise);
}

}  // namespace ladder::cli
