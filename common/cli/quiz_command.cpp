#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <memory>
#include <random>
#include <stdexcept>

#include "common/cli/command.h"
#include "common/cli/quiz/session.h"
#include "common/cli/terminal.h"
#include "common/rung/phase.h"
#include "common/simt/device/device.h"

namespace ladder::cli {
namespace {

struct Options {
    std::vector<int> phases;
    std::vector<std::string> ids;
    std::optional<std::uint64_t> seed;
    bool list = false, show = false;
    std::string json;
};

std::vector<quiz::Topic> chosen_topics(const Options& options) {
    if (!options.ids.empty() && !options.phases.empty())
        throw std::invalid_argument("--question: its id has the phase in it; leave PHASE out");
    std::vector<quiz::Topic> topics;
    for (const std::string& id : options.ids) {
        const auto found = std::ranges::find(quiz::all_topics(), id, &quiz::Topic::id);
        if (found == quiz::all_topics().end()) {
            std::string known;
            for (const quiz::Topic& topic : quiz::all_topics())
                known += (known.empty() ? "" : ", ") + std::string(topic.id);
            throw std::invalid_argument(fmt::format("--question: there is no {}; there are {}", id, known));
        }
        topics.push_back(*found);
    }
    if (!options.ids.empty()) return topics;
    for (const quiz::Topic& topic : quiz::all_topics())
        if (options.phases.empty() || std::ranges::find(options.phases, topic.phase()) != options.phases.end())
            topics.push_back(topic);
    return topics;
}

void print_list(const std::vector<quiz::Topic>& topics) {
    Table table({{"question"}, {"is about"}});
    for (const quiz::Topic& topic : topics) table.add({{topic.id}, {topic.about}});
    fmt::print("{}", table.text());
}

int run(const Options& options) {
    quiz::Request request{.topics = chosen_topics(options), .echo = isatty(STDIN_FILENO) == 0};
    if (options.list) {
        print_list(request.topics);
        return 0;
    }
    if (!simt::cpu_machine_checks())
        throw std::invalid_argument(
            "quiz: this program was built with LADDER_CHECKS=OFF, and counts nothing; use a build with checks, such as "
            "the one that ./ladder makes");
    request.seed = options.seed ? *options.seed : std::random_device{}();
    // Before anybody answers anything in vain.
    if (!options.json.empty()) quiz::write_json(request, {}, options.json);
    at::set_num_threads(1);  // the CPU machine has workers of its own, and the problems are small
    fmt::print("{}   each answer is computed when its question is asked; --seed {} asks the same again\n",
               styled(Style::bold, "Predict, then run"), request.seed);
    const std::vector<quiz::Turn> turns =
        options.show ? quiz::show_all(request) : quiz::hold_session(request, std::cin);
    if (!options.show) quiz::print_score(turns, request.topics.size());
    if (!options.json.empty()) quiz::write_json(request, turns, options.json);
    return 0;
}

}  // namespace

void add_command(CLI::App& app, Action& action) {
    const auto options = std::make_shared<Options>();
    CLI::App& command = *app.add_subcommand("quiz", "Questions to predict, with answers computed on the spot");
    command.footer(
        "Asks one question at a time, from easy to hard, and runs the kernel in question on the CPU machine for the\n"
        "answer. A wrong choice is explained, and you try again. Sizes differ from run to run.\n\n"
        "  ./ladder quiz 2                        phase 2\n"
        "  ./ladder quiz --list                   all questions, a line each\n"
        "  ./ladder quiz --question 1.wall-a      one of them\n"
        "  ./ladder quiz 3 --seed 7 --show        with answers and reasons, for a teacher\n"
        "  printf 'a\\n?\\nb\\n' | ./ladder quiz 3 --seed 7 --json answers.json");
    add_phases(command, options->phases, "ask about");
    command.add_option("--question", options->ids, "only the question with this id, see --list; may be repeated")
        ->type_name("ID")
        ->allow_extra_args(false);
    command.add_option("--seed", options->seed, "the same seed asks the same; drawn if not given")->type_name("S");
    CLI::Option* list = command.add_flag("--list", options->list, "instead: the ids of the questions");
    command.add_flag("--show", options->show, "instead: every question with its answer and all reasons")
        ->excludes(list);
    command.add_option("--json", options->json, "also write what was asked, answered and right to this file")
        ->type_name("FILE")
        ->excludes(list);
    command.callback([options, &action] { action = [options] { return run(*options); }; });
}

}  // namespace ladder::cli
