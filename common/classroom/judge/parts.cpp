#include "common/classroom/judge/parts.h"

#include "common/classroom/judge/first_given.h"

namespace ladder::classroom {

std::optional<std::string_view> known_mistake(const AttentionQuestion& question, const Attended& result) {
    for (const Part& part : parts())
        if (const auto name = first_given(
                part.mistakes, [&](const AttentionMistake& mistake) { return mistake.gives(question, result); }))
            return name;
    return {};
}

std::vector<std::string_view> known_mistakes() {
    std::vector<std::string_view> names;
    for (const Part& part : parts()) {
        for (const ProblemKind& kind : part.problems)
            names.insert(names.end(), kind.mistakes.begin(), kind.mistakes.end());
        for (const AttentionMistake& mistake : part.mistakes) names.push_back(mistake.name);
    }
    return names;
}

}  // namespace ladder::classroom
