#include "common/classroom/judge/trials.h"

#include <map>
#include <stdexcept>

namespace ladder::classroom {

std::string title_of_property(const std::string& property) {
    static const std::map<std::string, std::string> kTitles{
        {"one_tile", "one tile"},
        {"several_tiles", "several tiles"},
        {"few_scores", "rows of few scores"},
        {"many_scores", "rows of many scores"},
        {"ragged", "ragged ends"},
        {"heads", "batch and heads"},
        {"extremes", "extreme scores"},
        {"float16", "float16"},
        {"narrow", "a narrow window"},
        {"one_split", "one split"},
        {"several_splits", "several splits"},
        {"lengths", "lengths of sequences"},
        {"empty", "parts that saw no key"},
        {"parts", "several parts"},
        {"many_parts", "many parts"},
        {"rows", "rows"},
        {"short_rows", "short rows"},
        {"long_rows", "long rows"},
        {"few_blocks", "few blocks"},
        {"many_blocks", "many blocks"},
        {"limits", "limits"},
        {"longest", "as many keys as fit"},
        {"no_mask", "no mask"},
        {"bottom_right", "aligned bottom-right"},
        {"top_left", "aligned top-left"},
    };
    const auto found = kTitles.find(property);
    if (found == kTitles.end()) throw std::logic_error("the property " + property + " has no title");
    return found->second;
}

std::vector<Trial> trials_of(const nlohmann::json& suite, std::uint64_t seed) {
    static const std::map<std::string, std::vector<Trial> (*)(const nlohmann::json&, std::uint64_t)> kMakers{
        {"attention", attention_trials}, {"softmax", softmax_trials}, {"decode", decode_trials},
        {"merge", merge_trials},         {"splits", split_trials},    {"stages", stage_trials},
    };
    const std::string kind = suite.value("problem", "");
    const auto found = kMakers.find(kind);
    if (found == kMakers.end()) {
        std::string known;
        for (const auto& [name, maker] : kMakers) known += (known.empty() ? "" : ", ") + name;
        throw std::invalid_argument("suite: problem is \"" + kind + "\"; known: " + known);
    }
    return found->second(suite, seed);
}

}  // namespace ladder::classroom
