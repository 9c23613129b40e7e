#include <fmt/format.h>

#include <cmath>

#include "common/rung/measure.h"
#include "common/rung/question.h"
#include "phase0_softmax/online_attention.h"

namespace ladder::phase0_softmax {

using namespace quiz;

namespace {

Measured softmax(const char* entry, std::int64_t rows, std::int64_t N) {
    return measure(0, entry, {.heads = 1, .queries = rows, .keys = N});
}

const char* const kScoredSource = "online_attention on the CPU machine, with the scores as keys, q = 1 and scale 1";

Question safe_passes(Draw& draw) {
    const std::int64_t rows = draw({32, 64}), N = draw({256, 512});
    const Measured run = softmax("safe_softmax", rows, N);
    const std::uint64_t x = rows * N * sizeof(float);
    Question q{.situation = fmt::format("safe_softmax turns {} rows of {} scores into weights. x is float32.", rows, N),
               .ask = "How many bytes of x do its threads ask global memory for?",
               .hint = "How often does it walk over a row, and what must be known before each walk begins?",
               .source = run.source,
               .command = run.command,
               .section = "8. Measure it",
               .formula = 3.0 * double(x)};
    q.right(bytes(run.read("x")),
            fmt::format("Three walks over each row: for m, for l, for y. x has {} bytes, and each walk asks for all of "
                        "them.",
                        x));
    q.wrong(bytes(x), fmt::format("That is x once. It has that size, but l cannot be summed before m is known, nor y "
                                  "written before l is; and N = {} scores are not kept in registers on the way.",
                                  N));
    q.wrong(bytes(3 * x / sizeof(float)), "Three walks is right, but these are elements. A float32 has four bytes.");
    q.wrong(bytes(4 * x), fmt::format("That is all traffic: {} bytes of it are y, which is written, not read.", x));
    return q;
}

Question online_saving(Draw& draw) {
    const std::int64_t rows = draw({32, 64}), N = draw({256, 512});
    const std::uint64_t safe = softmax("safe_softmax", rows, N).read("x");
    const Measured run = softmax("online_softmax", rows, N);
    const auto share = [](double part) { return Answer{fmt::format("{:.0f} %", 100 * part), part}; };
    Question q{.situation = fmt::format("{} rows of {} float32 scores go through safe_softmax and through "
                                        "online_softmax. The first reads {} bytes of x.",
                                        rows, N, safe),
               .ask = "How much of that reading does online_softmax save?",
               .hint = "It finds m and l in the same walk. Can it write a weight in that walk, too?",
               .source = run.source,
               .command = run.command,
               .section = "8. Measure it",
               .formula = 1.0 / 3};
    q.right(share(1 - double(run.read("x")) / double(safe)),
            fmt::format("Two walks in place of three: {} bytes. m and l grow together, y takes a walk of its own.",
                        run.read("x")));
    q.wrong(share(2.0 / 3),
            "That would be a one-pass softmax. The last score is in every denominator, so no "
            "weight can be written before that score has been seen: section 4 proves that two walks are needed.");
    q.wrong(share(1.0 / 4),
            "A quarter is what it saves of all traffic, 4 N movements per row with the writing of y. The "
            "question was about reading: 3 N against 2 N.");
    q.wrong(share(0),
            "A cache may indeed serve a second walk over a short row, and then less time is saved. The "
            "counter counts what threads ask for, and they ask once less.");
    return q;
}

Question larger_maximum(Draw& draw) {
    std::vector<double> scores = draw({std::vector<double>{1, 3, 2}, {0, 0, 0}, {2, -1, 2}});
    const double step = draw({1, 2});
    const ScoredRow before(scores);
    const double l = before.last("l", online_attention), m = before.last("m", online_attention), x = m + step;
    const std::string seen = list_of(scores);
    scores.push_back(x);
    double sum = 0;
    for (const double s : scores) sum += std::exp(s - x);
    Question q{
        .situation = fmt::format("A row has seen the scores {}: m = {:.4g}, l = {:.4g}. Now the score {:.4g} arrives.",
                                 seen, m, l, x),
        .ask = "What is l afterwards?",
        .hint =
            fmt::format("Each term in l was taken relative to m = {:.4g}. What factor is common to all of them?", m),
        .source = kScoredSource,
        .command = python_command(scores, "online_attention"),
        .section = "The recurrence, step by step",
        .formula = sum};
    q.right(
        value(ScoredRow(scores).last("l", online_attention)),
        fmt::format("The old sum is worth e^({:.4g} - {:.4g}) of what it was, and the newcomer adds e^0 = 1: {:.4g} "
                    "* {:.4g} + 1. The command prints LSE = m + ln l.",
                    m, x, l, std::exp(-step)));
    q.wrong(value(l + 1),
            "The newcomer's 1 is right, since it is the maximum now. But the old terms were taken "
            "relative to the old maximum, and are too large: l must be multiplied before it is added to.");
    q.wrong(value(l + std::exp(step)),
            fmt::format("That is the sum relative to the old maximum, {:.4g}. It stands for the same number, but a few "
                        "such steps and it overflows: the maximum has to move along.",
                        m));
    q.wrong(value(l * std::exp(-step)),
            "The old sum is rescaled correctly, but the new score is missing: its own term is e^0 = 1.");
    return q;
}

Question merged_halves(Draw& draw) {
    const std::vector<double> a = draw({std::vector<double>{0, 1}, {1, 1}}),
                              b = draw({std::vector<double>{3, 3}, {2, 4}});
    std::vector<double> both = a;
    both.insert(both.end(), b.begin(), b.end());
    const ScoredRow row_a(a), row_b(b), row(both);
    const double m_a = row_a.last("m", online_attention), l_a = row_a.last("l", online_attention),
                 m_b = row_b.last("m", online_attention), l_b = row_b.last("l", online_attention);
    const double mend = std::exp(m_a - m_b);
    Question q{
        .situation = fmt::format("One lane has seen the scores {}: (m, l) = ({:.4g}, {:.4g}). Another has seen {}: "
                                 "({:.4g}, {:.4g}). They merge.",
                                 list_of(a), m_a, l_a, list_of(b), m_b, l_b),
        .ask = "What is l of the whole?",
        .hint = "The pair stands for the number l e^m, and merging adds two such numbers.",
        .source = kScoredSource,
        .command = python_command(both, "online_attention"),
        .section = "3. Two numbers that know how to add up",
        .formula = l_a * mend + l_b};
    q.right(value(row.last("l", online_attention)),
            fmt::format("The larger maximum is {:.4g}. The side that has it stays; the other is worth e^({:.4g} - "
                        "{:.4g}) of what it was: {:.4g} * {:.4g} + {:.4g}.",
                        m_b, m_a, m_b, l_a, mend, l_b));
    q.wrong(value(l_a + l_b), "Two sums add up only where both are relative to the same maximum. These are not.");
    q.wrong(value(l_a + l_b / mend),
            fmt::format("Here only the newcomer was adjusted, to the running maximum {:.4g}. Whichever side has the "
                        "smaller maximum must be rescaled, and this time it is the one that was there first.",
                        m_a));
    q.wrong(value((l_a + l_b) * mend),
            "Only the side with the smaller maximum is rescaled. The other one was relative to "
            "the common maximum already.");
    return q;
}

Question shifted_scores(Draw& draw) {
    const double shift = draw({5, 7, 10});
    const std::vector<double> scores = {1, 3, 2}, values = {10, 20, 30};
    std::vector<double> shifted = scores;
    for (double& s : shifted) s += shift;
    const ScoredRow row(scores, values), there(shifted, values);
    const double out = row.out(online_attention), lse = row.lse(online_attention);
    const auto pair = [](double o, double e) { return words(fmt::format("out = {:.4g}, LSE = {:.4g}", o, e)); };
    Question q{.situation = fmt::format("A query's scores are 1, 3, 2 and its values 10, 20, 30: out = {:.4g}, LSE = "
                                        "{:.4g}. Now {} is added to every score.",
                                        out, lse, shift),
               .ask = "What are out and LSE?",
               .hint = "Every e^s gets the same factor. Where does it cancel, and where not?",
               .source = kScoredSource,
               .command = python_command(shifted, "online_attention", values),
               .section = "The log-sum-exp"};
    q.right(pair(there.out(online_attention), there.lse(online_attention)),
            fmt::format("The weights are quotients, and e^{0} cancels in them. LSE is the logarithm of the sum itself, "
                        "which got the factor: ln e^{0} = {0} more.",
                        shift));
    q.wrong(pair(out, lse),
            "The weights do not change, so out does not. But LSE is not a weight: it is the logarithm of "
            "a sum whose terms have all grown.");
    q.wrong(pair(out + shift, lse + shift),
            "LSE is right. out is a mean of the values, and those stayed where they "
            "were, with the weights that they had.");
    q.wrong(pair(out, lse * std::exp(shift)), fmt::format("out is right, and the sum did get the factor e^{}. LSE is "
                                                          "its logarithm, where a factor becomes a summand.",
                                                          shift));
    return q;
}

Question keys_again(Draw& draw) {
    const std::int64_t Sq = draw({8, 16}), N = draw({64, 128});
    const Measured run = measure(0, "online_attention", {.heads = 2, .queries = Sq, .keys = N});
    const std::uint64_t K = 2 * N * 64 * sizeof(float);
    Question q{
        .situation = fmt::format("online_attention: 2 heads, {} queries, {} keys, D = 64, float32. K has {} bytes. "
                                 "A block has four warps, and each takes a query row.",
                                 Sq, N, K),
        .ask = "How many bytes of K are read?",
        .hint = "Is there any memory in this kernel in which two rows could share a key?",
        .source = run.source,
        .command = run.command,
        .section = "9. Where it still hurts",
        .formula = double(Sq * K)};
    q.right(bytes(run.read("K")), fmt::format("All of K once for each of the {} queries of a head. There are no tiles, "
                                              "so neighbouring rows share nothing.",
                                              Sq));
    q.wrong(bytes(K),
            "\"One pass\" is per query: each row sees each key once. Another row asks for the same key again.");
    q.wrong(bytes(Sq / 4 * K),
            "That would be once for each block, if its four warps shared what they fetch. They do "
            "not: what a warp reads stays in its own registers. Sharing is what phase 2 brings.");
    q.wrong(bytes(2 * Sq * K), "That is K and V together. The question was about K.");
    return q;
}

Question shuffles(Draw& draw) {
    const std::int64_t rows = draw({16, 32, 64}), N = 256;
    const Measured run = softmax("safe_softmax", rows, N);
    Question q{
        .situation = fmt::format("safe_softmax gives each of {} rows of {} scores to a warp. Its lanes take every "
                                 "32nd column, and meet by shuffles, once for m and once for l.",
                                 rows, N),
        .ask = "How many warp-wide shuffles does it execute in all?",
        .hint = "In each round a lane gets the state of twice as many lanes as it had. How many rounds make 32?",
        .tolerance = 0,
        .source = run.source,
        .command = run.command,
        .section = "5. Who does the work: lanes, warps, blocks",
        .formula = 10.0 * double(rows)};
    q.right(count(run.collectives(), "shuffle"),
            fmt::format("Five rounds join 32 lanes, since 2^5 = 32. Twice five for each of {} rows.", rows));
    q.wrong(count(5 * rows, "shuffle"),
            "Five rounds join 32 lanes, but there are two things to join: the maximum, and "
            "then the sum, which needs the final maximum.");
    q.wrong(count(2 * 31 * rows, "shuffle"),
            "31 merges make one state of 32, but not one after the other: a shuffle "
            "moves all lanes at once, and each round halves what is left.");
    q.wrong(count(10 * 32 * rows, "shuffle"),
            "A shuffle is one instruction of the whole warp, and counted once, not "
            "once for each of its 32 lanes.");
    q.wrong(count(10 * rows * N / 32, "shuffle"),
            "A lane first combines its own columns, without any shuffle. The "
            "lanes meet once at the end of a walk, however long the row is.");
    return q;
}

}  // namespace

std::vector<Topic> questions() {
    return {{"0.safe-passes", "how many bytes safe softmax reads", safe_passes},
            {"0.online-saving", "how much of that online softmax saves", online_saving},
            {"0.larger-maximum", "what happens to l when a larger maximum arrives", larger_maximum},
            {"0.merged-halves", "which l two halves of a row give", merged_halves},
            {"0.shifted-scores", "what a number added to all scores does to out and LSE", shifted_scores},
            {"0.keys-again", "how often one-pass attention reads K", keys_again},
            {"0.shuffles", "how many shuffles a warp's reductions take", shuffles}};
}

}  // namespace ladder::phase0_softmax
