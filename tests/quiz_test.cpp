// ./ladder quiz: every question with all sizes that it may be asked with, and a session of right and wrong answers.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "common/cli/quiz/session.h"

namespace ladder::cli::quiz {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const Topic& topic(const std::string& id) {
    return *std::ranges::find(all_topics(), id, [](const Topic& t) { return std::string(t.id); });
}

/// The headings of a Markdown page, without their marks.
std::set<std::string> headings_of(const std::string& page) {
    std::ifstream stream(std::string(LADDER_SOURCE_DIR) + "/" + page);
    std::set<std::string> headings;
    for (std::string line; std::getline(stream, line);)
        if (line.starts_with("##")) headings.insert(line.substr(line.find(' ') + 1));
    return headings;
}

TEST(Quiz, EachPhaseHasFiveQuestionsOrMore) {
    std::set<std::string> ids;
    std::map<int, int> counts;
    for (const Topic& t : all_topics()) {
        EXPECT_TRUE(ids.insert(t.id).second) << t.id;
        EXPECT_TRUE(std::string(t.id).starts_with(std::to_string(t.phase()) + ".")) << t.id;
        EXPECT_STRNE(t.about, "") << t.id;
        ++counts[t.phase()];
    }
    for (const auto& [phase, count] : counts) EXPECT_GE(count, 5) << "phase " << phase;
    EXPECT_TRUE(std::ranges::is_sorted(all_topics(), {}, &Topic::phase));
}

class EveryQuestion : public ::testing::TestWithParam<std::string> {};

TEST_P(EveryQuestion, HoldsWithAllSizesThatItMayDraw) {
    const Topic& asked = topic(GetParam());
    Draw counted(0);
    asked.make(counted);
    std::set<std::string> situations;
    for (std::uint64_t number = 0; number < counted.combinations(); ++number) {
        SCOPED_TRACE(number);
        const Question q = question_of(asked, number);  // throws where the run is not what the formula says
        situations.insert(q.situation + q.ask);
        EXPECT_EQ(q.id, asked.id);
        EXPECT_GE(q.choices.size(), 3u);
        EXPECT_LE(q.choices.size(), 5u);
        EXPECT_EQ(std::ranges::count(q.choices, true, &Choice::right), 1);
        std::set<std::string> texts, reasons;
        for (const Choice& c : q.choices) {
            EXPECT_TRUE(texts.insert(c.answer.text).second) << c.answer.text;
            EXPECT_TRUE(reasons.insert(c.why).second) << c.why;
            EXPECT_GT(c.why.size(), 20u) << c.answer.text;
        }
        // Every number is known by a second way. What is put in words has a test of its own below.
        EXPECT_EQ(q.right_choice().answer.number.has_value(), q.formula.has_value());
        EXPECT_EQ(headings_of(chapter_of(q.phase)).count(q.section), 1u) << q.section;
    }
    EXPECT_EQ(situations.size(), counted.combinations()) << "two sets of sizes make the same question";
}

INSTANTIATE_TEST_SUITE_P(
    Quiz, EveryQuestion,
    [] {
        std::vector<std::string> ids;
        for (const Topic& t : all_topics()) ids.push_back(t.id);
        return ::testing::ValuesIn(ids);
    }(),
    [](const auto& info) {
        std::string name = "Phase" + info.param;
        std::ranges::replace_if(
            name, [](unsigned char c) { return !std::isalnum(c); }, '_');
        return name;
    });

double right_number(const char* id, std::uint64_t number) { return *question_of(topic(id), number).formula; }
std::string right_text(const char* id, std::uint64_t number) {
    return question_of(topic(id), number).right_choice().answer.text;
}

TEST(Quiz, NumbersWorkedOutByHand) {
    // x is [32, 256] in float32, and is read three times.
    EXPECT_EQ(right_text("0.safe-passes", 0), "98,304 bytes (96.0 KiB)");
    EXPECT_NEAR(right_number("0.larger-maximum", 0), (std::exp(-2) + 1 + std::exp(-1)) * std::exp(-1) + 1, 1e-12);
    // S is [128, 128] in float32, and is read three times.
    EXPECT_EQ(right_text("1.scores-read", 0), "196,608 bytes (192.0 KiB)");
    // An RTX 5060 Ti at D = 64: (101376 - 8192) / 384 = 242.7.
    EXPECT_EQ(right_text("1.wall-a", 0), "242 keys");
    EXPECT_EQ(right_text("1.wall-b", 0), "200 keys");
    // A GTX 1080 holds tiles of 48 keys: 256 of them are six.
    EXPECT_EQ(right_text("2.outer-steps", 0), "6 times");
    EXPECT_EQ(right_text("2.old-share", 0), "0.3333");
    // 192 queries are three tiles, and each reads K, [192, 64] in float32.
    EXPECT_EQ(right_text("3.keys-read", 0), "147,456 bytes (144.0 KiB)");
    EXPECT_EQ(right_text("3.rescale", 0), "0.5");
    EXPECT_EQ(right_text("4.visible", 0), "68 keys");
    EXPECT_EQ(right_text("4.hidden-score", 0), "0.6931");
    EXPECT_EQ(right_text("5.weighted-mean", 0), "1.75");
    // K of two heads, [384, 32] each in float32, once.
    EXPECT_EQ(right_text("5.keys-read", 0), "98,304 bytes (96.0 KiB)");
    // 64 keys by D = 32, in pieces of 8 by 16: 16 for each product.
    EXPECT_EQ(right_text("6.products", 0), "32 instructions");
    // Keys 0, 1, 8, 9, 16 and 17 of 20.
    EXPECT_EQ(right_text("6.sum-of-a-lane", 0), "6");
    // 256 queries are two tiles, and each reads K, [256, 64] in bfloat16.
    EXPECT_EQ(right_text("6.keys-read", 0), "65,536 bytes (64.0 KiB)");
    // D = 64: four wgmma for S, of 64 queries and 128 keys by 16; eight for O, of 16 keys by 64 columns.
    EXPECT_EQ(right_text("7.passes", 0), "320 wavefronts");
    EXPECT_EQ(right_text("7.registers", 0), "240 registers");
    // 200 queries are two tiles, and each reads K, [200, 64] in bfloat16.
    EXPECT_EQ(right_text("7.keys-read", 0), "51,200 bytes (50.0 KiB)");
    // Queries 192 to 255 of a block with 192 to 383.
    EXPECT_EQ(right_text("7.skipped", 0), "2 tiles");
    // 3/4 (8 - (3/4 8 + 1/4 4)), and 3/4 4 on top.
    EXPECT_EQ(right_text("8.score", 0), "0.75");
    EXPECT_EQ(right_text("8.lse", 0), "3.75");
    // D of two heads of 256 queries, in float32.
    EXPECT_EQ(right_text("8.kept", 0), "2048 bytes (2.00 KiB)");
    // Q is [192, 64] in float32, and is read by three key tiles, and once more for dQ; under a mask by 3, 2 and 1
    // thirds.
    EXPECT_EQ(right_text("8.queries-read", 0), "196,608 bytes (192.0 KiB)");
    EXPECT_EQ(right_text("8.queries-of-a-mask", 0), "147,456 bytes (144.0 KiB)");
    EXPECT_EQ(right_text("8.added-bytes", 0), "196,608 bytes (192.0 KiB)");
    EXPECT_EQ(right_text("8.blocks", 0), "4 blocks");
}

TEST(Quiz, AnswersInWords) {
    const double e1 = std::exp(-2), e2 = std::exp(-1), l = e1 + 1 + e2;
    char text[64];
    std::snprintf(text, sizeof text, "out = %.4g, LSE = %.4g", (10 * e1 + 20 + 30 * e2) / l, 8 + std::log(l));
    EXPECT_EQ(right_text("0.shifted-scores", 0), text);
    EXPECT_EQ(right_text("1.one-key-more", 0),
              "the call cudaFuncSetAttribute returns cudaErrorInvalidValue, and no thread runs");
    EXPECT_EQ(right_text("4.empty-row", 0), "out = 0, LSE = -inf");
    EXPECT_EQ(right_text("6.lane-of-a-score", 0), "lane 14");         // row 3, and the third pair of columns
    EXPECT_EQ(right_text("7.element", 0), "row 25, column 12");       // warp 1, lane 6; its fourth pair
    EXPECT_EQ(right_text("7.parity", 0), "consumers 1, producer 0");  // tile 3: the second use of stage 1
    EXPECT_EQ(right_text("7.waits", 1), "S_ij alone");
    EXPECT_EQ(right_text("7.proxy", 0), "nothing more");
    EXPECT_EQ(right_text("8.single-key", 0), "dQ = 0, dK = 0, dV = 1");
    EXPECT_EQ(right_text("8.products", 0), "7");
    EXPECT_EQ(right_text("8.products", 1), "5");
    EXPECT_EQ(right_text("8.empty-row", 0), "0, and nothing");
}

Question sound() {
    Question q{.id = "0.test",
               .situation = "It is.",
               .ask = "How many?",
               .hint = "Count.",
               .source = "a run",
               .command = "./ladder run",
               .section = "1"};
    q.right(count(3, "block"), "Three.");
    q.wrong(count(2, "block"), "One was left out.");
    q.wrong(count(6, "block"), "Each was counted twice.");
    return q;
}

/// What `check` says to the question once it was changed.
template <class Change>
std::string complaint(Change change) {
    Question q = sound();
    change(q);
    try {
        check(q);
    } catch (const std::logic_error& error) {
        return error.what();
    }
    return {};
}

TEST(Quiz, AFaultyQuestionIsNotAsked) {
    EXPECT_EQ(complaint([](Question&) {}), "");
    EXPECT_THAT(complaint([](Question& q) { q.choices.pop_back(); }), HasSubstr("it has 2 choices"));
    EXPECT_THAT(complaint([](Question& q) { q.choices[1].right = true; }), HasSubstr("not exactly one"));
    EXPECT_THAT(complaint([](Question& q) { q.choices[0].right = false; }), HasSubstr("not exactly one"));
    EXPECT_THAT(complaint([](Question& q) { q.wrong(count(2, "block"), "Again."); }), HasSubstr("alike: 2 blocks"));
    EXPECT_THAT(complaint([](Question& q) { q.wrong(value(2), "Again."); }), HasSubstr("too near: 2 and 2 blocks"));
    EXPECT_THAT(complaint([](Question& q) { q.tolerance = 0.2; }), HasSubstr("too near"));
    EXPECT_THAT(complaint([](Question& q) { q.choices[1].why.clear(); }), HasSubstr("lacks"));
    EXPECT_THAT(complaint([](Question& q) { q.hint.clear(); }), HasSubstr("hint"));
    EXPECT_THAT(complaint([](Question& q) { q.formula = 4; }), HasSubstr("the run gave 3 blocks, the formula 4"));
    EXPECT_EQ(complaint([](Question& q) { q.formula = 3; }), "");
    const auto large = [](std::uint64_t by_formula) {
        return complaint([=](Question& q) {
            q.choices[0].answer = bytes(1000001);
            q.formula = double(by_formula);
        });
    };
    EXPECT_EQ(large(1000001), "");
    EXPECT_THAT(large(1000000), HasSubstr("the run gave 1,000,001 bytes"));
    EXPECT_THAT(
        complaint([](Question& q) { q.right(words("many"), "So."), q.choices[0].right = false, q.tolerance = 0; }),
        HasSubstr("to be typed"));
}

TEST(Quiz, TheSeedDecides) {
    const auto text = [](std::uint64_t seed) {
        std::string all;
        for (const char* id : {"0.safe-passes", "3.blocks", "5.weighted-mean"}) {
            const Question q = draw_question(topic(id), seed);
            all += q.situation;
            for (const Choice& c : q.choices) all += c.answer.text;
        }
        return all;
    };
    EXPECT_EQ(text(1), text(1));
    EXPECT_NE(text(1), text(2));
    // The right choice is not always in the same place.
    std::set<std::ptrdiff_t> places;
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
        const Question q = draw_question(topic("5.weighted-mean"), seed);
        places.insert(std::ranges::find(q.choices, true, &Choice::right) - q.choices.begin());
    }
    EXPECT_GT(places.size(), 2u);
}

/// A session with these lines for answers, and what it printed.
struct Session {
    std::vector<Turn> turns;
    std::string text;

    Session(const std::vector<std::string>& ids, const std::string& lines) {
        Request request{.seed = 3, .echo = true};
        for (const std::string& id : ids) request.topics.push_back(topic(id));
        std::istringstream answers(lines);
        ::testing::internal::CaptureStdout();
        turns = hold_session(request, answers);
        print_score(turns, request.topics.size());
        text = ::testing::internal::GetCapturedStdout();
    }
};

/// The letters of a question's choices as seed 3 shuffles them: the right one first.
std::string letters_of(const char* id) {
    const Question q = draw_question(topic(id), 3);
    std::string letters;
    for (std::size_t c = 0; c < q.choices.size(); ++c)
        letters.insert(q.choices[c].right ? 0 : letters.size(), 1, char('a' + c));
    return letters;
}

TEST(Quiz, ASessionTakesRightAndWrongHintSkipAndQuit) {
    const std::string first = letters_of("1.scores-read"), second = letters_of("5.weighted-mean");
    const auto line = [](char letter) { return std::string(1, letter) + "\n"; };
    const Session session({"1.scores-read", "5.weighted-mean", "4.keys-read", "3.keys-read", "5.keys-read"},
                          line(first[0]) + line(second[1]) + "?\nz\n" + line(second[0]) + "s\nq\n" + line('a'));
    ASSERT_EQ(session.turns.size(), 4u);
    EXPECT_TRUE(session.turns[0].at_once());
    EXPECT_FALSE(session.turns[0].hinted);
    EXPECT_EQ(session.turns[1].outcome, Outcome::right);
    EXPECT_FALSE(session.turns[1].at_once());
    EXPECT_TRUE(session.turns[1].hinted);
    EXPECT_EQ(session.turns[1].attempts.size(), 2u);
    EXPECT_EQ(session.turns[2].outcome, Outcome::skipped);
    EXPECT_EQ(session.turns[3].outcome, Outcome::quit);

    const Question q = draw_question(topic("5.weighted-mean"), 3);
    const Choice& wrong = q.choices[std::size_t(second[1] - 'a')];
    EXPECT_THAT(session.text, HasSubstr("Not " + wrong.answer.text + "."));
    EXPECT_THAT(session.text, HasSubstr(wrong.why.substr(0, 30)));
    EXPECT_THAT(session.text, HasSubstr("Right: " + q.right_choice().answer.text + "."));
    EXPECT_THAT(session.text, HasSubstr("computed just now: "));
    EXPECT_THAT(session.text, HasSubstr("see it:   ./ladder profile 1"));
    EXPECT_THAT(session.text, HasSubstr("\"z\" is no answer here; type a to e, or ?, s or q"));
    EXPECT_THAT(session.text, HasSubstr(q.hint));
    EXPECT_THAT(session.text, HasSubstr("The answer is " + session.turns[2].question.right_choice().answer.text));
    EXPECT_THAT(session.text, HasSubstr("3 of 5 questions done"));
}

TEST(Quiz, ANumberIsTypedWithinItsTolerance) {
    const Question exact = draw_question(topic("3.blocks"), 3), near = draw_question(topic("1.wall-b"), 3);
    const Choice& slip = *std::ranges::find(exact.choices, false, &Choice::right);
    const auto number = [](const Question& q, int more = 0) {
        return std::to_string(std::lround(*q.right_choice().answer.number) + more);
    };
    const Session session({"3.blocks", "1.wall-b"}, "many\n12345\n" + std::to_string(std::lround(*slip.answer.number)) +
                                                        "\n" + number(exact) + "\n" + number(near, 5) + "\n" +
                                                        number(near, 1) + "\n");
    ASSERT_EQ(session.turns.size(), 2u);
    EXPECT_EQ(session.turns[0].outcome, Outcome::right);
    EXPECT_THAT(session.turns[0].attempts, ElementsAre("12345", slip.answer.text, exact.right_choice().answer.text));
    EXPECT_EQ(session.turns[1].outcome, Outcome::right);
    EXPECT_EQ(session.turns[1].attempts.size(), 2u);
    EXPECT_THAT(session.text, HasSubstr("\"many\" is no answer here; type a number"));
    EXPECT_THAT(session.text, HasSubstr("It is less; no slip that we know leads there."));
    EXPECT_THAT(session.text, HasSubstr(slip.why.substr(0, 30)));
}

TEST(Quiz, TheEndOfTheLinesIsQuitting) {
    const Session session({"1.scores-read", "3.keys-read"}, "");
    ASSERT_EQ(session.turns.size(), 1u);
    EXPECT_EQ(session.turns[0].outcome, Outcome::quit);
    EXPECT_THAT(session.text, HasSubstr("No question was answered."));
}

}  // namespace
}  // namespace ladder::cli::quiz
