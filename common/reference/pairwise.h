#pragma once

#include <cstddef>
#include <functional>
#include <vector>

namespace ladder::reference {

/// A choice of one value for each factor: the value's number, from 0 on.
using Choice = std::vector<std::size_t>;

/// A covering array of strength 2: few choices that, together, hold every pair of values of two factors. Most mistakes
/// need no more than two things to come together (Kuhn, Wallace and Gallo 2004), and a product of all values would be
/// thousands of times as long.
///
/// Greedy, as AETG is (Cohen et al. 1997), and the same everywhere: each choice starts from the first pair that no
/// choice holds yet, and gives each other factor the value that adds most new pairs, the first of equals.
///
/// @param values    how many values each factor has
/// @param possible  whether a choice can be used at all; a pair that is possible must be so with all other factors at 0
std::vector<Choice> pairwise(const std::vector<std::size_t>& values,
                             const std::function<bool(const Choice&)>& possible);

}  // namespace ladder::reference
