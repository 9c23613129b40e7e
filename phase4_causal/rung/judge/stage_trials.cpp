// Where the stages of a loop over key tiles begin and end: for each tile of B_r queries the number of key tiles of
// which every query sees every key ("full"), and of those that have to be visited, counted from the first. Held against
// looking at every pair of query and key. The suite: {"problem": "stages"}

#include "phase4_causal/rung/judge/stage_trials.h"

#include <fmt/format.h>

#include <array>

#include "common/attention/arguments.h"
#include "common/classroom/judge/tensors.h"

namespace ladder::classroom::phase4_causal {
namespace {

using nlohmann::json;

struct Lengths {
    int64_t queries, keys, B_r, B_c;
};

struct Stages {
    int64_t full, visited;
    friend bool operator==(const Stages&, const Stages&) = default;
};

/// One tile of queries and what its first and its last query, which exist, see.
struct QueryTile {
    int64_t first, last, fewest, most;
    Stages stages;
};

bool sees(Mask mask, int64_t query, int64_t key, const Lengths& n) {
    if (mask == Mask::none) return true;
    return key <= query + (mask == Mask::causal_bottom_right ? n.keys - n.queries : 0);
}

QueryTile looked_at(Mask mask, int64_t first, const Lengths& n) {
    QueryTile tile{first, std::min(first + n.B_r, n.queries) - 1, 0, 0, {0, 0}};
    for (int64_t key = 0; key < n.keys; ++key) {
        tile.fewest += sees(mask, tile.first, key, n);
        tile.most += sees(mask, tile.last, key, n);
    }
    for (int64_t j = 0; j * n.B_c < n.keys; ++j) {
        bool all = (j + 1) * n.B_c <= n.keys, any = false;
        for (int64_t key = j * n.B_c; key < std::min((j + 1) * n.B_c, n.keys); ++key)
            for (int64_t query = tile.first; query <= tile.last; ++query) {
                const bool seen = sees(mask, query, key, n);
                all = all && seen;
                any = any || seen;
            }
        if (all) tile.stages.full = j + 1;
        if (any) tile.stages.visited = j + 1;
    }
    return tile;
}

int64_t rounded_up(int64_t keys, int64_t B_c) { return (keys + B_c - 1) / B_c; }

struct Mistake {
    std::string_view name;
    Stages (*stages)(const QueryTile& tile, int64_t B_c);
};

constexpr std::array kMistakes{
    Mistake{"phase4_causal/edge_tile_taken_for_a_full_one",
            [](const QueryTile& t, int64_t B_c) -> Stages {
                return {rounded_up(t.fewest, B_c), t.stages.visited};
            }},
    Mistake{"phase4_causal/last_query_decides_what_is_full",
            [](const QueryTile& t, int64_t B_c) -> Stages {
                return {t.most / B_c, t.stages.visited};
            }},
    Mistake{"phase4_causal/first_query_decides_what_is_visited",
            [](const QueryTile& t, int64_t B_c) -> Stages {
                return {t.stages.full, rounded_up(t.fewest, B_c)};
            }},
    Mistake{"phase4_causal/last_edge_tile_left_out",
            [](const QueryTile& t, int64_t B_c) -> Stages {
                return {t.stages.full, t.most / B_c};
            }},
};

std::optional<Finding> examine(const std::vector<QueryTile>& tiles, const Lengths& n, const json& answers) {
    std::vector<Stages> got;
    for (std::size_t i = 0; i < tiles.size(); ++i)
        got.push_back({int64_t(answers.value(fmt::format("full {}", i), -1.0)),
                       int64_t(answers.value(fmt::format("visited {}", i), -1.0))});
    std::size_t wrong = 0;
    while (wrong < tiles.size() && got[wrong] == tiles[wrong].stages) ++wrong;
    if (wrong == tiles.size()) return {};

    const QueryTile& tile = tiles[wrong];
    Finding finding{.summary = "the boundaries of the stages are wrong",
                    .first = fmt::format("queries {} to {} of {}, {} keys in tiles of {}: got full {} and visited {}, "
                                         "expected full {} and visited {}",
                                         tile.first, tile.last, n.queries, n.keys, n.B_c, got[wrong].full,
                                         got[wrong].visited, tile.stages.full, tile.stages.visited),
                    .pattern = fmt::format("keys that are seen: {} by query {}, {} by query {}, the last of the tile",
                                           tile.fewest, tile.first, tile.most, tile.last)};
    for (const Mistake& mistake : kMistakes) {
        bool same = true;
        for (std::size_t i = 0; i < tiles.size(); ++i) same = same && got[i] == mistake.stages(tiles[i], n.B_c);
        if (same) {
            finding.lookalike = std::string(mistake.name);
            break;
        }
    }
    return finding;
}

std::vector<Trial> stage_trials(const json& suite, std::uint64_t seed) {
    std::vector<Trial> trials;
    const auto add = [&](Mask mask, const std::string& property, const Lengths& n) {
        std::vector<QueryTile> tiles;
        for (int64_t first = 0; first < n.queries; first += n.B_r) tiles.push_back(looked_at(mask, first, n));
        Trial trial{.property = property,
                    .name = fmt::format("{} queries in tiles of {}, {} keys in tiles of {}{}", n.queries, n.B_r, n.keys,
                                        n.B_c, mask == Mask::none ? ", no mask" : ""),
                    .sizes = {{"Sq", n.queries}, {"Sk", n.keys}, {"B_r", n.B_r}, {"B_c", n.B_c}}};
        trial.problem = empty_problem(suite.value("device", "rtx4090"));
        add_number(trial.problem, "mask", double(mask));
        for (const auto& [name, size] : trial.sizes.items()) add_number(trial.problem, name, size.get<double>());
        for (std::size_t i = 0; i < tiles.size(); ++i) {
            const QueryTile& tile = tiles[i];
            const std::string what = fmt::format("queries {} to {} of {}, {} keys in tiles of {}", tile.first,
                                                 tile.last, n.queries, n.keys, n.B_c);
            const std::string why =
                fmt::format("keys that are seen: {} by query {}, {} by query {}, the last of the tile", tile.fewest,
                            tile.first, tile.most, tile.last);
            trial.asked.push_back({fmt::format("full {}", i), double(tile.stages.full), what + ", full", why});
            trial.asked.push_back({fmt::format("visited {}", i), double(tile.stages.visited), what + ", visited", why});
            for (const Mistake& mistake : kMistakes) {
                const Stages stages = mistake.stages(tile, n.B_c);
                std::vector<double>& answers = trial.mistaken[std::string(mistake.name)];
                answers.insert(answers.end(), {double(stages.full), double(stages.visited)});
            }
        }
        trial.examine = [tiles, n](const Message& reply) {
            return examine(tiles, n, reply.words.value("answers", json::object()));
        };
        trials.push_back(std::move(trial));
    };
    const auto all = [&](Mask mask, const std::string& property) {
        add(mask, property, {6, 6, 3, 2});
        add(mask, property, {128, 256, 64, 32});
        add(mask, property, {256, 128, 64, 32});
        for (Draw draw : {Draw(kSizes), Draw(seed)}) {
            add(mask, property, {draw(65, 200), draw(65, 200), 64, 64});
            add(mask, property, {draw(100, 200), draw(300, 400), 64, 32});
            add(mask, property, {draw(5, 12), draw(3, 12), draw(2, 5), draw(2, 5)});
            add(mask, property, {1, draw(2, 100), 64, 32});
        }
    };
    // Without a mask, too, in both: who looks at no mask has understood nothing of them.
    for (const auto& [mask, property] :
         {std::pair(Mask::causal_bottom_right, "bottom_right"), {Mask::causal_top_left, "top_left"}}) {
        all(mask, property);
        all(Mask::none, property);
    }
    return trials;
}

}  // namespace

ProblemKind stage_problems() {
    ProblemKind kind{.name = "stages",
                     .trials = stage_trials,
                     .titles = {{"bottom_right", "aligned bottom-right"}, {"top_left", "aligned top-left"}}};
    for (const Mistake& mistake : kMistakes) kind.mistakes.push_back(mistake.name);
    return kind;
}

}  // namespace ladder::classroom::phase4_causal
