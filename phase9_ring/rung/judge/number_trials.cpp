// Questions whose answers are numbers; no kernel is run. The suites: {"problem": "zigzag"}, {"problem": "striped"},
// {"problem": "ring_time"}

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/classroom/judge/tensors.h"
#include "phase9_ring/rung/judge/problems.h"

namespace ladder::classroom::phase9_ring {
namespace {

using nlohmann::json;
using Numbers = std::vector<std::pair<std::string, double>>;

/// A question: its numbers, and what must be answered. `why` is said to whoever answers something else.
Trial question(const std::string& property, const std::string& name, const Numbers& given, const Numbers& expected,
               const std::string& why) {
    Trial trial{.property = property, .name = name};
    trial.problem = empty_problem("rtx4090");
    for (const auto& [key, value] : given) {
        add_number(trial.problem, key, value);
        trial.sizes[key] = value;
    }
    for (const auto& [key, value] : expected) trial.asked.push_back({key, value, key, why});
    trial.examine = [=](const Message& reply) -> std::optional<Finding> {
        const json answers = reply.words.value("answers", json::object());
        for (const auto& [key, value] : expected) {
            const json answer = answers.value(key, json());
            const double got = answer.is_number() ? answer.get<double>() : std::nan("");
            if (std::abs(got - value) <= 1e-9 * std::abs(value)) continue;
            return Finding{.summary = "another number is right",
                           .first = fmt::format("{}: got {:.6g}, expected {:.6g}", key, got, value),
                           .pattern = why};
        }
        return {};
    };
    return trial;
}

/// The positions that a rank holds in zigzag parts, in order.
std::vector<std::int64_t> zigzag(std::int64_t length, std::int64_t rank, std::int64_t ranks) {
    std::vector<std::int64_t> held;
    for (const std::int64_t interval : {rank, 2 * ranks - 1 - rank})
        for (std::int64_t position = 0; position < length; ++position)
            if (position >= interval * length / (2 * ranks) && position < (interval + 1) * length / (2 * ranks))
                held.push_back(position);
    return held;
}

std::vector<Trial> zigzag_trials(const json&, std::uint64_t seed) {
    std::vector<Trial> trials;
    const auto add = [&](const std::string& property, std::int64_t length, std::int64_t ranks, std::int64_t rank,
                         std::int64_t index) {
        const std::vector<std::int64_t> held = zigzag(length, rank, ranks);
        const std::int64_t position = index < std::int64_t(held.size()) ? held[std::size_t(index)] : -1;
        trials.push_back(question(
            property, fmt::format("position {} of rank {}, {} positions over {} ranks", index, rank, length, ranks),
            {{"length", double(length)}, {"rank", double(rank)}, {"ranks", double(ranks)}, {"index", double(index)}},
            {{"position", double(position)}}, fmt::format("the rank holds {}", fmt::join(held, ", "))));
    };
    for (Draw draw : {Draw(kSizes), Draw(seed)}) {
        for (int n = 0; n < 4; ++n) {
            const std::int64_t ranks = draw(2, 8), each = draw(2, 9);
            // Together, since a position of the first interval is what many formulas give.
            add("intervals", 2 * ranks * each, ranks, draw(0, ranks - 1), draw(0, each - 1));
            add("intervals", 2 * ranks * each, ranks, draw(0, ranks - 1), draw(each, 2 * each - 1));
        }
        for (int n = 0; n < 6; ++n) {
            const std::int64_t ranks = draw(2, 8), length = 2 * ranks * draw(2, 5) + draw(1, 2 * ranks - 1);
            const std::int64_t rank = draw(0, ranks - 1);
            const auto held = std::int64_t(zigzag(length, rank, ranks).size());
            add("ragged", length, ranks, rank, draw(0, held - 1));
        }
        // The last that it holds, too: -1 for everything is no answer.
        add("beyond", 16, 4, draw(0, 3), 3);
        add("beyond", 16, 4, draw(0, 3), 4);
        add("beyond", 5, 4, 0, draw(3, 9));
    }
    return trials;
}

std::vector<Trial> striped_trials(const json&, std::uint64_t seed) {
    std::vector<Trial> trials;
    for (Draw draw : {Draw(kSizes), Draw(seed)})
        for (const auto& [property, count] : {std::pair("own_keys", 3), {"earlier_ranks", 4}, {"later_ranks", 4}})
            for (int n = 0; n < count; ++n) {
                const std::int64_t ranks = draw(2, 8), held = draw(4, 20), row = n == 0 ? 0 : draw(0, held - 1);
                const std::int64_t rank = property == std::string("earlier_ranks") ? draw(1, ranks - 1)
                                          : property == std::string("later_ranks") ? draw(0, ranks - 2)
                                                                                   : draw(0, ranks - 1);
                const std::int64_t owner = property == std::string("earlier_ranks") ? draw(0, rank - 1)
                                           : property == std::string("later_ranks") ? draw(rank + 1, ranks - 1)
                                                                                    : rank;
                std::int64_t seen = 0;
                for (std::int64_t j = 0; j < held; ++j) seen += j * ranks + owner <= row * ranks + rank;
                trials.push_back(question(
                    property,
                    fmt::format("row {} of rank {} with the keys of rank {}, of {} ranks", row, rank, owner, ranks),
                    {{"rank", double(rank)}, {"owner", double(owner)}, {"row", double(row)}, {"held", double(held)}},
                    {{"seen", double(seen)}},
                    fmt::format("the query's position is {}, the owner's keys are {}, {}, {}, …", row * ranks + rank,
                                owner, owner + ranks, owner + 2 * ranks)));
            }
    return trials;
}

std::vector<Trial> time_trials(const json&, std::uint64_t seed) {
    std::vector<Trial> trials;
    const auto add = [&](const std::string& property, const std::string& name, const Numbers& given,
                         const Numbers& expected,
                         const std::string& why) { trials.push_back(question(property, name, given, expected, why)); };
    const auto steps = [&](Draw& draw, const std::string& property, std::int64_t ranks) {
        const double longer = double(draw(20, 90)) / 1e3, shorter = double(draw(1, 19)) / 1e3;
        for (const auto& [compute, travel] : {std::pair(longer, shorter), {shorter, longer}})
            add(property,
                fmt::format("{} rank{}, {:.0f} ms to compute and {:.0f} ms to travel", ranks, ranks == 1 ? "" : "s",
                            1e3 * compute, 1e3 * travel),
                {{"ranks", double(ranks)},
                 {"compute", compute},
                 {"travel", travel},
                 {"flops", 1e12},
                 {"bytes", 1e9},
                 {"element", 2}},
                {{"seconds", double(ranks - 1) * std::max(compute, travel) + compute}},
                "write down what each rank does and what is on its way, step by step; and in which step nothing is");
    };
    const auto tokens = [&](Draw& draw) {
        const double flops = double(draw(100, 900)) * 1e12, bytes = double(draw(20, 450)) * 1e9;
        const double element = draw(0, 1) ? 2 : 4;
        add("tokens",
            fmt::format("{:.3g} operations and {:.3g} bytes per second, {} bytes a number", flops, bytes, element),
            {{"ranks", 2}, {"compute", 0.1}, {"travel", 0.1}, {"flops", flops}, {"bytes", bytes}, {"element", element}},
            {{"tokens", element * flops / (2 * bytes)}},
            "n positions are 4 H D n² operations, and 2 H D n numbers that travel");
    };
    // Whichever takes longer, in each: one of the two alone is what formulas give that are wrong for the other.
    for (Draw draw : {Draw(kSizes), Draw(seed)}) {
        for (int n = 0; n < 3; ++n) steps(draw, "many_ranks", draw(3, 16));
        for (const std::int64_t ranks : {2, 1}) steps(draw, "few_ranks", ranks);
        for (int n = 0; n < 6; ++n) tokens(draw);
    }
    return trials;
}

}  // namespace

ProblemKind zigzag_problems() {
    return {.name = "zigzag",
            .trials = zigzag_trials,
            .titles = {{"intervals", "positions from both ends"},
                       {"ragged", "lengths that do not divide"},
                       {"beyond", "more than the rank holds"}}};
}

ProblemKind striped_problems() {
    return {.name = "striped",
            .trials = striped_trials,
            .titles = {{"own_keys", "a rank's own keys"},
                       {"earlier_ranks", "keys of ranks with smaller numbers"},
                       {"later_ranks", "keys of ranks with larger numbers"}}};
}

ProblemKind time_problems() {
    return {.name = "ring_time",
            .trials = time_trials,
            .titles = {{"many_ranks", "many ranks"}, {"few_ranks", "one rank, and two"}, {"tokens", "how many hide"}}};
}

}  // namespace ladder::classroom::phase9_ring
