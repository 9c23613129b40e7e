#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "common/classroom/wire.h"

namespace ladder::classroom {

/// What is wrong with a result, in parts that a report can lay out.
struct Finding {
    std::string summary = {};                   ///< "O: 12 of 640 elements wrong; worst …"
    std::string first = {};                     ///< the first wrong element, got and expected
    std::string pattern = {};                   ///< what the wrong elements have in common
    std::optional<std::string> lookalike = {};  ///< the known mistake that gives this very result
};

/// A number that a problem asks for.
struct Asked {
    std::string name;  ///< under which it is answered
    double value;      ///< the right one
    std::string what;  ///< "queries 0 to 63 of 70, full", for reports
    std::string why;   ///< said to whoever answers another
};

/// One problem for a learner's kernel.
struct Trial {
    std::string property;       ///< which property of the exercise it belongs to; see title_of_property
    std::string name = {};      ///< "Sq 40, Sk 96, D 32, rising scores"
    nlohmann::json sizes = {};  ///< what budgets are computed from: {"Sq": 40, …}
    Message problem = {};       ///< what the runner is given
    std::function<std::optional<Finding>(const Message& reply)> examine = {};  ///< nothing if the reply is right
    std::vector<Asked> asked = {};                             ///< of a problem that asks for numbers, for recordings
    std::map<std::string, std::vector<double>> mistaken = {};  ///< and what known mistakes answer
};

/// Properties in words, by their name in exercises.toml.
std::string title_of_property(const std::string& property);

/// The names of all mistakes that the judge tells by their results.
std::vector<std::string_view> known_mistakes();

/// The trials of a suite. What a suite is made of: common/classroom/README.md. The same seed gives the same trials.
/// Throws std::invalid_argument for a suite that cannot be understood.
std::vector<Trial> trials_of(const nlohmann::json& suite, std::uint64_t seed);

/// What decides the sizes of problems, in every class alike: so that the same kernel passes the same checks whatever
/// the seed of a class, which decides the numbers in the tensors. Where a problem is nothing but numbers, both are
/// tried.
inline constexpr std::uint64_t kSizes = 1;

/// Those of {"problem": "attention"}, which several phases ask for; others are in the phases' parts (parts.h).
std::vector<Trial> attention_trials(const nlohmann::json& suite, std::uint64_t seed);

/// Whole numbers from a seed, the same on every platform.
class Draw {
  public:
    /// The same seed gives the same numbers.
    explicit Draw(std::uint64_t seed) : engine_(seed) {}
    /// From `least` to `most`, both included.
    std::int64_t operator()(std::int64_t least, std::int64_t most) {
        return least + std::int64_t(engine_() % std::uint64_t(most - least + 1));
    }

  private:
    std::mt19937_64 engine_;
};

}  // namespace ladder::classroom
