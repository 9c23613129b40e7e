#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/classroom/judge/examine_attention.h"
#include "common/classroom/judge/trials.h"

namespace ladder::classroom {

/// A mistake in computing attention that shows in the result.
struct AttentionMistake {
    /// Of an entry in the phase's catalogue of wrong kernels, "PHASE/l_not_rescaled", or of a mistake in its
    /// exercises.toml, "PHASE/exercises/no_cap".
    std::string_view name;
    /// Whether a kernel with this mistake gives this very result.
    std::function<bool(const AttentionQuestion& question, const Attended& result)> gives;
};

/// A kind of problem that only one phase's exercises ask for.
struct ProblemKind {
    std::string_view name;                                                          ///< a suite's "problem"
    std::vector<Trial> (*trials)(const nlohmann::json& suite, std::uint64_t seed);  ///< of such a suite
    std::map<std::string, std::string> titles = {};                                 ///< of its properties, in words
    std::vector<std::string_view> mistakes = {};  ///< that its trials know by their results
};

/// What a phase brings to the judge.
struct Part {
    std::vector<ProblemKind> problems = {};       ///< kinds that no other phase asks for
    std::vector<AttentionMistake> mistakes = {};  ///< asked in this order
};

/// What all phases bring, in their order: `Part classroom::PHASE::part()`, defined in PHASE/rung/judge/. CMake
/// writes this function from the list of phases.
const std::vector<Part>& parts();

/// The first known mistake that gives this very result, if there is one.
std::optional<std::string_view> known_mistake(const AttentionQuestion& question, const Attended& result);

}  // namespace ladder::classroom
