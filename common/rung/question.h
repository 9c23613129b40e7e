#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <initializer_list>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ladder::quiz {

/// What a question offers, or wants to be typed: words, and for most questions the number behind them.
struct Answer {
    std::string text;
    std::optional<double> number = {};
    bool counted = false;  ///< bytes, blocks, barriers: exact, where a computed float is not
};

/// "1,572,864 bytes (1.50 MiB)", "12 blocks" (or "1 block"), "3.5 times as many" (or "as many"), "0.333"
Answer bytes(std::uint64_t number);
Answer count(std::uint64_t number, std::string_view unit);
Answer times(double number);
Answer value(double number);
Answer words(std::string text);

/// An answer, and what is to be said to somebody who chose it: of a wrong one, why one would think so and why it is not
/// so; of the right one, why it is.
struct Choice {
    Answer answer;
    bool right = false;
    std::string why = {};
};

/// A question whose right answer was computed a moment ago, by running what it asks about.
struct Question {
    std::string id = {};
    int phase = 0;
    std::string situation = {};  ///< a sentence or two
    std::string ask = {};
    std::string hint = {};

    /// Wrong choices come from named misconceptions. Of a question with a number to type they are not shown, but known.
    std::vector<Choice> choices = {};

    /// A number is to be typed, right within this relative distance; 0 wants it exactly. Absent: a choice is made.
    std::optional<double> tolerance = {};

    std::string source = {};             ///< what computed the answer
    std::string command = {};            ///< that shows the same
    std::string section = {};            ///< of the phase's chapter
    std::optional<double> formula = {};  ///< the right number again, by a way of its own

    void right(Answer answer, std::string why) { choices.push_back({std::move(answer), true, std::move(why)}); }
    void wrong(Answer answer, std::string why) { choices.push_back({std::move(answer), false, std::move(why)}); }

    const Choice& right_choice() const;

    /// The choice whose number this is, within the tolerance; null if nobody foresaw it.
    const Choice* choice_of(double typed) const;
};

/// Where a question gets its sizes: each call of `operator()` takes one of a few. Equal numbers give equal sizes, and
/// the numbers from 0 to combinations() - 1 give all that there are.
class Draw {
  public:
    explicit Draw(std::uint64_t number) : rest_(number) {}

    template <class T>
    T operator()(std::initializer_list<T> sizes) {
        const std::uint64_t place = rest_ % sizes.size();
        rest_ /= sizes.size();
        combinations_ *= sizes.size();
        return *std::next(sizes.begin(), std::ptrdiff_t(place));
    }

    std::uint64_t combinations() const { return combinations_; }

  private:
    std::uint64_t rest_, combinations_ = 1;
};

/// What can be asked, with sizes still to be drawn.
struct Topic {
    const char* id;     ///< "2.k-bytes": the phase, and a name of its own
    const char* about;  ///< a line for --list
    Question (*make)(Draw& draw);

    int phase() const { return std::atoi(id); }
};

/// The topics of all phases, in their order. A phase that has some has a function `std::vector<quiz::Topic>
/// questions()` in its namespace, from easy to hard; what calls them is generated from the list, see
/// LadderAddPhase.cmake.
const std::vector<Topic>& all_topics();

/// The topic's question with the sizes that `number` stands for; its choices stand as they were written. Throws
/// std::logic_error where the question has a fault, see `check`.
Question question_of(const Topic& topic, std::uint64_t number);

/// The same with sizes drawn, and choices shuffled, by the seed.
Question draw_question(const Topic& topic, std::uint64_t seed);

/// Throws std::logic_error, with the question's id, unless there are three to five choices, exactly one of them right,
/// no two of them alike, each with its reason; unless the formula, if any, gives the right number (a counted one to the
/// last digit); and unless all that is said of a question is there.
void check(const Question& question);

/// Its file, from the top of the repository.
std::string chapter_of(int phase);

}  // namespace ladder::quiz
