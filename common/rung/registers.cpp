#include "common/rung/registers.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

namespace ladder {
namespace {

namespace fs = std::filesystem;

/// FNV-1a over the code of a phase's kernels, without comments and empty lines, as measure_registers.py has it.
std::string fingerprint(const fs::path& repository, const fs::path& phase) {
    std::vector<std::string> files;
    const auto add = [&](const fs::directory_entry& entry) {
        if (entry.path().extension() == ".cuh")
            files.push_back(entry.path().lexically_relative(repository).generic_string());
    };
    for (const fs::directory_entry& entry : fs::directory_iterator(repository / "common/attention")) add(entry);
    for (auto entry = fs::recursive_directory_iterator(phase); entry != fs::recursive_directory_iterator(); ++entry)
        if (entry->path().filename() == "exercises")
            entry.disable_recursion_pending();
        else
            add(*entry);
    std::ranges::sort(files);

    std::uint64_t value = 0xcbf29ce484222325;
    for (const std::string& file : files) {
        std::ifstream stream(repository / file);
        for (std::string line; std::getline(stream, line);) {
            line.resize(std::min(line.find("//"), line.size()));
            line.resize(line.find_last_not_of(' ') + 1);
            if (line.empty()) continue;
            line += '\n';
            for (const char c : line) value = (value ^ static_cast<unsigned char>(c)) * 0x100000001b3;
        }
    }
    return fmt::format("{:016x}", value);
}

}  // namespace

RecordedRegisters::RecordedRegisters(const fs::path& repository) {
    for (const fs::directory_entry& entry : fs::directory_iterator(repository))
        if (entry.is_directory() && entry.path().filename().string().starts_with("phase"))
            read(repository, entry.path());
}

void RecordedRegisters::read(const fs::path& repository, const fs::path& phase) {
    const fs::path file = phase / "rung/registers.json";
    std::ifstream stream(file);
    if (!stream) return;
    try {
        const auto record = nlohmann::json::parse(stream);
        std::string source = record.at("compiler");
        if (record.at("fingerprint") != fingerprint(repository, phase))
            source += ", before the kernels were last changed";
        for (const auto& [kernel, capabilities] : record.at("kernels").items())
            for (const auto& [capability, figures] : capabilities.items())
                figures_[kernel].insert_or_assign(std::stoi(capability), Figure{figures.at("registers"), source});
    } catch (const std::exception& error) {
        throw std::runtime_error(
            fmt::format("{}: not what common/cli/measure_registers.py writes ({}); run it again, or "
                        "remove the file",
                        file.string(), error.what()));
    }
}

const RecordedRegisters& RecordedRegisters::instance() {
    static const RecordedRegisters recorded(LADDER_SOURCE_DIR);
    return recorded;
}

std::optional<RecordedRegisters::Figure> RecordedRegisters::of(const std::string& kernel_instance,
                                                               int compute_capability) const {
    const auto kernel = figures_.find(kernel_instance);
    if (kernel == figures_.end()) return std::nullopt;
    const auto found = kernel->second.find(compute_capability);
    return found == kernel->second.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace ladder
