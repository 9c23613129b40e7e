#include "common/classroom/judge/plain_spread.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace ladder::classroom {
namespace {

using std::int64_t;

/// The indices along a dimension at which anything is wrong, in order.
std::vector<int64_t> wrong_along(const Compared& compared, std::size_t dimension) {
    int64_t inner = 1;
    for (std::size_t d = dimension + 1; d < compared.extents.size(); ++d) inner *= compared.extents[d];
    const int64_t extent = compared.extents[dimension];
    std::vector<bool> any(std::size_t(extent), false);
    for (std::size_t n = 0; n < compared.wrong.size(); ++n)
        if (compared.wrong[n]) any[std::size_t(int64_t(n) / inner % extent)] = true;
    std::vector<int64_t> indices;
    for (int64_t n = 0; n < extent; ++n)
        if (any[std::size_t(n)]) indices.push_back(n);
    return indices;
}

/// "second", "4th", "23rd"
std::string ordinal(int64_t n) {
    if (n == 2) return "second";
    const bool is_teen = n / 10 % 10 == 1;
    return fmt::format("{}{}", n, is_teen ? "th" : n % 10 == 1 ? "st" : n % 10 == 2 ? "nd" : n % 10 == 3 ? "rd" : "th");
}

/// "row 5 of 97", "rows 33 to 96 of 97 (the last)", "every second row"; empty where all are wrong.
std::string part_of(const std::vector<int64_t>& wrong, int64_t extent, const std::string& one,
                    const std::string& many) {
    const auto count = int64_t(wrong.size());
    if (count == extent) return "";
    if (count == 1)
        return fmt::format("only in {} {} of {}{}", one, wrong.front(), extent,
                           wrong.front() == extent - 1 ? ", the last" : "");
    if (wrong.back() - wrong.front() + 1 == count)
        return wrong.back() == extent - 1
                   ? fmt::format("in {} {} to the last, {}", many, wrong.front(), extent - 1)
                   : fmt::format("in {} {} to {} of {}", many, wrong.front(), wrong.back(), extent);
    const int64_t step = wrong[1] - wrong[0];
    bool even_steps = step > 1;
    for (std::size_t n = 1; n < wrong.size(); ++n) even_steps = even_steps && wrong[n] - wrong[n - 1] == step;
    if (even_steps) return fmt::format("in every {} {} from {} on", ordinal(step), one, wrong.front());
    const auto listed = std::min<std::size_t>(wrong.size(), 6);
    return fmt::format("in {} of {} {}: {}{}", count, extent, many,
                       fmt::join(wrong.begin(), wrong.begin() + listed, ", "), listed < wrong.size() ? ", …" : "");
}

std::string tiles_of(const std::vector<int64_t>& rows, int64_t extent, int64_t rows_per_tile) {
    if (rows_per_tile <= 1 || extent <= rows_per_tile) return "";
    const int64_t tiles = (extent + rows_per_tile - 1) / rows_per_tile;
    std::vector<int64_t> hit;
    for (const int64_t row : rows)
        if (hit.empty() || hit.back() != row / rows_per_tile) hit.push_back(row / rows_per_tile);
    if (int64_t(hit.size()) == tiles) return "";
    return fmt::format(" ({}, tiles being {} rows high)", part_of(hit, tiles, "query tile", "query tiles"),
                       rows_per_tile);
}

std::string number(double value) { return std::isnan(value) ? "NaN" : fmt::format("{:.6g}", value); }

}  // namespace

Spread spread_of(const std::string& name, const Compared& compared, int64_t rows_per_tile) {
    static const std::vector<std::string> kAttention{"batch", "head", "row", "column"}, kMatrix{"row", "column"};
    const std::vector<int64_t>& extents = compared.extents;
    const std::vector<std::string>& names = extents.size() > 2 ? kAttention : kMatrix;
    const std::size_t row_dimension = extents.size() > 2 ? 2 : 0;

    const auto flat = std::size_t(std::ranges::find(compared.wrong, true) - compared.wrong.begin());
    std::vector<std::string> place;
    auto rest = int64_t(flat);
    for (std::size_t d = extents.size(); d-- > 0;) {
        place.insert(place.begin(), fmt::format("{} {}", names[d], rest % extents[d]));
        rest /= extents[d];
    }
    Spread spread;
    spread.first = fmt::format("{} at {}: got {}, expected {}", name, fmt::join(place, ", "),
                               number(compared.got[flat]), number(compared.expected[flat]));

    const auto count = std::size_t(std::ranges::count(compared.wrong, true));
    std::vector<std::string> parts;
    for (std::size_t d = 0; d < extents.size(); ++d) {
        const std::vector<int64_t> indices = wrong_along(compared, d);
        const std::string& one = names[d];
        std::string part = part_of(indices, extents[d], one, one == "batch" ? "batches" : one + "s");
        if (part.empty()) continue;
        if (d == row_dimension) part += tiles_of(indices, extents[d], rows_per_tile);
        parts.push_back(std::move(part));
    }
    const std::size_t all = compared.wrong.size();
    spread.pattern =
        count == all ? fmt::format("all {} elements of {} are wrong", count, name)
        : parts.empty()
            ? fmt::format("{} of {} elements of {} are wrong, in every row and column", count, all, name)
            : fmt::format("{} of {} elements of {} are wrong: {}", count, all, name, fmt::join(parts, "; "));
    return spread;
}

}  // namespace ladder::classroom
