#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "common/rung/question.h"

namespace ladder::cli::quiz {

using namespace ladder::quiz;

enum class Outcome {
    right,    ///< at the first attempt or a later one
    skipped,  ///< with `s`: the answer was shown
    quit,     ///< the session ended here
    shown,    ///< by --show, without being asked
};

/// What became of a question.
struct Turn {
    Question question;
    Outcome outcome = Outcome::shown;
    std::vector<std::string> attempts = {};  ///< the answers given, in their order, the right one too
    bool hinted = false;

    bool at_once() const { return outcome == Outcome::right && attempts.size() == 1; }
};

/// What to ask of whom.
struct Request {
    std::vector<Topic> topics = {};
    std::uint64_t seed = 0;
    bool echo = false;  ///< repeat what was read: where answers come from a file, nobody sees them otherwise
};

/// Asks one question after the other; a line of `answers` is an answer. Stops early at `q` and at the end of the lines.
std::vector<Turn> hold_session(const Request& request, std::istream& answers);

/// Prints every question with its choices, the answer, and what is said to each choice.
std::vector<Turn> show_all(const Request& request);

/// Right, right later and skipped, phase by phase.
void print_score(const std::vector<Turn>& turns, std::size_t questions);

/// Writes seed, questions, what was answered and what is right. Throws std::runtime_error if the file cannot be
/// written.
void write_json(const Request& request, const std::vector<Turn>& turns, const std::string& file);

}  // namespace ladder::cli::quiz
