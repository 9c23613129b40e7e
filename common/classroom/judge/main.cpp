// Judges a learner's kernel: gives its runner one problem after the other, holds the replies against the reference, and
// prints one JSON object a line:
//
//   {"trials": 17}
//   {"property": "heads", "title": "batch and heads", "trial": "B 2, …", "sizes": {…}, "end": "replied", "fault": null,
//    "finding": null, "launches": [...], "printed": "", "milliseconds": 12}
//
// `end` is replied, silent, crashed, forbidden, timed_out, starved (the machine's doing) or not_run; after a trial that
// did not end in time, the others are not run. `milliseconds` are a processor's, and the clock's while it slept.
//
//   classroom_judge RUNNER SUITE SEED LIMIT TOTAL JOBS    SUITE as JSON; the limits of a trial and of all together in
//                                                         milliseconds; so many trials side by side
//   classroom_judge --properties SUITE…        the titles of what each suite asks, in order, as a JSON list a line
//   classroom_judge --lookalikes               the mistakes that it knows by their results

#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
#include <iostream>
#include <mutex>
#include <span>

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
        case RunnerEnd::Kind::forbidden:
            return "forbidden";
        case RunnerEnd::Kind::timed_out:
            return "timed_out";
        case RunnerEnd::Kind::starved:
            return "starved";
    }
    return "";
}

json run(const Trial& trial, const std::string& runner, std::chrono::milliseconds limit) {
    const RunnerEnd end = call_runner(runner, trial.problem, limit);
    json said{{"end", name_of(end.kind)},
              {"detail", end.detail},
              {"fault", nullptr},
              {"finding", nullptr},
              {"launches", json::array()},
              {"printed", end.printed},
              {"milliseconds", end.taken.count()}};
    if (end.kind != RunnerEnd::Kind::replied) return said;
    said["launches"] = end.reply.words.value("launches", json::array());
    said["fault"] = end.reply.words.value("fault", json());
    if (!said["fault"].is_null()) return said;
    try {
        // One at a time: libtorch multiplies with the system's BLAS, whichever that is, and Debian's
        // libopenblas0-serial gives wrong products where two threads ask it at once. The kernels, in processes of their
        // own, run side by side.
        static std::mutex examining;
        const std::lock_guard one_at_a_time(examining);
        said["finding"] = to_json(trial.examine(end.reply));
    } catch (const std::exception& error) {
        said["end"] = "silent";
        said["detail"] = error.what();
    }
    return said;
}

/// In words, each once, in their order.
std::vector<std::string> properties_of(const json& suite) {
    std::vector<std::string> titles;
    for (const Trial& trial : trials_of(suite, 0))
        if (const std::string title = title_of_property(trial.property);
            std::ranges::find(titles, title) == titles.end())
            titles.push_back(title);
    return titles;
}

struct Limits {
    std::chrono::milliseconds of_a_trial, of_all;
    std::size_t jobs;
};

/// What came of each trial, in their order. Some workers take one after the other, so a late one is known to be late
/// whoever runs it: those behind it count as not run. They share what all trials may take together.
std::vector<json> outcomes(const std::vector<Trial>& trials, const std::string& runner, const Limits& limits) {
    std::vector<json> said(trials.size(), json{{"end", "not_run"}});
    std::atomic<std::size_t> next = 0;
    std::atomic<bool> over = false;
    std::atomic<std::int64_t> left = limits.of_all.count();
    const auto work = [&] {
        for (std::size_t n = next++; n < trials.size() && !over && left > 0; n = next++) {
            said[n] = run(trials[n], runner, limits.of_a_trial);
            left -= said[n]["milliseconds"].get<std::int64_t>();
            if (said[n]["end"] == "timed_out" || said[n]["end"] == "starved") over = true;
        }
    };
    {
        std::vector<std::future<void>> helpers;
        for (std::size_t n = 1; n < std::min(limits.jobs, trials.size()); ++n)
            helpers.push_back(std::async(std::launch::async, work));
        work();
        for (std::future<void>& helper : helpers) helper.get();
    }
    const auto first_late = std::ranges::find(said, json("timed_out"), [](const json& one) { return one["end"]; });
    if (first_late != said.end()) std::fill(first_late + 1, said.end(), json{{"end", "not_run"}});
    return said;
}

void judge(const std::string& runner, const json& suite, std::uint64_t seed, const Limits& limits) {
    const std::vector<Trial> trials = trials_of(suite, seed);
    std::vector<json> said = outcomes(trials, runner, limits);
    std::cout << json{{"trials", trials.size()}}.dump() << '\n';
    for (std::size_t n = 0; n < trials.size(); ++n) {
        const Trial& trial = trials[n];
        said[n]["property"] = trial.property;
        said[n]["title"] = title_of_property(trial.property);
        said[n]["trial"] = trial.name;
        said[n]["sizes"] = trial.sizes;
        std::cout << said[n].dump(-1, ' ', false, json::error_handler_t::replace) << '\n';
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
        if (!arguments.empty() && arguments[0] == "--properties") {
            for (const std::string& suite : std::span(arguments).subspan(1))
                std::cout << nlohmann::json(properties_of(nlohmann::json::parse(suite))).dump() << '\n';
            return 0;
        }
        if (arguments.size() != 6) {
            std::cerr << "classroom_judge RUNNER SUITE SEED LIMIT TOTAL JOBS; ./ladder learn check calls it\n";
            return 2;
        }
        judge(arguments[0], nlohmann::json::parse(arguments[1]), std::stoull(arguments[2]),
              {.of_a_trial = std::chrono::milliseconds(std::stoll(arguments[3])),
               .of_all = std::chrono::milliseconds(std::stoll(arguments[4])),
               .jobs = std::stoul(arguments[5])});
        return 0;
    } catch (const std::exception& error) {
        std::cerr << "classroom_judge: " << error.what() << '\n';
        return 2;
    }
}
