#include "common/simt/report/source_lines.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <cstdio>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>

#include "common/simt/report/source_columns.h"

namespace simt {
namespace {

struct ClosePipe {
    void operator()(std::FILE* pipe) const { ::pclose(pipe); }
};

std::string quoted(std::string_view text) {
    std::string result = "'";
    for (const char c : text) result += c == '\'' ? "'\\''" : std::string(1, c);
    return result + "'";
}

std::string output_of(const std::string& command) {
    std::string output;
    const std::unique_ptr<std::FILE, ClosePipe> pipe(::popen(command.c_str(), "r"));
    std::array<char, 512> part;
    while (pipe && std::fgets(part.data(), int(part.size()), pipe.get())) output += part.data();
    return output;
}

/// The number that `text` begins with; 0 if it does not.
unsigned number_at(std::string_view text) {
    unsigned number = 0;
    std::from_chars(text.data(), text.data() + text.size(), number);
    return number;
}

/// What addr2line prints: the name of a function, below it "/path/kernel.cuh:88" or "/path/kernel.cuh:88 (discriminator
/// 2)", "??:0" for what it does not know, and so on for the function that it was inlined into.
std::vector<SourceLine> parsed(std::string_view output) {
    static std::set<std::string> files;  // sites keep pointers to their names
    constexpr std::string_view branch = " (discriminator ";
    std::vector<SourceLine> lines;
    const auto next_line = [&output] {
        const std::string_view line = output.substr(0, output.find('\n'));
        output.remove_prefix(std::min(output.size(), line.size() + 1));
        return line;
    };
    while (!output.empty()) {
        const std::string_view function = next_line(), line = next_line();
        const std::size_t note = line.find(branch);
        const std::string_view place = line.substr(0, note);
        const std::size_t colon = place.rfind(':');
        if (colon == place.npos || place.starts_with("??")) return {};
        const unsigned number = number_at(place.substr(colon + 1));
        if (number == 0) return {};
        lines.push_back({.function = std::string(function.substr(0, function.find('.'))),  // of a copy: "f.part.0"
                         .site = {files.emplace(place.substr(0, colon)).first->c_str(), number},
                         .branch = note == line.npos ? 0 : number_at(line.substr(note + branch.size())),
                         .column = 0});
    }
    return lines;
}

std::atomic<bool> may_look_up = true;

std::vector<SourceLine> looked_up(std::uintptr_t address) {
    if (!may_look_up) return {};
    Dl_info program;
    if (!::dladdr(reinterpret_cast<const void*>(address), &program) || !program.dli_fname) return {};
    const auto* const header = static_cast<const ElfW(Ehdr)*>(program.dli_fbase);
    if (header->e_type != ET_EXEC) address -= reinterpret_cast<std::uintptr_t>(program.dli_fbase);
    std::array<char, 2 * sizeof(address) + 1> hex{};
    std::to_chars(hex.data(), hex.data() + hex.size() - 1, address, 16);
    std::vector<SourceLine> lines =
        parsed(output_of("addr2line --functions --inlines --exe " + quoted(program.dli_fname) + " 0x" + hex.data() +
                         " 2>/dev/null </dev/null"));
    const std::vector<unsigned> columns = source_columns(program.dli_fname, address);
    if (columns.size() == lines.size())
        for (std::size_t i = 0; i < lines.size(); ++i) lines[i].column = columns[i];
    return lines;
}

}  // namespace

const std::vector<SourceLine>& source_lines(std::uintptr_t address) {
    static std::mutex mutex;
    static std::map<std::uintptr_t, std::vector<SourceLine>> known;
    const std::scoped_lock lock(mutex);
    const auto [entry, is_new] = known.try_emplace(address);
    if (is_new) entry->second = looked_up(address);
    return entry->second;
}

void look_up_no_source_lines() { may_look_up = false; }

}  // namespace simt
