#include "common/rung/question.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <stdexcept>
#include <utility>

#include "common/fuzz/random.h"
#include "common/rung/human.h"
#include "common/rung/phase.h"

namespace ladder::quiz {
namespace {

/// "1,572,864"; four digits stand as they are.
std::string grouped(std::uint64_t number) {
    std::string digits = std::to_string(number);
    if (digits.size() < 5) return digits;
    for (std::ptrdiff_t at = std::ptrdiff_t(digits.size()) - 3; at > 0; at -= 3) digits.insert(std::size_t(at), ",");
    return digits;
}

/// Whole numbers of five digits and more, as answers have them: "98304 bytes" becomes "98,304 bytes".
std::string with_grouped_numbers(const std::string& text) {
    std::string result;
    for (std::size_t at = 0; at < text.size();) {
        std::size_t end = at;
        while (end < text.size() && std::isdigit(static_cast<unsigned char>(text[end]))) ++end;
        const bool stands_alone = at == 0 || !(std::isalnum(static_cast<unsigned char>(text[at - 1])) ||
                                               text[at - 1] == '.' || text[at - 1] == ',');
        if (end - at >= 5 && stands_alone)
            result += grouped(std::stoull(text.substr(at, end - at)));
        else
            result += text.substr(at, std::max<std::size_t>(end - at, 1));
        at = std::max(end, at + 1);
    }
    return result;
}

/// "0.333", "12", "1.5": four digits, without zeros at the end.
std::string short_number(double number) { return fmt::format("{:.4g}", number); }

bool near(double a, double b, double tolerance) { return std::abs(a - b) <= tolerance * std::abs(b); }

/// Of a float32 that a kernel computed, against the formula in double.
constexpr double kFloatError = 1e-5;

/// Where nothing else is said, two numbers are one when their texts would be.
constexpr double kSameText = 1e-3;

std::uint64_t stream_of(std::string_view id) {
    std::uint64_t value = 0;
    for (const char c : id) value = 131 * value + static_cast<unsigned char>(c);
    return value;
}

}  // namespace

Answer bytes(std::uint64_t number) {
    if (number < 1024) return {fmt::format("{} bytes", number), double(number), true};
    return {fmt::format("{} bytes ({})", grouped(number), human_bytes(number)), double(number), true};
}

Answer count(std::uint64_t number, std::string_view unit) {
    return {fmt::format("{} {}{}", grouped(number), unit, number == 1 ? "" : "s"), double(number), true};
}

Answer times(double number) {
    return {number == 1 ? std::string("as many") : short_number(number) + " times as many", number};
}
Answer value(double number) { return {short_number(number), number}; }
Answer words(std::string text) { return {std::move(text)}; }

const Choice& Question::right_choice() const {
    const auto found = std::ranges::find(choices, true, &Choice::right);
    if (found == choices.end()) throw std::logic_error(id + ": no choice is right");
    return *found;
}

const Choice* Question::choice_of(double typed) const {
    const auto is_it = [&](const Choice& c) { return c.answer.number && near(typed, *c.answer.number, *tolerance); };
    if (is_it(right_choice())) return &right_choice();
    const auto found = std::ranges::find_if(choices, is_it);
    return found == choices.end() ? nullptr : &*found;
}

Question question_of(const Topic& topic, std::uint64_t number) {
    Draw draw(number);
    Question question = topic.make(draw);
    question.id = topic.id;
    question.phase = topic.phase();
    question.situation = with_grouped_numbers(question.situation);
    for (Choice& choice : question.choices) choice.why = with_grouped_numbers(choice.why);
    check(question);
    return question;
}

Question draw_question(const Topic& topic, std::uint64_t seed) {
    fuzz::Random random(seed, stream_of(topic.id));
    Question question = question_of(topic, random.next());
    for (std::size_t left = question.choices.size(); left > 1; --left)
        std::swap(question.choices[left - 1], question.choices[std::size_t(random.below(std::int64_t(left)))]);
    return question;
}

void check(const Question& q) {
    const auto require = [&](bool holds, const std::string& what) {
        if (!holds) throw std::logic_error(fmt::format("question {}: {}", q.id, what));
    };
    require(q.choices.size() >= 3 && q.choices.size() <= 5,
            fmt::format("it has {} choices, and should have 3 to 5", q.choices.size()));
    require(std::ranges::count(q.choices, true, &Choice::right) == 1, "not exactly one choice is right");
    for (const std::string* text : {&q.situation, &q.ask, &q.hint, &q.source, &q.command, &q.section})
        require(!text->empty(), "situation, ask, hint, source, command or section is missing");
    const Answer& right = q.right_choice().answer;
    require(!q.tolerance || right.number, "a number is to be typed, and the right answer has none");
    require(!q.formula || (right.number && near(*right.number, *q.formula, right.counted ? 0 : kFloatError)),
            fmt::format("the run gave {}, the formula {}", right.text, q.formula.value_or(0)));
    for (auto a = q.choices.begin(); a != q.choices.end(); ++a) {
        require(!a->answer.text.empty() && !a->why.empty(), "a choice lacks its text or its reason");
        require(!a->answer.number || std::isfinite(*a->answer.number), "a choice is not finite: " + a->answer.text);
        for (auto b = q.choices.begin(); b != a; ++b) {
            require(a->answer.text != b->answer.text, "two choices are alike: " + a->answer.text);
            const double apart = std::max(kSameText, 2 * q.tolerance.value_or(0));
            require(!a->answer.number || !b->answer.number || !near(*a->answer.number, *b->answer.number, apart),
                    fmt::format("two choices are too near: {} and {}", a->answer.text, b->answer.text));
        }
    }
}

std::string chapter_of(int phase) { return phase_numbered(phase).folder + "/README.md"; }

}  // namespace ladder::quiz
