#pragma once

#include <optional>
#include <string_view>

#include "common/reference/comparison_notes.h"

namespace ladder::classroom {

/// The first of some mistakes that gives a result, by its `name`. While a recording is made (record.cpp) that is none,
/// and what each of them gives is noted.
template <class Mistakes, class Gives>
std::optional<std::string_view> first_given(const Mistakes& mistakes, Gives gives) {
    reference::ComparisonNotes* const notes = reference::ComparisonNotes::current();
    for (const auto& mistake : mistakes) {
        if (notes && notes->known.contains(mistake.name)) continue;
        if (notes) notes->about = mistake.name;
        const bool given = gives(mistake);
        if (notes) notes->about.clear();
        if (given && !notes) return mistake.name;
    }
    return {};
}

}  // namespace ladder::classroom
