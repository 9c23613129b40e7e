// Choosing a number of splits, by FlashAttention's rule: the fewest splits whose efficiency, waves / ceil(waves), is at
// least 85 % of the best that any number reaches; 1 where the blocks fill 80 % of the places without splitting. Numbers
// of splits that give no block fewer tiles than one split less are not looked at. The suite: {"problem": "splits"}

#include <fmt/format.h>

#include <cmath>

#include "common/classroom/judge/tensors.h"
#include "common/classroom/judge/trials.h"

namespace ladder::classroom {
namespace {

using nlohmann::json;

int64_t chosen(int64_t blocks, int64_t places, int64_t tiles, int64_t most) {
    if (5 * blocks >= 4 * places) return 1;
    most = std::min({most, places, tiles});
    const auto tiles_each = [&](int64_t splits) { return (tiles + splits - 1) / splits; };
    const auto worth_a_look = [&](int64_t splits) {
        return splits == 1 || tiles_each(splits) != tiles_each(splits - 1);
    };
    const auto efficiency = [&](int64_t splits) {
        const double waves = double(blocks * splits) / double(places);
        return waves / std::ceil(waves);
    };
    double best = 0;
    for (int64_t splits = 1; splits <= most; ++splits)
        if (worth_a_look(splits)) best = std::max(best, efficiency(splits));
    for (int64_t splits = 1; splits <= most; ++splits)
        if (worth_a_look(splits) && efficiency(splits) >= 0.85 * best) return splits;
    return 1;
}

}  // namespace

std::vector<Trial> split_trials(const json& suite, std::uint64_t seed) {
    Draw draw(seed);
    std::vector<Trial> trials;
    const auto add = [&](const std::string& property, int64_t blocks, int64_t places, int64_t tiles, int64_t most) {
        const int64_t expected = chosen(blocks, places, tiles, most);
        Trial trial{.property = property,
                    .name = fmt::format("{} blocks, {} places, {} tiles of keys, at most {} splits", blocks, places,
                                        tiles, most),
                    .sizes = {{"blocks", blocks}, {"places", places}, {"tiles", tiles}, {"most", most}}};
        trial.problem = empty_problem(suite.value("device", "rtx4090"));
        add_number(trial.problem, "blocks", double(blocks));
        add_number(trial.problem, "places", double(places));
        add_number(trial.problem, "tiles", double(tiles));
        add_number(trial.problem, "most", double(most));
        trial.examine = [expected](const Message& reply) -> std::optional<Finding> {
            const json answer = reply.words.value("answers", json::object()).value("splits", json());
            if (answer.is_number() && answer.get<double>() == double(expected)) return {};
            return Finding{.summary = fmt::format("{} splits chosen, {} are right", answer.dump(), expected),
                           .first = "",
                           .pattern = ""};
        };
        trials.push_back(std::move(trial));
    };
    for (int n = 0; n < 4; ++n) add("few_blocks", draw(1, 16), 132, draw(16, 512), 128);
    for (int n = 0; n < 3; ++n) add("few_blocks", draw(17, 100), 108, draw(8, 64), 128);
    add("many_blocks", 132, 132, 64, 128);
    add("many_blocks", draw(110, 131), 132, 64, 128);
    add("many_blocks", draw(133, 999), 132, 64, 128);
    add("limits", draw(1, 4), 132, 1, 128);
    add("limits", 1, 264, 4096, draw(2, 9));
    add("limits", 3, draw(4, 9), 100, 128);
    return trials;
}

}  // namespace ladder::classroom
