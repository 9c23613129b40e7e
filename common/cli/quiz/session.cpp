#include "common/cli/quiz/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <optional>

#include "common/cli/launch_json.h"
#include "common/cli/terminal.h"
#include "common/rung/phase.h"

namespace ladder::cli::quiz {
namespace {

char letter_of(std::size_t choice) { return char('a' + choice); }

/// Drawing a question runs a kernel, which may take a moment.
Question drawn(const Topic& topic, std::uint64_t seed) {
    const Progress progress("running the kernels …");
    return draw_question(topic, seed);
}

void print_question(const Question& q, std::size_t number, std::size_t all) {
    fmt::print("\n{}   {}\n", styled(Style::bold, fmt::format("Question {} of {}", number, all)),
               styled(Style::dim, q.id));
    fmt::print("{}", wrapped(q.situation, 2));
    fmt::print("{}", styled(Style::bold, wrapped(q.ask, 2)));
    if (q.tolerance) return;
    for (std::size_t c = 0; c < q.choices.size(); ++c)
        fmt::print("    {}  {}\n", letter_of(c), q.choices[c].answer.text);
}

void print_answer(const Question& q) {
    const Choice& right = q.right_choice();
    fmt::print("{}", wrapped(right.why, 4));
    fmt::print("{}", wrapped(fmt::format("computed just now: {}, by {}", right.answer.text, q.source), 4));
    fmt::print("    see it:   {}\n    read on:  {}, \"{}\"\n", q.command, chapter_of(q.phase), q.section);
}

std::string lower_case(std::string line) {
    std::erase_if(line, [](unsigned char c) { return std::isspace(c) || c == ','; });  // 1,572,864 is a number, too
    std::ranges::transform(line, line.begin(), [](unsigned char c) { return char(std::tolower(c)); });
    return line;
}

std::optional<double> number_in(const std::string& line) {
    double number = 0;
    const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), number);
    return error == std::errc{} && end == line.data() + line.size() ? std::optional(number) : std::nullopt;
}

/// The choice that a line stands for. A number that nobody foresaw becomes a choice of its own.
std::optional<Choice> choice_in(const Question& q, const std::string& line) {
    if (!q.tolerance) {
        const auto place = std::size_t(line.size() == 1 ? line[0] - 'a' : -1);
        return place < q.choices.size() ? std::optional(q.choices[place]) : std::nullopt;
    }
    const std::optional<double> typed = number_in(line);
    if (!typed) return std::nullopt;
    if (const Choice* known = q.choice_of(*typed)) return *known;
    return Choice{.answer = {line, *typed},
                  .why = fmt::format("It is {}; no slip that we know leads there. ? gives a hint.",
                                     *typed < *q.right_choice().answer.number ? "more" : "less")};
}

std::string answers_taken(const Question& q) {
    return q.tolerance ? "a number" : fmt::format("a to {}", letter_of(q.choices.size() - 1));
}

/// Asks until the question is answered, skipped or given up.
Turn take_turn(const Question& q, bool echo, std::istream& answers) {
    Turn turn{.question = q, .outcome = Outcome::quit};
    for (std::string line;;) {
        fmt::print("  {} ",
                   styled(Style::dim, fmt::format("{}, ? for a hint, s to skip, q to quit:", answers_taken(q))));
        std::fflush(stdout);
        if (!std::getline(answers, line)) {
            fmt::print("\n");
            return turn;
        }
        if (echo) fmt::print("{}\n", line);
        line = lower_case(line);
        if (line == "q") return turn;
        if (line == "?") {
            turn.hinted = true;
            fmt::print("{}", wrapped(q.hint, 4));
        } else if (line == "s") {
            turn.outcome = Outcome::skipped;
            fmt::print("    {}\n", styled(Style::note, "The answer is " + q.right_choice().answer.text + "."));
            print_answer(q);
            return turn;
        } else if (const std::optional<Choice> chosen = choice_in(q, line)) {
            turn.attempts.push_back(chosen->answer.text);
            fmt::print("    {}\n", chosen->right ? styled(Style::good, "Right: " + chosen->answer.text + ".")
                                                 : styled(Style::bad, "Not " + chosen->answer.text + "."));
            if (chosen->right) {
                turn.outcome = Outcome::right;
                print_answer(q);
                return turn;
            }
            fmt::print("{}", wrapped(chosen->why, 4));
        } else {
            fmt::print("    \"{}\" is no answer here; type {}, or ?, s or q\n", line, answers_taken(q));
        }
    }
}

const char* name_of(Outcome outcome) {
    switch (outcome) {
        case Outcome::right:
            return "right";
        case Outcome::skipped:
            return "skipped";
        case Outcome::quit:
            return "quit";
        case Outcome::shown:
            return "shown";
    }
    return "";
}

}  // namespace

std::vector<Turn> hold_session(const Request& request, std::istream& answers) {
    std::vector<Turn> turns;
    for (const Topic& topic : request.topics) {
        if (turns.empty() || turns.back().question.phase != topic.phase())
            fmt::print("\n{}\n", styled(Style::bold, fmt::format("Phase {}   {}", topic.phase(),
                                                                 phase_numbered(topic.phase()).title)));
        const Question question = drawn(topic, request.seed);
        print_question(question, turns.size() + 1, request.topics.size());
        turns.push_back(take_turn(question, request.echo, answers));
        if (turns.back().outcome == Outcome::quit) break;
    }
    return turns;
}

std::vector<Turn> show_all(const Request& request) {
    std::vector<Turn> turns;
    for (const Topic& topic : request.topics) {
        const Question& q = turns.emplace_back(Turn{.question = drawn(topic, request.seed)}).question;
        print_question(q, turns.size(), request.topics.size());
        if (q.tolerance) fmt::print("    (a number is typed; these are known)\n");
        for (std::size_t c = 0; c < q.choices.size(); ++c) {
            const Choice& choice = q.choices[c];
            const std::string name = q.tolerance ? choice.answer.text : std::string(1, letter_of(c));
            fmt::print("\n    {}  {}\n", name,
                       choice.right ? styled(Style::good, "right") : styled(Style::bad, "wrong"));
            if (choice.right)
                print_answer(q);
            else
                fmt::print("{}", wrapped(choice.why, 4));
        }
        fmt::print("\n    hint\n{}", wrapped(q.hint, 4));
    }
    return turns;
}

void print_score(const std::vector<Turn>& turns, std::size_t questions) {
    using Align = Table::Align;
    Table table({{"phase"},
                 {"right at once", Align::right},
                 {"right later", Align::right},
                 {"skipped", Align::right},
                 {"wrong attempts", Align::right}});
    struct Sums {
        int at_once = 0, later = 0, skipped = 0, wrong = 0;
        bool any() const { return at_once + later + skipped + wrong > 0; }
    } all;
    const auto add_row = [&](const std::string& name, const Sums& s) {
        table.add({{name},
                   {std::to_string(s.at_once)},
                   {std::to_string(s.later)},
                   {std::to_string(s.skipped)},
                   {std::to_string(s.wrong)}});
    };
    int answered_phases = 0;
    for (const Phase& phase : phases()) {
        Sums sums;
        for (const Turn& turn : turns) {
            if (turn.question.phase != phase.number) continue;
            const bool right = turn.outcome == Outcome::right;
            sums.at_once += turn.at_once();
            sums.later += right && !turn.at_once();
            sums.skipped += turn.outcome == Outcome::skipped;
            sums.wrong += int(turn.attempts.size()) - right;
        }
        if (!sums.any()) continue;
        ++answered_phases;
        add_row(fmt::format("{} {}", phase.number, phase.title), sums);
        all.at_once += sums.at_once;
        all.later += sums.later;
        all.skipped += sums.skipped;
        all.wrong += sums.wrong;
    }
    if (answered_phases == 0) {
        fmt::print("\nNo question was answered.\n");
        return;
    }
    if (answered_phases > 1) add_row("all", all);
    const int answered = all.at_once + all.later + all.skipped;
    fmt::print("\n{}   {} of {} questions done\n{}", styled(Style::bold, "Score"), answered, questions, table.text(2));
}

void write_json(const Request& request, const std::vector<Turn>& turns, const std::string& file) {
    const char* commit = std::getenv("LADDER_COMMIT");
    Json json = {{"commit", commit ? commit : "unknown"}, {"seed", request.seed}, {"questions", Json::array()}};
    for (const Turn& turn : turns) {
        const Question& q = turn.question;
        Json choices = Json::array();
        for (const Choice& c : q.choices)
            choices.push_back({{"text", c.answer.text},
                               {"number", c.answer.number ? Json(*c.answer.number) : Json()},
                               {"right", c.right},
                               {"why", c.why}});
        json["questions"].push_back({{"id", q.id},
                                     {"phase", q.phase},
                                     {"situation", q.situation},
                                     {"question", q.ask},
                                     {"typed", q.tolerance.has_value()},
                                     {"choices", choices},
                                     {"right", q.right_choice().answer.text},
                                     {"answers", turn.attempts},
                                     {"hint_taken", turn.hinted},
                                     {"outcome", name_of(turn.outcome)},
                                     {"source", q.source},
                                     {"command", q.command},
                                     {"chapter", chapter_of(q.phase)},
                                     {"section", q.section}});
    }
    cli::write_json(json, file);
}

}  // namespace ladder::cli::quiz
