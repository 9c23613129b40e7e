#include "common/rung/phase.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

namespace ladder {

Phase phase_in(const std::string& folder, Phase description) {
    description.folder = folder;
    description.number = std::stoi(folder.substr(std::string("phase").size()));
    for (fuzz::Entry& entry : description.fuzz_entries) entry.phase = description.number;
    return description;
}

const Phase& phase_numbered(int number) {
    const auto found = std::ranges::find(phases(), number, &Phase::number);
    if (found == phases().end()) throw std::out_of_range(fmt::format("there is no phase {} in this program", number));
    return *found;
}

std::vector<Rung> rungs_of(const Phase& phase, const RungInput& input) {
    if (!phase.rungs) return {};
    std::vector<Rung> rungs = phase.rungs(input);
    for (Rung& rung : rungs) rung.phase = phase.number;
    return rungs;
}

}  // namespace ladder
