// Choosing a number of splits, by FlashAttention's rule: the fewest splits whose efficiency, waves / ceil(waves), is at
// least 85 % of the best that any number reaches; 1 where the blocks fill 80 % of the places without splitting. Numbers
// of splits that give no block fewer tiles than one split less are not looked at. The suite: {"problem": "splits"}

#include <fmt/format.h>

#include <cmath>

#include "common/classroom/judge/tensors.h"
#include "phase5_decoding/rung/judge/problems.h"

namespace ladder::classroom::phase5_decoding {
namespace {

using nlohmann::json;

struct Work {
    int64_t blocks, places, tiles, most;

    bool is_looked_at(int64_t splits) const {
        const auto tiles_each = [&](int64_t n) { return (tiles + n - 1) / n; };
        return splits == 1 || tiles_each(splits) != tiles_each(splits - 1);
    }
    double efficiency(int64_t splits) const {
        const double waves = double(blocks * splits) / double(places);
        return waves / std::ceil(waves);
    }
    bool is_full_without() const { return 5 * blocks >= 4 * places; }
    int64_t largest() const { return std::min({most, places, tiles}); }
    double best_efficiency() const {
        double best = 0;
        for (int64_t splits = 1; splits <= largest(); ++splits)
            if (is_looked_at(splits)) best = std::max(best, efficiency(splits));
        return best;
    }
    int64_t chosen() const {
        if (is_full_without()) return 1;
        for (int64_t splits = 1; splits <= largest(); ++splits)
            if (is_looked_at(splits) && efficiency(splits) >= 0.85 * best_efficiency()) return splits;
        return 1;
    }
};

/// Why `splits` is not the answer.
std::string why_not(const Work& work, int64_t splits) {
    if (splits < 1) return "at least one is needed";
    if (work.is_full_without()) return "the blocks fill 80 % of the places without any split";
    if (splits > work.largest()) return fmt::format("more than {} are not possible", work.largest());
    if (!work.is_looked_at(splits)) return fmt::format("{} give no block fewer tiles than {}", splits, splits - 1);
    return fmt::format("efficiency {:.3f} with {}, {:.3f} with {}; the best that is looked at is {:.3f}",
                       work.efficiency(splits), splits, work.efficiency(work.chosen()), work.chosen(),
                       work.best_efficiency());
}

std::vector<Trial> split_trials(const json& suite, std::uint64_t seed) {
    std::vector<Trial> trials;
    const auto add = [&](const std::string& property, int64_t blocks, int64_t places, int64_t tiles, int64_t most) {
        const Work work{blocks, places, tiles, most};
        Trial trial{.property = property,
                    .name = fmt::format("{} blocks, {} places, {} tiles of keys, at most {} splits", blocks, places,
                                        tiles, most),
                    .sizes = {{"blocks", blocks}, {"places", places}, {"tiles", tiles}, {"most", most}}};
        trial.problem = empty_problem(suite.value("device", "rtx4090"));
        add_number(trial.problem, "blocks", double(blocks));
        add_number(trial.problem, "places", double(places));
        add_number(trial.problem, "tiles", double(tiles));
        add_number(trial.problem, "most", double(most));
        trial.asked = {{"splits", double(work.chosen()), "splits chosen",
                        fmt::format("efficiency {:.3f} with that, the best that is looked at is {:.3f}",
                                    work.efficiency(work.chosen()), work.best_efficiency())}};
        trial.examine = [work](const Message& reply) -> std::optional<Finding> {
            const json answer = reply.words.value("answers", json::object()).value("splits", json());
            const int64_t splits = answer.is_number() ? int64_t(answer.get<double>()) : 0;
            if (splits == work.chosen()) return {};
            return Finding{.summary = "another number of splits is right",
                           .first = fmt::format("splits chosen: {}, expected: {}", splits, work.chosen()),
                           .pattern = why_not(work, splits)};
        };
        trials.push_back(std::move(trial));
    };
    for (Draw draw : {Draw(kSizes), Draw(seed)}) {
        for (int n = 0; n < 4; ++n) add("few_blocks", draw(1, 16), 132, draw(16, 512), 128);
        for (int n = 0; n < 3; ++n) add("few_blocks", draw(17, 100), 108, draw(8, 64), 128);
        add("many_blocks", 132, 132, 64, 128);
        add("many_blocks", draw(110, 131), 132, 64, 128);
        add("many_blocks", draw(133, 999), 132, 64, 128);
        // What the rule is applied to, too: a limit alone is right for any formula that has it.
        for (int n = 0; n < 3; ++n) add("limits", draw(5, 30), 132, draw(64, 512), draw(60, 128));
        add("limits", draw(1, 4), 132, 1, 128);
        add("limits", 1, 264, 4096, draw(2, 9));
        add("limits", 3, draw(4, 9), 100, 128);
    }
    return trials;
}

}  // namespace

ProblemKind split_problems() {
    return {.name = "splits",
            .trials = split_trials,
            .titles = {{"few_blocks", "few blocks"}, {"many_blocks", "many blocks"}, {"limits", "limits"}}};
}

}  // namespace ladder::classroom::phase5_decoding
