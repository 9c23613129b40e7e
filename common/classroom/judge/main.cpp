// Judges a learner's kernel: gives its runner one problem after the other, holds the replies against the reference, and
// prints one JSON object a line:
//
//   {"trials": 17}
//   {"property": "heads", "title": "batch and heads", "trial": "B 2, …", "sizes": {…}, "end": "replied", "fault": null,
//    "finding": null, "launches": [...], "printed": "", "milliseconds": 12}
//
// `end` is replied, silent, crashed, timed_out or not_run; after a trial that did not end in time, the others are not
// run.
//
//   classroom_judge RUNNER SUITE SEED LIMIT    SUITE as JSON, the limit of a trial in milliseconds
//   classroom_judge --properties SUITE         the titles of what the suite asks, in order
//   classroom_judge --lookalikes               the mistakes that it knows by their results

#include <algorithm>
#include <chrono>
#include <iostream>

#include "common/classroom/judge/runner_process.h"
#include "common/classroom/judge/trials.h"

namespace ladder::classroom {
namespace {

using nlohmann::json;

json to_json(const std::optional<Finding>& finding) {
    if (!finding) return nullptr;
    return {{"summary", finding->summary},
            {"first", finding->first},
            {"pattern", finding->pattern},
            {"lookalike", finding->lookalike ? json(*finding->lookalike) : json()}};
}

const char* name_of(RunnerEnd::Kind kind) {
    switch (kind) {
        case RunnerEnd::Kind::replied:
            return "replied";
        case RunnerEnd::Kind::silent:
            return "silent";
        case RunnerEnd::Kind::crashed:
            return "crashed";
        case RunnerEnd::Kind::timed_out:
            return "timed_out";
    }
    return "";
}

json run(const Trial& trial, const std::string& runner, std::chrono::milliseconds limit) {
    const auto begun = std::chrono::steady_clock::now();
    const RunnerEnd end = call_runner(runner, trial.problem, limit);
    const auto spent = std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - begun);
    json said{{"end", name_of(end.kind)},     {"detail", end.detail},      {"fault", nullptr},
              {"finding", nullptr},           {"launches", json::array()}, {"printed", end.printed},
              {"milliseconds", spent.count()}};
    if (end.kind != RunnerEnd::Kind::replied) return said;
    said["launches"] = end.reply.words.value("launches", json::array());
    said["fault"] = end.reply.words.value("fault", json());
    if (!said["fault"].is_null()) return said;
    try {
        said["finding"] = to_json(trial.examine(end.reply));
    } catch (const std::exception& error) {
        said["end"] = "silent";
        said["detail"] = error.what();
    }
    return said;
}

void judge(const std::string& runner, const json& suite, std::uint64_t seed, std::chrono::milliseconds limit) {
    const std::vector<Trial> trials = trials_of(suite, seed);
    std::cout << json{{"trials", trials.size()}}.dump() << std::endl;
    bool late = false;
    for (const Trial& trial : trials) {
        json said = late ? json{{"end", "not_run"}} : run(trial, runner, limit);
        late = late || said["end"] == "timed_out";
        said["property"] = trial.property;
        said["title"] = title_of_property(trial.property);
        said["trial"] = trial.name;
        said["sizes"] = trial.sizes;
        std::cout << said.dump(-1, ' ', false, json::error_handler_t::replace) << std::endl;
    }
}

}  // namespace
}  // namespace ladder::classroom

int main(int argc, char** argv) {
    using namespace ladder::classroom;
    const std::vector<std::string> arguments(argv + 1, argv + argc);
    try {
        if (arguments == std::vector<std::string>{"--lookalikes"}) {
            for (const std::string_view name : known_mistakes()) std::cout << name << '\n';
            return 0;
        }
        if (arguments.size() == 2 && arguments[0] == "--properties") {
            std::vector<std::string> titles;
            for (const Trial& trial : trials_of(nlohmann::json::parse(arguments[1]), 0))
                if (const std::string title = title_of_property(trial.property);
                    std::ranges::find(titles, title) == titles.end())
                    titles.push_back(title);
            for (const std::string& title : titles) std::cout << title << '\n';
            return 0;
        }
        if (arguments.size() != 4) {
            std::cerr << "classroom_judge RUNNER SUITE SEED LIMIT; ./ladder learn check calls it\n";
            return 2;
        }
        judge(arguments[0], nlohmann::json::parse(arguments[1]), std::stoull(arguments[2]),
              std::chrono::milliseconds(std::stoll(arguments[3])));
        return 0;
    } catch (const std::exception& error) {
        std::cerr << "classroom_judge: " << error.what() << '\n';
        return 2;
    }
}
