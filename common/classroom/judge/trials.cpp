#include "common/classroom/judge/trials.h"

#include <ATen/Parallel.h>

#include <map>
#include <stdexcept>

#include "common/classroom/judge/parts.h"

namespace ladder::classroom {
namespace {

/// All kinds of problems by name.
std::map<std::string_view, ProblemKind> kinds() {
    std::map<std::string_view, ProblemKind> kinds{{"attention", {.name = "attention", .trials = attention_trials}}};
    for (const Part& part : parts())
        for (const ProblemKind& kind : part.problems) kinds.emplace(kind.name, kind);
    return kinds;
}

/// What several kinds of problems ask.
std::map<std::string, std::string> titles() {
    std::map<std::string, std::string> titles{
        {"one_tile", "one tile"},
        {"several_tiles", "several tiles"},
        {"few_scores", "rows of few scores"},
        {"many_scores", "rows of many scores"},
        {"ragged", "ragged ends"},
        {"heads", "batch and heads"},
        {"extremes", "extreme scores"},
        {"float16", "float16"},
        {"cancelling", "values that cancel"},
        {"narrow", "a narrow window"},
        {"longest", "as many keys as fit"},
    };
    for (const auto& [name, kind] : kinds()) titles.insert(kind.titles.begin(), kind.titles.end());
    return titles;
}

}  // namespace

std::string title_of_property(const std::string& property) {
    static const std::map<std::string, std::string> kTitles = titles();
    const auto found = kTitles.find(property);
    if (found == kTitles.end()) throw std::logic_error("the property " + property + " has no title");
    return found->second;
}

std::vector<Trial> trials_of(const nlohmann::json& suite, std::uint64_t seed) {
    static const std::map<std::string_view, ProblemKind> kKinds = kinds();
    at::set_num_threads(1);
    const std::string wanted = suite.value("problem", "");
    const auto found = kKinds.find(wanted);
    if (found == kKinds.end()) {
        std::string known;
        for (const auto& [name, kind] : kKinds) known += (known.empty() ? "" : ", ") + std::string(name);
        throw std::invalid_argument("suite: problem is \"" + wanted + "\"; known: " + known);
    }
    return found->second.trials(suite, seed);
}

}  // namespace ladder::classroom
