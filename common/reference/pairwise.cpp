#include "common/reference/pairwise.h"

#include <array>
#include <set>

namespace ladder::reference {
namespace {

/// Values a and b of the factors i < j, as {i, a, j, b}.
using Pair = std::array<std::size_t, 4>;

Pair pair_of(std::size_t i, std::size_t a, std::size_t j, std::size_t b) {
    return i < j ? Pair{i, a, j, b} : Pair{j, b, i, a};
}

/// Every pair that a choice can hold.
std::set<Pair> possible_pairs(const std::vector<std::size_t>& values,
                              const std::function<bool(const Choice&)>& possible) {
    std::set<Pair> pairs;
    for (std::size_t i = 0; i < values.size(); ++i)
        for (std::size_t j = i + 1; j < values.size(); ++j)
            for (std::size_t a = 0; a < values[i]; ++a)
                for (std::size_t b = 0; b < values[j]; ++b) {
                    Choice choice(values.size(), 0);
                    choice[i] = a;
                    choice[j] = b;
                    if (possible(choice)) pairs.insert({i, a, j, b});
                }
    return pairs;
}

}  // namespace

std::vector<Choice> pairwise(const std::vector<std::size_t>& values,
                             const std::function<bool(const Choice&)>& possible) {
    std::set<Pair> missing = possible_pairs(values, possible);
    std::vector<Choice> choices;
    while (!missing.empty()) {
        const auto [i, a, j, b] = *missing.begin();
        Choice choice(values.size(), 0);
        choice[i] = a;
        choice[j] = b;
        std::vector<std::size_t> chosen{i, j};
        for (std::size_t factor = 0; factor < values.size(); ++factor) {
            if (factor == i || factor == j) continue;
            std::size_t best = 0, most = 0;
            for (std::size_t value = 0; value < values[factor]; ++value) {
                choice[factor] = value;
                if (!possible(choice)) continue;
                std::size_t added = 0;
                for (const std::size_t other : chosen)
                    added += missing.count(pair_of(factor, value, other, choice[other]));
                if (added > most) {
                    best = value;
                    most = added;
                }
            }
            choice[factor] = best;
            chosen.push_back(factor);
        }
        for (std::size_t x = 0; x < values.size(); ++x)
            for (std::size_t y = x + 1; y < values.size(); ++y) missing.erase({x, choice[x], y, choice[y]});
        choices.push_back(std::move(choice));
    }
    return choices;
}

}  // namespace ladder::reference
